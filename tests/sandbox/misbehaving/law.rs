//! The load_policy in which `behaviours` states the required result of a behaviour. Values only.

use std::time::Duration;

use ccm_core::cloud::FindReply;

use crate::misbehaving::log_lines::Line;
use crate::misbehaving::target::TargetMode;
use crate::misbehaving::world::TIMEOUT;

/// The required result of a behaviour.
pub(crate) struct Law {
    /// The result of each call.
    pub(crate) end: End,
    /// The cloud's way of answering, if it is asked.
    pub(crate) cloud: TargetMode,
    /// How long the permit of each call is valid.
    pub(crate) time: Duration,
    /// The calls, one after the other.
    pub(crate) calls: &'static [Call],
    /// Number of requests that reach the cloud in all calls together.
    pub(crate) requests: usize,
    /// Checks the log lines.
    pub(crate) log: fn(&[Line]),
}

/// The result of a behaviour.
pub(crate) enum End {
    /// The guest is not loaded; the error and its causes contain all of these texts.
    NotLoaded(&'static [&'static str]),
    /// Every call fails with this case of `ProviderError`, and the text contains all of these.
    Fails(&'static str, &'static [&'static str]),
    /// Every node of every call is `unknown`, with a reason that begins like this.
    AnswersText(&'static str),
    /// Every call is answered, and this function checks the answers.
    Answers(fn(&[FindReply])),
}

/// A call of the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    /// A look-up as the controllers make it.
    Find,
    /// A look-up as before a node's deletion: no cached data may be used.
    FindFresh,
}

impl Law {
    fn new(end: End) -> Law {
        Law {
            end,
            cloud: TargetMode::Well,
            time: TIMEOUT,
            calls: &[Call::Find],
            requests: 0,
            log: |_| {},
        }
    }

    /// Limits the validity of the permit.
    pub(crate) fn within(self, time: Duration) -> Law {
        Law { time, ..self }
    }

    /// Sets the calls.
    pub(crate) fn called(self, calls: &'static [Call]) -> Law {
        Law { calls, ..self }
    }

    /// Sets the cloud's mood, and the number of requests that reach it.
    pub(crate) fn asking(self, cloud: TargetMode, requests: usize) -> Law {
        Law {
            cloud,
            requests,
            ..self
        }
    }

    /// Sets the check of the log lines.
    pub(crate) fn logging(self, log: fn(&[Line])) -> Law {
        Law { log, ..self }
    }
}

pub(crate) fn not_loaded(words: &'static [&'static str]) -> Law {
    Law::new(End::NotLoaded(words))
}

pub(crate) fn fails(case: &'static str, words: &'static [&'static str]) -> Law {
    Law::new(End::Fails(case, words))
}

pub(crate) fn answers_text(beginning: &'static str) -> Law {
    Law::new(End::AnswersText(beginning))
}

pub(crate) fn answers(check: fn(&[FindReply])) -> Law {
    Law::new(End::Answers(check))
}
