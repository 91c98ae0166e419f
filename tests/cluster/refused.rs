//! Requests that were not granted do not happen: no connection, no write, and a reason that a person can read.

use std::time::Duration;

use ccm_sim::hetzner::ServerSpec;
use ccm_tests::log::severity;
use serde_json::{Value, json};

use crate::kubelet::is_tainted;
use crate::world::{Setup, World};

/// The first target of the first provider.
fn target(configuration: &mut Value) -> &mut Value {
    &mut configuration["providers"][0]["grants"]["targets"][0]
}

#[tokio::test]
async fn a_name_that_resolves_to_an_address_nobody_granted_is_never_connected_to() {
    let world = World::start(Setup::default()).await;
    world.cloud.add_server(ServerSpec::named("worker-1"));
    world.add_node("worker-1", json!({})).await;
    let mut configuration = world.configuration(json!({}));
    // An address in the endpoint itself would be granted; a name is not.
    let port = world.cloud.address().port();
    target(&mut configuration)["endpoint"] = json!(format!("http://localhost:{port}/v1"));
    target(&mut configuration)["addresses"] = json!(["192.168.0.0/16"]);

    let mut ccm = world.ccm(&configuration, &[]);
    let event = world
        .event(&mut ccm, "worker-1", "InstanceLookupFailed")
        .await;

    let message = event.message.unwrap();
    assert!(message.contains("loopback"), "{message}");
    assert_eq!(world.cloud.connections(), 0);
    assert!(is_tainted(&world.nodes.get("worker-1").await.unwrap()));
    assert!(world.writes_to("worker-1").is_empty());
}

#[tokio::test]
async fn a_module_that_requests_more_than_is_granted_is_not_loaded() {
    let world = World::start(Setup::default()).await;
    world.cloud.add_server(ServerSpec::named("worker-1"));
    world.add_node("worker-1", json!({})).await;
    let mut configuration = world.configuration(json!({}));
    let rules = target(&mut configuration)["rules"].as_array_mut().unwrap();
    let before = rules.len();
    rules.retain(|rule| rule["path"] != "/servers/{id}");
    assert_eq!(rules.len(), before - 1);

    let mut ccm = world.ccm(&configuration, &[]);
    let status = ccm.ended(Duration::from_secs(60)).await.unwrap();

    assert_eq!(status.code(), Some(1));
    let reported = ccm.output();
    assert!(reported.contains("GET /servers/{id}"), "{reported}");
    assert_eq!(world.cloud.connections(), 0);
    assert!(is_tainted(&world.nodes.get("worker-1").await.unwrap()));
    assert_eq!(world.asked(), []);
}

#[tokio::test]
async fn a_credential_that_the_cloud_refuses_is_one_line_at_error() {
    let world = World::start(Setup::default()).await;
    let values = json!({});
    for name in ["worker-1", "worker-2"] {
        world.cloud.add_server(ServerSpec::named(name));
        world.add_node(name, json!({})).await;
    }
    let configuration = world.configuration(values);
    let mut ccm = world.ccm_with_token("not-the-clouds-token", &configuration, &[]);
    for name in ["worker-1", "worker-2"] {
        world.event(&mut ccm, name, "InstanceLookupFailed").await;
    }
    let log = world.log();
    let loud: Vec<_> = log
        .lines()
        .filter(|line| severity(line) == Some('E'))
        .collect();
    let [line] = loud.as_slice() else {
        panic!("one line: {loud:#?}");
    };
    for part in [
        "hcloud",
        &world.endpoint(),
        "refuses the credential",
        "from the variable CLOUD_TOKEN",
        "(401)",
    ] {
        assert!(line.contains(part), "{part}: {line}");
    }
    assert!(!log.contains("not-the-clouds-token"));
}
