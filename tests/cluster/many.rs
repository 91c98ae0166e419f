//! Many nodes at once: the cost for the API server and the cloud, and that there is none once all nodes are
//! initialised.

use std::collections::BTreeMap;

use ccm_sim::hetzner::{Hetzner, ServerSpec};
use ccm_tests::apiserver::AuditEntry;
use futures::stream::{self, StreamExt};
use k8s_openapi::api::core::v1::Event;
use serde_json::json;

use crate::world::{Setup, World, size, until};

/// Maximum number of servers on one page of the cloud's list.
const PAGE: usize = 50;

/// How many nodes a test registers at once.
const AT_ONCE: usize = 16;

impl World {
    /// Adds servers and their nodes, and returns their names.
    pub(crate) async fn populate(&self, count: usize) -> Vec<String> {
        let names: Vec<_> = (1..=count)
            .map(|number| format!("worker-{number}"))
            .collect();
        self.cloud.add_servers(names.iter().map(ServerSpec::named));
        stream::iter(&names)
            .for_each_concurrent(AT_ONCE, async |name| {
                self.add_node(name, json!({})).await;
            })
            .await;
        names
    }
}

/// The writes about nodes in a log, as verb and resource, by node. Without the Lease and the Events about it, which do
/// not depend on nodes.
fn writes_by_object(log: &[AuditEntry]) -> BTreeMap<String, Vec<String>> {
    let mut writes: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let is_write = |entry: &&AuditEntry| !["get", "list", "watch"].contains(&entry.verb.as_str());
    for entry in log.iter().filter(is_write) {
        let body = entry.body.as_ref().unwrap();
        let about = match entry.resource.as_str() {
            "leases" => continue,
            "events" if body["involvedObject"]["kind"] == "Lease" => continue,
            "events" => body["involvedObject"]["name"].as_str().unwrap_or("?"),
            _ => &entry.name,
        };
        let AuditEntry {
            verb,
            resource,
            subresource,
            code,
            ..
        } = entry;
        let write = format!("{verb} {resource}/{subresource} {code}");
        writes.entry(about.to_owned()).or_default().push(write);
    }
    writes
}

/// How often the cloud's list of all servers was begun.
fn listings(cloud: &Hetzner) -> usize {
    let requests = cloud.requests();
    requests
        .iter()
        .filter(|request| request.page == Some(1))
        .count()
}

#[tokio::test]
async fn many_nodes_at_once_cost_two_writes_one_event_and_one_listing_and_then_nothing() {
    let mut setup = Setup::default();
    // A minute of passes over many nodes is more than the vendor's budget of an hour allows.
    setup.cloud.rate_limit = None;
    let world = World::start(setup).await;
    let count = size("CCM_CLUSTER_NODES", 200, 1_000);
    let names = world.populate(count).await;

    let mut ccm = world.ccm(&world.configuration(json!({})), &[]);
    world.all_initialised(&mut ccm, count).await;
    let events = until(&mut ccm, "one Event for each node", async || {
        let events = world.events().await;
        (events.len() >= count).then_some(events)
    })
    .await;
    world.stop(ccm).await;

    let is_synced = |event: &Event| event.reason.as_deref() == Some("Synced");
    assert!(events.iter().all(is_synced), "{events:#?}");
    assert_eq!(events.len(), count);
    let asked = world.asked();
    let writes = writes_by_object(&asked);
    let expected = [
        "patch nodes/status 200",
        "patch nodes/ 200",
        "create events/ 201",
    ];
    assert_eq!(writes.len(), count);
    for name in &names {
        assert_eq!(writes[name], expected, "{name}");
    }
    let calls = world.questions().len();
    let most = count.div_ceil(PAGE) + 5;
    assert!(
        calls <= most,
        "{calls} requests to the cloud, {most} allowed"
    );

    // A new process finds nothing to do, and goes on finding nothing.
    world.cloud.clear_requests();
    let before = asked.len();
    let passes = size("CCM_CLUSTER_IDLE_SECONDS", 5, 60);
    let configuration = world.configuration(json!({"HCLOUD_SERVER_CACHE_MAX_AGE": "0"}));
    let mut ccm = world.ccm(&configuration, &["--node-status-update-frequency=1s"]);
    for pass in 1..=passes {
        until(&mut ccm, &format!("pass {pass} of {passes}"), async || {
            (listings(&world.cloud) > pass).then_some(())
        })
        .await;
    }
    world.stop(ccm).await;
    let idle = writes_by_object(&world.asked()[before..]);
    assert_eq!(idle, BTreeMap::new());
    assert_eq!(world.events().await.len(), count);
}
