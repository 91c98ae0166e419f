//! A slow etcd, which then stalls for a while: everything takes longer, and nothing is done twice.

use std::time::Duration;

use serde_json::json;

use crate::kubelet::addresses;
use crate::world::{LONG_LEASE, Setup, World, untainted, until};

/// Delay in each direction: a slow disk, or an etcd on the other side of a country.
const DELAY: Duration = Duration::from_millis(50);

/// As long as the election of another etcd leader; shorter than any timeout of `ccm`.
const STALL: Duration = Duration::from_secs(4);

#[tokio::test]
async fn a_slow_etcd_that_stalls_costs_time_and_neither_a_write_nor_an_event_more() {
    let world = World::start(Setup {
        etcd_link: true,
        ..Setup::default()
    })
    .await;
    let mut names = world.populate(20).await;
    let link = world.api.etcd_link().unwrap();
    link.delay(DELAY);
    // There is still work after the first node is initialised, with passes in between.
    let flags = [
        "--concurrent-node-syncs=4",
        "--node-status-update-frequency=1s",
    ];
    let flags = [&flags[..], &LONG_LEASE].concat();
    let mut ccm = world.ccm(&world.configuration(json!({})), &flags);
    let begun = world
        .nodes_until(&mut ccm, "the first node", |nodes| untainted(nodes) > 0)
        .await;
    link.hold_for(STALL);
    assert!(
        untainted(&begun) < names.len(),
        "the stall would come too late"
    );

    // Nodes that join during and after the stall.
    for number in 1..=10 {
        let name = format!("late-{number}");
        world
            .cloud
            .add_server(ccm_sim::hetzner::ServerSpec::named(&name));
        world.add_node(&name, json!({})).await;
        names.push(name);
    }
    world.all_initialised(&mut ccm, names.len()).await;
    until(&mut ccm, "one Event for each node", async || {
        (world.events().await.len() >= names.len()).then_some(())
    })
    .await;
    world.stop(ccm).await;

    let events = world.events().await;
    let counts: Vec<_> = events.iter().filter_map(|event| event.count).collect();
    assert_eq!(counts, vec![1; names.len()]);
    for name in &names {
        let writes = world.writes_to(name);
        let codes: Vec<_> = writes.iter().map(|write| write.code).collect();
        assert_eq!(codes, [200, 200], "{name}: {writes:#?}");
        assert_eq!(world.events_about(name).await.len(), 1, "{name}");
    }
}

/// Longer than `ccm`, and the API server itself, wait for an answer.
const OUTAGE: Duration = Duration::from_secs(65);

#[tokio::test]
async fn an_etcd_that_stalls_for_longer_than_anybody_waits_is_followed_by_a_finished_job() {
    let world = World::start(Setup {
        etcd_link: true,
        ..Setup::default()
    })
    .await;
    let names = world.populate(20).await;
    let link = world.api.etcd_link().unwrap();
    link.delay(DELAY);
    // A Lease that cannot be renewed for so long would be lost, and the process would end.
    let flags = ["--concurrent-node-syncs=4", "--leader-elect=false"];
    let mut ccm = world.ccm(&world.configuration(json!({})), &flags);
    world
        .nodes_until(&mut ccm, "the first node", |nodes| untainted(nodes) > 0)
        .await;
    link.hold_for(OUTAGE);
    until(&mut ccm, "a request that is given up", async || {
        let log = world.log();
        (log.contains("no answer within") || log.contains("(504)")).then_some(())
    })
    .await;

    let nodes = world.all_initialised(&mut ccm, names.len()).await;
    world.stop(ccm).await;
    for (name, node) in &nodes {
        assert_eq!(addresses(node)[1]["type"], "ExternalIP", "{name}");
        // Whether a write without an answer was made is unknown, so it may be retried: the addresses are then the same,
        // and the last write is for one version of the node.
        let writes = world.writes_to(name);
        let of = |part: &str| {
            writes
                .iter()
                .filter(|write| write.subresource == part)
                .count()
        };
        assert!((1..=4).contains(&of("status")), "{name}: {writes:#?}");
        let last = writes.iter().filter(|write| write.subresource.is_empty());
        let done = last.filter(|write| write.code == 200).count();
        assert!(done <= 1, "{name}: {writes:#?}");
        let events = world.events_about(name).await;
        let counts: Vec<_> = events.iter().map(|event| event.count).collect();
        assert!(
            [vec![], vec![Some(1)]].contains(&counts),
            "{name}: {events:#?}"
        );
    }
}
