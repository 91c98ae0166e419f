//! Tests of the laws about routes and pod networks: managers that misread the cloud's answers, each of which must be
//! noticed, and records that no sound manager leaves behind.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use ccm_core::cloud::route::{CloudRoute, RouteTarget};
use ccm_core::safety::permit::Mode;
use ccm_core::settings::{IpamSettings, OtherAllocatorRules, PodNetwork};
use ccm_sim::cluster::{Request, Write};
use ccm_tests::harness::trial;
use libtest_mimic::{Failed, Trial};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::broken_clients::Tamper;
use crate::laws::{self, Record};
use crate::pod_network_laws;
use crate::route_laws::{self, RouteCloud, RouteRecord};
use crate::routes::{Changed, Listing, Operation, Recorded, Route};
use crate::script;
use crate::world::{self, Run};

/// One node, a route outside the pods' network that leads nowhere, and a route inside it to a machine that is no node.
const SCRIPT: &str = "\
# A node has its route, and nobody else's is touched.
controllers route node-ipam
calm 60s 60s
setting cluster-cidr=10.244.0.0/16
cloud database id=sim://9 addr=InternalIP:10.1.0.9
route 10.99.0.0/24 exists to=10.1.0.254
route 10.244.77.0/24 exists to=10.1.0.9
node a provider-id=sim://a addr=InternalIP:10.1.0.1
wait 20s
";

/// The line before which a script's first lines are inserted.
const BEFORE: &str = "node a";

/// The name of the test, the first lines of the script, the defect, and the expected message.
const DEFECTS: [(&str, &str, Tamper, &str); 5] = [
    (
        "a_route_beside_the_pods_network_that_is_removed",
        "",
        Tamper::MisreadsDestinations,
        "outside of the cluster's CIDRs (F24)",
    ),
    (
        "a_route_to_somebodys_machine_that_is_removed",
        "",
        Tamper::CallsOthersBlackholes,
        "leads to a machine that never was a node (F24)",
    ),
    (
        "a_route_that_is_removed_on_an_incomplete_listing",
        "routes lie incomplete\nroute 10.244.7.0/24 exists to=10.1.0.254\n",
        Tamper::BelievesIncomplete,
        "after a listing that was not complete (F24)",
    ),
    (
        "a_route_without_its_record",
        "",
        Tamper::ChangesUnasked,
        "has no record (S12)",
    ),
    (
        "a_route_that_is_made_in_plan_mode",
        "plan\nnode b provider-id=sim://b addr=InternalIP:10.1.0.2 pod-cidr=10.244.2.0/24\n",
        Tamper::ChangesUnasked,
        "although nothing may be changed",
    ),
];

type Test = fn() -> Result<(), Failed>;

pub(crate) fn trials() -> Vec<Trial> {
    let defects = DEFECTS.map(|(name, before, tamper, words)| {
        trial(format!("broken::{name}_is_noticed"), move || {
            is_noticed(before, tamper, words)
        })
    });
    let laws: [(&str, Test); 6] = [
        (
            "broken::every_kind_of_block_that_may_not_be_given_is_noticed",
            blocks,
        ),
        (
            "broken::what_others_say_of_a_pod_network_is_not_changed",
            theirs,
        ),
        (
            "broken::a_network_that_is_said_to_be_there_and_is_not_is_noticed",
            connected,
        ),
        (
            "broken::f24_f25_every_kind_of_change_that_may_not_be_made_is_noticed",
            changes,
        ),
        (
            "broken::routes_that_are_listed_or_changed_too_often_are_noticed",
            too_often,
        ),
        (
            "broken::s11_more_routes_that_go_than_the_brake_lets_through_are_noticed",
            too_many,
        ),
    ];
    let laws = laws.map(|(name, test)| trial(name, test));
    defects.into_iter().chain(laws).collect()
}

fn is_noticed(before: &str, tamper: Tamper, words: &str) -> Result<(), Failed> {
    let text = SCRIPT.replace(BEFORE, &format!("{before}{BEFORE}"));
    let script = script::read(&text)?;
    let honest = world::play(&script, Run::with(None))?;
    if !honest.broken.is_empty() {
        let reported = honest.broken.join("\n");
        return Err(format!("a sound manager is blamed: {reported}\n{}", honest.text).into());
    }
    let run = Run {
        tamper: Some(tamper),
        ..Run::with(None)
    };
    let played = world::play(&script, run)?;
    assert_reported(&played.broken, words)
        .map_err(|error| format!("{error}\n{}", played.text).into())
}

fn assert_reported(broken: &[String], words: &str) -> Result<(), String> {
    match broken.iter().any(|reported| reported.contains(words)) {
        true => Ok(()),
        false => Err(format!("nobody says {words:?}, but: {broken:?}")),
    }
}

/// A patch of a node by the controllers.
fn patch(name: &str, before: Value, after: Value) -> Write {
    Write {
        request: Request {
            sequence: 1,
            identity: "ccm".to_owned(),
            verb: "patch",
            resource: "nodes",
            subresource: String::new(),
            namespace: String::new(),
            name: name.to_owned(),
            content_type: String::new(),
            code: Some(200),
        },
        body: json!({ "metadata": { "uid": name } }),
        before: Some(Arc::new(before)),
        after: Some(Arc::new(after)),
        at: Instant::now(),
    }
}

fn node(blocks: &[&str]) -> Value {
    json!({
        "spec": { "podCIDR": blocks.first(), "podCIDRs": blocks },
        "status": { "addresses": [{ "type": "InternalIP", "address": "10.1.0.1" }] },
    })
}

fn with_condition(mut node: Value, status: &str, reason: &str) -> Value {
    node["status"]["conditions"] =
        json!([{ "type": "NetworkUnavailable", "status": status, "reason": reason }]);
    node
}

fn record(history: Vec<Write>) -> RouteRecord {
    let cluster_cidr = "10.244.0.0/16".parse().expect("a network");
    RouteRecord {
        history,
        identity: "ccm",
        cluster_cidrs: vec![cluster_cidr],
        pod_networks: Some(IpamSettings {
            families: vec![PodNetwork {
                cluster_cidr,
                node_mask: 24,
            }],
            service_cidrs: vec!["10.244.9.0/24".parse().expect("a network")],
            concurrent_syncs: NonZeroUsize::MIN,
            settle: Duration::ZERO,
            other_allocator: OtherAllocatorRules::default(),
        }),
        mode: Mode::Enforce,
        workers: 1,
        ..RouteRecord::default()
    }
}

fn blocks() -> Result<(), Failed> {
    let given = |block: &str| {
        let theirs = patch("b", node(&["10.244.1.0/24"]), node(&["10.244.1.0/24"]));
        record(vec![theirs, patch("a", node(&[]), node(&[block]))])
    };
    let sound = pod_network_laws::broken(&given("10.244.2.0/24"));
    if !sound.is_empty() {
        return Err(format!("{sound:?}").into());
    }
    for (block, words) in [
        ("10.244.1.0/24", "what node/b has"),
        ("10.244.0.0/23", "what node/b has"),
        ("10.244.2.0/25", "not one block of each family"),
        ("10.245.2.0/24", "not one block of each family"),
        ("fd00::/24", "not one block of each family"),
        ("10.244.9.0/24", "addresses of Services"),
        ("10.244.2.1/24", "spells a block"),
    ] {
        assert_reported(&pod_network_laws::broken(&given(block)), words)?;
    }
    let unwanted = RouteRecord {
        pod_networks: None,
        ..given("10.244.2.0/24")
    };
    assert_reported(&pod_network_laws::broken(&unwanted), "nobody wants")?;
    Ok(())
}

fn theirs() -> Result<(), Failed> {
    let of = |before: Value, after: Value| {
        let writes = vec![patch("a", before, after)];
        laws::broken(&Record::of(writes, Vec::new(), Mode::Enforce))
    };
    let bare = || node(&["10.244.1.0/24"]);
    let theirs = "changes what is not ours (S10)";
    let calico = || with_condition(bare(), "False", "CalicoIsUp");
    assert_reported(
        &of(calico(), with_condition(bare(), "False", "RouteCreated")),
        theirs,
    )?;
    assert_reported(&of(calico(), bare()), theirs)?;
    assert_reported(&of(bare(), node(&["10.244.2.0/24"])), theirs)?;
    for sound in [
        of(bare(), with_condition(bare(), "False", "RouteCreated")),
        of(
            with_condition(bare(), "True", "NoRouteCreated"),
            with_condition(bare(), "False", "RouteCreated"),
        ),
        of(node(&[]), bare()),
        of(calico(), calico()),
    ] {
        if !sound.is_empty() {
            return Err(format!("{sound:?}").into());
        }
    }
    Ok(())
}

fn route(destination: &str, gateway: &str) -> Route {
    Route {
        id: "route-1".to_owned(),
        destination: destination.parse().expect("a network"),
        gateway: gateway.to_owned(),
        made_for: Some("a".to_owned()),
        made: Instant::now(),
        gone: None,
    }
}

fn connected() -> Result<(), Failed> {
    let with = |routes: Vec<Route>| {
        let node = node(&["10.244.1.0/24"]);
        let shown = with_condition(node.clone(), "False", "RouteCreated");
        let mut record = record(vec![patch("a", node, shown)]);
        record.clouds.push(RouteCloud {
            recorded: Recorded {
                all: routes,
                ..Recorded::default()
            },
            audited: Vec::new(),
        });
        pod_network_laws::broken(&record)
    };
    let words = "no route leads to 10.244.1.0/24";
    assert_reported(&with(Vec::new()), words)?;
    assert_reported(&with(vec![route("10.244.2.0/24", "10.1.0.1")]), words)?;
    assert_reported(&with(vec![route("10.244.1.0/24", "10.1.0.2")]), words)?;
    let sound = with(vec![route("10.244.1.0/24", "10.1.0.1")]);
    match sound.is_empty() {
        true => Ok(()),
        false => Err(format!("{sound:?}").into()),
    }
}

/// The violations of one change in a cluster with the node `a`, after this listing.
fn violations_of(
    what: Operation,
    route: Route,
    listing: Option<(bool, RouteTarget)>,
) -> Vec<String> {
    let now = Instant::now();
    let changed = Changed {
        what,
        route: route.clone(),
        process: 1,
        at: now,
        after: 1,
    };
    let listing = listing.map(|(complete, target)| Listing {
        process: 1,
        at: now,
        complete,
        routes: vec![CloudRoute {
            id: route.id.clone(),
            destination_cidr: route.destination.to_string(),
            target,
            extra: Vec::new(),
        }],
    });
    let mut record = record(vec![patch("a", node(&[]), node(&["10.244.1.0/24"]))]);
    record.clouds.push(RouteCloud {
        audited: vec![(changed.path(), String::new())],
        recorded: Recorded {
            most_open: 1,
            all: vec![route],
            listings: listing.into_iter().collect(),
            changes: vec![changed],
            ..Recorded::default()
        },
    });
    route_laws::broken(&record)
}

fn changes() -> Result<(), Failed> {
    let (create, delete) = (Operation::Create, Operation::Delete);
    let to = |destination: &str| route(destination, "10.1.0.9");
    let (whole, blackhole) = (true, RouteTarget::Blackhole);
    let other = || RouteTarget::Other("machine b".to_owned());
    let its_node = || RouteTarget::Node("a".to_owned());
    let (inside, outside) = ("10.244.7.0/24", "10.99.0.0/24");
    for (reported, words) in [
        (
            violations_of(create, to(outside), None),
            "outside of the cluster's CIDRs",
        ),
        (
            violations_of(create, to(inside), None),
            "does not have it (F25)",
        ),
        (
            violations_of(delete, to(outside), Some((whole, blackhole.clone()))),
            "outside of the cluster's CIDRs (F24)",
        ),
        (
            violations_of(delete, to(inside), None),
            "never listed (F24)",
        ),
        (
            violations_of(delete, to(inside), Some((false, blackhole.clone()))),
            "not complete (F24)",
        ),
        (
            violations_of(delete, to(inside), Some((whole, other()))),
            "leads to somebody else (F24)",
        ),
        (
            violations_of(delete, to("10.244.1.0/24"), Some((whole, its_node()))),
            "which its node wants",
        ),
    ] {
        assert_reported(&reported, words)?;
    }
    for sound in [
        violations_of(create, to("10.244.1.0/24"), None),
        violations_of(delete, to(inside), Some((whole, blackhole))),
        violations_of(delete, to(inside), Some((whole, its_node()))),
        // The gateway was the address of a node before.
        violations_of(delete, route(inside, "10.1.0.1"), Some((whole, other()))),
    ] {
        if !sound.is_empty() {
            return Err(format!("{sound:?}").into());
        }
    }
    Ok(())
}

fn too_often() -> Result<(), Failed> {
    let listed_after = |apart: Duration| {
        let listing = |at: Instant| Listing {
            process: 1,
            at,
            complete: true,
            routes: Vec::new(),
        };
        let now = Instant::now();
        let mut record = record(Vec::new());
        record.clouds.push(RouteCloud {
            audited: Vec::new(),
            recorded: Recorded {
                listings: vec![listing(now), listing(now + apart)],
                ..Recorded::default()
            },
        });
        route_laws::broken(&record)
    };
    assert_reported(&listed_after(Duration::from_millis(500)), "again too soon")?;
    let mut side_by_side = record(Vec::new());
    side_by_side.clouds.push(RouteCloud {
        recorded: Recorded {
            most_open: 2,
            ..Recorded::default()
        },
        audited: Vec::new(),
    });
    let reported = route_laws::broken(&side_by_side);
    assert_reported(&reported, "2 routes are changed at a time, and not 1")?;
    match listed_after(Duration::from_secs(1)).as_slice() {
        [] => Ok(()),
        reported => Err(format!("{reported:?}").into()),
    }
}

fn too_many() -> Result<(), Failed> {
    let now = Instant::now();
    // As many as the smallest cluster's budget, and one more, each by its own process; then the same over a longer
    // time.
    for (count, apart, is_noticed) in [(2, 60, false), (3, 60, true), (3, 300, false)] {
        let mut record = record(Vec::new());
        let change = |process: usize| Changed {
            what: Operation::Delete,
            route: route("10.244.7.0/24", "10.1.0.9"),
            process,
            at: now + Duration::from_secs(apart) * u32::try_from(process).unwrap_or(u32::MAX),
            after: 1,
        };
        record.clouds.push(RouteCloud {
            recorded: Recorded {
                changes: (0..count).map(change).collect(),
                ..Recorded::default()
            },
            audited: Vec::new(),
        });
        let reported = route_laws::broken(&record);
        if reported.iter().any(|one| one.contains("(S11)")) != is_noticed {
            return Err(format!("{count} in {apart} s each: {reported:?}").into());
        }
    }
    Ok(())
}
