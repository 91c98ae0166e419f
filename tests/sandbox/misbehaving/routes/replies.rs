//! The calls of a provider of routes, and its answers.

use ccm_core::cloud::load_balancer::{Pending, Progress};
use ccm_core::cloud::route::{ListRoutesReply, RouteReply};

use crate::misbehaving::steps;

/// The functions of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Function {
    List,
    Create,
    Delete,
}

/// The answer of a call.
#[derive(Debug)]
pub(crate) enum Reply {
    Listed(ListRoutesReply),
    Changed(RouteReply),
}

impl steps::Function for Function {
    type Reply = Reply;

    fn changes(self) -> u32 {
        match self {
            Function::List => 0,
            Function::Create | Function::Delete => 3,
        }
    }
}

impl Reply {
    pub(crate) fn listed(&self) -> &ListRoutesReply {
        match self {
            Reply::Listed(listed) => listed,
            Reply::Changed(_) => panic!("no list: {self:?}"),
        }
    }

    pub(crate) fn changed(&self) -> &RouteReply {
        match self {
            Reply::Changed(reply) => reply,
            Reply::Listed(_) => panic!("no change: {self:?}"),
        }
    }

    /// The delay and the hint of a pending answer.
    pub(crate) fn pending(&self) -> &Pending {
        match &self.changed().progress {
            Progress::Pending(pending) => pending,
            Progress::Done => panic!("not pending: {self:?}"),
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.changed().progress == Progress::Done
    }
}
