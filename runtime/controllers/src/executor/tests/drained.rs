//! Whether a node is drained, by what the API server says about its pods.

use ccm_core::node_lifecycle::{LifecycleEffect, LifecycleOutcome};
use serde_json::json;

use super::*;

/// Whether `worker-1` counts as drained by an API server that answers this about its pods, and knows no others.
async fn has_drained(code: u16, answer: Value) -> bool {
    let none = json!({ "metadata": { "resourceVersion": "1" }, "items": [] });
    let of_node = "fieldSelector=spec.nodeName%3Dworker-1";
    let (cluster, settings) = answering_by(move |query| match query.contains(of_node) {
        true => (code, answer.to_string()),
        false => (200, none.to_string()),
    });
    let executor = executor(cluster, &settings);
    let effect = LifecycleEffect::ReadPods(node());
    let mut turn = WritePermit::default();
    let read = executor
        .carry_out(&effect, Priority::Known, &mut turn)
        .await;
    match read {
        Performed::Ended(LifecycleOutcome::Drained(is_drained)) => is_drained,
        other => panic!("{other:?}"),
    }
}

/// A drained node is deleted however many are called gone, and even if it is the last one.
#[tokio::test(start_paused = true)]
async fn a_node_is_drained_only_if_the_api_server_says_that_no_pod_of_it_is_left() {
    let pods = |items: Value| json!({ "metadata": { "resourceVersion": "1" }, "items": items });
    let left = json!([{ "metadata": { "name": "web-1", "namespace": "shop" } }]);
    assert!(has_drained(200, pods(json!([]))).await);
    assert!(!has_drained(200, pods(left)).await);
    for code in [403, 404, 500] {
        let refusal = json!({
            "status": "Failure", "message": "m", "reason": "", "code": code
        });
        assert!(!has_drained(code, refusal).await, "{code}");
    }
}
