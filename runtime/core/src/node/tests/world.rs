//! The smallest world for a reconciliation: one node, one answer, and a fixed time.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::cloud::error::ProviderError;
use crate::cloud::instance::{Address, AddressType, Instance, Lookup};
use crate::moment::Moment;
use crate::node::index::Clashes;
use crate::node::object::PrunedNode;
use crate::node::ownership::OwnershipContext;
use crate::node::{Facts, Looked, NodeEffect, NodeOutcome, Proposal, RetainedState, decide};
use crate::reconciliation::effect::{
    BudgetOutcome, ClusterError, Decision, EventOutcome, ObjectResult, Performed, When,
};
use crate::settings::NodeRules;

/// The moment of every reconciliation, unless the world has another one.
pub(super) const NOW: Moment = Moment(Duration::from_secs(1_000));

pub(super) struct World {
    /// The node as the API server has it.
    pub(super) stored: Value,
    /// The provider's answer to every look-up.
    pub(super) answer: Result<Looked, ProviderError>,
    /// When an earlier reconciliation got the answer, if it is recalled.
    pub(super) recalled: Option<Moment>,
    /// Errors for the next writes, in order.
    pub(super) errors: Vec<ClusterError>,
    /// Another writer's change of the node, made before the first write.
    pub(super) meanwhile: Option<fn(&mut Value)>,
    /// Whether the API server no longer has the node, which the cache does not show yet.
    pub(super) is_gone: bool,
    /// Whether writes are withheld, as in plan mode.
    pub(super) withholds: bool,
    /// Whether an admission webhook restores the taint at every write, before the answer.
    pub(super) puts_taint_back: bool,
    pub(super) refresh: bool,
    pub(super) failures: u32,
    pub(super) waiting_since: Option<Moment>,
    /// The proposal of the last reconciliation, and when it was made.
    pub(super) proposal: Option<(Proposal, Moment)>,
    pub(super) is_unanswered: bool,
    /// Budget taken for changes that were refused.
    pub(super) reservation: crate::safety::budget_reservation::BudgetReservation,
    /// Whether the next write is made and its answer is lost.
    pub(super) loses: bool,
    pub(super) rules: NodeRules,
    pub(super) now: Moment,
    /// The answer of every brake.
    pub(super) budget: Result<(), Moment>,
}

/// The course of a reconciliation: its effects, its Events and its end.
pub(super) struct Run {
    pub(super) effects: Vec<String>,
    /// Reason and message of every Event.
    pub(super) events: Vec<(String, String)>,
    pub(super) end: When,
}

/// A node with the taint, the kubelet's host name and nothing else, and a provider that knows its instance.
pub(super) fn world() -> World {
    World {
        stored: json!({
            "metadata": { "name": "node0", "uid": "u0", "resourceVersion": "1" },
            "spec": { "taints": [
                { "key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule" }
            ] },
            "status": { "addresses": [{ "type": "Hostname", "address": "kubelets-name" }] }
        }),
        answer: found(instance()),
        recalled: None,
        errors: Vec::new(),
        meanwhile: None,
        is_gone: false,
        withholds: false,
        puts_taint_back: false,
        refresh: false,
        failures: 0,
        waiting_since: None,
        proposal: None,
        is_unanswered: false,
        reservation: Default::default(),
        loses: false,
        rules: NodeRules::default(),
        now: NOW,
        budget: Ok(()),
    }
}

/// The same node after its initialisation, in the periodic pass.
pub(super) fn initialised() -> World {
    let mut world = world();
    world.stored["metadata"]["labels"] = json!({ "wasm-ccm.dev/provider": "sim" });
    world.stored["spec"] = json!({ "providerID": "sim://42" });
    world.stored["status"]["addresses"] = json!([
        { "type": "InternalIP", "address": "10.0.0.1" },
        { "type": "ExternalIP", "address": "192.0.2.1" },
        { "type": "Hostname", "address": "kubelets-name" }
    ]);
    world.refresh = true;
    world
}

pub(super) fn instance() -> Instance {
    Instance {
        provider_id: "sim://42".to_owned(),
        instance_type: Some("small".to_owned()),
        zone: Some("zone-a".to_owned()),
        region: Some("region-a".to_owned()),
        addresses: addresses(&[
            (AddressType::InternalIp, "10.0.0.1"),
            (AddressType::ExternalIp, "192.0.2.1"),
        ]),
        ..Instance::default()
    }
}

pub(super) fn addresses(list: &[(AddressType, &str)]) -> Vec<Address> {
    list.iter()
        .map(|(address_type, address)| Address {
            address_type: *address_type,
            address: (*address).to_owned(),
        })
        .collect()
}

pub(super) fn found(instance: Instance) -> Result<Looked, ProviderError> {
    looked(Lookup::Found(Box::new(instance)))
}

pub(super) fn looked(lookup: Lookup) -> Result<Looked, ProviderError> {
    Ok(Looked {
        lookup,
        events: Vec::new(),
        complete: true,
        clashes: Clashes::default(),
    })
}

impl World {
    pub(super) fn node(&self) -> PrunedNode {
        serde_json::from_value(self.stored.clone()).unwrap()
    }

    /// Runs one reconciliation of the node as it is stored now.
    pub(super) fn reconcile(&mut self) -> Run {
        let cached = self.node();
        self.reconcile_from(cached)
    }

    /// Runs one reconciliation that begins with a cached copy.
    pub(super) fn reconcile_from(&mut self, cached: PrunedNode) -> Run {
        let ownership = OwnershipContext::alone("sim", vec!["sim".to_owned()]);
        let mut facts = Facts::new(
            Arc::new(cached),
            Arc::new(ownership),
            Arc::new(self.rules.clone()),
            RetainedState {
                refresh: self.refresh,
                failures: self.failures,
                waiting_since: self.waiting_since,
                obstacle: None,
                proposal: self.proposal.clone(),
                is_unanswered: self.is_unanswered,
                reservation: self.reservation.clone(),
            },
        );
        if let (Some(answered), Ok(answer)) = (self.recalled, &self.answer) {
            facts.recall(answer.clone(), answered);
        }
        let mut run = Run {
            effects: Vec::new(),
            events: Vec::new(),
            end: When::AwaitChange,
        };
        for _ in 0..100 {
            match decide(&facts, self.now) {
                Decision::Done((end, proposed)) => {
                    run.end = end;
                    self.is_unanswered = facts.is_unanswered();
                    self.reservation = facts.reservation(self.now);
                    if let Some(proposed) = proposed {
                        let before = self.proposal.take();
                        let before = before.filter(|(before, _)| *before == proposed);
                        self.proposal = before.or(Some((proposed, self.now)));
                    }
                    return run;
                }
                Decision::Do(effects) => {
                    assert_ne!(effects, [], "an empty list of effects would never end");
                    for effect in effects {
                        let outcome = self.perform(&effect, &mut run);
                        let goes_on = outcome.is_success();
                        facts.absorb(&effect, outcome);
                        if !goes_on {
                            break;
                        }
                    }
                }
            }
        }
        panic!("the reconciliation does not end: {:?}", run.effects);
    }

    fn perform(&mut self, effect: &NodeEffect, run: &mut Run) -> Performed<NodeOutcome> {
        run.effects.push(effect.to_string());
        Performed::Ended(match effect {
            NodeEffect::Find(_) => NodeOutcome::Looked(self.answer.clone()),
            NodeEffect::Read(_) => {
                NodeOutcome::Node(Ok((!self.is_gone).then(|| Box::new(self.node()))))
            }
            NodeEffect::TakeBudget(_, brake, _) => {
                NodeOutcome::Budget(*brake, BudgetOutcome::Answered(self.budget))
            }
            NodeEffect::PatchStatus(..) | NodeEffect::Patch(..) if self.withholds => {
                return Performed::Withheld;
            }
            NodeEffect::PatchStatus(_, patch) => NodeOutcome::Node(self.write(patch.to_json())),
            NodeEffect::Patch(_, patch) => NodeOutcome::Node(self.write(patch.to_json())),
            NodeEffect::RecordEvent(_, event) => {
                run.events
                    .push((event.reason.clone(), event.message.clone()));
                NodeOutcome::Event(EventOutcome::Recorded)
            }
            NodeEffect::CastVote(..) => panic!("there is no other candidate: {effect}"),
        })
    }

    fn write(&mut self, patch: Value) -> ObjectResult<PrunedNode> {
        if let Some(change) = self.meanwhile.take() {
            change(&mut self.stored);
        }
        if !self.errors.is_empty() {
            return Err(self.errors.remove(0));
        }
        if self.is_gone {
            return Ok(None);
        }
        let metadata = &patch["metadata"];
        let version = self.stored["metadata"]["resourceVersion"].clone();
        if !metadata["resourceVersion"].is_null() && metadata["resourceVersion"] != version {
            return Err(ClusterError::Conflict("too old".to_owned()));
        }
        if metadata["uid"] != self.stored["metadata"]["uid"] {
            return Err(ClusterError::Rejected("uid: field is immutable".to_owned()));
        }
        let mut patch = patch;
        if let Some(list) = patch["status"]["addresses"].as_array_mut() {
            assert_eq!(list.pop(), Some(json!({ "$patch": "replace" })));
        }
        let taints = self.stored["spec"]["taints"].clone();
        merge(&mut self.stored, &patch);
        if self.puts_taint_back {
            self.stored["spec"]["taints"] = taints;
        }
        let next = version.as_str().unwrap().parse::<u32>().unwrap() + 1;
        self.stored["metadata"]["resourceVersion"] = json!(next.to_string());
        if self.loses && !patch["spec"]["taints"].is_null() {
            self.loses = false;
            return Err(ClusterError::Unavailable("no answer".to_owned()));
        }
        Ok(Some(Box::new(self.node())))
    }
}

/// Objects are merged, everything else is replaced; an index into `Value` leaves a null, which is ignored.
fn merge(target: &mut Value, patch: &Value) {
    match patch {
        Value::Object(fields) => {
            for (key, value) in fields {
                merge(&mut target[key], value);
            }
        }
        Value::Null => {}
        value => *target = value.clone(),
    }
}

/// Runs a reconciliation that must leave the stored node exactly as it is.
pub(super) fn changes_nothing(world: &mut World) -> Run {
    let before = world.stored.clone();
    let run = world.reconcile();
    assert_eq!(world.stored, before, "{:?}", run.effects);
    run
}
