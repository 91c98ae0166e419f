//! Which requests answer which nodes, and what the answers prove.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::cell::RefCell;
use std::rc::Rc;

use ccm_guest::testing::{Answer, Seen, TestHost, json, node};
use serde_json::{Value, json as value};

use super::*;

const MANIFEST: &str = include_str!("../../manifest.json");
const NOT_FOUND: &str = include_str!("../../fixtures/error-not-found.json");

/// An account with droplets, some of which may be missing from lists.
#[derive(Default)]
struct Account {
    droplets: Vec<(u64, String)>,
    unlisted: Vec<u64>,
    per_page: usize,
    instead: Option<(&'static str, Answer)>,
}

impl Account {
    fn of(count: u64) -> Account {
        Account {
            droplets: (1..=count).map(|id| (id, format!("worker-{id}"))).collect(),
            per_page: 200,
            ..Account::default()
        }
    }

    fn answer(&self, seen: &Seen) -> Answer {
        if let Some((begin, answer)) = &self.instead
            && seen.line().starts_with(begin)
        {
            return answer.clone();
        }
        if let Some(id) = seen.path_only().strip_prefix("/v2/droplets/") {
            let found = self.droplets.iter().find(|(one, _)| one.to_string() == id);
            return match found {
                Some(one) => json(200, &value!({"droplet": show(one)}).to_string()),
                None => json(404, NOT_FOUND),
            };
        }
        let name = seen.query("name").map(str::to_lowercase);
        let listed: Vec<&(u64, String)> = self
            .droplets
            .iter()
            .filter(|(id, _)| !self.unlisted.contains(id))
            .filter(|(_, one)| name.iter().all(|name| *name == one.to_lowercase()))
            .collect();
        let page: usize = seen.query("page").unwrap_or("1").parse().unwrap();
        let last = listed.len().div_ceil(self.per_page).max(1);
        let url = |page: usize| format!("https://api.digitalocean.com/v2/droplets?page={page}");
        let links = match page < last {
            true => value!({"pages": {"next": url(page + 1), "last": url(last)}}),
            false => value!({}),
        };
        let shown = listed
            .iter()
            .skip((page - 1) * self.per_page)
            .take(self.per_page);
        let shown: Vec<Value> = shown.map(|one| show(one)).collect();
        let answer = value!({"droplets": shown, "links": links, "meta": {"total": listed.len()}});
        json(200, &answer.to_string())
    }
}

fn show((id, name): &(u64, String)) -> Value {
    let mut fixture: Value =
        serde_json::from_str(include_str!("../../fixtures/droplet.json")).unwrap();
    let mut droplet = fixture["droplet"].take();
    droplet["id"] = value!(id);
    droplet["name"] = value!(name);
    droplet["networks"]["v4"][0]["ip_address"] = value!(format!("10.0.{}.{}", id / 250, id % 250));
    droplet["networks"]["v4"][1]["ip_address"] = value!(format!("192.0.{}.{}", id / 250, id % 250));
    droplet["networks"]["v6"] = value!([]);
    droplet
}

fn ask(account: Account, nodes: &[Node]) -> (Result<FindReply, Error>, Vec<String>) {
    let account = Rc::new(RefCell::new(account));
    let host = TestHost::new(MANIFEST, move |seen| account.borrow().answer(seen));
    let reply = find(nodes);
    (reply, host.requests())
}

fn by_id(id: u64) -> Node {
    node(
        &format!("worker-{id}"),
        Some(&format!("digitalocean://{id}")),
    )
}

fn brief(reply: &FindReply) -> Vec<String> {
    let show = |lookup: &Lookup| match lookup {
        Lookup::Found(instance) => instance.provider_id.clone(),
        Lookup::Gone => "gone".to_owned(),
        Lookup::NotMine => "not mine".to_owned(),
        Lookup::Unknown(why) => format!("unknown: {why}"),
    };
    reply.lookups.iter().map(show).collect()
}

#[test]
fn n_nodes_cost_one_list() {
    for (count, requests) in [(2, 1), (200, 1), (201, 2), (1000, 5), (5000, 25)] {
        let nodes: Vec<Node> = (1..=count).map(by_id).collect();
        let (reply, seen) = ask(Account::of(count), &nodes);
        let found = reply.unwrap().lookups;
        assert!(found.iter().all(|one| matches!(one, Lookup::Found(_))));
        assert_eq!(seen.len(), requests, "{count} nodes");
        assert!(requests <= usize::try_from(count).unwrap().div_ceil(200) + 2);
    }
}

/// The calls of digitalocean in the table of `guests/README.md`: nodes, other droplets in the account, nodes whose
/// droplets are gone.
#[test]
fn missing_droplets_and_others_in_the_account_cost_what_the_readme_says() {
    let readme = include_str!("../../../README.md");
    for (nodes, others, gone, requests) in [
        (1000, 0, 8, 13),
        (1000, 0, 30, 35),
        (1000, 0, 500, 503),
        (40, 960, 0, 5),
        (40, 960, 8, 13),
    ] {
        // The nodes' droplets are spread over all pages, and so are the missing ones.
        let id = |node: u64| (node + 1) * (nodes + others) / nodes;
        let lost: BTreeSet<u64> = (0..gone).map(|index| id(index * nodes / gone)).collect();
        let mut account = Account::of(nodes + others);
        account.droplets.retain(|(id, _)| !lost.contains(id));
        let asked: Vec<Node> = (0..nodes).map(|node| by_id(id(node))).collect();
        let (reply, seen) = ask(account, &asked);
        let recorded = brief(&reply.unwrap());
        let are_gone = recorded.iter().filter(|one| *one == "gone").count() as u64;
        assert_eq!(are_gone, gone);
        assert_eq!(seen.len(), requests, "{nodes} {others} {gone}");
        let pages = nodes.div_ceil(200) + 2;
        let row = format!("| digitalocean | {nodes} | {others} | {gone} | {requests} | {pages} |");
        assert!(readme.contains(&row), "guests/README.md lacks\n{row}");
    }
}

#[test]
fn one_node_is_looked_up_by_itself_and_a_few_in_a_long_list_too() {
    let (reply, seen) = ask(Account::of(3), &[by_id(2)]);
    assert_eq!(brief(&reply.unwrap()), ["digitalocean://2"]);
    assert_eq!(seen, ["GET /v2/droplets/2"]);
    let (reply, seen) = ask(Account::of(1000), &[by_id(1), by_id(999), by_id(998)]);
    assert_eq!(brief(&reply.unwrap()).len(), 3);
    assert_eq!(
        seen.len(),
        3,
        "one page, and the two that are not on it: {seen:?}"
    );
}

#[test]
fn gone_is_what_the_droplet_itself_says() {
    let nodes = [by_id(1), by_id(2), by_id(9)];
    let (reply, seen) = ask(Account::of(2), &nodes);
    assert_eq!(
        brief(&reply.unwrap()),
        ["digitalocean://1", "digitalocean://2", "gone"]
    );
    assert_eq!(
        seen,
        ["GET /v2/droplets?per_page=200&page=1", "GET /v2/droplets/9"]
    );
}

#[test]
fn what_no_list_shows_exists_all_the_same() {
    let account = Account {
        unlisted: vec![2],
        ..Account::of(2)
    };
    let (reply, _) = ask(account, &[by_id(1), by_id(2)]);
    assert_eq!(
        brief(&reply.unwrap()),
        ["digitalocean://1", "digitalocean://2"]
    );
}

#[test]
fn absence_comes_with_a_proof_of_the_account() {
    let (reply, seen) = ask(Account::of(0), &[by_id(9)]);
    assert_eq!(brief(&reply.unwrap()), ["gone"]);
    assert_eq!(seen, ["GET /v2/droplets/9", "GET /v2/droplets?per_page=1"]);
}

/// People write capital letters at the vendor, and a node's name has none.
#[test]
fn a_droplets_name_may_have_capital_letters() {
    let named = |names: &[&str]| Account {
        droplets: (1..)
            .zip(names.iter().map(|name| (*name).to_owned()))
            .collect(),
        ..Account::of(0)
    };
    let (one, other) = (node("worker-1", None), node("worker-2", None));
    let found = ["digitalocean://1", "digitalocean://2"];
    let names = ["Worker-1", "WORKER-2"];
    let (reply, _) = ask(named(&names), std::slice::from_ref(&one));
    assert_eq!(brief(&reply.unwrap()), found[..1]);
    let (reply, _) = ask(named(&names), &[one.clone(), other]);
    assert_eq!(brief(&reply.unwrap()), found);
    // Their kubelets would have the same name.
    let (reply, _) = ask(named(&["Worker-1", "worker-1"]), &[one]);
    let [answer] = brief(&reply.unwrap()).try_into().unwrap();
    assert!(answer.starts_with("unknown: more than one"), "{answer}");
}

#[test]
fn a_droplet_that_is_called_by_its_own_address_is_one() {
    let mut account = Account::of(2);
    account.droplets[0].1 = "10.0.0.1".to_owned();
    let (reply, _) = ask(account, &[node("10.0.0.1", None)]);
    assert_eq!(brief(&reply.unwrap()), ["digitalocean://1"]);
}

#[test]
fn without_provider_id_the_name_counts_and_absence_is_nobodys() {
    let (reply, seen) = ask(Account::of(2), &[node("worker-2", None)]);
    assert_eq!(brief(&reply.unwrap()), ["digitalocean://2"]);
    assert_eq!(seen, ["GET /v2/droplets?per_page=200&page=1&name=worker-2"]);
    let nodes = [
        node("WORKER-1", None),
        node("10.0.0.2", None),
        node("192.0.0.1", None),
        node("laptop", None),
    ];
    let (reply, seen) = ask(Account::of(2), &nodes);
    assert_eq!(
        brief(&reply.unwrap()),
        [
            "not mine",
            "digitalocean://2",
            "digitalocean://1",
            "not mine"
        ]
    );
    assert_eq!(
        seen,
        ["GET /v2/droplets?per_page=200&page=1"],
        "a new list proves it"
    );
}

#[test]
fn a_name_that_a_kept_list_lacks_is_looked_up() {
    let nodes = [by_id(1), node("laptop", None)];
    let (reply, seen) = ask(Account::of(2), &nodes);
    assert_eq!(brief(&reply.unwrap()), ["digitalocean://1", "not mine"]);
    assert_eq!(
        seen,
        [
            "GET /v2/droplets?per_page=200&page=1",
            "GET /v2/droplets?per_page=200&page=1&name=laptop"
        ]
    );
}

#[test]
fn two_droplets_of_one_name_are_unclear_and_that_is_told() {
    let mut account = Account::of(2);
    account.droplets.push((3, "worker-1".to_owned()));
    let (reply, _) = ask(account, &[node("worker-1", None), by_id(2)]);
    let reply = reply.unwrap();
    assert!(
        brief(&reply)[0].contains("more than one droplet"),
        "{reply:?}"
    );
    assert_eq!(reply.events.len(), 1);
    assert_eq!(reply.events[0].event.reason, "InstanceLookupFailed");
}

/// The page that is read has one of them.
#[test]
fn two_droplets_of_one_name_on_two_pages_are_unclear() {
    let account = Account {
        droplets: [1, 2].map(|id| (id, "twin".to_owned())).to_vec(),
        per_page: 1,
        ..Account::default()
    };
    let (reply, seen) = ask(account, &[node("twin", None)]);
    let reported = brief(&reply.unwrap());
    assert!(reported[0].starts_with("unknown"), "{reported:?}");
    assert_eq!(seen.len(), 1);
}

#[test]
fn foreign_and_unreadable_provider_ids_cost_nothing() {
    let nodes = [
        node("a", Some("hcloud://1")),
        node("b", Some("digitalocean://x")),
    ];
    let (reply, seen) = ask(Account::of(2), &nodes);
    let reported = brief(&reply.unwrap());
    assert_eq!(reported[0], "not mine");
    assert!(reported[1].starts_with("unknown"), "{reported:?}");
    assert_eq!(seen, [] as [&str; 0]);
}

#[test]
fn a_list_that_fails_is_replaced_by_look_ups_and_never_by_absence() {
    for broken in [
        json(500, ""),
        json(200, "{"),
        json(200, r#"{"droplets": []}"#),
        json(
            200,
            r#"{"droplets": [], "links": {}, "meta": {"total": 2}}"#,
        ),
    ] {
        let account = Account {
            instead: Some(("GET /v2/droplets?", broken)),
            ..Account::of(2)
        };
        let (reply, _) = ask(account, &[by_id(1), by_id(2), node("worker-2", None)]);
        let reported = brief(&reply.unwrap());
        assert_eq!(reported[..2], ["digitalocean://1", "digitalocean://2"]);
        assert_ne!(reported[2], "gone");
        assert!(
            !reported[2].starts_with("digitalocean"),
            "the name could not be read: {reported:?}"
        );
    }
}

#[test]
fn a_droplet_that_cannot_be_read_is_unknown() {
    for broken in [
        json(500, ""),
        json(404, "<html>"),
        json(200, "{}"),
        json(200, include_str!("../../fixtures/droplet.json")),
    ] {
        let account = Account {
            instead: Some(("GET /v2/droplets/9", broken)),
            ..Account::of(2)
        };
        let (reply, _) = ask(account, &[by_id(1), by_id(9)]);
        let reported = brief(&reply.unwrap());
        assert_eq!(reported[0], "digitalocean://1");
        assert!(reported[1].starts_with("unknown"), "{reported:?}");
    }
}

#[test]
fn a_refused_token_and_a_spent_limit_end_the_call() {
    for (status, answer) in [(401, "{}"), (429, "{}")] {
        let account = Account {
            instead: Some(("GET", json(status, answer))),
            ..Account::of(2)
        };
        let (reply, seen) = ask(account, &[by_id(1), by_id(2)]);
        assert!(
            matches!(reply, Err(Error::Denied(_) | Error::Throttled(_))),
            "{reply:?}"
        );
        assert_eq!(seen.len(), 1);
    }
}

#[test]
fn a_droplet_without_private_address_initialises_no_node_and_keeps_those_that_are() {
    let lonely = || {
        let mut fixture: Value =
            serde_json::from_str(include_str!("../../fixtures/droplet.json")).unwrap();
        fixture["droplet"]["networks"]["v4"]
            .as_array_mut()
            .unwrap()
            .remove(0);
        Account {
            instead: Some(("GET /v2/droplets/", json(200, &fixture.to_string()))),
            ..Account::of(0)
        }
    };
    let new = by_id(3_164_444);
    let (reply, _) = ask(lonely(), std::slice::from_ref(&new));
    let reply = reply.unwrap();
    assert!(
        brief(&reply)[0].contains("no private IPv4 address"),
        "{reply:?}"
    );
    assert_eq!(reply.events.len(), 1);
    let initialized = Node {
        initialized: true,
        ..new
    };
    let (reply, _) = ask(lonely(), &[initialized]);
    let reply = reply.unwrap();
    assert!(
        matches!(&reply.lookups[..], [Lookup::Found(found)] if found.addresses.is_empty()),
        "{reply:?}"
    );
}
