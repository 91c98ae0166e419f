//! The cost of each event: requests to the cloud, counted where they arrive, beside those that the Go manager sends for
//! the same event. A count that grows fails.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ccm_sim::hetzner::Request;
use ccm_tests::harness::trial;
use libtest_mimic::{Failed, Trial};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::load_balancers::inventory::{PREFIX, findings, ingress};
use crate::load_balancers::world::{ACTION, Running, Setup, World, in_world, short};
use crate::quiet::Quiet;
use ccm_tests::harness::figure;

/// After so many checks without a request, five milliseconds apart, an event is over: longer than the pause between two
/// polls of an action, and than the quiet that changes of nodes wait for.
const QUIET: u32 = 260;
/// Number of a Service's nodes, as in the measurement of the Go manager.
const NODES: usize = 4;
/// The Go manager's time to make a load balancer with two ports and four nodes: seven polls, half a second apart, and
/// its requests.
const PEER_CREATE: &str = "3.9 s";

/// An event, its maximum number of requests, and how many the Go manager sends.
struct Row {
    event: &'static str,
    most: usize,
    peer: &'static str,
}

const CREATE: Row = row("create, 2 ports, 4 nodes", 3, "19");
const CREATE_IN_NETWORK: Row = row("the same in a network", 4, "23");
const ANNOTATION_IN_NETWORK: Row = row("annotation in a network", 1, "6");
const ANNOTATION: Row = row("unrelated annotation", 1, "6");
const NODE_PORT: Row = row("one nodePort changed", 3, "6");
const PORT: Row = row("one port replaced", 5, "8");
const NODE_ADDED: Row = row("node added", 3, "7");
const NODE_REMOVED: Row = row("node removed", 3, "7");
const DELETE: Row = row("delete, in a known account", 4, "3");
const DRIFT: Row = row("drift check, once an hour", 1, "0");
const RESTART: Row = row("restart, for each Service", 1, "-");
const MANY: Row = row("100 created at once, each", 3, "19");

/// The changes that cost more than a third of the Go manager's requests, and how many requests change something. Each of
/// those is followed by a poll of its action, and one look comes before them.
const MORE_THAN_A_THIRD: &[(Row, usize)] = &[
    (NODE_PORT, 1),
    (PORT, 2),
    (NODE_ADDED, 1),
    (NODE_REMOVED, 1),
];

const fn row(event: &'static str, most: usize, peer: &'static str) -> Row {
    Row { event, most, peer }
}

impl Row {
    /// The requests that change something, of a row that costs [more than a third](MORE_THAN_A_THIRD).
    fn changes(&self) -> Option<usize> {
        let mut rows = MORE_THAN_A_THIRD.iter();
        let (_, changes) = rows.find(|(row, _)| row.event == self.event)?;
        Some(*changes)
    }

    /// Asserts and prints the count, for `services` Services together.
    fn hold(&self, requests: &[Request], services: usize) -> Result<(), Failed> {
        let count = |is_it: fn(&&Request) -> bool| requests.iter().filter(is_it).count();
        let (writes, polls) = (count(|one| one.write), count(is_poll));
        let each = requests.len().div_ceil(services);
        figure(format!(
            "calls: {:<28} {each:>2} (limit {}, Go manager {:>2}); writes {writes}, polls {polls}, other reads {}",
            self.event,
            self.most,
            self.peer,
            requests.len() - writes - polls,
        ));
        if self.changes().is_some_and(|changes| changes != writes) {
            return Err(format!("{}: {writes} requests that change something", self.event).into());
        }
        if each <= self.most {
            return Ok(());
        }
        let lines: Vec<String> = requests.iter().map(short).collect();
        Err(format!("{}: {each} calls:\n{}", self.event, lines.join("\n")).into())
    }
}

fn is_poll(request: &&Request) -> bool {
    request.path.starts_with("/actions")
}

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("counts::each_event_costs_at_most_its_calls", || {
            in_world(timed(false), each_event)
        }),
        trial("counts::a_create_in_a_network_costs_no_more", || {
            in_world(timed(true), create_in_network)
        }),
        trial("counts::a_drift_check_is_one_look", || {
            let setup = Setup {
                pace: 900,
                ..Setup::default()
            };
            in_world(setup, drift)
        }),
        trial("counts::a_restart_is_one_look_for_each", || {
            in_world(timed(false), restart)
        }),
        trial("counts::a_hundred_at_once_repeat_no_listing", || {
            in_world(timed(false), hundred)
        }),
        trial("counts::the_readme_has_the_same_calls", || {
            documented();
            at_most_a_third();
            Ok(())
        }),
    ]
}

/// Each row is at most a third of the Go manager's requests, apart from a deletion with its proof and from changes
/// that cannot be: their least is more.
fn at_most_a_third() {
    let all = [
        CREATE,
        CREATE_IN_NETWORK,
        ANNOTATION_IN_NETWORK,
        ANNOTATION,
        NODE_PORT,
        PORT,
        NODE_ADDED,
        NODE_REMOVED,
        DELETE,
        MANY,
    ];
    for row in all {
        let peer: usize = row.peer.parse().unwrap();
        let least = match row.changes() {
            Some(changes) => 1 + 2 * changes,
            // A look, the request, the proof, and a server that is known to exist.
            None if row.event == DELETE.event => 4,
            None => 0,
        };
        let is_third = row.most * 3 <= peer;
        assert!(is_third || row.most == least, "{}", row.event);
        assert_eq!(is_third, least == 0, "{}", row.event);
    }
}

/// The table in `guests/hcloud/README.md` has these figures.
fn documented() {
    let readme = include_str!("../../../guests/hcloud/README.md");
    let rows = [
        ("create", CREATE),
        ("create in a network", CREATE_IN_NETWORK),
        ("one node port changed", NODE_PORT),
        ("one port replaced", PORT),
        ("node added, or removed", NODE_ADDED),
        ("node added, or removed", NODE_REMOVED),
        (
            "delete, proven, and vouched for by a server that is known to exist",
            DELETE,
        ),
    ];
    let rows = rows.map(|(event, row)| format!("| {event} | {} | {} |", row.most, row.peer));
    assert_eq!(ANNOTATION.most, DRIFT.most);
    let unchanged = format!(
        "| another annotation that says nothing about it; the hourly look | {} | {}; never |",
        ANNOTATION.most, ANNOTATION.peer
    );
    for row in rows.into_iter().chain([unchanged]) {
        assert!(
            readme.contains(&row),
            "guests/hcloud/README.md lacks\n{row}"
        );
    }
}

fn timed(has_network: bool) -> Setup {
    Setup {
        action: ACTION,
        has_network,
        ..Setup::default()
    }
}

/// Waits until no more requests come in so many checks, and returns them.
async fn quiet(world: &World, checks: u32) -> Result<Vec<Request>, Failed> {
    let so_far = || world.cloud.requests().len();
    let quiet = Quiet::from(so_far());
    let is_over = async || quiet.check(so_far()) >= checks;
    world.until("no more requests", is_over).await?;
    Ok(world.cloud.requests())
}

/// All requests from a change until the cloud is as the cluster wants it, and after.
async fn asked(world: &World, change: impl AsyncFnOnce()) -> Result<Vec<Request>, Failed> {
    world.cloud.clear_requests();
    change().await;
    let is_over = async || {
        !world.cloud.requests().is_empty() && findings(world, &BTreeSet::new()).await.is_empty()
    };
    world.until("the cloud is as it is wanted", is_over).await?;
    quiet(world, QUIET).await
}

/// A manager that has proved its account: that costs each start some requests, however many Services there are.
async fn manage(world: &World) -> Result<Running, Failed> {
    let manager = world.manage().await?;
    world.create("first", &[80], json!({})).await;
    asked_until_now(world).await?;
    world.delete("first").await;
    let is_gone = async || world.service("first").await.is_null();
    world.until("the end of the first Service", is_gone).await?;
    asked_until_now(world).await?;
    Ok(manager)
}

async fn each_event(world: &World) -> Result<(), Failed> {
    let mut servers = Vec::new();
    for number in 1..=NODES {
        servers.push(world.join(&format!("worker-{number}")).await);
    }
    let manager = manage(world).await?;
    create(world, &CREATE).await?;
    let requests = asked(world, async || note(world).await);
    ANNOTATION.hold(&requests.await?, 1)?;
    let requests = asked(world, async || {
        let mut ports = world.service("web").await["spec"]["ports"].clone();
        ports[0]["nodePort"] = json!(32_100);
        world.change("web", json!({"spec": {"ports": ports}})).await;
    });
    NODE_PORT.hold(&requests.await?, 1)?;
    let requests = asked(world, async || {
        let mut ports = world.service("web").await["spec"]["ports"].clone();
        ports[1]["port"] = json!(8443);
        world.change("web", json!({"spec": {"ports": ports}})).await;
    });
    PORT.hold(&requests.await?, 1)?;
    let requests = asked(world, async || {
        world.join("worker-5").await;
    });
    NODE_ADDED.hold(&requests.await?, 1)?;
    let requests = asked(world, async || {
        let gone = world.nodes.delete("worker-1", &Default::default()).await;
        gone.unwrap();
    });
    NODE_REMOVED.hold(&requests.await?, 1)?;
    let requests = asked(world, async || world.delete("web").await);
    DELETE.hold(&requests.await?, 1)?;
    assert!(world.cloud.load_balancers().is_empty());
    manager.stop().await
}

/// Adds an annotation that has nothing to do with load balancers.
async fn note(world: &World) {
    let note = json!({"metadata": {"annotations": {"example.com/note": "1"}}});
    world.change("web", note).await;
}

/// Creates the Service of the table, and measures how long it takes until its status has an address.
async fn create(world: &World, row: &Row) -> Result<(), Failed> {
    world.cloud.clear_requests();
    let begun = Instant::now();
    world.create("web", &[80, 443], json!({})).await;
    let has_address = async || !ingress(&world.service("web").await).is_null();
    world.until("an address", has_address).await?;
    let took = begun.elapsed();
    let requests = asked_until_now(world).await?;
    row.hold(&requests, 1)?;
    figure(format!(
        "{}: an address after {} ms, the Go manager {PEER_CREATE}; actions take {} ms",
        row.event,
        took.as_millis(),
        world.setup.action.as_millis(),
    ));
    // One write and one wait: the minimum for this cloud, whose action must end.
    let polls = requests.iter().filter(is_poll).count();
    let writes = requests.iter().filter(|request| request.write).count();
    assert!(
        polls <= 1 && writes == 1,
        "{polls} polls and {writes} writes"
    );
    Ok(())
}

async fn is_as_wanted(world: &World) -> Result<(), Failed> {
    let is_so = async || findings(world, &BTreeSet::new()).await.is_empty();
    world.until("the cloud is as it is wanted", is_so).await
}

async fn asked_until_now(world: &World) -> Result<Vec<Request>, Failed> {
    is_as_wanted(world).await?;
    quiet(world, QUIET).await
}

async fn create_in_network(world: &World) -> Result<(), Failed> {
    for number in 1..=NODES {
        world.join(&format!("worker-{number}")).await;
    }
    let manager = manage(world).await?;
    create(world, &CREATE_IN_NETWORK).await?;
    let note = asked(world, async || note(world).await);
    ANNOTATION_IN_NETWORK.hold(&note.await?, 1)?;
    manager.stop().await
}

async fn drift(world: &World) -> Result<(), Failed> {
    world.join("worker-1").await;
    let manager = world.manage().await?;
    world.create("web", &[80], json!({})).await;
    is_as_wanted(world).await?;
    // The second that changes of nodes wait for is a thousandth here.
    quiet(world, QUIET / 4).await?;
    world.cloud.clear_requests();
    let is_asked = async || !world.cloud.requests().is_empty();
    world.until("a look", is_asked).await?;
    // An hour passes in four seconds, and there is half an hour between two drift checks.
    sleep(Duration::from_millis(400)).await;
    let requests = world.cloud.requests();
    DRIFT.hold(&requests, 1)?;
    assert!(!requests.iter().any(|request| request.write));
    manager.stop().await
}

async fn restart(world: &World) -> Result<(), Failed> {
    for number in 1..=NODES {
        world.join(&format!("worker-{number}")).await;
    }
    let names = ["web", "mail", "chat"];
    let manager = world.manage().await?;
    for name in names {
        let annotations = json!({format!("{PREFIX}/algorithm-type"): "least_connections"});
        world.create(name, &[80, 443], annotations).await;
    }
    asked_until_now(world).await?;
    manager.stop().await?;
    world.cloud.clear_requests();
    let before = writes(world);
    let manager = world.manage().await?;
    let is_looked_at = async || world.cloud.requests().len() >= names.len();
    world.until("a look at each", is_looked_at).await?;
    let requests = quiet(world, QUIET).await?;
    // One Service proves the account for all.
    let (servers, requests): (Vec<Request>, Vec<Request>) = requests
        .into_iter()
        .partition(|request| request.path.starts_with("/servers"));
    if servers.len() != 1 {
        return Err(format!("{} look-ups of servers", servers.len()).into());
    }
    RESTART.hold(&requests, names.len())?;
    assert!(!requests.iter().any(|request| request.write));
    assert_eq!(writes(world), before, "Services were written to");
    manager.stop().await
}

/// How often the controllers have written to Services.
fn writes(world: &World) -> usize {
    let requests = world.cluster.requests();
    let is_write = |one: &&ccm_sim::cluster::Request| {
        one.identity == crate::load_balancers::world::CONTROLLERS
            && one.resource == "services"
            && !["get", "list", "watch"].contains(&one.verb)
    };
    requests.iter().filter(is_write).count()
}

async fn hundred(world: &World) -> Result<(), Failed> {
    const COUNT: usize = 100;
    for number in 1..=NODES {
        world.join(&format!("worker-{number}")).await;
    }
    let manager = manage(world).await?;
    world.cloud.clear_requests();
    for number in 1..=COUNT {
        world
            .create(&format!("web-{number}"), &[80, 443], json!({}))
            .await;
    }
    let are_made = async || {
        let services = world.services.list(&Default::default()).await.unwrap();
        let services = services.into_iter().map(|service| json!(service));
        services.filter(|one| !ingress(one).is_null()).count() == COUNT
    };
    world.until("a hundred addresses", are_made).await?;
    let requests = asked_until_now(world).await?;
    MANY.hold(&requests, COUNT)?;
    let mut lists: BTreeMap<&str, usize> = BTreeMap::new();
    for request in requests.iter().filter(|one| !one.write && !is_poll(one)) {
        *lists.entry(&request.path).or_default() += 1;
    }
    let repeated: Vec<_> = lists.iter().filter(|(_, count)| **count > 1).collect();
    assert!(repeated.is_empty(), "asked more than once: {repeated:?}");
    let is_about_one = |path: &&&str| path.starts_with("/load_balancers");
    let other: Vec<_> = lists.keys().filter(|path| !is_about_one(path)).collect();
    assert!(
        other.is_empty(),
        "asked although nothing needs it: {other:?}"
    );
    manager.stop().await
}
