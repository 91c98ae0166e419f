//! Secrets by reference: rotated while the process runs, and absent from all output of the run.

use std::path::Path;

use ccm_sim::hetzner::ServerSpec;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Node, Service};
use kube::api::ListParams;
use kube::{Api, Client};
use serde_json::json;

use crate::delivered::{CONFIG_MAP, Delivered, RIGHTS};
use crate::providers::version;
use crate::world::{Setup, World};

/// Texts that occur nowhere else.
const CANARIES: [&str; 2] = [
    "canary-one-7f3a9c51d2e84b60a1f5c39e70b8d4c2aa61ee0f93b75d18c4e2",
    "canary-two-b18d4c2aa61ee0f93b75d18c4e27f3a9c51d2e84b60a1f5c39e7",
];
const KEY: &str = "cloud-token";

#[tokio::test]
async fn a_rotated_secret_is_used_without_a_restart_and_is_found_nowhere() {
    let world = World::start(Setup {
        rights: RIGHTS,
        server_flags: vec!["--feature-gates=WatchList=false".to_owned()],
        ..Setup::default()
    })
    .await;
    let delivered = Delivered::of(&world).await;
    let [first, second] = CANARIES;
    for number in 1..=3 {
        world
            .cloud
            .add_server(ServerSpec::named(format!("worker-{number}")));
    }
    world.cloud.set_token(first);
    let reference = delivered.keep(KEY, first).await;
    let mut entry = delivered.entry("hcloud", CONFIG_MAP);
    entry["grants"]["targets"][0]["credential"] = json!({"bearer": reference});
    delivered.apply(&version("1.0.0").await).await;
    delivered.configure(&[entry]);
    let audit = world.file("audit.log", "");
    let flags = [
        "-v=10".to_owned(),
        format!("--audit-log-path={}", audit.display()),
    ];
    let mut ccm = delivered.ccm_with(&flags, &[]);
    world.add_node("worker-1", json!({})).await;
    world.initialised(&mut ccm, "worker-1").await;

    // The cloud accepts only the new token, so later requests must use it.
    world.cloud.set_token(second);
    delivered.keep(KEY, second).await;
    world.add_node("worker-2", json!({})).await;
    world.initialised(&mut ccm, "worker-2").await;

    // A deleted key changes nothing: the last valid value stays in use, and an Event reports it.
    delivered.keep("another-key", "unused").await;
    delivered.forget(KEY).await;
    world.add_node("worker-3", json!({})).await;
    world.initialised(&mut ccm, "worker-3").await;
    delivered
        .until(&mut ccm, "hcloud", "the missing Secret is told", |status| {
            let trouble = status["trouble"].as_str().unwrap_or_default();
            trouble.contains("the Secret has no such key")
        })
        .await;
    world.stop(ccm).await;

    let admin: Client = world.api.client_for("admin").await.unwrap();
    let mut produced = vec![
        ("the log".to_owned(), world.log()),
        ("the audit log".to_owned(), read(&audit)),
        ("the objects".to_owned(), objects(&admin).await),
        (
            "the object Provider".to_owned(),
            delivered.status("hcloud").await.to_string(),
        ),
    ];
    for asked in world.asked() {
        let body = asked.body.map(|body| body.to_string()).unwrap_or_default();
        produced.push((format!("{} {}", asked.verb, asked.uri), body));
    }
    let kept = files(&delivered.cache());
    assert!(kept.len() > 1, "the module is kept: {kept:?}");
    produced.extend(kept);
    for (what, text) in &produced {
        for canary in CANARIES {
            assert!(!text.contains(canary), "{what} holds a secret");
        }
    }
    // The search covered real output.
    assert!(produced.iter().any(|(_, text)| text.contains("worker-2")));
}

/// All objects that a provider may have an effect on.
async fn objects(admin: &Client) -> String {
    let all = ListParams::default();
    let nodes: Api<Node> = Api::all(admin.clone());
    let services: Api<Service> = Api::all(admin.clone());
    let events: Api<Event> = Api::all(admin.clone());
    let leases: Api<Lease> = Api::all(admin.clone());
    json!([
        nodes.list(&all).await.unwrap().items,
        services.list(&all).await.unwrap().items,
        events.list(&all).await.unwrap().items,
        leases.list(&all).await.unwrap().items,
    ])
    .to_string()
}

/// Every file below a folder.
fn files(folder: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push((path.display().to_string(), read(&path)));
        }
    }
    found
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned()
}
