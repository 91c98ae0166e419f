//! State kept between passes, and the course of a pass: the nodes to look up, the meaning of the answers, and the nodes
//! that need action. Performs no I/O.

mod settled;
mod surveys;
mod weigh;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use crate::cloud::error::ProviderError;
use crate::cloud::instance::{FindReply, Lookup};
use crate::moment::Moment;
use crate::node::index::NodeSetVersion;
use crate::node::object::PrunedNode;
use crate::node::ownership::{OwnershipContext, owner};
use crate::reconciliation::effect::When;
use crate::settings::LifecycleRules;

use super::deletion_guard::{Evidence, Held, Seen};
use super::facts::{Facts, Finding};
use super::lookup_verdict::{confirms_provider_id, is_its_machine, power};
use super::mass_outage::MassOutage;
use super::not_ready_history::{FOUND, NodeHistory, Noted};
use super::ready_yet_gone::Contradictions;
use super::remaining_witnesses::LastOfScheme;
use super::survey::{LookupGroup, Survey, scheme};
use super::survey_bisection::Halving;
use super::witness::Witness;
use super::{Now, has_shutdown_key_and_effect};

/// Inputs of one pass: the current state of the cluster.
pub struct Pass<'a> {
    /// All nodes, sorted by name.
    pub nodes: &'a [Arc<PrunedNode>],
    /// The provider's ownership rules.
    pub ownership: &'a Arc<OwnershipContext>,
    /// Limits and options for decisions.
    pub rules: &'a Arc<LifecycleRules>,
    /// When the pass runs.
    pub now: Now,
}

impl Pass<'_> {
    fn node(&self, wanted: &str) -> Option<&Arc<PrunedNode>> {
        let place = self.nodes.binary_search_by(|node| node.name().cmp(wanted));
        self.nodes.get(place.ok()?)
    }
}

/// State kept between passes, for as long as the process leads: after a restart every row of answers begins anew, which
/// only costs time.
#[derive(Debug, Default)]
pub struct Memory {
    histories: BTreeMap<String, NodeHistory>,
    /// All nodes, by name.
    witnesses: HashMap<String, Witness>,
    has_seen_all: bool,
    /// The nodes of the last pass.
    passed: Option<NodeSetVersion>,
    contradictions: Contradictions,
    /// Time and rules of the last pass.
    last_pass: Option<(Now, Arc<LifecycleRules>)>,
    mass_outage: MassOutage,
    halving: Halving,
    /// The nodes whose last reconciliation is the last word about them: in the plan, for instance.
    concluded: BTreeSet<String>,
    /// Those that need nothing any more, according to a later answer.
    outdated: Vec<String>,
}

/// Next look-up after a deletion, or one that was withheld; changes arrive by the watch before that.
const LATER: Duration = Duration::from_secs(60);

impl Memory {
    /// Begins a pass: returns the look-ups to send.
    pub fn begin(&mut self, pass: &Pass<'_>) -> Vec<Survey> {
        self.look_around(pass);
        let now = pass.now.moment;
        self.last_pass = Some((pass.now, pass.rules.clone()));
        let mut due = Vec::new();
        for node in pass.nodes {
            // What is planned for a node of another owner is that owner's to conclude, Ready or not.
            if !node.is_unready_or_shut_down() || !owner(node, pass.ownership).is_ours() {
                self.histories.remove(node.name());
                continue;
            }
            if node.is_ready() {
                self.ready(node, now);
                continue;
            }
            if node.is_being_deleted() {
                self.histories.remove(node.name());
                continue;
            }
            let seen = self.seen_since(node, now);
            let history = self.histories.entry(node.name().to_owned());
            let history = history.or_insert_with(|| NodeHistory::new(node, now));
            if !history.is_about(node) {
                *history = NodeHistory::new(node, now);
            }
            history.see(node, now);
            // The node controller looks it up already, and it is too young for anything else.
            let is_starting = node.is_uninitialized() && seen.age(now) < pass.rules.min_age;
            history.is_starting = is_starting;
            if history.next <= now && !history.is_busy && !is_starting {
                due.push(node);
            }
        }
        let histories = &self.histories;
        let outdated = self
            .concluded
            .extract_if(.., |name| !histories.contains_key(name));
        self.outdated.extend(outdated);
        let due = self.with_all_that_are_not_ready(due, pass);
        self.surveys(due, pass)
    }

    /// If a node of a scheme is called gone, adds all NotReady nodes of the scheme to the look-up: one after another
    /// they would not be recognised as a mass.
    fn with_all_that_are_not_ready(
        &mut self,
        due: Vec<&Arc<PrunedNode>>,
        pass: &Pass<'_>,
    ) -> Vec<Arc<PrunedNode>> {
        let now = pass.now.moment;
        let schemes: BTreeSet<Option<&str>> = due
            .iter()
            .copied()
            .filter(|node| self.is_called_gone(node))
            .map(|node| scheme(node))
            .collect();
        let due: BTreeSet<&str> = due.into_iter().map(|node| node.name()).collect();
        let mut asked = Vec::new();
        for node in pass.nodes {
            let Some(history) = self.histories.get_mut(node.name()) else {
                continue;
            };
            let is_along = schemes.contains(&scheme(node))
                && history.earliest <= now
                && !(history.is_busy || history.is_starting || node.is_ready());
            if is_along || due.contains(node.name()) {
                history.is_busy = true;
                asked.push(node.clone());
            }
        }
        asked
    }

    /// Drops nodes that no longer exist, and notes new ones.
    fn look_around(&mut self, pass: &Pass<'_>) {
        let has_seen_all = self.has_seen_all;
        let first_seen = |node: &PrunedNode| match has_seen_all {
            true => Seen::new(pass.now.moment),
            false => Seen::before(node, pass.now),
        };
        let mut before = std::mem::take(&mut self.witnesses);
        self.witnesses.reserve(pass.nodes.len());
        for node in pass.nodes {
            let known = before.remove(node.name());
            let known = known.filter(|one| one.uid == node.uid());
            let witness = known.unwrap_or_else(|| Witness::new(node, first_seen(node)));
            self.witnesses.insert(node.name().to_owned(), witness);
        }
        self.has_seen_all = self.has_seen_all || !pass.nodes.is_empty();
        let witnesses = &self.witnesses;
        self.histories
            .retain(|name, _| witnesses.contains_key(name));
        let is_there =
            |name: &str, uid: &str| witnesses.get(name).is_some_and(|one| one.uid == uid);
        self.contradictions.retain(is_there);
    }

    /// LIFE-005: the only action for a Ready node is to remove the shutdown taint.
    fn ready(&mut self, node: &PrunedNode, now: Moment) {
        if !node.taints().iter().any(has_shutdown_key_and_effect) {
            self.histories.remove(node.name());
            return;
        }
        let history = self.histories.entry(node.name().to_owned());
        let history = history.or_insert_with(|| NodeHistory::new(node, now));
        if !history.is_about(node) {
            *history = NodeHistory::new(node, now);
        }
        history.gone = None;
        if !history.was_ready {
            history.was_ready = true;
            history.reset_backoff(now);
        }
        if history.next <= now && !history.is_busy {
            history.finding = Some(Noted::Other(Finding::Back));
        }
    }

    /// Takes the answer to a look-up, received at `at`.
    pub fn absorb(
        &mut self,
        survey: &Survey,
        answer: &Result<FindReply, ProviderError>,
        at: Moment,
    ) {
        let asked = survey.about.len() + survey.witnesses.len();
        let reply = match answer {
            Ok(reply) if reply.lookups.len() == asked => reply,
            Ok(_) | Err(_) => return self.absorb_failed_lookup(survey, answer.as_ref().err(), at),
        };
        let is_unknown = |lookup: &Lookup| matches!(lookup, Lookup::Unknown(_));
        // A witness that cannot be identified proves nothing, and invalidates nothing.
        let mut about = reply.lookups.iter().take(survey.about.len());
        let is_complete = reply.complete && !about.any(is_unknown);
        let answers: Vec<(&Arc<PrunedNode>, &Lookup)> =
            survey.nodes().zip(&reply.lookups).collect();
        self.halving.answered(survey);
        let found = answers
            .iter()
            .filter(|(node, lookup)| confirms_provider_id(node, lookup))
            .map(|(node, _)| node.name().to_owned());
        let found: Arc<BTreeSet<String>> = Arc::new(found.collect());
        for (node, lookup) in &answers[survey.about.len()..] {
            self.absorb_witness(node, lookup, is_complete, at);
        }
        if !is_complete {
            self.interrupt_mass(survey, at);
        }
        for (node, lookup) in &answers[..survey.about.len()] {
            self.absorb_answer(survey, node, lookup, is_complete, &found, at);
        }
        for (node, _) in &answers {
            self.was_looked_up(node, found.contains(node.name()));
        }
    }

    /// No answer, or one of the wrong length: nothing is learned about any node (LIFE-007).
    fn absorb_failed_lookup(&mut self, survey: &Survey, error: Option<&ProviderError>, at: Moment) {
        let asked_for = match error {
            Some(ProviderError::Throttled { retry_after, .. }) => *retry_after,
            _ => None,
        };
        self.interrupt_mass(survey, at);
        let has_crashed = error.is_some_and(ProviderError::is_crash);
        let is_halved = has_crashed && self.halving.crashed(survey);
        if has_crashed {
            // One of these may be the cause.
            for witness in &survey.witnesses {
                self.was_looked_up(witness, false);
            }
        }
        for node in &survey.about {
            let history = self.histories.get_mut(node.name());
            if let Some(history) = history.filter(|history| history.is_about(node)) {
                history.is_busy = false;
                if history.was_ready {
                    continue;
                }
                match is_halved {
                    true => history.next = at.after(FOUND.first),
                    false => history.back_off(at),
                }
                if let (true, false, Some(error)) = (has_crashed, is_halved, error) {
                    history.group = LookupGroup::Alone;
                    history.is_uncounted(Held::Unknown(error.to_string()));
                }
                history.next = history.next.max(at.after(asked_for.unwrap_or_default()));
                history.earliest = history.next;
            }
        }
    }

    fn absorb_witness(
        &mut self,
        node: &PrunedNode,
        lookup: &Lookup,
        is_complete: bool,
        at: Moment,
    ) {
        match lookup {
            Lookup::Gone if is_complete && node.is_ready() && self.should_exist(node) => {
                let rules = self.last_pass.as_ref().map(|(_, rules)| rules.mass_hold);
                self.contradictions
                    .note(node, at, rules.unwrap_or_default());
            }
            // The provider was wrong about this machine, so its answers about others meanwhile prove nothing.
            Lookup::Found(_) if self.contradictions.clear(node) => {
                self.histories
                    .values_mut()
                    .for_each(|history| history.is_called_found(at));
            }
            Lookup::Found(_) | Lookup::Gone | Lookup::NotMine | Lookup::Unknown(_) => {}
        }
    }

    /// Whether the cloud must know the machine of a Ready node: it was found before, or is old enough to be listed. The
    /// former alone is not enough, since a new process has found nothing yet.
    fn should_exist(&self, node: &PrunedNode) -> bool {
        let last = self.last_pass.as_ref();
        let is_old = last.is_some_and(|(now, rules)| {
            self.seen_since(node, now.moment).age(now.moment) >= rules.min_age
        });
        is_old || self.witness(node).is_some_and(|one| one.is_known)
    }

    fn was_looked_up(&mut self, node: &PrunedNode, is_found: bool) {
        let witness = self.witnesses.get_mut(node.name());
        if let Some(witness) = witness.filter(|one| one.uid == node.uid()) {
            witness.was_looked_up(is_found);
        }
    }

    fn absorb_answer(
        &mut self,
        survey: &Survey,
        node: &PrunedNode,
        lookup: &Lookup,
        is_complete: bool,
        found: &Arc<BTreeSet<String>>,
        at: Moment,
    ) {
        // An answer about a former node of this name says nothing about this one.
        let history = self.histories.get_mut(node.name());
        let Some(history) = history.filter(|history| history.is_about(node)) else {
            return;
        };
        history.is_busy = false;
        // The answer comes too late, and must not delay the removal of the taint.
        if history.was_ready {
            return;
        }
        history.back_off(at);
        match lookup {
            Lookup::Unknown(why) => {
                history.group = LookupGroup::Unidentified;
                history.is_uncounted(Held::Unknown(why.clone()));
                return;
            }
            Lookup::Gone if !is_complete => {
                // It was identified, and must not wait for those that cannot be.
                if history.group == LookupGroup::Unidentified {
                    history.group = LookupGroup::Identified;
                }
                history.is_uncounted(Held::Incomplete);
                return;
            }
            _ => history.counts(),
        }
        match lookup {
            Lookup::Gone => {
                history.quiet = 0;
                history.is_called_gone(survey.asked, at, survey.is_fresh, found);
                history.finding = Some(Noted::Gone);
            }
            Lookup::Unknown(_) => {}
            Lookup::NotMine => history.is_called_found(at),
            Lookup::Found(instance) => {
                history.is_called_found(at);
                let power = power(instance).filter(|_| is_its_machine(node, instance));
                history.finding = power.map(Noted::Other);
            }
        }
        // No reconciliation follows that could say so.
        if history.finding.is_none() && self.concluded.remove(node.name()) {
            self.outdated.push(node.name().to_owned());
        }
    }

    /// Takes answers that other controllers received: `found` returns when, if ever, an answer last said that the
    /// machine of the node with this name and UID exists. Called only for nodes that are called gone.
    pub fn share_lookup_results(&mut self, found: impl Fn(&str, &str) -> Option<Moment>) {
        for (name, history) in &mut self.histories {
            let Some(first) = history.gone.as_ref().map(|gone| gone.first) else {
                continue;
            };
            if let Some(at) = found(name, &history.uid).filter(|at| first < *at) {
                history.is_called_found(at);
            }
        }
    }

    /// Ends the look-ups of a pass: returns a reconciliation for each node that needs action, by name.
    pub fn facts(&mut self, pass: &Pass<'_>) -> Vec<Facts> {
        self.weigh(pass);
        let contradicted_by = self.contradicted_by(pass);
        let last = LastOfScheme::new(pass, &self.histories);
        let mut reconciliations = Vec::new();
        for node in pass.nodes {
            let seen = self.seen_since(node, pass.now.moment);
            let history = self.histories.get_mut(node.name());
            let Some(history) = history.filter(|history| history.is_about(node)) else {
                continue;
            };
            let finding = match (history.finding.take(), &history.gone) {
                (Some(Noted::Other(finding)), _) => finding,
                (Some(Noted::Gone), Some(gone)) => Finding::Gone(Box::new(Evidence {
                    not_ready_since: history.not_ready_since,
                    seen,
                    gone: gone.clone(),
                    enough: history.enough(pass.now.moment),
                    contradicted_by: contradicted_by.clone(),
                    mass_until: self.mass_outage.until(node.name(), pass.rules.mass_hold),
                    is_last: last.is_last(node),
                })),
                // Another answer has said meanwhile that it exists.
                (Some(Noted::Gone), None) | (None, _) => continue,
            };
            history.is_busy = true;
            reconciliations.push(Facts::new(
                node.clone(),
                pass.ownership.clone(),
                pass.rules.clone(),
                finding,
                history.past.clone(),
            ));
        }
        reconciliations
    }

    fn seen_since(&self, node: &PrunedNode, now: Moment) -> Seen {
        self.witness(node).map_or(Seen::new(now), |one| one.seen)
    }

    fn witness(&self, node: &PrunedNode) -> Option<&Witness> {
        let witness = self.witnesses.get(node.name());
        witness.filter(|one| one.uid == node.uid())
    }

    fn contradicted_by(&self, pass: &Pass<'_>) -> Option<String> {
        let mut contradicted = self.contradicted(pass);
        contradicted.next().map(|node| node.name().to_owned())
    }

    /// Ready nodes that are called gone. After a while such a node counts as a permanent exception.
    fn contradicted<'a>(&'a self, pass: &'a Pass<'_>) -> impl Iterator<Item = &'a Arc<PrunedNode>> {
        let young = self
            .contradictions
            .since(pass.rules.mass_hold, pass.now.moment);
        let nodes = young.filter_map(|other| pass.node(other));
        nodes.filter(|node| node.is_ready())
    }

    /// Stores the result of a reconciliation; `when` says when to look the node up again.
    pub fn conclude(&mut self, facts: &Facts, when: &When, now: Moment) {
        let name = facts.node.name().to_owned();
        let Some(history) = self.histories.get_mut(&name) else {
            // The node has become Ready, or has been deleted, during the reconciliation.
            self.concluded.remove(&name);
            self.outdated.push(name);
            return;
        };
        self.concluded.insert(name);
        if history.uid != facts.node.uid() {
            return;
        }
        history.is_busy = false;
        history.past = facts.left_behind(now);
        match when.after() {
            Some(after) => history.next = now.after(after),
            // Deleted, with the watch event still to come; or withheld by the mode.
            None if matches!(facts.finding, Finding::Gone(_)) => history.next = now.after(LATER),
            None => {}
        }
    }

    /// A look-up or a reconciliation of these nodes panicked and has no result.
    pub fn abandon<'a>(&mut self, names: impl Iterator<Item = &'a str>, now: Moment) {
        for name in names {
            self.mass_outage.interrupt(std::iter::once(name), now);
            if let Some(history) = self.histories.get_mut(name) {
                history.is_busy = false;
                history.finding = None;
                history.back_off(now);
            }
        }
    }
}
