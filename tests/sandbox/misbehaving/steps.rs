//! The words in which `load_balancers` and `routes` say what is asked of a provider, and what has to come of it.

use std::fmt::Debug;
use std::time::Duration;

use ccm_core::cloud::ProviderError;
use ccm_core::permit::Mode;

use crate::misbehaving::behaviours::{KEPT_BYTES, assert_harmless};
use crate::misbehaving::target::Mood;
use crate::misbehaving::world::PATIENCE;

/// A function of an interface.
pub(crate) trait Function: Copy + Debug {
    /// What it answers.
    type Reply: Debug;

    /// How many changes its permit allows.
    fn changes(self) -> u32;
}

/// What a host has to do about a behaviour.
pub(crate) struct Law<F: Function> {
    /// How the cloud answers, if it is asked.
    pub(crate) cloud: Mood,
    /// The calls, one after the other; each gets the hint of the one before.
    pub(crate) steps: Vec<Step<F>>,
    /// Which requests reach the cloud, all calls together.
    pub(crate) asked: &'static [&'static str],
}

/// One call.
pub(crate) struct Step<F: Function> {
    pub(crate) function: F,
    /// How long its permit holds.
    pub(crate) time: Duration,
    /// What its permit allows.
    pub(crate) mode: Mode,
    /// How many changes its permit allows.
    pub(crate) changes: u32,
    /// What comes of it.
    pub(crate) end: End<F>,
}

/// What comes of a call.
pub(crate) enum End<F: Function> {
    /// It fails with this case of `ProviderError`, and the text says all of this.
    Fails(&'static str, &'static [&'static str]),
    /// It is answered, and the answer is as this function checks.
    Answers(fn(&F::Reply)),
}

/// The function is called, and this is the end of it.
pub(crate) fn answers<F: Function>(function: F, check: fn(&F::Reply)) -> Step<F> {
    step(function, End::Answers(check))
}

/// The function is called, and fails with this case and these words.
pub(crate) fn fails<F: Function>(
    function: F,
    case: &'static str,
    words: &'static [&'static str],
) -> Step<F> {
    step(function, End::Fails(case, words))
}

fn step<F: Function>(function: F, end: End<F>) -> Step<F> {
    Step {
        function,
        time: PATIENCE,
        mode: Mode::Enforce,
        changes: function.changes(),
        end,
    }
}

impl<F: Function> Step<F> {
    /// The permit holds no longer than this.
    pub(crate) fn within(self, time: Duration) -> Step<F> {
        Step { time, ..self }
    }

    /// The permit allows no change, because changes are only planned.
    pub(crate) fn planned(self) -> Step<F> {
        Step {
            mode: Mode::Plan,
            ..self
        }
    }

    /// Checks how the call ended, in the module with this digest.
    pub(crate) fn check(&self, end: &Result<F::Reply, ProviderError>, digest: &str) {
        let function = self.function;
        match (&self.end, end) {
            (End::Answers(check), Ok(reply)) => check(reply),
            (End::Fails(case, words), Err(error)) => {
                let text = error.to_string();
                assert_eq!(error.reason(), *case, "{function:?}: {text}");
                for word in *words {
                    assert!(text.contains(word), "{function:?}: {text:?} lacks {word:?}");
                }
                assert_harmless(&text, KEPT_BYTES + 200);
                // Who did not come to its end is named.
                if ["trapped", "timed-out"].contains(case) {
                    assert!(text.contains(digest), "{text}");
                }
            }
            (_, end) => {
                // Some answers would fill the screen.
                let end: String = format!("{end:?}").chars().take(500).collect();
                panic!("{function:?}: {end}")
            }
        }
    }
}

impl<F: Function> Law<F> {
    /// Nobody is asked anything.
    pub(crate) fn new(steps: impl Into<Vec<Step<F>>>) -> Law<F> {
        Law {
            cloud: Mood::Well,
            steps: steps.into(),
            asked: &[],
        }
    }

    /// These requests reach a cloud of this mood.
    pub(crate) fn asking(self, cloud: Mood, asked: &'static [&'static str]) -> Law<F> {
        Law {
            cloud,
            asked,
            ..self
        }
    }
}
