//! The words in which `load_balancers` says what is asked of a maker of load balancers, and what has to come of it.

use std::time::Duration;

use ccm_core::load_balancer::{
    EnsureReply, Ensured, Found, GetReply, LoadBalancerStatus, Pending, Progress, ProgressReply,
};
use ccm_core::permit::Mode;

use crate::stage::PATIENCE;
use crate::target::Mood;

/// What a host has to do about a behaviour.
pub(crate) struct Law {
    /// How the cloud answers, if it is asked.
    pub(crate) cloud: Mood,
    /// The calls, one after the other; each gets the hint of the one before.
    pub(crate) steps: Vec<Step>,
    /// Which requests reach the cloud, all calls together.
    pub(crate) asked: &'static [&'static str],
}

/// One call.
pub(crate) struct Step {
    pub(crate) function: Function,
    /// How long its permit holds.
    pub(crate) time: Duration,
    /// What its permit allows.
    pub(crate) mode: Mode,
    /// How many changes its permit allows.
    pub(crate) changes: u32,
    /// What comes of it.
    pub(crate) end: End,
}

/// The functions of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Function {
    Ensure,
    UpdateTargets,
    Delete,
    Get,
}

/// What was answered.
#[derive(Debug)]
pub(crate) enum Reply {
    Ensured(EnsureReply),
    Progressed(ProgressReply),
    Got(GetReply),
}

/// What comes of a call.
pub(crate) enum End {
    /// It fails with this case of `ProviderError`, and the text says all of this.
    Fails(&'static str, &'static [&'static str]),
    /// It is answered, and the answer is as this function checks.
    Answers(fn(&Reply)),
}

impl Reply {
    /// The status that `ensure` or `get` answered.
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

    /// When to call again, and with what.
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

    /// Whether `get` says that nothing is there, and whether that proves anything.
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

/// The function is called, and this is the end of it.
pub(crate) fn answers(function: Function, check: fn(&Reply)) -> Step {
    step(function, End::Answers(check))
}

/// The function is called, and fails with this case and these words.
pub(crate) fn fails(
    function: Function,
    case: &'static str,
    words: &'static [&'static str],
) -> Step {
    step(function, End::Fails(case, words))
}

fn step(function: Function, end: End) -> Step {
    Step {
        function,
        time: PATIENCE,
        mode: Mode::Enforce,
        changes: match function {
            Function::Get => 0,
            _ => 3,
        },
        end,
    }
}

impl Step {
    /// The permit holds no longer than this.
    pub(crate) fn within(self, time: Duration) -> Step {
        Step { time, ..self }
    }

    /// The permit allows no change, because changes are only planned.
    pub(crate) fn planned(self) -> Step {
        Step {
            mode: Mode::Plan,
            ..self
        }
    }
}

impl Law {
    /// Nobody is asked anything.
    pub(crate) fn new(steps: impl Into<Vec<Step>>) -> Law {
        Law {
            cloud: Mood::Well,
            steps: steps.into(),
            asked: &[],
        }
    }

    /// These requests reach a cloud of this mood.
    pub(crate) fn asking(self, cloud: Mood, asked: &'static [&'static str]) -> Law {
        Law {
            cloud,
            asked,
            ..self
        }
    }
}
