//! Tainted nodes become initialised: what is written, in which order, and what is left alone.

use std::collections::BTreeMap;

use ccm_sim::hetzner::{Location, ServerSpec, ServerType};
use ccm_tests::authority;
use serde_json::{Value, json};

use crate::kubelet::{is_tainted, other_taint};
use crate::world::{Setup, World, until};

fn json_of(value: impl serde::Serialize) -> Value {
    serde_json::to_value(value).unwrap()
}

#[tokio::test]
async fn addresses_are_stored_before_the_taint_goes_with_everything_else() {
    let mut cloud = Setup::default().cloud;
    cloud.tls = Some(authority::issue("the cloud").unwrap());
    let world = World::start(Setup {
        cloud,
        // The module comes from a file, and the cluster need not have the kind Provider.
        rights: &["../components/rollout/rbac.yaml"],
        ..Setup::default()
    })
    .await;
    let id = world.cloud.add_server(ServerSpec {
        server_type: ServerType::Cax11,
        location: Location::Nbg1,
        ..ServerSpec::named("worker-1")
    });
    world
        .add_node("worker-1", json!({"labels": {"team": "blue"}}))
        .await;

    let module = format!("--provider-module=file://{}", world.module_file().display());
    let configuration = world.configuration(json!({}));
    let flags = [module.as_str(), "--node-status-update-frequency=1s", "-v=0"];
    let mut ccm = world.ccm(&configuration, &flags);
    let node = world.initialised(&mut ccm, "worker-1").await;

    let spec = json_of(node.spec.unwrap());
    assert_eq!(spec["providerID"], format!("hcloud://{id}"));
    // The third taint is the API server's own, for nodes that have not been reported Ready.
    let not_ready = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
    assert_eq!(spec["taints"], json!([other_taint(), not_ready]));
    let expected = [
        ("beta.kubernetes.io/instance-type", "cax11"),
        ("failure-domain.beta.kubernetes.io/region", "nbg1"),
        ("failure-domain.beta.kubernetes.io/zone", "nbg1-dc3"),
        ("instance.hetzner.cloud/provided-by", "cloud"),
        ("node.kubernetes.io/instance-type", "cax11"),
        ("team", "blue"),
        ("topology.kubernetes.io/region", "nbg1"),
        ("topology.kubernetes.io/zone", "nbg1-dc3"),
        ("wasm-ccm.dev/provider", "hcloud"),
    ];
    let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(node.metadata.labels.unwrap(), BTreeMap::from(expected));
    let addresses = json_of(node.status.unwrap().addresses.unwrap());
    let expected = json!([
        {"type": "Hostname", "address": "worker-1"},
        {"type": "ExternalIP", "address": "198.18.0.1"},
    ]);
    assert_eq!(addresses, expected);

    // Three further look-ups find nothing new, so nothing is written.
    let looks = world.questions().len() + 3;
    until(&mut ccm, "three refreshes", async || {
        (world.questions().len() >= looks).then_some(())
    })
    .await;
    let writes = world.writes_to("worker-1");
    let shape: Vec<_> = writes
        .iter()
        .map(|write| (write.verb.as_str(), write.subresource.as_str(), write.code))
        .collect();
    assert_eq!(shape, [("patch", "status", 200), ("patch", "", 200)]);
    let first = writes[0].body.as_ref().unwrap();
    assert!(first["status"]["addresses"].is_array(), "{first}");
    let second = writes[1].body.as_ref().unwrap();
    assert_eq!(second["spec"]["providerID"], format!("hcloud://{id}"));
    assert_eq!(
        second["metadata"]["labels"]["wasm-ccm.dev/provider"],
        "hcloud"
    );

    let event = world.event(&mut ccm, "worker-1", "Synced").await;
    assert_eq!(event.involved_object.uid, node.metadata.uid);
    assert_eq!(
        event.source.unwrap().component.unwrap(),
        "cloud-node-controller"
    );
    for request in world.cloud.requests() {
        assert!(request.authorized && !request.write, "{request:?}");
    }
    // One line is logged about a healthy node, and none about the look-ups that found nothing new.
    let log = world.log();
    let lines: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("worker-1"))
        .collect();
    assert_eq!(lines.len(), 1, "{lines:#?}");

    world.stop(ccm).await;
}

#[tokio::test]
async fn a_dual_stack_node_gets_both_families_and_follows_the_cloud() {
    let world = World::start(Setup::default()).await;
    let id = world.cloud.add_server(ServerSpec::named("worker-1"));
    let range = "10.1.0.0/16".parse().unwrap();
    let network = world
        .cloud
        .add_network("cluster", range, Location::default());
    let private = world.cloud.attach(id, network, None).unwrap().to_string();
    let chosen = json!({"alpha.kubernetes.io/provided-node-ip": private});
    world
        .add_node("worker-1", json!({"annotations": chosen}))
        .await;

    let configuration = world.configuration(json!({
        "HCLOUD_INSTANCES_ADDRESS_FAMILY": "dualstack",
        "HCLOUD_NETWORK": "cluster",
        "HCLOUD_SERVER_CACHE_MAX_AGE": "0",
    }));
    let mut ccm = world.ccm(&configuration, &["--node-status-update-frequency=1s"]);
    let node = world.initialised(&mut ccm, "worker-1").await;

    let mut expected = json!([
        {"type": "InternalIP", "address": private},
        {"type": "Hostname", "address": "worker-1"},
        {"type": "ExternalIP", "address": "198.18.0.1"},
        {"type": "ExternalIP", "address": "2001:db8:0:1::1"},
    ]);
    let addresses = json_of(node.status.unwrap().addresses.unwrap());
    assert_eq!(addresses, expected);

    // Two addresses of one type are one address each: dropping one must not touch the other.
    world
        .cloud
        .change_server(id, |server| server.public_ipv4 = false);
    expected.as_array_mut().unwrap().remove(2);
    until(&mut ccm, "the address to go", async || {
        let node = world.nodes.get("worker-1").await.unwrap();
        let addresses = json_of(node.status.unwrap().addresses.unwrap());
        (addresses == expected).then_some(())
    })
    .await;
}

#[tokio::test]
async fn twenty_nodes_at_once_cost_a_few_cloud_calls_and_a_stranger_disturbs_nobody() {
    let world = World::start(Setup::default()).await;
    let names: Vec<_> = (1..=20).map(|number| format!("worker-{number}")).collect();
    world.cloud.add_servers(names.iter().map(ServerSpec::named));
    world.add_node("stranger", json!({})).await;
    for name in &names {
        world.add_node(name, json!({})).await;
    }

    let mut ccm = world.ccm(&world.configuration(json!({})), &[]);
    for name in &names {
        let node = world.initialised(&mut ccm, name).await;
        let writes = world.writes_to(name).len();
        assert_eq!(writes, 2, "{name}: {:?}", node.metadata.resource_version);
    }
    let listings = world.cloud.requests();
    let listings = listings
        .iter()
        .filter(|request| request.path.contains("page="));
    assert!(
        (1..=2).contains(&listings.count()),
        "{:?}",
        world.cloud.requests()
    );

    let stranger = world.nodes.get("stranger").await.unwrap();
    assert!(is_tainted(&stranger));
    assert!(world.writes_to("stranger").is_empty());
}
