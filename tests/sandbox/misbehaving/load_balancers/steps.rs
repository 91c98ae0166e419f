//! The calls of a provider of load balancers, and its answers.

use ccm_core::cloud::load_balancer::{
    EnsureReply, Ensured, Found, GetReply, LoadBalancerStatus, Pending, Progress, ProgressReply,
};

use crate::misbehaving::steps;

/// The functions of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Function {
    Ensure,
    UpdateTargets,
    Delete,
    Get,
}

/// The answer of a call.
#[derive(Debug)]
pub(crate) enum Reply {
    Ensured(EnsureReply),
    Progressed(ProgressReply),
    Got(GetReply),
}

impl steps::Function for Function {
    type Reply = Reply;

    fn changes(self) -> u32 {
        match self {
            Function::Get => 0,
            _ => 3,
        }
    }
}

impl Reply {
    /// The status in an answer of `ensure` or `get`.
    pub(crate) fn status(&self) -> &LoadBalancerStatus {
        match self {
            Reply::Ensured(EnsureReply {
                ensured: Ensured::Ready(status),
                ..
            })
            | Reply::Got(GetReply {
                found: Found::Present(status),
                ..
            }) => status,
            other => panic!("no status: {other:?}"),
        }
    }

    /// The delay and the hint of a pending answer.
    pub(crate) fn pending(&self) -> &Pending {
        match self {
            Reply::Ensured(EnsureReply {
                ensured: Ensured::Pending(pending),
                ..
            })
            | Reply::Progressed(ProgressReply {
                progress: Progress::Pending(pending),
                ..
            }) => pending,
            other => panic!("not pending: {other:?}"),
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        matches!(
            self,
            Reply::Progressed(ProgressReply {
                progress: Progress::Done,
                ..
            })
        )
    }

    /// Whether `get` found nothing, and whether that proves absence.
    pub(crate) fn absent(&self) -> Option<bool> {
        match self {
            Reply::Got(GetReply {
                found: Found::Absent,
                complete,
            }) => Some(*complete),
            _ => None,
        }
    }
}
