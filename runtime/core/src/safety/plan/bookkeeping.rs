//! Which writes to the cluster are bookkeeping: marks in this project's own domain, which no other program reads.
//!
//! A finalizer, a taint, an address, a provider ID, a label or a condition of any other domain is none: others act on it.

use crate::reconciliation::patch::{NodePatch, ServicePatch};
use crate::well_known::OUR_DOMAIN;

/// Whether the patch writes bookkeeping and nothing else.
pub(crate) fn is_all_of_node(patch: &NodePatch) -> bool {
    let NodePatch {
        uid: _,
        resource_version: _,
        provider_id,
        labels,
        taints,
    } = patch;
    provider_id.is_none() && taints.is_none() && labels.keys().all(|key| is_ours(key))
}

/// Whether the patch writes bookkeeping and nothing else.
pub(crate) fn is_all_of_service(patch: &ServicePatch) -> bool {
    let ServicePatch {
        uid: _,
        finalizer,
        annotations,
        status,
        conditions,
    } = patch;
    let has_only_ours = annotations.keys().all(|key| is_ours(key));
    let mut conditions = conditions.iter();
    let are_good = conditions.all(|one| is_ours(&one.type_) && one.status == "True");
    finalizer.is_none() && status.is_none() && has_only_ours && are_good
}

fn is_ours(key: &str) -> bool {
    let domain = key.split_once('/').map(|(domain, _)| domain);
    domain == Some(OUR_DOMAIN)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
    use k8s_openapi::jiff::Timestamp;

    use super::*;
    use crate::cloud::load_balancer::LoadBalancerStatus;
    use crate::reconciliation::patch::{FinalizerChange, TaintChange, Taints};
    use crate::well_known::{LOAD_BALANCER_CONDITION, OWNER_LABEL, PORTS_CONDITION, SERVICE_OWNER};

    fn labels(keys: &[&str]) -> BTreeMap<String, String> {
        let pair = |key: &&str| ((*key).to_owned(), "x".to_owned());
        keys.iter().map(pair).collect()
    }

    fn condition(kind: &str, status: &str) -> Condition {
        Condition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            reason: String::new(),
            message: String::new(),
            last_transition_time: Time(Timestamp::UNIX_EPOCH),
            observed_generation: None,
        }
    }

    #[test]
    fn of_a_node_only_labels_of_our_own_are_bookkeeping() {
        let own = NodePatch {
            labels: labels(&[OWNER_LABEL]),
            ..NodePatch::default()
        };
        assert!(is_all_of_node(&own));
        let taints = Taints {
            resource_version: String::new(),
            taints: Vec::new(),
            change: TaintChange::Removed("uninitialized"),
        };
        for more in [
            NodePatch {
                labels: labels(&[OWNER_LABEL, "topology.kubernetes.io/region"]),
                ..own.clone()
            },
            NodePatch {
                labels: labels(&["not-wasm-ccm.dev/provider"]),
                ..own.clone()
            },
            NodePatch {
                provider_id: Some("hcloud://1".to_owned()),
                ..own.clone()
            },
            NodePatch {
                taints: Some(taints),
                ..own
            },
        ] {
            assert!(!is_all_of_node(&more), "{more:?}");
        }
    }

    #[test]
    fn of_a_service_only_our_annotations_and_good_news_in_our_condition_are() {
        let mut own = ServicePatch::new("u");
        own.annotations
            .insert(SERVICE_OWNER.to_owned(), Some("hcloud".to_owned()));
        own.conditions
            .push(condition(LOAD_BALANCER_CONDITION, "True"));
        assert!(is_all_of_service(&own));
        let with = |change: fn(&mut ServicePatch)| {
            let mut patch = own.clone();
            change(&mut patch);
            patch
        };
        for more in [
            with(|patch| patch.finalizer = Some(FinalizerChange::Add(Vec::new()))),
            with(|patch| patch.status = Some(LoadBalancerStatus::default())),
            with(|patch| patch.conditions.push(condition(PORTS_CONDITION, "True"))),
            with(|patch| {
                patch
                    .conditions
                    .push(condition(LOAD_BALANCER_CONDITION, "False"))
            }),
            with(|patch| {
                patch.annotations.insert("example.com/a".to_owned(), None);
            }),
        ] {
            assert!(!is_all_of_service(&more), "{more:?}");
        }
    }
}
