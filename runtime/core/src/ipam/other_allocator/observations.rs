//! Values about other allocators: the state, its evidence, the questions to the API server, and the changes to report.

use crate::cloud::instance::CloudEvent;
use crate::moment::Moment;
use crate::reconciliation::event::reasons;

/// Whether this manager may allocate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AllocationState {
    /// It is not known whether there is another allocator. Nothing is allocated.
    Watching {
        /// From this moment on, a node that waits in vain is evidence.
        since: Moment,
        /// The holder of kube-controller-manager's Lease.
        holder: Option<String>,
    },
    /// There is no other allocator.
    Alone {
        /// The holder of kube-controller-manager's Lease, which does not allocate.
        beside: Option<String>,
    },
    /// There is another allocator. Nothing is allocated.
    StandingBack {
        /// Evidence of the other allocator.
        evidence: AllocatorEvidence,
        /// When it was last seen to allocate.
        since: Moment,
    },
}

/// Evidence of another allocator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllocatorEvidence {
    /// The node whose pod CIDRs it wrote.
    pub node: String,
    /// The field manager that wrote them.
    pub manager: String,
    /// The condition under which it counts as gone.
    pub condition: GoneCondition,
}

/// The condition under which another allocator counts as gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GoneCondition {
    /// It is this holder of kube-controller-manager's Lease, and allocates until the Lease has another holder or none.
    Holder(String),
    /// It is kube-controller-manager, perhaps an earlier holder of its Lease than the present one. It is gone when a
    /// node waits in vain.
    AnyHolder,
    /// It is a kube-controller-manager that does not hold its Lease. It is gone when a node waits in vain for long.
    NoLease,
    /// It is another program, and gone when a node waits in vain.
    Unknown,
}

/// A question to the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// The content of kube-controller-manager's Lease; answered by [`super::OtherAllocator::lease_read`].
    Lease,
    /// The writer of this node's pod CIDRs; answered by [`super::OtherAllocator::writer_read`].
    Writer(String, Why),
}

/// The reason for asking who wrote a node's pod CIDRs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// Pod CIDRs have appeared that this process did not write.
    Appeared,
    /// The node is the youngest one that had pod CIDRs when this process began.
    Youngest,
    /// The node has no pod CIDRs in the cache, and no allocator seems to serve it.
    Waits,
}

/// A change that is reported once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AllocatorChange {
    /// Nodes wait until another allocator is found or excluded; contains the holder of the Lease.
    Watches(Option<String>),
    /// kube-controller-manager's Lease may not be read.
    LeaseDenied,
    /// There is another allocator.
    StandsBack(AllocatorEvidence),
    /// The allocator with this field manager is gone; the second name is that of the node that waits.
    TakesOver(String, String),
}

impl GoneCondition {
    /// Whether the allocator has lost the Lease that now has this holder.
    pub(super) fn is_broken(&self, holder: &Option<String>) -> bool {
        matches!(self, GoneCondition::Holder(bound) if holder.as_ref() != Some(bound))
    }
}

impl AllocatorChange {
    /// The Event that reports the change, and the name of the node that it is about.
    pub fn event(&self) -> Option<(&str, CloudEvent)> {
        let (node, reason, message) = match self {
            AllocatorChange::Watches(_) | AllocatorChange::LeaseDenied => return None,
            AllocatorChange::StandsBack(AllocatorEvidence { node, manager, .. }) => (
                node,
                reasons::OTHER_POD_CIDR_ALLOCATOR,
                format!(
                    "{manager} gave this node its pod CIDRs; while it does, this manager allocates none (--allocate-node-cidrs)"
                ),
            ),
            AllocatorChange::TakesOver(manager, node) => (
                node,
                reasons::POD_CIDR_ALLOCATION_TAKEN_OVER,
                format!(
                    "{manager} allocates no pod CIDRs any more; this manager does (--allocate-node-cidrs)"
                ),
            ),
        };
        Some((node, reason.event(&message)))
    }
}
