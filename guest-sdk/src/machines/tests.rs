//! How many requests look-ups of machines cost, and which answers prove an absence. The clouds here differ in their
//! APIs: page numbers with a total, a cursor with or without one, nothing but a list.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::cell::RefCell;
use std::rc::Rc;

use serde::{Deserialize, Serialize};

use super::*;
use crate::http::{self, CountedListing, Next, Page};
use crate::state;
use crate::testing::{Answer, Seen, TestHost, json, node, ready};
use crate::{Address, Instance};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Machine {
    id: u64,
    name: String,
}

/// The API of a test's cloud.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Cloud {
    /// Page numbers, the length on the first page, and look-ups.
    Counted,
    /// A cursor, the length on each page, and look-ups.
    CountedCursor,
    /// A cursor, and look-ups.
    Cursor,
    /// One answer with every machine, and no look-ups.
    Whole,
}

const ALL: [Cloud; 4] = [
    Cloud::Counted,
    Cloud::CountedCursor,
    Cloud::Cursor,
    Cloud::Whole,
];
/// Those that say how long the list is.
const COUNTED: [Cloud; 2] = [Cloud::Counted, Cloud::CountedCursor];

/// Machines on a page of a list.
const PER_PAGE: usize = 10;

impl Machines for Cloud {
    type Id = u64;
    type Machine = Machine;

    fn id(machine: &Machine) -> u64 {
        machine.id
    }

    fn name(machine: &Machine) -> &str {
        &machine.name
    }

    fn list(&self, max_age: Duration, list: &mut List<'_, Cloud>) -> Result<(), Error> {
        let request = || Request::get("api", "/machines").max_age(max_age);
        match self {
            Cloud::Counted => {
                let request = |page| request().query("page", page);
                let mut pages = Vec::new();
                let read = |pages: &mut Vec<_>, answer: Response| {
                    let (machines, page) = counted(&answer)?;
                    pages.push(machines);
                    Ok(page)
                };
                let listing = CountedListing::begin(request, |answer| read(&mut pages, answer))?;
                pages.drain(..).for_each(|page| list.add(page));
                if list.is_enough(listing.pages_left()) {
                    return Ok(());
                }
                let outcome = listing.read_on(request, |answer| read(&mut pages, answer));
                pages.drain(..).for_each(|page| list.add(page));
                outcome
            }
            Cloud::CountedCursor | Cloud::Cursor => {
                list.follow(request().query("page", 1), |answer| {
                    let (machines, page) = counted(&answer)?;
                    let next = Next::query("page", page.next);
                    Ok(match self {
                        Cloud::CountedCursor => (machines, next.of(page.total)),
                        _ => (machines, next),
                    })
                })
            }
            Cloud::Whole => {
                list.add(
                    request()
                        .query("page", "all")
                        .fetch_json::<Vec<Machine>>()?,
                );
                Ok(())
            }
        }
    }

    fn request(&self, ask: &Ask<u64>) -> Option<Request> {
        if *self == Cloud::Whole {
            return None;
        }
        Some(match ask {
            Ask::Id(id) => Request::get("api", http::path(["machines", &id.to_string()])),
            Ask::Name(name) => Request::get("api", "/machines").query("name", name),
        })
    }

    fn answer(&self, ask: &Ask<u64>, answer: Response) -> Result<Vec<Machine>, Error> {
        match ask {
            Ask::Id(_) => {
                let found = answer.found()?;
                found.map_or(Ok(Vec::new()), |answer| Ok(vec![answer.json()?]))
            }
            Ask::Name(_) => answer.ok()?.json(),
        }
    }

    fn newest(&self) -> Option<Result<Vec<Machine>, Error>> {
        let request = Request::get("api", "/machines").query("page", "newest");
        Some(request.fetch_json())
    }
}

fn counted(answer: &Response) -> Result<(Vec<Machine>, Page), Error> {
    let machines: Vec<Machine> = answer.json()?;
    let header = |name: &str| {
        let value = answer.header(name).unwrap_or_default().parse();
        value.map_err(|_| Error::internal(name.to_owned()))
    };
    let (number, last) = (header("page")?, header("last")?);
    let page = Page {
        number,
        last,
        total: header("total")?,
        next: (number < last).then_some(number + 1),
        items: machines.len(),
    };
    Ok((machines, page))
}

/// An account of the cloud, with its faults.
#[derive(Debug, Default)]
struct Account {
    machines: Vec<Machine>,
    /// Machines that no list shows.
    hidden: Vec<u64>,
    /// The page that fails, with its status.
    fails: Option<(&'static str, u16)>,
    /// Whether a machine is created before each page of a list.
    grows: bool,
}

impl Account {
    fn of(count: u64) -> Account {
        let machine = |id| Machine {
            id,
            name: format!("machine-{id}"),
        };
        Account {
            machines: (1..=count).map(machine).collect(),
            ..Account::default()
        }
    }

    fn serve(self) -> (TestHost, Rc<RefCell<Account>>) {
        let account = Rc::new(RefCell::new(self));
        let served = Rc::clone(&account);
        let host = TestHost::open(move |seen| served.borrow_mut().answer(seen));
        (host, account)
    }

    fn create(&mut self) {
        let id = 100_000 + self.machines.len() as u64;
        let name = format!("machine-{id}");
        self.machines.push(Machine { id, name });
    }

    fn answer(&mut self, seen: &Seen) -> Answer {
        if let Some(id) = seen.path_only().strip_prefix("/machines/") {
            let mut machines = self.machines.iter();
            return match machines.find(|machine| machine.id.to_string() == id) {
                Some(machine) => json(200, &serde_json::to_string(machine).unwrap()),
                None => json(404, ""),
            };
        }
        let text = |machines: &[&Machine]| serde_json::to_string(machines).unwrap();
        if let Some(name) = seen.query("name") {
            let named = self.machines.iter().filter(|machine| machine.name == name);
            return json(200, &text(&named.collect::<Vec<_>>()));
        }
        let page = seen.query("page").unwrap();
        if self.grows {
            self.create();
        }
        match self.fails {
            Some((failing, status)) if failing == page => return json(status, "no"),
            _ => {}
        }
        let shown = |machine: &&Machine| !self.hidden.contains(&machine.id);
        let shown: Vec<&Machine> = self.machines.iter().filter(shown).collect();
        let Ok(number) = page.parse::<usize>() else {
            return json(200, &text(&shown));
        };
        let on_page = shown.iter().skip((number - 1) * PER_PAGE).take(PER_PAGE);
        let headers = [
            ("page", number),
            ("last", shown.len().div_ceil(PER_PAGE)),
            ("total", shown.len()),
        ];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_string()));
        let body = text(&on_page.copied().collect::<Vec<_>>());
        Ok((200, headers.to_vec(), body.into_bytes()))
    }
}

/// Nodes on the machines with these IDs.
fn nodes(ids: impl IntoIterator<Item = u64>) -> Vec<Node> {
    let node = |id| node(&format!("node-{id}"), Some(&format!("acme://{id}")));
    ids.into_iter().map(node).collect()
}

fn found(cloud: Cloud, nodes: &[Node]) -> Result<FindReply, Error> {
    let parse = crate::provider_id::number;
    let found = |node: &Node, machine: &Machine| {
        let mut instance = Instance::new(format!("acme://{}", machine.id));
        instance.addresses = vec![Address::hostname(&machine.name)];
        if machine.name != "no-ip" {
            instance.addresses.push(Address::internal("10.0.0.1"));
        }
        Lookup::found_with_ip(node, instance, "wait")
    };
    find(&cloud, nodes, "acme", Plan::default(), parse, found)
}

/// Each look-up as the provider ID found, or as its case.
fn brief(reply: &FindReply) -> Vec<String> {
    let word = |lookup: &Lookup| match lookup {
        Lookup::Found(instance) => instance.provider_id.clone(),
        Lookup::Gone => "gone".to_owned(),
        Lookup::NotMine => "not mine".to_owned(),
        Lookup::Unknown(_) => "unknown".to_owned(),
    };
    reply.lookups.iter().map(word).collect()
}

#[test]
fn each_node_gets_the_answer_that_its_provider_id_asks_for() {
    for cloud in ALL {
        let mut account = Account::of(25);
        account.machines[4].name = "twin".to_owned();
        account.machines[5].name = "twin".to_owned();
        account.machines[7].name = "no-ip".to_owned();
        let (_host, _) = account.serve();
        let table = [
            (Some("acme://1"), "a", "acme://1"),
            (Some("acme://99"), "b", "gone"),
            (Some("acme://x"), "c", "unknown"),
            (Some("other://1"), "d", "not mine"),
            (None, "machine-7", "acme://7"),
            (None, "machine-99", "not mine"),
            (None, "twin", "unknown"),
            (None, "no-ip", "unknown"),
        ];
        let asked: Vec<Node> = table.iter().map(|(id, name, _)| node(name, *id)).collect();
        let reply = found(cloud, &asked).unwrap();
        assert_eq!(
            brief(&reply),
            table.map(|(_, _, expected)| expected),
            "{cloud:?}"
        );
        let [event] = reply.events.as_slice() else {
            panic!("{cloud:?}: {:?}", reply.events)
        };
        assert_eq!(
            (event.node, event.event.reason.as_str()),
            (6, "InstanceLookupFailed")
        );
        // Also with one node in each call.
        for (node, (.., expected)) in asked.iter().zip(table) {
            let reply = found(cloud, std::slice::from_ref(node)).unwrap();
            assert_eq!(brief(&reply), [expected], "{cloud:?} {}", node.name);
        }
    }
}

#[test]
fn nodes_cost_the_pages_of_one_list_or_less() {
    // Machines, nodes asked about, whether they are ready, and requests of a cloud that counts, of one that does not, and
    // of one without pages.
    let table: [(u64, Vec<u64>, bool, [usize; 3]); 8] = [
        (100, vec![], true, [0, 0, 0]),
        (100, vec![7], true, [1, 1, 1]),
        (100, vec![7], false, [1, 1, 1]),
        (100, (1..=100).collect(), true, [10, 10, 1]),
        (100, (1..=10).collect(), true, [1, 10, 1]),
        // The first page says that the other pages cost more than two look-ups.
        (100, vec![1, 50, 60], true, [3, 10, 1]),
        // Six are gone: each is looked up, or a second list shows it.
        (100, (1..=106).collect(), false, [16, 16, 2]),
        // With a hundred machines gone, a second list costs less.
        (100, (1..=200).collect(), false, [20, 20, 2]),
    ];
    for (count, ids, is_ready, expected) in table {
        let [counted, cursor, whole] = expected;
        for (cloud, expected) in [
            (Cloud::Counted, counted),
            (Cloud::CountedCursor, counted),
            (Cloud::Cursor, cursor),
            (Cloud::Whole, whole),
        ] {
            let (host, _) = Account::of(count).serve();
            let asked: Vec<Node> = match is_ready {
                true => nodes(ids.clone()).into_iter().map(ready).collect(),
                false => nodes(ids.clone()),
            };
            let reply = found(cloud, &asked).unwrap();
            let gone = ids.iter().filter(|id| **id > count).count();
            let reported = brief(&reply);
            assert_eq!(reported.iter().filter(|word| *word == "gone").count(), gone);
            assert!(!reported.contains(&"unknown".to_owned()), "{reported:?}");
            let case = format!("{cloud:?}, {} of {count}: {:?}", ids.len(), host.requests());
            assert_eq!(host.requests().len(), expected, "{case}");
        }
    }
}

#[test]
fn a_list_that_lacks_a_machine_proves_nothing() {
    for cloud in [Cloud::Counted, Cloud::CountedCursor, Cloud::Cursor] {
        let mut account = Account::of(30);
        account.hidden = vec![3, 17];
        let (_host, _) = account.serve();
        let reply = found(cloud, &nodes(1..=31)).unwrap();
        let mut expected: Vec<String> = (1..=30).map(|id| format!("acme://{id}")).collect();
        expected.push("gone".to_owned());
        assert_eq!(brief(&reply), expected, "{cloud:?}");
    }
}

#[test]
fn a_list_that_fails_is_replaced_by_few_look_ups_and_otherwise_unknown() {
    for cloud in ALL {
        let fails = match cloud {
            Cloud::Whole => "all",
            _ => "2",
        };
        for (count, status) in [(20, 500), (80, 500), (20, 403)] {
            let mut account = Account::of(count);
            account.fails = Some((fails, status));
            let (_host, _) = account.serve();
            let reply = found(cloud, &nodes(1..=count));
            if status == 403 {
                assert!(matches!(reply, Err(Error::Denied(_))), "{reply:?}");
                continue;
            }
            let reported = brief(&reply.unwrap());
            let unknown = reported.iter().filter(|word| *word == "unknown").count();
            let expected = match (cloud, count) {
                (Cloud::Whole, count) => usize::try_from(count).unwrap(),
                // The first page was read, and answers ten questions; seventy are too many to look up.
                (_, 80) => 70,
                _ => 0,
            };
            assert_eq!(unknown, expected, "{cloud:?} {count}");
            assert!(!reported.contains(&"gone".to_owned()), "{reported:?}");
        }
    }
}

#[test]
fn what_a_list_lacks_that_changes_at_every_read_is_looked_up_256_machines_at_a_time() {
    // IDs and names without a machine, beside 50 machines; how many are gone and unknown after a call, and after one
    // about the unknown ones, which the host makes apart from the others.
    let table = [
        (256, 0, [(256, 0), (0, 0)]),
        (300, 0, [(256, 44), (44, 0)]),
        (600, 0, [(256, 344), (256, 88)]),
        (70, 70, [(70, 70), (0, 70)]),
    ];
    let rows = table
        .iter()
        .flat_map(|row| COUNTED.map(|cloud| (cloud, row)));
    for (cloud, &(gone, nameless, expected)) in rows {
        let mut account = Account::of(50);
        account.grows = true;
        let (host, _) = account.serve();
        let mut asked = nodes(1..=50 + gone);
        asked.extend((0..nameless).map(|number| node(&format!("node-of-others-{number}"), None)));
        for expected in expected {
            let before = host.requests().len();
            let reported = brief(&found(cloud, &asked).unwrap());
            let count = |wanted: &str| reported.iter().filter(|word| *word == wanted).count();
            assert_eq!(
                (count("gone"), count("unknown")),
                expected,
                "{cloud:?} {gone}"
            );
            // Beside the look-ups the pages of one list.
            assert!(host.requests().len() - before <= 256 + 7, "{gone}");
            let mut words = reported.iter();
            asked.retain(|_| words.next().unwrap() == "unknown");
        }
    }
}

#[test]
fn a_list_that_grows_while_it_is_read_still_finds_every_machine() {
    // Whoever follows a cursor sees the page that was added.
    for (cloud, requests) in [
        (Cloud::Counted, 11),
        (Cloud::CountedCursor, 12),
        (Cloud::Cursor, 12),
    ] {
        let mut account = Account::of(100);
        account.grows = true;
        let (host, _) = account.serve();
        let asked: Vec<Node> = nodes(1..=100).into_iter().map(ready).collect();
        let reported = brief(&found(cloud, &asked).unwrap());
        let unknown = reported.iter().filter(|word| *word == "unknown").count();
        assert_eq!(unknown, 0, "{cloud:?}");
        assert_eq!(host.requests().len(), requests, "{cloud:?}");
    }
}

#[test]
fn a_part_of_a_list_names_no_machine_where_names_are_not_unique() {
    let mut account = Account::of(20);
    account.machines[4].name = "twin".to_owned();
    account.machines[14].name = "twin".to_owned();
    account.fails = Some(("2", 500));
    let (_host, _) = account.serve();
    let mut asked = nodes([1, 2]);
    asked.extend([node("twin", None), node("machine-7", None)]);
    let reply = found(Cloud::Cursor, &asked).unwrap();
    let expected = ["acme://1", "acme://2", "unknown", "acme://7"];
    assert_eq!(brief(&reply), expected);
}

#[test]
fn the_newest_machines_are_asked_for_only_where_names_are_unique() {
    let (host, _) = Account::of(50).serve();
    let pages = 5_u64.to_be_bytes();
    state::set("machines/pages", &pages, Duration::MAX);
    let named = |id| node(&format!("machine-{id}"), None);
    let asked: Vec<Node> = (1..=9).map(named).collect();
    found(Cloud::Counted, &asked).unwrap();
    assert!(!host.requests().concat().contains("newest"));
}

#[test]
fn absence_is_told_together_with_something_that_exists() {
    // Only machines that are gone, each looked up: one more request shows that the account can be read.
    let (host, _) = Account::of(3).serve();
    let reply = found(Cloud::Counted, &nodes([99])).unwrap();
    assert_eq!(brief(&reply), ["gone"]);
    assert_eq!(
        host.requests(),
        ["GET /machines/99", "GET /machines?page=1"]
    );
}

#[test]
fn the_number_of_pages_is_remembered_and_not_needed() {
    for cloud in COUNTED {
        let (host, _) = Account::of(50).serve();
        let asked: Vec<Node> = nodes([1, 12, 23]).into_iter().map(ready).collect();
        found(cloud, &asked).unwrap();
        assert_eq!(host.requests().len(), 3, "one page, and two look-ups");
        found(cloud, &asked).unwrap();
        assert_eq!(
            host.requests().len(),
            6,
            "three look-ups are less than five pages"
        );
        host.forget_state();
        assert_eq!(state::get("machines/pages"), None);
        found(cloud, &asked).unwrap();
        assert_eq!(host.requests().len(), 9);
    }
}

#[test]
fn only_what_may_not_decide_is_answered_from_kept_answers() {
    let kept = |seen: &Seen| seen.headers.iter().any(|(name, _)| name == "cache-control");
    for (is_ready, expected) in [(true, true), (false, false)] {
        let (host, _) = Account::of(30).serve();
        let asked = nodes(1..=30);
        let asked: Vec<Node> = match is_ready {
            true => asked.into_iter().map(ready).collect(),
            false => asked,
        };
        found(Cloud::Counted, &asked).unwrap();
        assert!(host.seen().iter().all(|seen| kept(seen) == expected));
    }
}
