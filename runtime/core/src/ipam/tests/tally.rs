//! The counts of blocks: upstream's cases of its metrics, each under its ID in `tests/conformance.md`.

use super::blocks::{cidr, holder, set};
use crate::ipam::BlockCounts;

#[test]
fn ipam_045_only_real_changes_are_counted() {
    let id = "TestCidrSetMetrics/01";
    let mut set = set("10.0.0.0/16 /24");
    let a = holder("a");
    let tries: usize = (0..256)
        .filter_map(|_| set.allocate(&a))
        .map(|one| one.tries)
        .sum();
    assert_eq!((tries, set.used()), (0, 256), "{id}");
    for index in 0..128 {
        let block = set.block(index).unwrap();
        set.release(&block, &a);
        set.release(&block, &a);
    }
    assert_eq!(
        set.tally(),
        BlockCounts {
            allocated: 256,
            released: 128
        },
        "{id}"
    );
    set.release(&cidr("10.0.0.0/16"), &a);
    set.release(&cidr("10.0.0.0/16"), &a);
    assert_eq!(
        set.tally(),
        BlockCounts {
            allocated: 256,
            released: 256
        },
        "{id}"
    );
    set.occupy(&cidr("10.0.0.0/16"), &a);
    set.occupy(&cidr("10.0.0.0/16"), &a);
    assert_eq!(
        set.tally(),
        BlockCounts {
            allocated: 512,
            released: 256
        },
        "{id}"
    );
    set.release(&cidr("10.0.0.0/16"), &a);
    assert_eq!(
        set.tally(),
        BlockCounts {
            allocated: 512,
            released: 512
        },
        "{id}"
    );
}

#[test]
fn ipam_045_the_tries_are_the_used_blocks_that_were_skipped() {
    let id = "TestCidrSetMetricsHistogram/01";
    let mut set = set("10.0.0.0/16 /24");
    // Half of the range is another holder's: 128 blocks are skipped once, and then none.
    set.occupy(&cidr("10.0.0.0/17"), &holder("a"));
    let tries: Vec<usize> = (0..128)
        .filter_map(|_| set.allocate(&holder("b")))
        .map(|one| one.tries)
        .collect();
    assert_eq!(tries.iter().sum::<usize>(), 128, "{id}");
    assert_eq!(tries[0], 128, "{id}");
    assert_eq!(set.used(), 256, "{id}");
    // The search goes past the end and around to the freed block.
    set.release(&cidr("10.0.130.0/24"), &holder("b"));
    let again = set.allocate(&holder("c")).unwrap();
    assert_eq!(
        (again.block, again.tries),
        (cidr("10.0.130.0/24"), 130),
        "{id}"
    );
}

#[test]
fn ipam_045_each_range_counts_for_itself() {
    let id = "TestCidrSetMetricsDual/01";
    let (mut four, mut six) = (set("10.0.0.0/16 /24"), set("2001:db8::/48 /64"));
    for index in 0..256 {
        four.allocate(&holder("a")).unwrap();
        if index % 2 == 0 {
            six.allocate(&holder("a")).unwrap();
        }
    }
    assert_eq!((four.used(), six.used()), (256, 128), "{id}");
    four.release(&cidr("10.0.3.0/24"), &holder("a"));
    assert_eq!(
        (four.tally().released, six.tally().released),
        (1, 0),
        "{id}"
    );
    assert_eq!((four.size(), six.size()), (256, 65536), "{id}");
}
