//! The messages about a provider without an active version, and that a rolled-back version stays rolled back.

use std::io::Write as _;

use ccm_sim::hetzner::ServerSpec;
use ccm_tests::log::severity;
use ccm_tests::versions::{numbered, wider};
use flate2::{Compression, write::GzEncoder};
use serde_json::{Value, json};

use crate::delivered::{CONFIG_MAP, Delivered, digest};
use crate::providers::{APPROVE, ROLL_BACK, entry, joins, more, version, world};
use crate::world::until;

/// Compressed: two modules do not fit into an object uncompressed.
fn packed(wasm: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(wasm).unwrap();
    gzip.finish().unwrap()
}

/// The condition of this type.
fn condition<'a>(status: &'a Value, kind: &str) -> &'a Value {
    let conditions = status["conditions"].as_array().unwrap();
    conditions.iter().find(|one| one["type"] == kind).unwrap()
}

#[tokio::test]
async fn a_provider_that_leaves_the_binary_for_a_config_map_is_written_down_without_a_restart() {
    let world = world().await;
    let delivered = Delivered::of(&world).await;
    for name in ["worker-1", "worker-2"] {
        world.cloud.add_server(ServerSpec::named(name));
    }
    let module = version("9.0.0").await;
    let mut embedded = delivered.entry("hcloud", "embedded:hcloud");
    embedded["rollout"] = json!({});
    delivered.configure(&[embedded]);
    let mut ccm = delivered.ccm(&[]);
    joins(&world, &mut ccm, "worker-1", json!({}), "hcloud").await;
    let shown = |status: &Value| status["informational"] == true;
    delivered.until(&mut ccm, "hcloud", "shown", shown).await;

    delivered.apply(&module).await;
    delivered.configure(&[delivered.entry("hcloud", CONFIG_MAP)]);
    let status = delivered.serves(&mut ccm, "hcloud", &module).await;
    assert_eq!(status["observedSource"], CONFIG_MAP, "{status}");
    assert!(status["informational"].is_null(), "{status}");
    assert_eq!(condition(&status, "Ready")["status"], "True", "{status}");
    joins(&world, &mut ccm, "worker-2", json!({}), "hcloud").await;
    delivered
        .wait_for_event(&mut ccm, "hcloud", "ProviderActivated")
        .await;
    world.stop(ccm).await;
}

#[tokio::test]
async fn what_is_rolled_back_is_kept_beside_its_successor_and_its_absence_is_told_everywhere() {
    let world = world().await;
    let delivered = Delivered::of(&world).await;
    for name in ["worker-1", "worker-2"] {
        world.cloud.add_server(ServerSpec::named(name));
    }
    let (first, second) = (version("1.0.0").await, version("2.0.0").await);
    delivered.apply(&first).await;
    delivered.configure(&[delivered.entry("hcloud", CONFIG_MAP)]);
    let mut ccm = delivered.ccm(&[]);
    delivered.serves(&mut ccm, "hcloud", &first).await;
    // The object is created with the first Event, and `kubectl describe` shows the Event all the same.
    delivered
        .wait_for_event(&mut ccm, "hcloud", "ProviderActivated")
        .await;
    joins(&world, &mut ccm, "worker-1", json!({}), "hcloud").await;
    delivered.apply(&second).await;
    delivered.serves(&mut ccm, "hcloud", &second).await;
    delivered.annotate("hcloud", ROLL_BACK, "true").await;
    let status = delivered.serves(&mut ccm, "hcloud", &first).await;
    assert_eq!(status["rejected"][0]["digest"], digest(&second), "{status}");
    world.stop(ccm).await;

    // A new pod: its cache is empty, and the ConfigMap has the rejected version.
    std::fs::remove_dir_all(delivered.cache()).unwrap();
    let seen = world.log().len();
    let mut ccm = delivered.ccm(&[]);
    let is_told = |status: &Value| condition(status, "Ready")["status"] == "False";
    let what = "that it does not serve";
    let status = delivered.until(&mut ccm, "hcloud", what, is_told).await;
    let trouble = status["trouble"].as_str().unwrap();
    for part in [
        "1.0.0 (sha256:",
        ") must serve, but ",
        "no key of the ConfigMap ccm-provider in the namespace kube-system holds 1.0.0",
        "and the cache does not either: put it back there",
        "2.0.0 (sha256:",
        ") is offered, but rejected: a person ordered to go back",
    ] {
        assert!(trouble.contains(part), "{part}: {trouble}");
    }
    assert_eq!(condition(&status, "Ready")["message"], trouble, "{status}");
    assert_eq!(status["state"], "NotServing", "{status}");
    assert_eq!(status["active"]["digest"], digest(&first), "{status}");
    delivered
        .wait_for_event(&mut ccm, "hcloud", "ProviderNotServing")
        .await;
    let is_loud = |line: &str| severity(line) == Some('E') && line.contains("is not served");
    until(&mut ccm, "a line about it", async || {
        let log = world.log();
        log[seen..].lines().any(is_loud).then_some(())
    })
    .await;

    // The old version is put back, beside the other one: neither this pod nor a new one needs anything else.
    delivered
        .apply_all(&[
            ("provider.wasm", &packed(&second)),
            ("before.wasm", &packed(&first)),
        ])
        .await;
    joins(&world, &mut ccm, "worker-2", json!({}), "hcloud").await;
    let is_ready = |status: &Value| condition(status, "Ready")["status"] == "True";
    let status = delivered.until(&mut ccm, "hcloud", "ready", is_ready).await;
    assert_eq!(status["trouble"], "", "{status}");
    world.stop(ccm).await;
    std::fs::remove_dir_all(delivered.cache()).unwrap();
    world.cloud.add_server(ServerSpec::named("worker-3"));
    let mut ccm = delivered.ccm(&[]);
    joins(&world, &mut ccm, "worker-3", json!({}), "hcloud").await;
    let status = delivered.serves(&mut ccm, "hcloud", &first).await;
    assert_eq!(status["rejected"][0]["digest"], digest(&second), "{status}");
    world.stop(ccm).await;
}

#[tokio::test]
async fn nothing_that_asks_for_more_takes_the_place_of_a_lost_module_before_a_person_approves_it() {
    let world = world().await;
    let delivered = Delivered::of(&world).await;
    for name in ["worker-1", "worker-2"] {
        world.cloud.add_server(ServerSpec::named(name));
    }
    let first = version("1.0.0").await;
    delivered.apply(&first).await;
    delivered.configure(&[entry(&delivered, CONFIG_MAP)]);
    let mut ccm = delivered.ccm(&[]);
    let status = delivered.serves(&mut ccm, "hcloud", &first).await;
    let requests = status["active"]["requests"].as_str().unwrap();
    assert!(requests.contains("/load_balancers/{id}"), "{status}");
    joins(&world, &mut ccm, "worker-1", json!({}), "hcloud").await;
    world.stop(ccm).await;

    // A new pod: its cache is empty, and the ConfigMap has been edited.
    std::fs::remove_dir_all(delivered.cache()).unwrap();
    let second = wider(&numbered(embedded_guests::HCLOUD, "2.0.0"), &more());
    delivered.apply(&second).await;
    let mut ccm = delivered.ccm(&[]);
    let waits = |status: &Value| status["trial"]["phase"] == "WaitsForApproval";
    let what = "to wait for approval";
    let status = delivered.until(&mut ccm, "hcloud", what, waits).await;
    assert_eq!(status["trial"]["digest"], digest(&second), "{status}");
    assert_eq!(status["active"]["digest"], digest(&first), "{status}");
    let lines = status["trial"]["lines"].as_array().unwrap();
    let asks = |line: &&Value| {
        line.as_str()
            .unwrap()
            .contains("GET api.hetzner.cloud/v1/server_types")
    };
    assert_eq!(lines.iter().filter(asks).count(), 1, "{status}");
    delivered
        .wait_for_event(&mut ccm, "hcloud", "PermissionsPending")
        .await;
    delivered
        .annotate("hcloud", APPROVE, &digest(&second))
        .await;
    let status = delivered.serves(&mut ccm, "hcloud", &second).await;
    let untried = status["active"]["untried"].as_str().unwrap();
    assert!(
        untried.starts_with("it was not tried beside 1.0.0"),
        "{status}"
    );
    joins(&world, &mut ccm, "worker-2", json!({}), "hcloud").await;
    world.stop(ccm).await;
}
