//! Metrics of the pod ranges, under upstream's names, one of them with upstream's misspelling (IPAM-045); and whether
//! another allocator is at work.

use std::sync::atomic::AtomicU64;

use ccm_core::ipam::{BlockCounts, CidrSet};
use ccm_metrics::Registration as _;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Upstream's buckets: from one skipped block to a good part of the largest range.
const TRIES: [f64; 5] = [1.0, 5.0, 25.0, 125.0, 625.0];

type ByRange = [(&'static str, String); 1];

/// The metrics of all pod ranges.
#[derive(Debug, Clone)]
pub(crate) struct IpamMetrics {
    allocations: Family<ByRange, Counter>,
    releases: Family<ByRange, Counter>,
    size: Family<ByRange, Gauge>,
    usage: Family<ByRange, Gauge<f64, AtomicU64>>,
    tries: Family<ByRange, Histogram>,
    standing_back: Gauge,
}

impl IpamMetrics {
    pub(super) fn register(registry: &mut Registry) -> IpamMetrics {
        IpamMetrics {
            allocations: registry.add(
                "node_ipam_controller_cidrset_cidrs_allocations",
                "[ALPHA] Blocks of the range that were allocated",
                Family::default(),
            ),
            releases: registry.add(
                "node_ipam_controller_cidrset_cidrs_releases",
                "[ALPHA] Blocks of the range that were released",
                Family::default(),
            ),
            size: registry.add(
                "node_ipam_controller_cirdset_max_cidrs",
                "[ALPHA] Blocks that the range has. The misspelling in the name is upstream's",
                Family::default(),
            ),
            usage: registry.add(
                "node_ipam_controller_cidrset_usage_cidrs",
                "[ALPHA] The part of the range's blocks that is used, from 0 to 1",
                Family::default(),
            ),
            tries: registry.add(
                "node_ipam_controller_cidrset_allocation_tries_per_request",
                "[ALPHA] Used blocks that were skipped until a free one was found",
                Family::new_with_constructor(|| Histogram::new(TRIES)),
            ),
            standing_back: registry.add(
                "ccm_node_ipam_stands_back",
                "Whether another allocator gives nodes their pod CIDRs, so that this one \
                 allocates none: 1 or 0",
                Gauge::default(),
            ),
        }
    }

    /// Records whether this manager allocates nothing because another allocator does.
    pub(crate) fn set_standing_back(&self, is_standing_back: bool) {
        self.standing_back.set(i64::from(is_standing_back));
    }

    /// Updates a range's metrics; `before` is its tally at the last update.
    pub(crate) fn set_blocks(&self, set: &CidrSet, before: BlockCounts) {
        let (labels, now) = (by(set), set.tally());
        let more = |now: usize, before: usize| {
            u64::try_from(now.saturating_sub(before)).unwrap_or_default()
        };
        self.allocations
            .get_or_create(&labels)
            .inc_by(more(now.allocated, before.allocated));
        self.releases
            .get_or_create(&labels)
            .inc_by(more(now.released, before.released));
        let size = i64::try_from(set.size()).unwrap_or(i64::MAX);
        self.size.get_or_create(&labels).set(size);
        // At most 2^24 blocks.
        let part = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
        let usage = part(set.used()) / part(set.size());
        self.usage.get_or_create(&labels).set(usage);
    }

    /// Records an allocation that skipped this number of used blocks.
    pub(crate) fn tried(&self, set: &CidrSet, tries: usize) {
        let tries = f64::from(u32::try_from(tries).unwrap_or(u32::MAX));
        self.tries.get_or_create(&by(set)).observe(tries);
    }
}

fn by(set: &CidrSet) -> ByRange {
    [("clusterCIDR", set.cluster().to_string())]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::metrics::tests::encoded;
    use ccm_core::ipam::Holder;

    #[test]
    fn ipam_045_names_labels_and_buckets_are_upstreams() {
        let mut registry = Registry::default();
        let metrics = IpamMetrics::register(&mut registry);
        let four = CidrSet::new("10.0.0.0/22".parse().unwrap(), 24).unwrap();
        let six = CidrSet::new("fd00::/62".parse().unwrap(), 64).unwrap();
        for mut set in [four, six] {
            let mut before = set.tally();
            set.occupy(&set.block(0).unwrap(), &Holder::Services);
            set.occupy(&set.block(1).unwrap(), &Holder::Services);
            let allocated = set.allocate(&Holder::Services).unwrap();
            metrics.set_blocks(&set, before);
            metrics.tried(&set, allocated.tries);
            before = set.tally();
            set.release(&allocated.block, &Holder::Services);
            metrics.set_blocks(&set, before);
            metrics.set_blocks(&set, set.tally());
        }
        let text = encoded(&registry);
        for range in ["10.0.0.0/22", "fd00::/62"] {
            for (name, labels, value) in [
                ("cidrset_cidrs_allocations_total", "", "3"),
                ("cidrset_cidrs_releases_total", "", "1"),
                ("cirdset_max_cidrs", "", "4"),
                ("cidrset_usage_cidrs", "", "0.5"),
                (
                    "cidrset_allocation_tries_per_request_bucket",
                    "le=\"1.0\",",
                    "0",
                ),
                (
                    "cidrset_allocation_tries_per_request_bucket",
                    "le=\"5.0\",",
                    "1",
                ),
                (
                    "cidrset_allocation_tries_per_request_bucket",
                    "le=\"25.0\",",
                    "1",
                ),
                (
                    "cidrset_allocation_tries_per_request_bucket",
                    "le=\"125.0\",",
                    "1",
                ),
                (
                    "cidrset_allocation_tries_per_request_bucket",
                    "le=\"625.0\",",
                    "1",
                ),
                ("cidrset_allocation_tries_per_request_sum", "", "2.0"),
            ] {
                let line = format!(
                    "node_ipam_controller_{name}{{{labels}clusterCIDR=\"{range}\"}} {value}"
                );
                assert!(
                    text.lines().any(|one| one == line),
                    "{line} is not in {text}"
                );
            }
        }
    }
}
