//! Whether a node was cordoned and completely drained. Performs no I/O.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Annotation of the kubelet on the mirror pod of a static pod.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// Whether the node's pods, judged by metadata, are only those that `kubectl drain` leaves: pods of DaemonSets and
/// mirrors of static pods. A terminating pod counts as present: nothing proves that it has stopped.
pub fn is_drained<'a>(pods: impl IntoIterator<Item = &'a ObjectMeta>) -> bool {
    pods.into_iter().all(stays)
}

fn stays(pod: &ObjectMeta) -> bool {
    let mut owners = pod.owner_references.iter().flatten();
    let annotations = pod.annotations.as_ref();
    owners.any(|owner| owner.kind == "DaemonSet" && owner.controller == Some(true))
        || annotations.is_some_and(|all| all.contains_key(MIRROR))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::{Value, json};

    use super::*;

    fn owned(kind: &str, controller: bool) -> Value {
        let owner = json!({"apiVersion": "apps/v1", "kind": kind, "name": "o", "uid": "u", "controller": controller});
        json!({"name": "p", "ownerReferences": [owner]})
    }

    #[test]
    fn only_what_drain_leaves_may_be_left() {
        let mirror = json!({"name": "p", "annotations": {MIRROR: "1"}});
        let dying = json!({"name": "p", "deletionTimestamp": "2026-11-21T12:00:00Z"});
        for (pods, expected) in [
            (vec![], true),
            (vec![owned("DaemonSet", true), mirror.clone()], true),
            (vec![owned("DaemonSet", false)], false),
            (vec![mirror, owned("ReplicaSet", true)], false),
            (vec![json!({"name": "naked"})], false),
            (vec![dying], false),
        ] {
            let pods: Vec<ObjectMeta> = serde_json::from_value(json!(pods)).unwrap();
            assert_eq!(is_drained(&pods), expected, "{pods:?}");
        }
    }
}
