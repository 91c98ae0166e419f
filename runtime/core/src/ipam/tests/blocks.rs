//! Parsers for ranges and blocks in tests.

use crate::ipam::{CidrSet, Holder};
use ipnet::IpNet;

pub(super) fn cidr(text: &str) -> IpNet {
    text.parse().unwrap()
}

/// Parses `10.0.0.0/8 /24`.
pub(super) fn set(text: &str) -> CidrSet {
    let (cluster, mask) = text.split_once(" /").unwrap();
    CidrSet::new(cidr(cluster), mask.parse().unwrap()).unwrap()
}

pub(super) fn holder(name: &str) -> Holder {
    Holder::Node {
        name: name.into(),
        uid: name.into(),
    }
}

/// The next block for a node of this name; empty when there is none.
pub(super) fn next(set: &mut CidrSet, name: &str) -> String {
    let allocated = set.allocate(&holder(name));
    allocated
        .map(|one| one.block.to_string())
        .unwrap_or_default()
}
