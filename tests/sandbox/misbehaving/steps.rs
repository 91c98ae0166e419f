//! The load_policy in which `load_balancers` and `routes` state the calls of a provider and their required results.

use std::fmt::Debug;
use std::time::Duration;

use ccm_core::cloud::ProviderError;
use ccm_core::safety::permit::Mode;

use crate::misbehaving::behaviours::{KEPT_BYTES, assert_harmless};
use crate::misbehaving::target::TargetMode;
use crate::misbehaving::world::TIMEOUT;

/// A function of an interface.
pub(crate) trait Function: Copy + Debug {
    /// The answer of the function.
    type Reply: Debug;

    /// The number of changes that the function's permit allows.
    fn changes(self) -> u32;
}

/// The required result of a behaviour.
pub(crate) struct Law<F: Function> {
    /// The cloud's way of answering, if it is asked.
    pub(crate) cloud: TargetMode,
    /// The calls, one after the other; each gets the hint of the one before.
    pub(crate) steps: Vec<Step<F>>,
    /// The requests that reach the cloud, of all calls together.
    pub(crate) asked: &'static [&'static str],
}

/// One call and its required result.
pub(crate) struct Step<F: Function> {
    pub(crate) function: F,
    /// How long its permit is valid.
    pub(crate) time: Duration,
    /// The mode of its permit.
    pub(crate) mode: Mode,
    /// The number of changes that its permit allows.
    pub(crate) changes: u32,
    /// The required result.
    pub(crate) end: End<F>,
}

/// The result of a call.
pub(crate) enum End<F: Function> {
    /// It fails with this case of `ProviderError`, and the text contains all of these.
    Fails(&'static str, &'static [&'static str]),
    /// It is answered, and this function checks the answer.
    Answers(fn(&F::Reply)),
}

/// A call of the function that is answered, and the check of the answer.
pub(crate) fn answers<F: Function>(function: F, check: fn(&F::Reply)) -> Step<F> {
    step(function, End::Answers(check))
}

/// A call of the function that fails with this case and these texts.
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
        time: TIMEOUT,
        mode: Mode::Enforce,
        changes: function.changes(),
        end,
    }
}

impl<F: Function> Step<F> {
    /// Limits the validity of the permit.
    pub(crate) fn within(self, time: Duration) -> Step<F> {
        Step { time, ..self }
    }

    /// The permit is one of plan mode, which allows no change.
    pub(crate) fn planned(self) -> Step<F> {
        Step {
            mode: Mode::Plan,
            ..self
        }
    }

    /// Checks the result of the call, in the module with this digest.
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
                // A call without a result names the module.
                if ["trapped", "timed-out"].contains(case) {
                    assert!(text.contains(digest), "{text}");
                }
            }
            (_, end) => {
                // Some answers are too long to show.
                let end: String = format!("{end:?}").chars().take(500).collect();
                panic!("{function:?}: {end}")
            }
        }
    }
}

impl<F: Function> Law<F> {
    /// A law without requests to the cloud.
    pub(crate) fn new(steps: impl Into<Vec<Step<F>>>) -> Law<F> {
        Law {
            cloud: TargetMode::Well,
            steps: steps.into(),
            asked: &[],
        }
    }

    /// Sets the cloud's mood, and the requests that reach it.
    pub(crate) fn asking(self, cloud: TargetMode, asked: &'static [&'static str]) -> Law<F> {
        Law {
            cloud,
            asked,
            ..self
        }
    }
}
