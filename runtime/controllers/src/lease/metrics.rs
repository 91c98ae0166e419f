//! Leader election metrics, under upstream's names (PROC-047). Holds no logic.

use ccm_metrics::Registration as _;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

type Name = [(&'static str, String); 1];

/// The metrics of all elections of a process. Clones share the same metrics.
#[derive(Debug, Clone)]
pub struct ElectionMetrics {
    master_status: Family<Name, Gauge>,
    slow_path: Family<Name, Counter>,
    /// Whether a Lease that is held makes no leader.
    is_of_a_standby: bool,
}

impl ElectionMetrics {
    /// Creates and registers the metrics.
    pub fn register(registry: &mut Registry) -> ElectionMetrics {
        ElectionMetrics {
            master_status: registry.add(
                "leader_election_master_status",
                "[ALPHA] Whether this process holds the Lease: 1 leader, 0 standby",
                Family::default(),
            ),
            slow_path: registry.add(
                "leader_election_slowpath",
                "[ALPHA] Renewals for which the Lease had to be read again",
                Family::default(),
            ),
            is_of_a_standby: false,
        }
    }

    /// The same metrics for a process that takes the Lease only to record something: it counts as a standby.
    #[must_use]
    pub fn of_a_standby(&self) -> ElectionMetrics {
        ElectionMetrics {
            is_of_a_standby: true,
            ..self.clone()
        }
    }

    pub(crate) fn leads(&self, lease: &str, leads: bool) {
        self.master_status
            .get_or_create(&[("name", lease.to_owned())])
            .set(i64::from(leads && !self.is_of_a_standby));
    }

    pub(crate) fn slow_path(&self, lease: &str) {
        self.slow_path
            .get_or_create(&[("name", lease.to_owned())])
            .inc();
    }
}
