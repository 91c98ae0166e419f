//! What one reconciliation about routes knows: about those that one node wants, or about those to one destination that
//! nobody wants. Decides nothing.

use std::sync::Arc;

use ipnet::IpNet;
use k8s_openapi::api::core::v1::Node;

use super::change::{Change, Doing, End};
use super::condition::{self, Network};
use crate::answer_check;
use crate::brake::{Brake, Rise};
use crate::cloud::error::ProviderError;
use crate::cloud::instance::CloudEvent;
use crate::cloud_node::cloud_node;
use crate::cloud_route::{
    CloudRoute, CreateRouteRequest, DeleteRouteRequest, RouteReply, RouteTarget,
};
use crate::effect::{Answered, ClusterError, Effect, Outcome, RouteEffect, RouteOutcome};
use crate::moment::Moment;
use crate::moment::Now;
use crate::node::object::node_ref;
use crate::patch::NetworkConditionPatch;
use crate::write_refusal::Refusals;

/// How often a reconciliation reads the node again after a conflict; upstream's number (ROUTE-043).
const MAX_CONFLICTS: u32 = 5;

/// Whom a reconciliation is about.
#[derive(Debug, Clone, PartialEq)]
pub enum About {
    /// The routes that this node wants, and what it says of them.
    Node(Arc<Node>),
    /// Routes to this destination, which nobody wants.
    Destination(IpNet),
}

/// The same, as what is remembered is found by it. Nodes come before destinations: new routes before old ones.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// By name.
    Node(String),
    /// A destination that nobody wants.
    Destination(IpNet),
}

/// The facts of one reconciliation. [`Facts::absorb`] adds to them.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// Whom it is about.
    pub about: About,
    /// How many reconciliations about it have failed in a row.
    pub failures: u32,
    pub(super) changes: Vec<Change>,
    /// How the routes stand that the reconciliation does not change; `None`: it cannot be said, or is not ours to say.
    pub(super) rest: Option<Network>,
    /// How many of them are there.
    pub(super) right: usize,
    /// What people are to be told about the node, besides what comes of the changes.
    pub(super) complaints: Vec<CloudEvent>,
    /// How many routes are ours, those included that nobody wants.
    pub(super) ours: usize,
    /// When it began.
    pub(super) began: Moment,
    /// What the node was like then, in what matters.
    pub(super) fingerprint: u64,
    pub(super) state: ReconcileState,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct ReconcileState {
    pub(super) refusals: Refusals<MAX_CONFLICTS>,
    /// The provider's events that are fit to be recorded.
    owed: Vec<CloudEvent>,
    /// How many of [`Facts::to_tell`] were told.
    told: usize,
    /// Whether the condition was written, or would have been.
    pub(super) has_written: bool,
    /// There is nothing more to say.
    pub(super) is_over: bool,
}

impl Facts {
    /// Whom it is about.
    pub fn key(&self) -> Key {
        match &self.about {
            About::Node(node) => Key::Node(super::name(node).to_owned()),
            About::Destination(destination) => Key::Destination(*destination),
        }
    }

    /// Adds how `effect` ended.
    pub fn absorb(&mut self, effect: &Effect, outcome: Outcome) {
        match outcome {
            Outcome::Route(RouteOutcome::Changed(result)) => self.absorb_change(effect, result),
            Outcome::Budget(result) => self.absorb_budget(effect, result),
            Outcome::Recorded | Outcome::Unrecorded(_) => self.note(effect),
            Outcome::Withheld => self.withhold(effect),
            Outcome::Node(result) => self.absorb_node(effect, result),
            // Effects of other controllers, and of passes.
            Outcome::Route(RouteOutcome::Listed(_))
            | Outcome::Looked(_)
            | Outcome::Surveyed(_)
            | Outcome::VoteCast(..)
            | Outcome::Service(_)
            | Outcome::Deleted
            | Outcome::Drained(_) => {}
        }
    }

    fn absorb_change(
        &mut self,
        effect: &Effect,
        result: Result<Answered<RouteReply>, ProviderError>,
    ) {
        let removal = match effect {
            Effect::Route(RouteEffect::Delete(request)) => Some(request.route.clone()),
            _ => None,
        };
        // Of a removal they are about no object: whoever makes the call logs them.
        if let Ok(answered) = &result
            && removal.is_none()
        {
            let events = answered.reply.events.iter();
            self.state
                .owed
                .extend(events.filter_map(answer_check::check_event));
        }
        let makes = self.makes();
        let result = result.map(|answered| answered.reply.progress);
        if let Some(change) = self.current_mut() {
            change.hear(removal, &result);
            change.end_if_nothing_is_left(makes);
        }
    }

    fn absorb_budget(&mut self, effect: &Effect, result: Result<(), Moment>) {
        let Effect::Route(RouteEffect::TakeBudget(..)) = effect else {
            return;
        };
        let now = self.began;
        if let Some(change) = self.current_mut() {
            match result {
                Ok(()) => change
                    .past
                    .reservation
                    .extend(change.next_removal().cloned()),
                Err(free) => {
                    let rises = Rise::next(change.past.held, now);
                    change.end = Some(End::Held(free.min(rises)));
                }
            }
        }
    }

    fn absorb_node(&mut self, effect: &Effect, result: Result<Option<Box<Node>>, ClusterError>) {
        if let (Effect::Route(RouteEffect::TakeBudget(..)), Err(error)) = (effect, &result) {
            self.state.refusals.fail(error.clone());
            return;
        }
        let About::Node(known) = &self.about else {
            return;
        };
        match result {
            Ok(Some(node)) if node.metadata.uid == known.metadata.uid => {
                self.about = About::Node(Arc::from(node));
                match effect {
                    Effect::ReadNode(_) => self.state.refusals.was_read(),
                    _ => self.state.has_written = true,
                }
            }
            // Gone, or made again under the same name.
            Ok(_) => self.state.is_over = true,
            Err(error) => match effect {
                Effect::ReadNode(_) => self.state.refusals.read_failed(error),
                _ => self.state.refusals.write_failed(error),
            },
        }
    }

    /// Something was said, or would have been.
    fn note(&mut self, effect: &Effect) {
        if let Effect::RecordNodeEvent(..) = effect {
            self.state.told += 1;
        }
    }

    fn withhold(&mut self, effect: &Effect) {
        match effect {
            Effect::PatchNetworkCondition(..) => self.state.has_written = true,
            Effect::Route(_) => {
                if let Some(change) = self.current_mut() {
                    change.end = Some(End::Planned);
                }
            }
            _ => self.note(effect),
        }
    }

    /// Whether routes are made after those that go.
    pub(super) fn makes(&self) -> bool {
        matches!(self.about, About::Node(_))
    }

    /// The change that the reconciliation is at.
    pub(super) fn current(&self) -> Option<&Change> {
        self.changes.iter().find(|change| change.end.is_none())
    }

    fn current_mut(&mut self) -> Option<&mut Change> {
        self.changes.iter_mut().find(|change| change.end.is_none())
    }

    /// What is to be asked of the provider about the change that the reconciliation is at.
    pub(super) fn ask(&self, change: &Change) -> Option<RouteEffect> {
        let destination = change.destination.to_string();
        if let Some(route) = change.next_removal() {
            if !change.is_paid(route) && !self.is_in_the_way(route) {
                let rise = Rise::since(change.past.held, self.began);
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

    /// Whether the route leads to nothing and another one takes its place at once, to a node whose pods were not reached
    /// yet: its removal cuts nobody off, and the node waits for it.
    fn is_in_the_way(&self, route: &CloudRoute) -> bool {
        match &self.about {
            About::Node(node) => {
                route.target == RouteTarget::Blackhole && !condition::is_available(node)
            }
            About::Destination(_) => false,
        }
    }

    /// What people have not been told yet, once all changes have ended.
    pub(super) fn to_tell(&self, now: Moment) -> Option<CloudEvent> {
        let failures = self.changes.iter().filter_map(|change| match &change.end {
            Some(End::Failed(Doing::Make, error)) => (!change.past.told.contains(error.reason()))
                .then(|| self.could_not_create(change, error, now)),
            _ => None,
        });
        let owed = self.state.owed.iter().cloned();
        let complaints = self.complaints.iter().cloned();
        owed.chain(failures)
            .chain(complaints)
            .nth(self.state.told)
            .filter(|_| self.makes())
    }

    /// ROUTE-031, word by word.
    fn could_not_create(&self, change: &Change, error: &ProviderError, now: Moment) -> CloudEvent {
        let (uid, name) = match &self.about {
            About::Node(node) => {
                let node = node_ref(node);
                (node.uid, node.name)
            }
            About::Destination(_) => Default::default(),
        };
        let took = std::time::Duration::from_millis(
            u64::try_from(self.began.until(now).as_millis()).unwrap_or(u64::MAX),
        );
        let destination = change.destination;
        super::warning(
            "FailedToCreateRoute",
            &format!(
                "Could not create route {uid} {destination} for node {name} after {took:?}: {error}"
            ),
        )
    }

    /// What the node's condition has to be, once all changes have ended (ROUTE-040).
    pub(super) fn condition(&self, now: Now) -> Option<NetworkConditionPatch> {
        let About::Node(node) = &self.about else {
            return None;
        };
        if self.state.has_written {
            return None;
        }
        condition::patch(node, self.network()?, now.wall)
    }

    /// How the node's routes stand; `None`: that cannot be said, or not yet.
    pub(super) fn network(&self) -> Option<Network> {
        let mut network = self.rest?;
        let mut is_clear = true;
        let is_elsewhere = |change: &Change| change.end == Some(End::Elsewhere);
        if self.right == 0 && !self.changes.is_empty() && self.changes.iter().all(is_elsewhere) {
            return None;
        }
        for change in &self.changes {
            match &change.end {
                Some(End::Done | End::Elsewhere) => {}
                // One answer may have been lost on its way.
                Some(End::Failed(..)) if change.past.failures == 0 => network = worse(network),
                Some(End::Failed(..)) => network = Network::Unavailable,
                // For ever is not soon.
                Some(End::Begun(_)) if change.past.in_vain == 0 => is_clear = false,
                Some(End::Begun(_) | End::Held(_)) => network = worse(network),
                Some(End::More | End::Planned) | None => return None,
            }
        }
        // What has begun may be over soon.
        (is_clear || network == Network::Unavailable).then_some(network)
    }
}

/// One that is not there by the cloud's account, beside these.
pub(super) fn worse(network: Network) -> Network {
    match network {
        Network::Available => Network::Doubtful,
        Network::Unavailable | Network::Doubtful => network,
    }
}
