//! People's orders and their effects. An order is removed once carried out, and ignored until its removal is seen.

use super::decide::{DecisionBuilder, Placing, rollout_event};
use super::facts::{Cause, RolloutEffect};
use super::record::{Order, Orders, Release};
use crate::cloud::instance::EventType;
use crate::reconciliation::event::reasons::{self, EventReason};
use crate::well_known::{PAUSE, PIN};

/// Result of following the orders.
pub(super) enum Ordered {
    /// No order requires an effect now.
    Nothing,
    /// Perform these effects.
    Do(Vec<RolloutEffect>),
    /// An order is in progress, and everything else waits for it.
    Waits,
    /// An order cannot be carried out for now. The active version serves meanwhile, and nothing new is tried: the order
    /// would take that back instead.
    Delayed,
}

/// Carries out the orders that have not been carried out yet.
pub(super) fn follow(turn: &mut DecisionBuilder<'_>) -> Ordered {
    match approve(turn)
        .or_else(|| retry(turn))
        .or_else(|| gone_back(turn))
    {
        Some(effects) => Ordered::Do(effects),
        None => roll_back(turn),
    }
}

fn approve(turn: &DecisionBuilder<'_>) -> Option<Vec<RolloutEffect>> {
    let digest = turn.facts.orders.approve.as_ref()?;
    if turn.record.is_approved(digest) {
        return None;
    }
    Some(vec![turn.keep(|record| record.approve(digest))])
}

fn retry(turn: &DecisionBuilder<'_>) -> Option<Vec<RolloutEffect>> {
    let digest = turn.facts.orders.retry.as_ref()?;
    let order = Order::Retry(digest.clone());
    if turn.facts.done.contains(&order) {
        return None;
    }
    let keep = turn.keep(|record| record.rejected.retain(|one| one.digest != *digest));
    Some(vec![keep, RolloutEffect::Clear(order)])
}

/// Whether there is an order to go back that has not been carried out.
fn has_to_go_back(turn: &DecisionBuilder<'_>) -> bool {
    let is_done = turn.record.has_gone_back || turn.facts.done.contains(&Order::RollBack);
    turn.facts.orders.roll_back && !is_done
}

/// Removes the order to go back that another process carried out, and once it is removed records that the next one is
/// another order.
fn gone_back(turn: &DecisionBuilder<'_>) -> Option<Vec<RolloutEffect>> {
    if !turn.record.has_gone_back || turn.facts.done.contains(&Order::RollBack) {
        return None;
    }
    if turn.facts.orders.roll_back {
        return Some(vec![RolloutEffect::Clear(Order::RollBack)]);
    }
    Some(vec![turn.keep(|record| record.has_gone_back = false)])
}

/// Takes back the newest step: the version that answers calls on trial, otherwise the active version.
fn roll_back(turn: &mut DecisionBuilder<'_>) -> Ordered {
    if !has_to_go_back(turn) {
        return Ordered::Nothing;
    }
    let tried = turn.facts.candidate.as_ref();
    if let Some(tried) = tried.filter(|it| it.step.trial().is_some()) {
        return taken_back(turn, turn.end_trial(), &tried.release, None);
    }
    let Some(active) = turn.record.active_release() else {
        return impossible(None, "nothing has served yet");
    };
    let Some(previous) = &turn.record.previous else {
        let why = "no version that served before is known";
        return impossible(Some(active), why);
    };
    if tried.is_some() {
        return Ordered::Do(turn.end_trial());
    }
    match turn.placing(previous) {
        Placing::Do(effects) if matches!(effects.last(), Some(RolloutEffect::Place(_))) => {
            taken_back(turn, effects, active, Some(previous))
        }
        Placing::Do(effects) => Ordered::Do(effects),
        Placing::Loading => Ordered::Waits,
        Placing::SetBack(failure) if failure.cause == Cause::Circumstances => Ordered::Delayed,
        Placing::SetBack(failure) => {
            let why = format!("{} cannot serve: {}", previous.shown(), failure.why);
            impossible(Some(active), &why)
        }
        Placing::Serves => taken_back(turn, Vec::new(), active, Some(previous)),
    }
}

fn taken_back(
    turn: &DecisionBuilder<'_>,
    mut effects: Vec<RolloutEffect>,
    from: &Release,
    to: Option<&Release>,
) -> Ordered {
    effects.push(turn.keep(|record| {
        if let Some(to) = to {
            record.activate(to.clone(), turn.now.wall, None);
        }
        record.reject(from, "a person ordered to go back", true, turn.now.wall);
        record.trial = None;
        record.has_gone_back = true;
    }));
    effects.push(RolloutEffect::Clear(Order::RollBack));
    // Unlike after a trial: nothing needs attention.
    let reason = EventReason {
        event_type: EventType::Normal,
        ..*reasons::PROVIDER_ROLLED_BACK
    };
    let text = format!("{} is taken back, as ordered", from.shown());
    effects.push(rollout_event(&reason, Some(from), &text));
    Ordered::Do(effects)
}

fn impossible(release: Option<&Release>, why: &str) -> Ordered {
    let text = format!("cannot go back: {why}");
    let event = rollout_event(reasons::ROLL_BACK_IMPOSSIBLE, release, &text);
    Ordered::Do(vec![RolloutEffect::Clear(Order::RollBack), event])
}

/// Why the orders keep this version from being the first one, if they do.
pub(super) fn held_back(orders: &Orders, digest: &str) -> Option<String> {
    match &orders.pin {
        _ if orders.pause => Some(format!("no version may begin while {PAUSE} is set")),
        Some(pin) if pin != digest => Some(format!("{PIN} names {pin}")),
        _ => None,
    }
}

/// The version to try, as permitted by the orders.
pub(super) fn wanted<'a>(turn: &DecisionBuilder<'a>) -> Option<&'a Release> {
    let active = turn.record.active_release();
    chosen(turn).filter(|it| active.is_none_or(|active| active.digest != it.digest))
}

/// The version that should serve: the offered or the pinned one.
pub(super) fn chosen<'a>(turn: &DecisionBuilder<'a>) -> Option<&'a Release> {
    let facts = turn.facts;
    if facts.orders.pause {
        return None;
    }
    let offered = facts.offered_release();
    let chosen = match &facts.orders.pin {
        None => offered,
        Some(pin) => {
            let known = offered.into_iter().chain(&turn.record.previous);
            known.into_iter().find(|release| release.digest == *pin)
        }
    };
    chosen.filter(|release| !turn.record.is_rejected(&release.digest))
}

/// An order that names a version by the digest of a registry's manifest instead of the module's.
pub(super) fn misnamed(turn: &DecisionBuilder<'_>) -> Option<String> {
    let (facts, record) = (turn.facts, turn.record);
    let active = record.active_release();
    let offered = facts.offered_release();
    let known = offered.into_iter().chain(active).chain(&record.previous);
    let orders = &facts.orders;
    let named = [
        &orders.pin,
        &orders.approve,
        &orders.retry,
        &orders.allow_changes,
        &orders.allow_downgrade,
    ];
    let named = named.into_iter().flatten();
    let mut pairs = named.flat_map(|digest| known.clone().map(move |release| (digest, release)));
    let (digest, release) = pairs.find(|(digest, release)| {
        let of_manifest = release
            .origin
            .rsplit_once('@')
            .map(|(_, manifest)| manifest);
        of_manifest == Some(digest.as_str()) && release.digest != **digest
    })?;
    Some(format!(
        "{digest} is the digest of a manifest in a registry: an annotation has to name the module's, {}",
        release.digest
    ))
}

/// Why the orders cannot be followed.
pub(super) fn trouble(turn: &DecisionBuilder<'_>) -> Option<String> {
    delayed(turn).or_else(|| unknown_pin(turn))
}

/// Why an order to go back is not carried out yet.
fn delayed(turn: &DecisionBuilder<'_>) -> Option<String> {
    if !has_to_go_back(turn) {
        return None;
    }
    let previous = turn.record.previous.as_ref()?;
    let failure = turn.facts.failures.get(&previous.digest)?;
    Some(format!(
        "going back waits: {} cannot serve yet: {}",
        previous.shown(),
        failure.why
    ))
}

fn unknown_pin(turn: &DecisionBuilder<'_>) -> Option<String> {
    let pin = turn.facts.orders.pin.as_ref()?;
    let active = turn.record.active_release();
    if active.is_some_and(|active| active.digest == *pin) {
        return None;
    }
    if turn.record.is_rejected(pin) {
        return Some(format!("{pin} is pinned, and rejected: retry it"));
    }
    let is_known = wanted(turn).is_some() || turn.facts.orders.pause;
    (!is_known).then(|| format!("{pin} is pinned, and neither offered nor known from before"))
}
