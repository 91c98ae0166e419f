//! What is remembered of one node that is NotReady. Decides nothing.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::jiff::Timestamp;

use crate::moment::Moment;
use crate::node::object::uid;
use crate::ownership::stored_provider_id;
use crate::retry::Backoff;

use super::deletion_guard::Held;
use super::survey::Company;

/// A node that is found and NotReady is asked about again: its kubelet has died, or its machine is about to.
pub(super) const FOUND: Backoff = Backoff {
    first: Duration::from_secs(5),
    most: Duration::from_secs(60),
};
/// How long it counts that a provider called a node gone which was not.
const MEMORY: Duration = Duration::from_secs(3600);
/// So many answers in a row that do not count are worth telling: some half a minute.
const UNCOUNTED: u32 = 3;
/// Beyond this, more answers prove no more, and a node that is gone has to go some day.
const MOST_CHANGES: u32 = 4;

/// See the module's documentation.
#[derive(Debug, Clone)]
pub(super) struct NodeHistory {
    pub(super) uid: String,
    provider_id: Option<String>,
    /// Since when it has been NotReady, as far as this process has seen.
    pub(super) not_ready_since: Moment,
    transition: Option<Timestamp>,
    /// Whether it was Ready in the pass before.
    pub(super) was_ready: bool,
    /// How many answers in a row gave no reason to ask sooner.
    pub(super) quiet: u32,
    /// When it is asked about again.
    pub(super) next: Moment,
    /// And when it may be, if somebody else is asked about anyway.
    pub(super) earliest: Moment,
    pub(super) gone: Option<Gone>,
    pub(super) company: Company,
    /// Why the last answers in a row did not count, and how many there were.
    uncounted: Option<(Held, u32)>,
    changes: u32,
    changed: Option<Moment>,
    /// It waits for its initialisation and is young: the node controller asks about it.
    pub(super) is_starting: bool,
    /// It is being asked about, or there is a reconciliation about it.
    pub(super) is_busy: bool,
    /// Of this pass.
    pub(super) finding: Option<Noted>,
    pub(super) past: super::facts::RetainedState,
}

/// What a pass has found out about a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Noted {
    /// It is Ready.
    Back,
    /// Its machine runs.
    Running,
    /// Its machine is switched off.
    ShutDown,
    /// Its machine is called gone; it counts as long as [`NodeHistory::gone`] does.
    Gone,
    /// Again and again the answer does not count: it says that this machine cannot be told, or it is not complete.
    Uncounted,
}

/// An unbroken row of complete answers that call the node gone.
#[derive(Debug, Clone)]
pub(super) struct Gone {
    pub(super) first: Moment,
    pub(super) last: Moment,
    pub(super) answers: u32,
    pub(super) is_fresh: bool,
    /// Whom the first answer found.
    pub(super) found_first: BTreeSet<String>,
    /// Whom the last one found, of those.
    pub(super) known_good: BTreeSet<String>,
}

impl NodeHistory {
    pub(super) fn new(node: &Node, now: Moment) -> NodeHistory {
        NodeHistory {
            uid: uid(node).to_owned(),
            provider_id: stored_provider_id(node).map(str::to_owned),
            not_ready_since: now,
            transition: transition(node),
            was_ready: false,
            quiet: 0,
            next: now,
            earliest: now,
            gone: None,
            company: Company::Everybody,
            uncounted: None,
            changes: 0,
            changed: None,
            is_starting: false,
            is_busy: false,
            finding: None,
            past: super::facts::RetainedState::default(),
        }
    }

    /// Whether this is about `node`: one that was made again, or has got a provider ID since, has a case of its own.
    pub(super) fn is_about(&self, node: &Node) -> bool {
        uid(node) == self.uid && stored_provider_id(node) == self.provider_id.as_deref()
    }

    /// The node is NotReady now. Between two passes it may have been Ready.
    pub(super) fn see(&mut self, node: &Node, now: Moment) {
        let transition = transition(node);
        if transition != self.transition || self.was_ready {
            if self.was_ready {
                self.hurry(now);
            }
            self.was_ready = false;
            self.transition = transition;
            self.not_ready_since = now;
            self.gone = None;
            self.past.braked = None;
        }
    }

    /// An answer does not count, for this reason.
    pub(super) fn is_uncounted(&mut self, held: Held) {
        let before = self.uncounted.take().map_or(0, |(_, before)| before);
        let times = before.saturating_add(1);
        if times >= UNCOUNTED {
            self.finding = Some(Noted::Uncounted);
        }
        self.uncounted = Some((held, times));
    }

    /// An answer counts.
    pub(super) fn counts(&mut self) {
        self.uncounted = None;
        self.company = Company::Everybody;
    }

    /// Why the last answer did not count.
    pub(super) fn uncounted(&self) -> Option<&Held> {
        self.uncounted.as_ref().map(|(held, _)| held)
    }

    /// A complete answer calls it gone, which was asked for at `asked` and came `now`; `found` are the nodes of the
    /// same answer that exist. What lies between two answers is counted from when the one came to when the other was
    /// asked for: look-ups that overlap are one.
    pub(super) fn is_called_gone(
        &mut self,
        asked: Moment,
        now: Moment,
        is_fresh: bool,
        found: &BTreeSet<String>,
    ) {
        match &mut self.gone {
            Some(gone) => {
                gone.last = asked;
                gone.answers = gone.answers.saturating_add(1);
                gone.is_fresh = is_fresh;
                if gone.found_first.is_empty() && !found.is_empty() {
                    // Answers that nobody vouched for have proved nothing: the row begins here.
                    gone.first = now;
                    gone.answers = 1;
                    gone.found_first.clone_from(found);
                }
                gone.known_good = gone.found_first.intersection(found).cloned().collect();
                // Witnesses come and go in a long hold: whoever is found now vouches for the next answer.
                gone.found_first.clone_from(found);
            }
            None => {
                self.gone = Some(Gone {
                    first: now,
                    last: asked,
                    answers: 1,
                    is_fresh,
                    found_first: found.clone(),
                    known_good: BTreeSet::new(),
                });
            }
        }
    }

    /// Somebody was told that the machine exists.
    pub(super) fn is_called_found(&mut self, now: Moment) {
        self.past.braked = None;
        if self.gone.take().is_some() {
            self.changes = self.recent_changes(now).saturating_add(1);
            self.changed = Some(now);
        }
    }

    /// How many answers are enough to believe that it is gone.
    pub(super) fn enough(&self, now: Moment) -> u32 {
        2 + self.recent_changes(now).min(MOST_CHANGES)
    }

    fn recent_changes(&self, now: Moment) -> u32 {
        match self.changed {
            Some(at) if at.after(MEMORY) > now => self.changes,
            Some(_) | None => 0,
        }
    }

    /// Whatever was waited for was about what is over.
    pub(super) fn hurry(&mut self, now: Moment) {
        self.quiet = 0;
        self.next = now;
        self.earliest = now;
    }

    /// The next question, after an answer that gives no reason to hurry.
    pub(super) fn back_off(&mut self, now: Moment) {
        self.quiet = self.quiet.saturating_add(1);
        self.next = now.after(FOUND.after(self.quiet));
        self.earliest = now.after(FOUND.first);
    }
}

/// When the kubelet's readiness changed last, by the node's own account: only whether it differs counts.
pub(super) fn transition(node: &Node) -> Option<Timestamp> {
    let conditions = node.status.as_ref()?.conditions.as_deref()?;
    let ready = conditions.iter().find(|one| one.type_ == "Ready")?;
    ready.last_transition_time.as_ref().map(|time| time.0)
}
