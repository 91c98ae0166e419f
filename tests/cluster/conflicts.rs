//! Other clients write to the same nodes: nothing of theirs is lost, and what they set counts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ccm_sim::hetzner::ServerSpec;
use k8s_openapi::api::core::v1::{Node, Taint};
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::kubelet::{is_tainted, uninitialized};
use crate::world::{Setup, World, until};

/// How many labels one writer uses in turn, on each node.
const LABELS: u64 = 50;

/// How many taints it adds, and never takes away.
const TAINTS: u64 = 10;

/// The values that one writer wrote to a node, all of which must be there in the end.
#[derive(Default)]
struct Written {
    labels: BTreeMap<String, String>,
    taints: BTreeSet<String>,
}

/// A client that reads a node, changes it and writes it back whole, as many programs do: another label in each round,
/// another taint in the first ones.
struct Writer {
    nodes: Api<Node>,
    round: u64,
    written: BTreeMap<String, Written>,
}

impl Writer {
    async fn round(&mut self) {
        let round = self.round;
        self.round += 1;
        let label = format!("example.com/label-{}", round % LABELS);
        let taint = (round < TAINTS).then(|| format!("example.com/taint-{round}"));
        for (name, written) in &mut self.written {
            write(&self.nodes, name, &label, round, taint.as_deref()).await;
            written.labels.insert(label.clone(), round.to_string());
            written.taints.extend(taint.clone());
        }
    }
}

/// One change, tried again until it meets no conflict.
async fn write(nodes: &Api<Node>, name: &str, label: &str, round: u64, taint: Option<&str>) {
    loop {
        let mut node = nodes.get(name).await.unwrap();
        let labels = node.metadata.labels.get_or_insert_default();
        labels.insert(label.to_owned(), round.to_string());
        if let Some(key) = taint {
            let spec = node.spec.get_or_insert_default();
            spec.taints.get_or_insert_default().push(Taint {
                key: key.to_owned(),
                effect: "NoSchedule".to_owned(),
                ..Taint::default()
            });
        }
        match nodes.replace(name, &PostParams::default(), &node).await {
            Ok(_) => return,
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => panic!("{name}: {error}"),
        }
    }
}

#[tokio::test]
async fn others_who_write_at_the_same_time_lose_nothing_and_every_node_is_initialised() {
    let world = World::start(Setup::default()).await;
    let names: Vec<_> = (1..=5).map(|number| format!("worker-{number}")).collect();
    for (number, name) in (1..).zip(&names) {
        world.cloud.add_server(ServerSpec::named(name));
        // The addresses are right already, so the one write that is left is the one that removes the taint.
        let addresses = json!([
            {"type": "Hostname", "address": name},
            {"type": "ExternalIP", "address": format!("198.18.0.{number}")},
        ]);
        let taints = json!([uninitialized()]);
        world.register(name, json!({}), taints, addresses).await;
    }
    let named = |name: &String| (name.clone(), Written::default());
    let mut writer = Writer {
        nodes: world.nodes.clone(),
        round: 0,
        written: names.iter().map(named).collect(),
    };

    world.cloud_link.hold();
    let mut ccm = world.ccm(&world.configuration(json!({})), &[]);
    world.cloud_is_asked(&mut ccm).await;
    // The manager's copy of each node is old when the answer comes, and gets older all the time.
    writer.round().await;
    let is_over = Arc::new(AtomicBool::new(false));
    let writing = tokio::spawn({
        let is_over = is_over.clone();
        async move {
            while !is_over.load(Ordering::Relaxed) {
                writer.round().await;
            }
            writer.written
        }
    });
    world.cloud_link.release();
    for name in &names {
        world.initialised(&mut ccm, name).await;
    }
    is_over.store(true, Ordering::Relaxed);
    let written = writing.await.unwrap();
    world.stop(ccm).await;

    for (name, written) in written {
        let node = world.nodes.get(&name).await.unwrap();
        let labels = node.metadata.labels.clone().unwrap();
        assert_eq!(labels["wasm-ccm.dev/provider"], "hcloud");
        assert_eq!(labels["topology.kubernetes.io/region"], "fsn1");
        let kept = |label: &(&String, &String)| label.0.starts_with("example.com/");
        let kept: BTreeMap<_, _> = labels.iter().filter(kept).collect();
        assert_eq!(kept, written.labels.iter().collect(), "{name}");
        let keys = taint_keys(&node);
        let kept: BTreeSet<_> = keys
            .iter()
            .filter(|key| key.starts_with("example.com/"))
            .cloned()
            .collect();
        assert_eq!(kept, written.taints, "{name}");
        assert!(!is_tainted(&node));

        let (done, refused): (Vec<_>, Vec<_>) = world
            .writes_to(&name)
            .into_iter()
            .partition(|write| write.code == 200);
        assert_eq!(done.len(), 1, "{name}: {done:#?}");
        assert!(!refused.is_empty(), "{name} was never contended for");
        assert!(
            refused.iter().all(|write| write.code == 409),
            "{name}: {refused:#?}"
        );
    }
}

fn taint_keys(node: &Node) -> Vec<String> {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    taints
        .into_iter()
        .flatten()
        .map(|taint| taint.key.clone())
        .collect()
}

const PROVIDED_BY: &str = "instance.hetzner.cloud/provided-by";
const TYPE: [&str; 2] = [
    "beta.kubernetes.io/instance-type",
    "node.kubernetes.io/instance-type",
];
const REGION: [&str; 2] = [
    "failure-domain.beta.kubernetes.io/region",
    "topology.kubernetes.io/region",
];
const ZONE: [&str; 2] = [
    "failure-domain.beta.kubernetes.io/zone",
    "topology.kubernetes.io/zone",
];

/// Waits until labels of a node are as they should be; `null` means that there is none.
async fn labels_become(world: &World, ccm: &mut ccm_tests::process::Process, expected: Value) {
    let what = format!("labels {expected}");
    until(ccm, &what, async || {
        let node = world.nodes.get("worker-1").await.unwrap();
        let labels = json!(node.metadata.labels);
        let mut expected = expected.as_object().unwrap().iter();
        expected
            .all(|(key, value)| labels.get(key).unwrap_or(&Value::Null) == value)
            .then_some(())
    })
    .await;
}

#[tokio::test]
async fn node_034_a_label_that_stands_there_is_kept_and_where_the_machine_stands_is_corrected() {
    let world = World::start(Setup::default()).await;
    world.cloud.add_server(ServerSpec::named("worker-1"));
    let labels = json!({
        PROVIDED_BY: "somebody",
        ZONE[0]: "old-beta",
        ZONE[1]: "old",
        REGION[1]: "elsewhere",
        "team": "blue",
    });
    world.add_node("worker-1", json!({"labels": labels})).await;

    let mut ccm = world.ccm(&world.configuration(json!({})), &[]);
    let node = world.initialised(&mut ccm, "worker-1").await;

    let expected = json!({
        PROVIDED_BY: "somebody",
        ZONE[0]: "fsn1-dc14",
        ZONE[1]: "fsn1-dc14",
        REGION[0]: "fsn1",
        REGION[1]: "fsn1",
        TYPE[0]: "cx23",
        TYPE[1]: "cx23",
        "team": "blue",
        "wasm-ccm.dev/provider": "hcloud",
    });
    assert_eq!(json!(node.metadata.labels), expected);
    assert_eq!(world.writes_to("worker-1").len(), 2);
}

#[tokio::test]
async fn node_071_a_current_label_follows_its_deprecated_one_and_never_the_other_way_round() {
    let world = World::start(Setup::default()).await;
    world.cloud.add_server(ServerSpec::named("worker-1"));
    world.add_node("worker-1", json!({})).await;
    let mut ccm = world.ccm(&world.configuration(json!({})), &[]);
    world.initialised(&mut ccm, "worker-1").await;
    let change = async |labels: Value| {
        world
            .change("worker-1", json!({"metadata": {"labels": labels}}))
            .await;
    };

    // An edited current label is put back.
    change(json!({ZONE[1]: "edited"})).await;
    labels_become(
        &world,
        &mut ccm,
        json!({ZONE[0]: "fsn1-dc14", ZONE[1]: "fsn1-dc14"}),
    )
    .await;
    // A removed one is added again.
    change(json!({REGION[1]: null})).await;
    labels_become(
        &world,
        &mut ccm,
        json!({REGION[0]: "fsn1", REGION[1]: "fsn1"}),
    )
    .await;
    // The deprecated one is edited: the current one follows.
    change(json!({TYPE[0]: "cx99"})).await;
    labels_become(&world, &mut ccm, json!({TYPE[0]: "cx99", TYPE[1]: "cx99"})).await;
    // The deprecated one is removed and the current one edited: the pair is left alone, while others are not.
    change(json!({ZONE[0]: null, ZONE[1]: "mine", REGION[1]: "edited"})).await;
    labels_become(
        &world,
        &mut ccm,
        json!({ZONE[0]: null, ZONE[1]: "mine", REGION[1]: "fsn1"}),
    )
    .await;

    world.stop(ccm).await;
    // Two at first, and one for each of the four edits.
    let writes = world.writes_to("worker-1");
    assert_eq!(writes.len(), 2 + 4, "{writes:#?}");
}
