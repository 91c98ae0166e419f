//! What is measured, under upstream's names (NODE section 2.7). Holds no logic and starts no server.

use std::collections::BTreeMap;
use std::time::Duration;

use ccm_core::brake::Brake;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Upstream's buckets for both node histograms: 1 s to about 17 min.
const DELAYS: [f64; 6] = [1.0, 4.0, 16.0, 64.0, 256.0, 1024.0];

/// The controllers' metrics. Clones are the same metrics.
#[derive(Debug, Clone)]
pub struct Metrics {
    taint_removal: Histogram,
    initial_sync: Histogram,
    held: Family<[(&'static str, &'static str); 1], Counter>,
    planned: Family<[(&'static str, &'static str); 1], Gauge>,
    held_deletions: Family<[(&'static str, &'static str); 1], Counter>,
}

impl Default for Metrics {
    /// Metrics that nobody reads: for programs that serve none.
    fn default() -> Metrics {
        Metrics {
            taint_removal: Histogram::new(DELAYS),
            initial_sync: Histogram::new(DELAYS),
            held: Family::default(),
            planned: Family::default(),
            held_deletions: Family::default(),
        }
    }
}

impl Metrics {
    /// Makes the metrics and registers them.
    pub fn register(registry: &mut Registry) -> Metrics {
        let metrics = Metrics::default();
        registry.register(
            "node_controller_cloud_provider_taint_removal_delay_seconds",
            "Seconds from a node's creation until the uninitialized taint was removed",
            metrics.taint_removal.clone(),
        );
        registry.register(
            "node_controller_initial_node_sync_delay_seconds",
            "Seconds from a node's creation until its initialisation was finished",
            metrics.initial_sync.clone(),
        );
        registry.register(
            "ccm_plan_pending",
            "Objects that would be changed if the mode were enforce",
            metrics.planned.clone(),
        );
        registry.register(
            "ccm_brake_held",
            "Changes that were held because a brake's budget was spent",
            metrics.held.clone(),
        );
        registry.register(
            "ccm_node_deletion_held",
            "Deletions of nodes that were held, by the condition that did not hold",
            metrics.held_deletions.clone(),
        );
        metrics
    }

    /// A node's deletion is held by this condition.
    pub(crate) fn held_deletion(&self, condition: &'static str) {
        let labels = [("condition", condition)];
        self.held_deletions.get_or_create(&labels).inc();
    }

    /// So many objects of each kind are in the plan now; of a kind that was there before and is not named, none.
    pub(crate) fn planned(&self, counts: &BTreeMap<&'static str, usize>) {
        for kind in ccm_core::plan::KINDS {
            let count = counts.get(kind).copied().unwrap_or_default();
            let gauge = self.planned.get_or_create(&[("kind", kind)]);
            gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }

    /// A change was held.
    pub(crate) fn held(&self, brake: Brake) {
        self.held.get_or_create(&[("brake", brake.as_str())]).inc();
    }

    /// A node that is `age` old has lost its taint. Its addresses were stored before, so that its
    /// initialisation is finished too; upstream has a write between the two (NODE-044, NODE-046).
    pub(crate) fn initialised(&self, age: Duration) {
        self.taint_removal.observe(age.as_secs_f64());
        self.initial_sync.observe(age.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn node_044_and_046_names_and_buckets_are_upstreams() {
        let mut registry = Registry::default();
        Metrics::register(&mut registry).initialised(Duration::from_secs(5));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for name in [
            "node_controller_cloud_provider_taint_removal_delay_seconds",
            "node_controller_initial_node_sync_delay_seconds",
        ] {
            assert!(text.contains(&format!("# TYPE {name} histogram")), "{text}");
            for (le, count) in [
                ("1.0", 0),
                ("4.0", 0),
                ("16.0", 1),
                ("64.0", 1),
                ("256.0", 1),
                ("1024.0", 1),
            ] {
                assert!(
                    text.contains(&format!("{name}_bucket{{le=\"{le}\"}} {count}")),
                    "{text}"
                );
            }
        }
    }
}
