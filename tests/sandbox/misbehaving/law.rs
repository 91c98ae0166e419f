//! The words in which `behaviours` says what a host has to do about a behaviour. Values only.

use std::time::Duration;

use ccm_core::cloud::FindReply;

use crate::misbehaving::log_lines::Line;
use crate::misbehaving::target::Mood;
use crate::misbehaving::world::PATIENCE;

/// What a host has to do about a behaviour.
pub(crate) struct Law {
    /// What comes of it.
    pub(crate) end: End,
    /// How the cloud answers, if it is asked.
    pub(crate) cloud: Mood,
    /// How long the permit of each call holds.
    pub(crate) time: Duration,
    /// How the guest is called, one call after the other.
    pub(crate) calls: &'static [Call],
    /// How many requests reach the cloud, all calls together.
    pub(crate) requests: usize,
    /// What has to stand in the log.
    pub(crate) log: fn(&[Line]),
}

/// What comes of a behaviour.
pub(crate) enum End {
    /// The guest is not loaded; the error and its causes say all of this.
    NotLoaded(&'static [&'static str]),
    /// Every call fails with this case of `ProviderError`, and the text says all of this.
    Fails(&'static str, &'static [&'static str]),
    /// Every node of every call is `unknown`, and this is how the reason begins.
    Says(&'static str),
    /// Every call is answered, and the answers are as this function checks.
    Answers(fn(&[FindReply])),
}

/// How a guest is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    /// As the controllers do.
    Find,
    /// As before a node is deleted: nothing that was kept may be used.
    FindFresh,
}

impl Law {
    fn new(end: End) -> Law {
        Law {
            end,
            cloud: Mood::Well,
            time: PATIENCE,
            calls: &[Call::Find],
            requests: 0,
            log: |_| {},
        }
    }

    /// The permit holds no longer than this.
    pub(crate) fn within(self, time: Duration) -> Law {
        Law { time, ..self }
    }

    /// Called like this.
    pub(crate) fn called(self, calls: &'static [Call]) -> Law {
        Law { calls, ..self }
    }

    /// So many requests reach a cloud of this mood.
    pub(crate) fn asking(self, cloud: Mood, requests: usize) -> Law {
        Law {
            cloud,
            requests,
            ..self
        }
    }

    /// The log is as this function checks.
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

pub(crate) fn says(beginning: &'static str) -> Law {
    Law::new(End::Says(beginning))
}

pub(crate) fn answers(check: fn(&[FindReply])) -> Law {
    Law::new(End::Answers(check))
}
