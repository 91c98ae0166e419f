//! The facts of one reconciliation of routes: the routes of one node, or the unwanted routes to one destination.
//! Decides nothing.

use std::sync::Arc;

use ipnet::IpNet;

use super::change::{Change, Doing, End};
use super::condition::{self, Network};
use super::effect::{RouteEffect, RouteOutcome};
use crate::cloud::error::{CallFailure, ProviderError};
use crate::cloud::instance::CloudEvent;
use crate::cloud::route::{
    CloudRoute, CreateRouteRequest, DeleteRouteRequest, RouteReply, RouteTarget,
};
use crate::go_text::duration_text;
use crate::moment::{Moment, Now};
use crate::node::answer_check;
use crate::node::cloud_node::cloud_node;
use crate::node::object::PrunedNode;
use crate::reconciliation::effect::{Answered, BudgetOutcome, ObjectResult, Performed};
use crate::reconciliation::event::reasons;
use crate::reconciliation::patch::NetworkConditionPatch;
use crate::reconciliation::write_refusal::Refusals;
use crate::safety::brake::{Brake, Rise};

/// Maximum re-reads of the node after a conflict in one reconciliation; upstream's number (ROUTE-043).
const MAX_CONFLICTS: u32 = 5;

/// Subject of a reconciliation.
#[derive(Debug, Clone, PartialEq)]
pub enum About {
    /// The routes that this node wants, and its condition.
    Node(Arc<PrunedNode>),
    /// Routes to this destination, which no node wants.
    Destination(IpNet),
}

/// Subject as a map key. Nodes sort before destinations, so that new routes come before removals of old ones.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// Name of the node that wants the routes.
    Node(String),
    /// A destination that no node wants.
    Destination(IpNet),
}

/// The facts of one reconciliation. [`Facts::absorb`] adds to them.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// Subject of the reconciliation.
    pub about: About,
    /// Number of its consecutive failed reconciliations.
    pub failures: u32,
    pub(super) changes: Vec<Change>,
    /// State of the node's routes that this reconciliation does not change; `None`: unknown, or another component's to
    /// report.
    pub(super) rest: Option<Network>,
    /// Number of the node's unchanged routes that exist.
    pub(super) right: usize,
    /// Events to record about the node, in addition to those about the changes.
    pub(super) node_events: Vec<CloudEvent>,
    /// Number of our routes, including those that no node wants; base of the budget.
    pub(super) ours: usize,
    /// When the reconciliation began.
    pub(super) began: Moment,
    /// The provider's generation when the reconciliation was planned.
    pub(super) generation: u64,
    /// Fingerprint of the node when the reconciliation was planned.
    pub(super) fingerprint: u64,
    pub(super) state: ReconcileState,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct ReconcileState {
    pub(super) refusals: Refusals<MAX_CONFLICTS>,
    /// Events of the provider that passed the answer check.
    owed: Vec<CloudEvent>,
    /// Number of Events of [`Facts::next_event`] already recorded.
    recorded_events: usize,
    /// Whether the condition was written, or its write withheld by the mode.
    pub(super) has_written: bool,
    /// The node is gone or recreated: nothing is left to do.
    pub(super) is_over: bool,
}

impl Facts {
    /// Subject of the reconciliation.
    pub fn key(&self) -> Key {
        match &self.about {
            About::Node(node) => Key::Node(node.name().to_owned()),
            About::Destination(destination) => Key::Destination(*destination),
        }
    }

    /// Adds the result of `effect`.
    pub fn absorb(&mut self, effect: &RouteEffect, performed: Performed<RouteOutcome>) {
        match performed {
            Performed::Ended(RouteOutcome::Changed(result)) => self.absorb_change(effect, result),
            Performed::Ended(RouteOutcome::Budget(outcome)) => self.absorb_budget(outcome),
            Performed::Ended(RouteOutcome::Node(result)) => self.absorb_node(effect, result),
            Performed::Ended(RouteOutcome::Event(_)) => self.state.recorded_events += 1,
            Performed::Withheld => self.withhold(effect),
        }
    }

    fn absorb_change(
        &mut self,
        effect: &RouteEffect,
        result: Result<Answered<RouteReply>, CallFailure>,
    ) {
        let removal = match effect {
            RouteEffect::Delete(request) => Some(request.route.clone()),
            _ => None,
        };
        // A removal's events concern no object: the caller of the provider logs them.
        if removal.is_none() {
            let events = match &result {
                Ok(answered) => &answered.reply.events,
                Err(failure) => &failure.events,
            };
            let fit = events.iter().filter_map(answer_check::check_event);
            self.state.owed.extend(fit);
        }
        let makes = self.makes();
        let result = result
            .map(|answered| answered.reply.progress)
            .map_err(|failure| failure.error);
        if let Some(change) = self.current_mut() {
            change.absorb_answer(removal, &result);
            change.end_if_nothing_is_left(makes);
        }
    }

    fn absorb_budget(&mut self, outcome: BudgetOutcome) {
        let now = self.began;
        match (outcome, self.current_mut()) {
            (BudgetOutcome::Failed(error), _) => self.state.refusals.fail(error),
            (BudgetOutcome::Answered(Ok(())), Some(change)) => {
                let removal = change.next_removal().cloned();
                change.attempts.reservation.extend(removal);
            }
            (BudgetOutcome::Answered(Err(free)), Some(change)) => {
                let rises = Rise::next(change.held_since(), now);
                change.end = Some(End::Held(free.min(rises)));
            }
            (BudgetOutcome::Answered(_), None) => {}
        }
    }

    fn absorb_node(&mut self, effect: &RouteEffect, result: ObjectResult<PrunedNode>) {
        let About::Node(known) = &self.about else {
            return;
        };
        let is_read = matches!(effect, RouteEffect::ReadNode(_));
        match result {
            Ok(Some(node)) if node.uid() == known.uid() => {
                self.about = About::Node(Arc::from(node));
                match is_read {
                    true => self.state.refusals.was_read(),
                    false => self.state.has_written = true,
                }
            }
            // Deleted, or recreated under the same name.
            Ok(_) => self.state.is_over = true,
            Err(error) if is_read => self.state.refusals.read_failed(error),
            Err(error) => self.state.refusals.write_failed(error),
        }
    }

    fn withhold(&mut self, effect: &RouteEffect) {
        match effect {
            RouteEffect::PatchCondition(..) => self.state.has_written = true,
            RouteEffect::RecordEvent(..) => self.state.recorded_events += 1,
            _ => {
                if let Some(change) = self.current_mut() {
                    change.end = Some(End::Planned);
                }
            }
        }
    }

    /// Whether a route is created after the removals.
    pub(super) fn makes(&self) -> bool {
        matches!(self.about, About::Node(_))
    }

    /// The first unfinished change.
    pub(super) fn current(&self) -> Option<&Change> {
        self.changes.iter().find(|change| change.end.is_none())
    }

    fn current_mut(&mut self) -> Option<&mut Change> {
        self.changes.iter_mut().find(|change| change.end.is_none())
    }

    /// The next effect for `change`: take budget, remove a route or create one.
    pub(super) fn ask(&self, change: &Change) -> Option<RouteEffect> {
        let destination = change.destination.to_string();
        if let Some(route) = change.next_removal() {
            if !change.is_paid(route) && !self.is_in_the_way(route) {
                let rise = Rise::since(change.held_since(), self.began);
                let brake = Brake::RouteDeletion;
                return Some(RouteEffect::TakeBudget(destination, brake, rise, self.ours));
            }
            return Some(RouteEffect::Delete(Arc::new(DeleteRouteRequest {
                route: route.clone(),
                hint: change.hint(Some(route)),
            })));
        }
        let About::Node(node) = &self.about else {
            return None;
        };
        Some(RouteEffect::Create(Arc::new(CreateRouteRequest {
            node: Arc::new(cloud_node(node)),
            destination_cidr: destination,
            hint: change.hint(None),
        })))
    }

    /// Whether the route leads to nothing and is replaced at once, for a node whose pods are not reachable yet: its
    /// removal cuts off no traffic, and the node waits for it.
    fn is_in_the_way(&self, route: &CloudRoute) -> bool {
        match &self.about {
            About::Node(node) => {
                route.target == RouteTarget::Blackhole && !condition::is_available(node)
            }
            About::Destination(_) => false,
        }
    }

    /// The next Event to record, once all changes have ended.
    pub(super) fn next_event(&self, now: Moment) -> Option<CloudEvent> {
        let failures = self.changes.iter().filter_map(|change| match &change.end {
            Some(End::Failed(Doing::Make, error)) => {
                (!change.attempts.reported.contains(error.reason()))
                    .then(|| self.could_not_create(change, error, now))
            }
            _ => None,
        });
        let owed = self.state.owed.iter().cloned();
        let node_events = self.node_events.iter().cloned();
        owed.chain(failures)
            .chain(node_events)
            .nth(self.state.recorded_events)
            .filter(|_| self.makes())
    }

    /// Text of ROUTE-031, verbatim.
    fn could_not_create(&self, change: &Change, error: &ProviderError, now: Moment) -> CloudEvent {
        let (uid, name) = match &self.about {
            About::Node(node) => {
                let node = node.node_ref();
                (node.uid, node.name)
            }
            About::Destination(_) => Default::default(),
        };
        let took = duration_text(std::time::Duration::from_millis(
            u64::try_from(self.began.until(now).as_millis()).unwrap_or(u64::MAX),
        ));
        let destination = change.destination;
        reasons::FAILED_TO_CREATE_ROUTE.event(&format!(
            "Could not create route {uid} {destination} for node {name} after {took}: {error}"
        ))
    }

    /// The patch of the node's condition, once all changes have ended (ROUTE-040).
    pub(super) fn condition(&self, now: Now) -> Option<NetworkConditionPatch> {
        let About::Node(node) = &self.about else {
            return None;
        };
        if self.state.has_written {
            return None;
        }
        condition::patch(node, self.network()?, now.wall)
    }

    /// State of the node's routes; `None`: unknown, or not known yet.
    pub(super) fn network(&self) -> Option<Network> {
        let is_elsewhere = |change: &Change| change.end == Some(End::Elsewhere);
        if self.right == 0 && !self.changes.is_empty() && self.changes.iter().all(is_elsewhere) {
            return None;
        }
        let network = self.network_once_created()?;
        let pending = self.changes.iter();
        let pending = pending.filter(|change| matches!(change.end, Some(End::Begun(_))));
        // Pending and progressing may end soon; pending without progress may not.
        let is_stalled = |change: &Change| {
            change
                .pending()
                .is_some_and(|(_, stalled_listings)| stalled_listings > 0)
        };
        let (stalled, progressing): (Vec<_>, Vec<_>) =
            pending.partition(|change| is_stalled(change));
        let network = match stalled.is_empty() {
            true => network,
            false => worse(network),
        };
        (progressing.is_empty() || network == Network::Unavailable).then_some(network)
    }

    /// The state of [`Facts::network`] once the pending routes are created.
    pub(super) fn network_once_created(&self) -> Option<Network> {
        self.changes.iter().try_fold(self.rest?, |network, change| {
            match &change.end {
                Some(End::Done | End::Elsewhere | End::Begun(_)) => Some(network),
                Some(End::Held(_)) => Some(worse(network)),
                // A single answer may have been lost.
                Some(End::Failed(..)) if change.attempts.failures == 0 => Some(worse(network)),
                Some(End::Failed(..)) => Some(Network::Unavailable),
                Some(End::More | End::Planned) | None => None,
            }
        })
    }
}

/// Lowers the state by one route that is missing according to one answer.
pub(super) fn worse(network: Network) -> Network {
    match network {
        Network::Available => Network::Doubtful,
        Network::Unavailable | Network::Doubtful => network,
    }
}
