//! The conversation: facts, decision, effects, outcomes, and again.
//!
//! Says what it does in log events of three targets: `decision` (one per effect, with its outcome),
//! `waiting` (why a node is not done, and when it is looked at again), `conversation` (nothing is left to do).
//! A fourth target, `initialised`, is in `node/memory.rs`: how long each node has waited for its initialisation.

use ccm_core::effect::{Decision, Effect, Outcome, When};
use ccm_core::names::NODE_CONTROLLER;
use ccm_core::node::{Facts, decide};
use ccm_core::retry;

use crate::clock::Clock;
use crate::perform::{Door, Lane, Turn};

/// More rounds than any conversation has; reached only by a defect, which then costs one object its turn
/// and not the process its processor.
const MOST_ROUNDS: u32 = 128;

/// How a conversation ended.
pub(crate) struct Conclusion {
    /// When to come back.
    pub(crate) when: When,
    /// What is known at the end; the node may be newer than the cache's.
    pub(crate) facts: Facts,
    /// Whether something was written to the node.
    pub(crate) has_written: bool,
}

/// Holds one conversation about one node.
pub(crate) async fn converse(mut facts: Facts, door: &Door, clock: Clock) -> Conclusion {
    let mut has_written = false;
    let mut turn = Turn::default();
    for _ in 0..MOST_ROUNDS {
        let effects = match decide(&facts, clock.now()) {
            Decision::Done(when) => {
                log_end(&facts, &when);
                return Conclusion {
                    when,
                    facts,
                    has_written,
                };
            }
            Decision::Do(effects) => effects,
        };
        for effect in &effects {
            let lane = Lane::of(&facts.node);
            let outcome = door.perform(effect, lane, &mut turn).await;
            log_effect(&facts, effect, &outcome, lane);
            let goes_on = outcome.is_success();
            has_written |= goes_on && is_write(effect);
            facts.absorb(effect, outcome);
            if !goes_on {
                break;
            }
        }
    }
    let why = format!("the conversation did not end within {MOST_ROUNDS} rounds; this is a defect");
    tracing::error!(object = %object(&facts), "{why}");
    let after = retry::CLOUD.after(facts.past.failures.saturating_add(1));
    Conclusion {
        when: When::Retry { after, why },
        facts,
        has_written,
    }
}

fn is_write(effect: &Effect) -> bool {
    matches!(effect, Effect::PatchNode(..) | Effect::PatchNodeStatus(..))
}

fn object(facts: &Facts) -> String {
    format!(
        "node/{}",
        facts.node.metadata.name.as_deref().unwrap_or_default()
    )
}

fn log_effect(facts: &Facts, effect: &Effect, outcome: &Outcome, lane: Lane) {
    let object = object(facts);
    // A pass over thousands of nodes where nothing changes is not news.
    if lane == Lane::Known && outcome.is_success() && matches!(effect, Effect::Find(_)) {
        tracing::debug!(target: "decision", controller = NODE_CONTROLLER, object, %effect, %outcome);
    } else {
        tracing::info!(target: "decision", controller = NODE_CONTROLLER, object, %effect, %outcome);
    }
}

fn log_end(facts: &Facts, when: &When) {
    let object = object(facts);
    match when {
        When::AwaitChange => {
            tracing::debug!(target: "conversation", controller = NODE_CONTROLLER, object, done = %when);
        }
        When::Blocked { why } | When::Retry { why, .. } | When::NotBefore { why, .. } => {
            let attempt = facts.past.failures.saturating_add(1);
            tracing::info!(target: "waiting", controller = NODE_CONTROLLER, object, why, attempt, done = %when);
        }
    }
}
