//! What one conversation about routes knows: about those that one node wants, or about those to one destination that
//! nobody wants. Decides nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use ipnet::IpNet;
use k8s_openapi::api::core::v1::Node;

use super::condition::{self, Network};
use crate::answer;
use crate::cloud::{CloudEvent, ProviderError};
use crate::cloud_node::cloud_node;
use crate::cloud_route::{CloudRoute, CreateRouteRequest, DeleteRouteRequest, RouteReply};
use crate::effect::{Answered, ClusterError, Effect, Outcome, RouteEffect, RouteOutcome};
use crate::load_balancer::{Pending, Progress};
use crate::node::node_ref;
use crate::node_lifecycle::Now;
use crate::patch::NetworkConditionPatch;
use crate::permit::{Mode, Moment};

/// How often a conversation reads the node again after a conflict; upstream's number (ROUTE-043).
const MAX_CONFLICTS: u32 = 5;

/// How many routes to one destination a conversation removes. Clouds have one, and some may have a few.
const MOST_REMOVALS: usize = 16;

/// Whom a conversation is about.
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

/// What earlier conversations about one destination have left behind.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Past {
    /// How many have failed in a row.
    pub(super) failures: u32,
    /// Since when the cloud has only begun, in an unbroken row of answers.
    pub(super) begun: Option<Moment>,
    /// How many listings there were since, because nothing came of it.
    pub(super) in_vain: u32,
    /// What the last pending call carried.
    pub(super) hint: Option<Hint>,
    /// The routes for whose removal budget was taken.
    pub(super) paid: Vec<Arc<CloudRoute>>,
    /// The kinds of errors that people were told of.
    pub(super) told: BTreeSet<&'static str>,
    /// When it is tried again.
    pub(super) due: Option<Moment>,
    /// Not earlier either when the node changes: the cloud asked for it.
    pub(super) is_firm: bool,
    /// The brake held it.
    pub(super) is_held: bool,
    /// What the node was like then, in what matters.
    pub(super) fingerprint: u64,
}

/// What a pending call carried.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Hint {
    /// Which route it was to remove; none: it was to make one.
    removal: Option<Arc<CloudRoute>>,
    carried: Arc<[u8]>,
}

impl Past {
    /// Whether the cloud is at it, so that it is asked about again at the cloud's own pace and without a listing.
    pub(super) fn is_begun(&self) -> bool {
        self.begun.is_some() && self.in_vain == 0
    }
}

/// What is to be changed about one destination: first some routes go, then one is made.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Change {
    pub(super) destination: IpNet,
    pub(super) remove: Vec<Arc<CloudRoute>>,
    pub(super) past: Past,
    /// How many of `remove` are gone.
    removed: usize,
    /// There are more than one conversation removes.
    has_more: bool,
    pub(super) end: Option<End>,
}

/// How a change ended.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum End {
    /// All is as it has to be.
    Done,
    /// So far; the rest is left to the next conversation.
    More,
    /// The brake is engaged until then.
    Held(Moment),
    /// The cloud has begun.
    Begun(Pending),
    /// The cloud would not.
    Failed(Doing, ProviderError),
    /// The provider makes no route for this node: somebody else does.
    Elsewhere,
    /// Nothing may be changed in this mode.
    Planned,
}

/// What a provider was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doing {
    Make,
    Remove,
}

/// The facts of one conversation. [`Facts::absorb`] adds to them.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// Whom it is about.
    pub about: About,
    /// How many conversations about it have failed in a row.
    pub failures: u32,
    pub(super) changes: Vec<Change>,
    /// How the routes stand that the conversation does not change; `None`: it cannot be said, or is not ours to say.
    pub(super) rest: Option<Network>,
    /// How many of them are there.
    pub(super) right: usize,
    /// What people are to be told about the node, besides what comes of the changes.
    pub(super) complaints: Vec<CloudEvent>,
    /// How many routes are ours.
    pub(super) ours: usize,
    pub(super) mode: Mode,
    /// When it began.
    pub(super) began: Moment,
    /// What the node was like then, in what matters.
    pub(super) fingerprint: u64,
    pub(super) learnt: Learnt,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Learnt {
    conflicts: u32,
    pub(super) read_again: bool,
    suspect: Option<ClusterError>,
    /// What the API server would not do.
    pub(super) trouble: Option<ClusterError>,
    /// The provider's events that are fit to be recorded.
    owed: Vec<CloudEvent>,
    /// How many of [`Facts::to_tell`] were told.
    told: usize,
    /// Whether the condition was written, or would have been.
    pub(super) has_written: bool,
    /// There is nothing more to say.
    pub(super) is_over: bool,
}

impl Change {
    pub(super) fn new(destination: IpNet, mut remove: Vec<Arc<CloudRoute>>, past: Past) -> Change {
        let has_more = remove.len() > MOST_REMOVALS;
        remove.truncate(MOST_REMOVALS);
        Change {
            destination,
            remove,
            past,
            removed: 0,
            has_more,
            end: None,
        }
    }

    /// The same, from where it is now.
    pub(super) fn again(&self, past: Past) -> Change {
        let remove = self.remove.get(self.removed..).unwrap_or_default();
        Change {
            has_more: self.has_more,
            ..Change::new(self.destination, remove.to_vec(), past)
        }
    }

    /// The route that has to go next.
    pub(super) fn next_removal(&self) -> Option<&Arc<CloudRoute>> {
        self.remove.get(self.removed)
    }

    /// Whether budget was taken for its removal.
    pub(super) fn is_paid(&self, route: &Arc<CloudRoute>) -> bool {
        self.past.paid.contains(route)
    }

    /// The routes that are gone.
    pub(super) fn gone(&self) -> &[Arc<CloudRoute>] {
        self.remove.get(..self.removed).unwrap_or_default()
    }

    fn hint(&self, removal: Option<&Arc<CloudRoute>>) -> Option<Arc<[u8]>> {
        let hint = self.past.hint.as_ref();
        let hint = hint.filter(|hint| hint.removal.as_ref() == removal);
        hint.map(|hint| hint.carried.clone())
    }

    fn hear(&mut self, removal: Option<Arc<CloudRoute>>, answer: &Result<Progress, ProviderError>) {
        let is_removal = removal.is_some();
        match answer {
            Ok(Progress::Done) if is_removal => {
                self.removed += 1;
                if self.has_more && self.next_removal().is_none() {
                    self.end = Some(End::More);
                }
            }
            Ok(Progress::Done) => self.end = Some(End::Done),
            Ok(Progress::Pending(pending)) => {
                self.past.hint = pending
                    .hint
                    .clone()
                    .map(|carried| Hint { removal, carried });
                self.end = Some(End::Begun(pending.clone()));
                return;
            }
            Err(ProviderError::Elsewhere) if !is_removal => self.end = Some(End::Elsewhere),
            Err(error) => {
                let doing = if is_removal {
                    Doing::Remove
                } else {
                    Doing::Make
                };
                self.end = Some(End::Failed(doing, error.clone()));
            }
        }
        self.past.hint = None;
    }
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
            Outcome::Recorded => self.note(effect),
            Outcome::Withheld => self.withhold(effect),
            Outcome::Node(result) => self.absorb_node(effect, result),
            // Effects of other controllers, and of passes.
            Outcome::Route(RouteOutcome::Listed(_))
            | Outcome::Looked(_)
            | Outcome::Surveyed(_)
            | Outcome::Conferred(..)
            | Outcome::Service(_)
            | Outcome::Deleted => {}
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
            self.learnt
                .owed
                .extend(events.filter_map(answer::check_event));
        }
        let is_planned = self.mode != Mode::Enforce;
        let makes = self.makes();
        let result = result.map(|answered| answered.reply.progress);
        if let Some(change) = self.current_mut() {
            change.hear(removal, &result);
            // What was refused for the mode alone is as good as made: it is in the plan.
            if is_planned && matches!(change.end, Some(End::Failed(..))) {
                change.end = Some(End::Planned);
            }
            change.end_if_nothing_is_left(makes);
        }
    }

    fn absorb_budget(&mut self, effect: &Effect, result: Result<(), Moment>) {
        let Effect::Route(RouteEffect::TakeBudget(..)) = effect else {
            return;
        };
        if let Some(change) = self.current_mut() {
            match result {
                Ok(()) => change.past.paid.extend(change.next_removal().cloned()),
                Err(free) => change.end = Some(End::Held(free)),
            }
        }
    }

    fn absorb_node(&mut self, effect: &Effect, result: Result<Option<Box<Node>>, ClusterError>) {
        if let (Effect::Route(RouteEffect::TakeBudget(..)), Err(error)) = (effect, &result) {
            self.learnt.trouble = Some(error.clone());
            return;
        }
        let About::Node(known) = &self.about else {
            return;
        };
        match result {
            Ok(Some(node)) if node.metadata.uid == known.metadata.uid => {
                self.about = About::Node(Arc::from(node));
                let learnt = &mut self.learnt;
                match effect {
                    Effect::ReadNode(_) => {
                        learnt.read_again = false;
                        learnt.trouble = learnt.suspect.take();
                    }
                    _ => learnt.has_written = true,
                }
            }
            // Gone, or made again under the same name.
            Ok(_) => self.learnt.is_over = true,
            Err(error) => self.absorb_error(effect, error),
        }
    }

    fn absorb_error(&mut self, effect: &Effect, error: ClusterError) {
        let is_read = matches!(effect, Effect::ReadNode(_));
        let learnt = &mut self.learnt;
        match error {
            ClusterError::Conflict(_) if !is_read && learnt.conflicts < MAX_CONFLICTS => {
                learnt.conflicts += 1;
                learnt.read_again = true;
            }
            // A patch with a UID that is no longer the object's is rejected too.
            ClusterError::Rejected(_) if !is_read => {
                learnt.suspect = Some(error);
                learnt.read_again = true;
            }
            _ => {
                learnt.read_again = false;
                learnt.trouble = Some(error);
            }
        }
    }

    /// Something was said, or would have been.
    fn note(&mut self, effect: &Effect) {
        if let Effect::RecordNodeEvent(..) = effect {
            self.learnt.told += 1;
        }
    }

    fn withhold(&mut self, effect: &Effect) {
        match effect {
            Effect::PatchNetworkCondition(..) => self.learnt.has_written = true,
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

    /// The change that the conversation is at.
    pub(super) fn current(&self) -> Option<&Change> {
        self.changes.iter().find(|change| change.end.is_none())
    }

    fn current_mut(&mut self) -> Option<&mut Change> {
        self.changes.iter_mut().find(|change| change.end.is_none())
    }

    /// What is to be asked of the provider about the change that the conversation is at.
    pub(super) fn ask(&self, change: &Change) -> Option<RouteEffect> {
        let destination = change.destination.to_string();
        if let Some(route) = change.next_removal() {
            if !change.is_paid(route) {
                let brake = crate::brake::Brake::RouteDeletion;
                return Some(RouteEffect::TakeBudget(destination, brake, self.ours));
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

    /// What people have not been told yet, once all changes have ended.
    pub(super) fn to_tell(&self, now: Moment) -> Option<CloudEvent> {
        let failures = self.changes.iter().filter_map(|change| match &change.end {
            Some(End::Failed(Doing::Make, error)) => (!change.past.told.contains(error.reason()))
                .then(|| self.could_not_create(change, error, now)),
            _ => None,
        });
        let owed = self.learnt.owed.iter().cloned();
        let complaints = self.complaints.iter().cloned();
        owed.chain(failures)
            .chain(complaints)
            .nth(self.learnt.told)
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
        if self.learnt.has_written {
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

impl Change {
    fn end_if_nothing_is_left(&mut self, makes: bool) {
        if self.end.is_none() && !makes && self.next_removal().is_none() {
            self.end = Some(End::Done);
        }
    }
}
