//! A small API server that has nodes and is as strict about them as the real one, and reconciliations against it.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use crate::fixtures;
use crate::ipam::{CidrSet, Facts, IpamEffect, IpamOutcome, Memory, decide, pod_cidrs};
use crate::node::object::PrunedNode;
use crate::reconciliation::effect::{
    ClusterError, Decision, EventOutcome, ObjectResult, Performed, When,
};
use crate::reconciliation::patch::PodCidrsPatch;
use crate::settings::{IpamSettings, OtherAllocatorRules, PodNetwork};

/// Parses `10.0.0.0/16 /24, fd00::/56 /64` and `10.0.0.0/20,fd00::/60`.
pub(super) fn settings(families: &str, services: &str) -> IpamSettings {
    let family = |text: &str| {
        let (cidr, mask) = text.trim().split_once(" /").unwrap();
        PodNetwork {
            cluster_cidr: cidr.parse().unwrap(),
            node_mask: mask.parse().unwrap(),
        }
    };
    let services = services.split(',').filter(|text| !text.is_empty());
    IpamSettings {
        families: families.split(',').map(family).collect(),
        service_cidrs: services.map(|text| text.parse().unwrap()).collect(),
        concurrent_syncs: NonZeroUsize::MIN,
        settle: Duration::ZERO,
        other_allocator: OtherAllocatorRules::default(),
    }
}

pub(super) fn memory(families: &str, services: &str) -> Memory {
    Memory::new(&settings(families, services)).unwrap()
}

/// A node with these pod CIDRs, separated by commas.
pub(super) fn node(name: &str, uid: &str, cidrs: &str) -> PrunedNode {
    let node = fixtures::node(name).uid(uid);
    let cidrs: Vec<&str> = cidrs.split(',').filter(|cidr| !cidr.is_empty()).collect();
    node.pod_cidrs(&cidrs).build()
}

/// The result of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is made, and the answer arrives.
    Made,
    /// It is refused by the API server.
    Refused,
    /// It is not made, and no answer arrives.
    Lost,
    /// It is made, and no answer arrives.
    AnswerLost,
}

/// A small API server.
#[derive(Debug, Clone, Default)]
pub(super) struct Api {
    pub(super) nodes: BTreeMap<String, Arc<PrunedNode>>,
}

impl Api {
    pub(super) fn add(&mut self, node: PrunedNode) {
        self.nodes.insert(node.name().to_owned(), Arc::new(node));
    }

    /// The present node of this name; each creation has its own UID.
    pub(super) fn get(&self, name: &str) -> Option<Arc<PrunedNode>> {
        self.nodes.get(name).cloned()
    }

    /// Patches a node's pod CIDRs: only of exactly this node, and only once.
    pub(super) fn patch(&mut self, name: &str, patch: &PodCidrsPatch) -> ObjectResult<PrunedNode> {
        let Some(node) = self.nodes.get_mut(name) else {
            return Ok(None);
        };
        let is_it = node.uid() == patch.uid;
        let has = pod_cidrs(node);
        if !is_it || !has.is_empty() && has != patch.pod_cidrs {
            let what = "the object has another UID, or the field is immutable".to_owned();
            return Err(ClusterError::Rejected(what));
        }
        *node = Arc::new(self::node(name, &patch.uid, &patch.pod_cidrs.join(",")));
        Ok(Some(Box::new(PrunedNode::clone(node))))
    }

    /// Performs one effect.
    pub(super) fn perform(&mut self, effect: &IpamEffect, fate: Fate) -> Performed<IpamOutcome> {
        Performed::Ended(IpamOutcome::Node(match effect {
            IpamEffect::Read(node) => {
                let read = self.get(&node.name);
                Ok(read.map(|node| Box::new(PrunedNode::clone(&node))))
            }
            IpamEffect::Patch(node, patch) => match fate {
                Fate::Made => self.patch(&node.name, patch),
                Fate::Refused => Err(ClusterError::Denied("not today".to_owned())),
                Fate::Lost => lost_answer(),
                Fate::AnswerLost => {
                    drop(self.patch(&node.name, patch));
                    lost_answer()
                }
            },
            IpamEffect::RecordEvent(..) => {
                let recorded = IpamOutcome::Event(EventOutcome::Recorded);
                return Performed::Ended(recorded);
            }
        }))
    }

    /// Number of blocks that the nodes and the Services have in this range.
    pub(super) fn used(&self, settings: &IpamSettings, family: usize) -> usize {
        let PodNetwork {
            cluster_cidr,
            node_mask,
        } = settings.families[family];
        let set = CidrSet::new(cluster_cidr, node_mask).unwrap();
        let cidrs = self.nodes.values().flat_map(|node| pod_cidrs(node));
        let cidrs = cidrs.filter_map(|text| text.parse().ok());
        let spans = cidrs
            .chain(settings.service_cidrs.iter().copied())
            .filter_map(|cidr| set.span(&cidr));
        let mut used = vec![false; set.size()];
        spans.for_each(|span| used[span.first..=span.last].fill(true));
        used.iter().filter(|one| **one).count()
    }
}

pub(super) fn lost_answer() -> ObjectResult<PrunedNode> {
    Err(ClusterError::Unavailable("no answer".to_owned()))
}

/// Runs a whole reconciliation. Returns the effects and the end.
pub(super) fn reconcile(
    memory: &mut Memory,
    api: &mut Api,
    name: &str,
    fate: Fate,
) -> (Vec<String>, When) {
    let node = api.get(name).unwrap();
    let Some(mut facts) = memory.begin(node) else {
        return (Vec::new(), When::AwaitChange);
    };
    let (done, when) = lead(&mut facts, api, fate);
    memory.conclude(&facts, &when);
    (done, when)
}

/// Runs a reconciliation without its begin and conclusion.
pub(super) fn lead(facts: &mut Facts, api: &mut Api, fate: Fate) -> (Vec<String>, When) {
    let mut done = Vec::new();
    for _ in 0..20 {
        let effects = match decide(facts) {
            Decision::Done(when) => return (done, when),
            Decision::Do(effects) => effects,
        };
        for effect in effects {
            done.push(effect.to_string());
            let outcome = api.perform(&effect, fate);
            let goes_on = outcome.is_success();
            facts.absorb(&effect, outcome);
            if !goes_on {
                break;
            }
        }
    }
    unreachable!("the reconciliation does not end: {done:?}")
}
