//! Plan mode compared with enforce mode: the plan, the writes that enforce mode then makes, and what is recorded of the
//! plan.

use std::collections::BTreeMap;
use std::time::Duration;

use ccm_sim::hetzner::ServerSpec;
use ccm_tests::apiserver::AuditEntry;
use serde_json::{Value, json};

use crate::lifecycle::YOUNG;
use crate::services::{PLACE, Services, load_balancer};
use crate::world::{Setup, World, untainted, until};

const PLAN: &[&str] = &[
    "--mode=plan",
    "--logging-format=json",
    "--node-deletion-not-ready=1s",
];

/// Runs a plan for `duration`: the exit code, and the plan that it printed.
async fn plan(world: &World, duration: &str) -> (Option<i32>, Value) {
    plan_with(world, duration, json!({}), &[]).await
}

/// The same with these values of the provider and further flags.
async fn plan_with(
    world: &World,
    duration: &str,
    values: Value,
    flags: &[&str],
) -> (Option<i32>, Value) {
    let plan_for = format!("--plan-for={duration}");
    let flags = [PLAN, YOUNG, &[&plan_for], flags].concat();
    let mut ccm = world.ccm(&world.configuration(values), &flags);
    let status = ccm.ended(Duration::from_secs(120)).await.unwrap();
    let reported = ccm.output();
    // Log lines are JSON objects, too; the plan is the one with counts.
    let lines = reported
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut plans = lines.filter(|line| line.get("counts").is_some());
    let plan = plans.next_back().unwrap_or_else(|| panic!("{reported}"));
    (status.code(), plan)
}

/// All that is no read.
fn writes(asked: &[AuditEntry]) -> impl Iterator<Item = &AuditEntry> {
    let reads = ["get", "list", "watch"];
    asked
        .iter()
        .filter(move |entry| !reads.contains(&entry.verb.as_str()))
}

/// The first write to each object.
fn first_writes(asked: &[AuditEntry]) -> BTreeMap<String, String> {
    let mut first = BTreeMap::new();
    for entry in writes(asked).filter(|entry| entry.resource == "nodes") {
        let verb = format!("{} {}", entry.verb, entry.subresource);
        let object = format!("node/{}", entry.name);
        first
            .entry(object)
            .or_insert_with(|| verb.trim_end().to_owned());
    }
    first
}

#[tokio::test]
async fn a_plan_says_what_enforce_then_does_and_writes_nothing_not_even_a_lease() {
    let world = World::start(Setup::default()).await;
    let machines = world.machines(3).await;
    world.cloud.add_server(ServerSpec::named("new-1"));
    world.add_node("new-1", json!({})).await;
    world.report("new-1", "True").await;
    world.lose(&machines[0]).await;

    // Two answers that are ten seconds apart, and the passes between them.
    let (code, planned) = plan(&world, "35s").await;
    assert_eq!(code, Some(2), "{planned}");
    let asked = world.asked();
    let writes: Vec<_> = writes(&asked).collect();
    assert!(writes.is_empty(), "{writes:?}");
    let planned: BTreeMap<_, _> = planned["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            let text = |key: &str| one[key].as_str().unwrap().to_owned();
            (text("object"), text("verb"))
        })
        .collect();

    let log = world.file("audit.jsonl", "");
    let path = format!("--audit-log-path={}", log.display());
    let flags = [YOUNG, &["--node-deletion-not-ready=1s", &path]].concat();
    let mut ccm = world.ccm(&world.configuration(json!({})), &flags);
    world
        .nodes_until(
            &mut ccm,
            "one node less and all others initialised",
            |nodes| nodes.len() == 3 && untainted(nodes) == 3,
        )
        .await;
    until(&mut ccm, "a write to every node", async || {
        (first_writes(&world.asked()).len() == 4).then_some(())
    })
    .await;
    world.stop(ccm).await;
    assert_eq!(planned, first_writes(&world.asked()));
    assert_eq!(planned["node/worker-1"], "delete");

    let written = std::fs::read_to_string(&log).unwrap();
    let records: Vec<Value> = written
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let [record] = records.as_slice() else {
        panic!("one node was deleted: {written}");
    };
    assert_eq!(record["kind"], "node-deletion");
    assert_eq!(record["outcome"], "done");
    assert_eq!(record["object"]["name"], "worker-1");
    assert_eq!(record["brake"]["name"], "node-deletion");
    assert_eq!(record["leader"]["transitions"], 0);
    for pointer in [
        "/leader/identity",
        "/object/uid",
        "/reason",
        "/provider/digest",
    ] {
        let text = record.pointer(pointer).and_then(Value::as_str);
        assert!(
            text.is_some_and(|text| !text.is_empty()),
            "{pointer}: {record}"
        );
    }
    assert!(!written.contains(world.token()), "{written}");

    let (code, planned) = plan(&world, "10s").await;
    assert_eq!(code, Some(0), "nothing is left to be done: {planned}");
}

#[tokio::test]
async fn a_plan_reads_as_the_process_and_creates_no_token_of_a_controllers_account() {
    let world = World::start(Setup::default()).await;
    let machines = world.machines(1).await;
    // The last machine goes: the controller asks with a client of its own whether the node was drained.
    let cordon = json!({"spec": {"unschedulable": true}});
    world.change(&machines[0].node, cordon).await;
    world.lose(&machines[0]).await;
    let flags = ["--use-service-account-credentials"];
    let (code, planned) = plan_with(&world, "35s", json!({}), &flags).await;
    assert_eq!(code, Some(2), "{planned}");
    assert_eq!(of(&planned, "node/worker-1"), ["delete"]);
    let asked = world.asked();
    assert!(asked.iter().any(|entry| entry.resource == "pods"));
    let writes: Vec<_> = writes(&asked).collect();
    assert!(writes.is_empty(), "{writes:?}");
}

/// The writes that the plan has for an object: the verb, or method and target.
fn of(plan: &Value, object: &str) -> Vec<String> {
    let changes = plan["changes"].as_array().unwrap().iter();
    let changes = changes.filter(|one| one["object"] == object);
    let what = |one: &Value| match &one["request"] {
        Value::Null => one["verb"].as_str().unwrap().to_owned(),
        request => {
            let text = |key: &str| request[key].as_str().unwrap().to_owned();
            format!("{} {} {}", text("target"), text("method"), text("path"))
        }
    };
    changes.map(what).collect()
}

#[tokio::test]
async fn a_plan_has_requests_to_the_cloud_beside_writes_and_counts_what_is_refused() {
    let world = World::start(Setup::default()).await;
    world.machines(1).await;
    let services = Services::of(&world).await;
    let mut ccm = services.ccm();
    for name in ["lost", "other"] {
        services.create(name, load_balancer(&[80])).await;
        services.has_address(&mut ccm, name).await;
    }
    world.stop(ccm).await;
    let values = json!(BTreeMap::from([PLACE]));
    let (code, nothing) = plan_with(&world, "10s", values.clone(), &[]).await;
    assert_eq!((code, &nothing["empty"]), (Some(0), &json!(true)));

    // No manager runs now: one load balancer is removed, and the other one's algorithm is to change.
    let lost = services.balancer("lost").await.unwrap();
    world
        .cloud
        .remove_load_balancer(lost["id"].as_u64().unwrap());
    let algorithm = |name: &str| json!({"metadata": {"annotations": {"load-balancer.hetzner.cloud/algorithm-type": name}}});
    services
        .change("other", algorithm("least_connections"))
        .await;
    let before = world.cloud.load_balancers();
    let (code, planned) = plan_with(&world, "10s", values.clone(), &[]).await;
    assert_eq!(code, Some(2), "{planned}");
    assert_eq!(
        of(&planned, "service/default/lost"),
        ["api POST /load_balancers"]
    );
    let other = services.balancer("other").await.unwrap();
    let change = format!(
        "api POST /load_balancers/{}/actions/change_algorithm",
        other["id"]
    );
    assert_eq!(of(&planned, "service/default/other"), [change]);
    assert_eq!(world.cloud.load_balancers(), before);

    // A Service that was never reconciled: no pending write hides its plan, and a refusal by the provider is counted.
    services.delete("lost").await;
    services.delete("other").await;
    let mut ccm = services.ccm();
    services.is_gone(&mut ccm, "lost").await;
    services.is_gone(&mut ccm, "other").await;
    world.stop(ccm).await;
    services.create("odd", load_balancer(&[80])).await;
    services.change("odd", algorithm("nonsense")).await;
    let (_, planned) = plan_with(&world, "10s", values.clone(), &[]).await;
    assert_eq!(planned["unsure"][0]["object"], "service/default/odd");
    services.change("odd", algorithm("round_robin")).await;
    let (code, planned) = plan_with(&world, "10s", values, &[]).await;
    assert_eq!(code, Some(2), "{planned}");
    assert_eq!(
        of(&planned, "service/default/odd"),
        ["patch", "api POST /load_balancers"]
    );
}

#[tokio::test]
async fn without_an_api_server_there_is_no_plan() {
    let world = World::start(Setup::default()).await;
    let away = "--master=https://127.0.0.1:1";
    let (code, planned) = plan_with(&world, "3s", json!({}), &[away]).await;
    assert_eq!(code, Some(3), "{planned}");
    assert_eq!(planned["empty"], false);
    assert_eq!(
        planned["why"],
        "https://127.0.0.1:1 cannot be reached (connection refused)"
    );
}
