//! One trial: the next step of a version that is not active yet, and when it has failed.

use crate::reconciliation::event::reasons;
use std::time::Duration;

use super::candidate::{Candidate, Step, Trying};
use super::decide::{DecisionBuilder, rollout_event};
use super::facts::{RolloutEffect, RolloutFacts, Work};
use super::orders;
use super::plan_comparison::Plans;
use super::record::{MOST_LINES, Phase, Release, Trial, cut};
use super::trial_verdict::Verdict;

impl Step {
    /// Whether the step requires the version to be loaded.
    fn needs_code(&self) -> bool {
        self.trial().is_some()
            || matches!(
                self,
                Step::Compiled | Step::SelfTested | Step::Planned(_) | Step::Asked
            )
    }
}

/// Why the candidate has to be rejected, if it has to.
pub(super) fn verdict(turn: &DecisionBuilder<'_>) -> Option<String> {
    let candidate = turn.facts.candidate.as_ref()?;
    if let Step::Failed(why) = &candidate.step {
        return Some(why.clone());
    }
    match judge(turn, candidate) {
        Verdict::Failed(why) => Some(cut(&why)),
        Verdict::Open | Verdict::Passed => None,
    }
}

fn judge(turn: &DecisionBuilder<'_>, candidate: &Candidate) -> Verdict {
    let RolloutFacts { rules, tally, .. } = turn.facts;
    let elapsed = |trying: &Trying| trying.since.until(turn.now.moment);
    match &candidate.step {
        Step::Shadow(trying) => tally.shadow(rules, elapsed(trying)),
        Step::Canary(trying) => tally.canary(rules, elapsed(trying)),
        Step::Planned(plans) if !may_change(turn, candidate) => {
            plans.excess(rules).map_or(Verdict::Open, Verdict::Failed)
        }
        _ => Verdict::Open,
    }
}

/// The next step of the version to try, if there is one.
pub(super) fn advance(turn: &mut DecisionBuilder<'_>) -> Option<Vec<RolloutEffect>> {
    let facts = turn.facts;
    let wanted = orders::wanted(turn);
    match (&facts.candidate, wanted) {
        (None, None) => None,
        (None, Some(release)) => {
            // If nothing serves, there is no reason to wait.
            let offer = facts.offer.as_ref().filter(|_| facts.serving.is_some());
            let offered = offer.filter(|offer| offer.release.digest == release.digest);
            let settled = offered.map(|offer| offer.since.after(facts.rules.settle));
            if let Some(settled) = settled.filter(|settled| *settled > turn.now.moment) {
                turn.wake_at(Some(settled));
                return None;
            }
            Some(vec![RolloutEffect::Try(release.clone())])
        }
        (Some(candidate), Some(release))
            if candidate.release.digest == release.digest
                && candidate.policy_generation == facts.policy_generation =>
        {
            step(turn, candidate)
        }
        (Some(_), _) => Some(turn.end_trial()),
    }
}

fn step(turn: &mut DecisionBuilder<'_>, candidate: &Candidate) -> Option<Vec<RolloutEffect>> {
    let ready = turn.facts.ready.as_ref();
    let is_ready = ready.is_some_and(|ready| ready.is(&candidate.release.digest));
    if candidate.step.needs_code() && !is_ready {
        return Some(turn.end_trial());
    }
    let release = || candidate.release.clone();
    let next = match &candidate.step {
        Step::Offered => RolloutEffect::Begin(Work::Examine(release())),
        Step::Ungranted(_) | Step::Failed(_) => return None,
        Step::Distrusted(_) => RolloutEffect::Begin(Work::Examine(release())),
        Step::Examined(_) if waits_for_approval(turn, candidate) => return None,
        // With no active version to compare with, it is placed without a trial.
        Step::Examined(_) if turn.facts.serving.is_none() => return None,
        Step::Examined(_) => RolloutEffect::Begin(Work::Compile(release())),
        Step::Compiled => RolloutEffect::Begin(Work::SelfTest(release())),
        Step::SelfTested => RolloutEffect::Begin(Work::Plan(release())),
        Step::Planned(_) if candidate.fits => RolloutEffect::Shadow(release()),
        Step::Planned(_) => RolloutEffect::Begin(Work::Ask(release())),
        Step::Asked => return Some(promote(turn, candidate)),
        Step::Shadow(trying) => {
            let time = turn.facts.rules.shadow_time;
            return watch(turn, candidate, trying, time, |_| {
                vec![RolloutEffect::Canary(release())]
            });
        }
        Step::Canary(trying) => {
            let time = turn.facts.rules.canary_time;
            return watch(turn, candidate, trying, time, |turn| {
                promote(turn, candidate)
            });
        }
    };
    if let Some(failure) = turn.facts.failures.get(&candidate.release.digest)
        && failure.again.is_none_or(|at| at > turn.now.moment)
    {
        turn.wake_at(failure.again);
        return None;
    }
    // Work under way is nearly always the candidate's own; otherwise wait for its end.
    if matches!(next, RolloutEffect::Begin(_)) && turn.facts.work.is_some() {
        return None;
    }
    Some(vec![next])
}

/// Waits for the verdict on a trial, and has the host make calls if there is no traffic.
fn watch(
    turn: &mut DecisionBuilder<'_>,
    candidate: &Candidate,
    trying: &Trying,
    time: Duration,
    passed: impl Fn(&DecisionBuilder<'_>) -> Vec<RolloutEffect>,
) -> Option<Vec<RolloutEffect>> {
    let (now, rules) = (turn.now.moment, turn.facts.rules);
    let end = trying.since.after(time);
    let verdict = judge(turn, candidate);
    let is_silent = turn.facts.tally.is_silent();
    let may_ask = turn.facts.work.is_none();
    let ask = || {
        Some(vec![RolloutEffect::Begin(Work::Ask(
            candidate.release.clone(),
        ))])
    };
    // The host's own calls, which traffic may replace, have to end before; with a window of zero they only begin.
    let is_awaited = match trying.asked {
        None => is_silent,
        Some(_) => !may_ask && !time.is_zero(),
    };
    if verdict == Verdict::Passed && !is_awaited {
        return Some(passed(turn));
    }
    // Once for want of traffic; repeatedly if the window is over without a verdict.
    let first = trying.since.after(rules.quiet.min(time));
    let due = match trying.asked {
        None if is_silent => first,
        None => end,
        Some(asked) => end.max(asked.after(rules.quiet)),
    };
    if due <= now {
        return if may_ask { ask() } else { None };
    }
    turn.wake_at(Some(due));
    turn.wake_at(Some(end).filter(|end| *end > now));
    None
}

fn promote(turn: &DecisionBuilder<'_>, candidate: &Candidate) -> Vec<RolloutEffect> {
    let release = &candidate.release;
    turn.activate(vec![RolloutEffect::Place(release.clone())], release)
}

/// Whether `release` was found to request no more than the recorded active version, or may do so.
pub(super) fn is_admitted(turn: &DecisionBuilder<'_>, release: &Release) -> bool {
    let candidate = turn.facts.candidate.as_ref();
    candidate.is_some_and(|candidate| {
        candidate.release.digest == release.digest
            && candidate.policy_generation == turn.facts.policy_generation
            && matches!(candidate.step, Step::Examined(_))
            && !waits_for_approval(turn, candidate)
    })
}

/// Whether it requests more than the active version without approval.
fn waits_for_approval(turn: &DecisionBuilder<'_>, candidate: &Candidate) -> bool {
    let Step::Examined(wider) = &candidate.step else {
        return false;
    };
    !wider.is_empty()
        && !turn.facts.rules.approve_within_grants
        && !turn.record.is_approved(&candidate.release.digest)
}

/// Whether a person allows it to change what the active version leaves alone.
fn may_change(turn: &DecisionBuilder<'_>, candidate: &Candidate) -> bool {
    let allowed = turn.facts.orders.allow_changes.as_ref();
    allowed.is_some_and(|digest| *digest == candidate.release.digest)
}

/// The trial as recorded.
pub(super) fn shown(turn: &DecisionBuilder<'_>) -> Option<Trial> {
    let Some(candidate) = &turn.facts.candidate else {
        // The trial recorded before a restart, which is about to continue.
        let next = orders::wanted(turn)?;
        let known = turn.record.trial.as_ref();
        return known.filter(|it| it.release.digest == next.digest).cloned();
    };
    let before = turn.record.trial.as_ref();
    let before = before.filter(|trial| trial.release.digest == candidate.release.digest);
    let (phase, lines) = match &candidate.step {
        // After a restart or a change of the load policy it counts as waiting until examined again.
        Step::Offered if before.is_some_and(|trial| trial.phase.is_waiting()) => {
            return before.cloned();
        }
        Step::Offered | Step::Failed(_) => (Phase::Fetched, Vec::new()),
        Step::Distrusted(why) => (Phase::Fetched, vec![why.clone()]),
        Step::Ungranted(lines) => (Phase::WaitsForGrants, lines.clone()),
        Step::Examined(wider) if waits_for_approval(turn, candidate) => {
            (Phase::WaitsForApproval, wider.clone())
        }
        Step::Examined(_) => (Phase::Verified, Vec::new()),
        Step::Compiled => (Phase::Compiled, Vec::new()),
        Step::SelfTested | Step::Asked => (Phase::SelfTested, Vec::new()),
        Step::Planned(plans) => (Phase::SelfTested, seen(*plans)),
        Step::Shadow(trying) => (Phase::Shadow, seen(trying.plans)),
        Step::Canary(trying) => (Phase::Canary, seen(trying.plans)),
    };
    let before = turn.record.trial.as_ref();
    let same = before
        .filter(|trial| trial.phase == phase && trial.release.digest == candidate.release.digest);
    Some(Trial {
        release: candidate.release.clone(),
        phase,
        since: same.map_or(turn.now.wall, |trial| trial.since),
        lines: lines
            .iter()
            .take(MOST_LINES)
            .map(|line| cut(line))
            .collect(),
    })
}

/// Lines about the planned changes, if there are any: also where they are too few to stop the version.
fn seen(plans: Plans) -> Vec<String> {
    plans.shown().into_iter().collect()
}

/// The event for a changed trial, once.
pub(super) fn news(turn: &DecisionBuilder<'_>, after: Option<&Trial>) -> Option<RolloutEffect> {
    let (before, after) = (turn.record.trial.as_ref(), after?);
    let is_told = before.is_some_and(|before| {
        before.release.digest == after.release.digest
            && before.phase == after.phase
            && before.lines == after.lines
    });
    if is_told {
        return None;
    }
    let (reason, what) = match after.phase {
        Phase::WaitsForGrants => (
            reasons::PERMISSIONS_PENDING,
            "is not loaded before the grants, the configuration and this program cover it"
                .to_owned(),
        ),
        Phase::WaitsForApproval => {
            let than = match turn.lost() {
                None => "the version that serves".to_owned(),
                Some((lost, _)) => format!("{}, which cannot be loaded", lost.shown()),
            };
            let what = format!("requests more than {than}, and waits for approval");
            (reasons::PERMISSIONS_PENDING, what)
        }
        Phase::Fetched if !after.lines.is_empty() => {
            (reasons::PROVIDER_DISTRUSTED, "is not trusted".to_owned())
        }
        _ => return None,
    };
    let text = format!(
        "{} {what}: {}",
        after.release.shown(),
        after.lines.join("; ")
    );
    Some(rollout_event(reason, Some(&after.release), &text))
}
