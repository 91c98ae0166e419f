//! What is known about other allocators, asked about them and told of them, as values.

use crate::cloud::instance::{CloudEvent, EventType};
use crate::event::reasons;
use crate::moment::Moment;

/// Event reason of this project when another allocator was found.
const STANDS_BACK: &str = reasons::OTHER_POD_CIDR_ALLOCATOR;
/// Event reason of this project when it is gone.
const TAKES_OVER: &str = reasons::POD_CIDR_ALLOCATION_TAKEN_OVER;

/// Whether this manager may allocate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// It is not known whether there is another allocator. Nothing is allocated.
    Watching {
        /// Since when.
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
        /// What shows that.
        evidence: AllocatorEvidence,
        /// When it was last seen to allocate.
        since: Moment,
    },
}

/// What shows that there is another allocator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllocatorEvidence {
    /// The node whose pod CIDRs it wrote.
    pub node: String,
    /// Its field manager.
    pub manager: String,
    /// What has to change until it counts as gone.
    pub bond: Bond,
}

/// What has to change until another allocator counts as gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bond {
    /// It is this holder of kube-controller-manager's Lease, and allocates until the Lease has another holder or none.
    Holder(String),
    /// It is kube-controller-manager, and it is not certain that the present holder of the Lease wrote what was seen. It
    /// is gone when a node waits in vain.
    AnyHolder,
    /// It is a kube-controller-manager that does not hold its Lease. It is gone when a node waits in vain for long.
    NoLease,
    /// It is something else, and gone when a node waits in vain.
    Unknown,
}

/// A question to the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// What kube-controller-manager's Lease says; answered by [`super::OtherAllocator::lease_read`].
    Lease,
    /// Who wrote the pod CIDRs of this node; answered by [`super::OtherAllocator::writer_read`].
    Writer(String, Why),
}

/// Why it is asked who wrote a node's pod CIDRs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// They have appeared, and this process did not write them.
    Appeared,
    /// The node is the youngest one that had pod CIDRs when this process began.
    Youngest,
    /// As far as is known here the node has none, and nobody gives it any.
    Waits,
}

/// Something to be told once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// Nodes wait until it is known whether there is another allocator; the holder of kube-controller-manager's Lease.
    Watches(Option<String>),
    /// kube-controller-manager's Lease may not be read.
    LeaseDenied,
    /// There is another allocator.
    StandsBack(AllocatorEvidence),
    /// The allocator with this field manager is gone; this node waits.
    TakesOver(String, String),
}

impl Bond {
    /// Whether the allocator has lost the Lease that now has this holder.
    pub(super) fn is_broken(&self, holder: &Option<String>) -> bool {
        matches!(self, Bond::Holder(bound) if holder.as_ref() != Some(bound))
    }
}

impl News {
    /// The Event that tells of it, and the name of the node that the Event is about.
    pub fn event(&self) -> Option<(&str, CloudEvent)> {
        let (node, event_type, reason, message) = match self {
            News::Watches(_) | News::LeaseDenied => return None,
            News::StandsBack(AllocatorEvidence { node, manager, .. }) => (
                node,
                EventType::Warning,
                STANDS_BACK,
                format!(
                    "{manager} gave this node its pod CIDRs; while it does, this manager allocates none (--allocate-node-cidrs)"
                ),
            ),
            News::TakesOver(manager, node) => (
                node,
                EventType::Normal,
                TAKES_OVER,
                format!(
                    "{manager} allocates no pod CIDRs any more; this manager does (--allocate-node-cidrs)"
                ),
            ),
        };
        Some((node, CloudEvent::new(event_type, reason, message)))
    }
}
