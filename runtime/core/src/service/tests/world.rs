//! The smallest world for a sequence of reconciliations: one Service, a few nodes, and answers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Service};

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use crate::cloud::error::{CallFailure, Owner, ProviderError};
use crate::cloud::instance::CloudEvent;
use crate::cloud::load_balancer::{
    AnnotationChange, EnsureReply, Ensured, Found, GetReply, Ingress, LoadBalancerStatus, Pending,
    Progress, ProgressReply,
};
use crate::fixtures::{self, ObjectBuilder};
use crate::moment::{Moment, Now};
use crate::node::object::PrunedNode;
use crate::node::ownership::OwnershipContext;
use crate::reconciliation::effect::{
    Answered, BudgetOutcome, ClusterError, Decision, Effect as _, EventOutcome, InUse,
    Modification, ObjectResult, Performed, When,
};
use crate::safety::permit::Mode;
use crate::service::{
    self, Account, Facts, OwnerState, RetainedState, ServiceAction, ServiceEffect, ServiceOutcome,
    Targets, Witnesses, decide,
};
use crate::settings::ServiceRules;

pub(super) const FINALIZER: &str = "service.kubernetes.io/load-balancer-cleanup";
pub(super) const OWNER: &str = "wasm-ccm.dev/provider";

pub(super) type EnsureAnswer = Result<Answered<EnsureReply>, ProviderError>;

pub(super) struct World {
    /// The Service as the API server has it.
    pub(super) stored: Value,
    /// Whether the object is gone, as the watch has reported.
    pub(super) is_gone: bool,
    /// Whether the API server no longer has the object, and the watch has not reported that yet.
    pub(super) is_missing: bool,
    /// The nodes that are to receive traffic.
    pub(super) nodes: Vec<String>,
    pub(super) is_synced: bool,
    /// The provider's answers; the last one is repeated.
    pub(super) ensure: VecDeque<EnsureAnswer>,
    pub(super) update: VecDeque<Result<Progress, ProviderError>>,
    pub(super) delete: VecDeque<Result<Progress, ProviderError>>,
    pub(super) get: VecDeque<Result<GetReply, ProviderError>>,
    /// IPs that other objects of the cluster have.
    pub(super) in_use: Vec<InUse>,
    pub(super) owner: OwnerState,
    /// Events of the provider beside the error of each failing call.
    pub(super) failure_events: Vec<CloudEvent>,
    /// The answer to account proofs.
    pub(super) witnesses: Result<Witnesses, ProviderError>,
    pub(super) account: Account,
    pub(super) namespace_goes: bool,
    /// Errors for the next writes, in order.
    pub(super) errors: Vec<ClusterError>,
    /// Changes by another writer, one before each of the first writes.
    pub(super) meanwhile: VecDeque<fn(&mut Value)>,
    /// What an admission webhook changes at every write, before the answer.
    pub(super) webhook: fn(&mut Value),
    pub(super) budget: BudgetOutcome,
    pub(super) mode: Mode,
    /// Whether the provider gets to a change at the cloud, which only enforce mode permits.
    pub(super) withholds: bool,
    pub(super) rules: ServiceRules,
    pub(super) prefixes: Vec<String>,
    pub(super) now: Moment,
    pub(super) past: RetainedState,
    /// Every action but writes of the object and Events: calls of the provider, reads and budgets.
    pub(super) calls: Vec<ServiceAction>,
    /// The body of every patch.
    pub(super) patches: Vec<Value>,
}

/// The course of a reconciliation: its effects, its Events and its end.
pub(super) struct Run {
    pub(super) effects: Vec<String>,
    /// Reason and message of every Event.
    pub(super) events: Vec<(String, String)>,
    pub(super) end: When,
    /// Whether the Service has changed since the provider was asked.
    pub(super) is_outdated: bool,
}

/// A new Service, two nodes, and a provider that makes everything at once.
pub(super) fn world() -> World {
    World {
        stored: json!({
            "metadata": { "namespace": "default", "name": "web", "uid": "u0" },
            "spec": {
                "type": "LoadBalancer", "clusterIP": "10.96.0.10", "clusterIPs": ["10.96.0.10"],
                "ports": [{ "protocol": "TCP", "port": 80, "nodePort": 30080 }]
            }
        }),
        is_gone: false,
        is_missing: false,
        nodes: vec!["a".to_owned(), "b".to_owned()],
        is_synced: true,
        ensure: [ready(&["192.0.2.1"], 1)].into(),
        update: [Ok(Progress::Done)].into(),
        delete: [Ok(Progress::Done)].into(),
        get: [absent()].into(),
        in_use: Vec::new(),
        owner: OwnerState::Gone,
        failure_events: Vec::new(),
        witnesses: Ok(Witnesses::default()),
        account: Account::default(),
        namespace_goes: false,
        errors: Vec::new(),
        meanwhile: VecDeque::new(),
        webhook: |_| {},
        budget: BudgetOutcome::Answered(Ok(())),
        mode: Mode::Enforce,
        withholds: false,
        rules: ServiceRules::default(),
        prefixes: vec!["lb.example.com/".to_owned()],
        now: Moment(Duration::from_secs(1_000)),
        past: RetainedState::default(),
        calls: Vec::new(),
        patches: Vec::new(),
    }
}

/// The same world after the creation, with an answer that changes nothing.
pub(super) fn made() -> World {
    let mut world = world();
    assert_eq!(world.reconcile().end, When::AwaitChange);
    assert_eq!(world.addresses(), ["192.0.2.1"]);
    world.ensure = [ready(&["192.0.2.1"], 0)].into();
    world.calls.clear();
    world.patches.clear();
    world
}

pub(super) fn status(ips: &[&str]) -> LoadBalancerStatus {
    let ingress = ips.iter().map(|ip| Ingress {
        ip: Some((*ip).to_owned()),
        ..Ingress::default()
    });
    LoadBalancerStatus {
        ingress: ingress.collect(),
    }
}

pub(super) fn ready(ips: &[&str], changes: u32) -> EnsureAnswer {
    answered(Ensured::Ready(status(ips)), changes)
}

pub(super) fn answered(ensured: Ensured, mutations: u32) -> EnsureAnswer {
    Ok(Answered {
        reply: EnsureReply {
            ensured,
            events: Vec::new(),
            annotations: Vec::new(),
        },
        mutations,
        in_use: Vec::new(),
    })
}

/// The same answer, with a requested annotation change.
pub(super) fn annotating(mut answer: EnsureAnswer, key: &str, value: Option<&str>) -> EnsureAnswer {
    answer
        .as_mut()
        .unwrap()
        .reply
        .annotations
        .push(AnnotationChange {
            key: key.to_owned(),
            value: value.map(str::to_owned),
        });
    answer
}

pub(super) fn pending(hint: &str) -> Pending {
    Pending {
        retry_after: Duration::from_millis(500),
        hint: Some(Arc::from(hint.as_bytes())),
    }
}

pub(super) fn begun(hint: &str) -> EnsureAnswer {
    answered(Ensured::Pending(pending(hint)), 1)
}

pub(super) fn absent() -> Result<GetReply, ProviderError> {
    Ok(GetReply {
        found: Found::Absent,
        complete: true,
    })
}

pub(super) fn unavailable() -> ProviderError {
    ProviderError::Unavailable("502".to_owned())
}

pub(super) fn denied() -> ProviderError {
    ProviderError::Denied("401".to_owned())
}

pub(super) fn conflict(owner: Option<&str>) -> ProviderError {
    ProviderError::Conflict {
        message: "taken".to_owned(),
        owner: owner.map(|uid| Owner::Uid(uid.to_owned())),
    }
}

/// A Ready node with a machine.
pub(super) fn node_object(name: &str) -> ObjectBuilder<Node> {
    let node = fixtures::node(name).uid(&format!("uid-{name}")).ready();
    node.provider_id(&format!("sim://{name}"))
}

impl World {
    pub(super) fn service(&self) -> Service {
        serde_json::from_value(self.stored.clone()).unwrap()
    }

    /// The IPs in the stored status.
    pub(super) fn addresses(&self) -> Vec<String> {
        let ingress = self.stored["status"]["loadBalancer"]["ingress"].as_array();
        let ips = ingress.into_iter().flatten();
        ips.map(|one| one["ip"].as_str().unwrap_or_default().to_owned())
            .collect()
    }

    pub(super) fn has_finalizer(&self) -> bool {
        service::has_finalizer(&self.service())
    }

    pub(super) fn annotation(&self, key: &str) -> Option<&str> {
        self.stored["metadata"]["annotations"].get(key)?.as_str()
    }

    /// Status and reason of a stored condition.
    pub(super) fn condition(&self, kind: &str) -> Option<(String, String)> {
        let conditions = self.stored["status"]["conditions"].as_array()?;
        let one = conditions.iter().find(|one| one["type"] == kind)?;
        let text = |key: &str| one[key].as_str().unwrap().to_owned();
        Some((text("status"), text("reason")))
    }

    pub(super) fn delete_object(&mut self) {
        self.stored["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }

    pub(super) fn wait(&mut self, seconds: u64) {
        self.now = self.now.after(Duration::from_secs(seconds));
    }

    pub(super) fn with_nodes(&mut self, names: &[&str]) {
        self.nodes = names.iter().map(|name| (*name).to_owned()).collect();
    }

    /// Runs one reconciliation of the Service as it is stored now.
    pub(super) fn reconcile(&mut self) -> Run {
        let cached = self.service();
        self.reconcile_from(cached)
    }

    /// Runs one reconciliation that begins with a cached copy.
    pub(super) fn reconcile_from(&mut self, cached: Service) -> Run {
        let ownership = OwnershipContext::alone("sim", vec!["sim".to_owned()]);
        let world = service::World::new(
            Arc::new(ownership),
            self.prefixes.clone().into(),
            Arc::new(self.rules.clone()),
            self.mode,
        );
        let nodes = self.nodes.iter().map(|name| node_object(name).build());
        let nodes: Vec<PrunedNode> = nodes.collect();
        let targets = Targets::of(nodes.iter(), self.is_synced);
        let mut facts = Facts::new(
            Arc::new(cached),
            self.is_gone,
            Arc::new(world),
            targets,
            self.past.clone(),
            self.account,
        );
        let mut run = Run {
            effects: Vec::new(),
            events: Vec::new(),
            end: When::AwaitChange,
            is_outdated: false,
        };
        for _ in 0..100 {
            let now = Now {
                moment: self.now,
                // 2023-11-14T22:13:20Z at first.
                wall: Timestamp::from_second(1_699_999_000).unwrap() + self.now.0,
            };
            match decide(&facts, now) {
                Decision::Done((end, retained)) => {
                    run.is_outdated = facts.is_outdated();
                    self.past = retained;
                    run.end = end;
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

    fn perform(&mut self, effect: &ServiceEffect, run: &mut Run) -> Performed<ServiceOutcome> {
        run.effects.push(effect.to_string());
        let ServiceEffect {
            service, action, ..
        } = effect;
        assert_eq!(service.uid, "u0");
        let (is_call, is_withheld) = match effect.modification() {
            Modification::None => (true, false),
            Modification::Cloud => (true, self.withholds),
            Modification::Event | Modification::Object(_) => (false, true),
        };
        if is_call {
            self.calls.push(action.clone());
        }
        if self.mode != Mode::Enforce && is_withheld {
            return Performed::Withheld;
        }
        Performed::Ended(match action {
            ServiceAction::Ensure(_) => {
                let mut answer = next(&mut self.ensure);
                if let Ok(answered) = &mut answer {
                    answered.in_use.clone_from(&self.in_use);
                }
                ServiceOutcome::Ensured(self.failing(answer))
            }
            ServiceAction::UpdateTargets(_) => {
                let answer = next(&mut self.update);
                progressed(self.failing(answer))
            }
            ServiceAction::Delete(_) => {
                let answer = next(&mut self.delete);
                progressed(self.failing(answer))
            }
            ServiceAction::Get(_) => ServiceOutcome::Got(next(&mut self.get)),
            ServiceAction::ProveAccount(_) => ServiceOutcome::Witnesses(self.witnesses.clone()),
            ServiceAction::ReadNamespace => ServiceOutcome::NamespaceGoes(self.namespace_goes),
            ServiceAction::FindOwner(_) => ServiceOutcome::Owner(self.owner.clone()),
            ServiceAction::Read => ServiceOutcome::Service(Ok(self.object())),
            ServiceAction::TakeBudget(brake, _) => {
                ServiceOutcome::Budget(*brake, self.budget.clone())
            }
            ServiceAction::Patch(patch) => ServiceOutcome::Service(self.write(patch.to_json())),
            ServiceAction::RecordEvent(event) => {
                run.events
                    .push((event.reason.clone(), event.message.clone()));
                ServiceOutcome::Event(EventOutcome::Recorded)
            }
        })
    }

    fn failing<T>(&self, answer: Result<T, ProviderError>) -> Result<T, CallFailure> {
        let events = self.failure_events.clone();
        answer.map_err(|error| CallFailure { error, events })
    }

    fn object(&self) -> Option<Box<Service>> {
        (!self.is_gone).then(|| Box::new(self.service()))
    }

    fn write(&mut self, patch: Value) -> ObjectResult<Service> {
        if let Some(change) = self.meanwhile.pop_front() {
            change(&mut self.stored);
        }
        if self.is_missing {
            return Ok(None);
        }
        if !self.errors.is_empty() {
            return Err(self.errors.remove(0));
        }
        assert!(!self.is_gone, "nothing is written about what is gone");
        if patch["metadata"]["uid"] != self.stored["metadata"]["uid"] {
            let what = "uid: field is immutable".to_owned();
            return Err(ClusterError::Rejected(what));
        }
        self.patches.push(patch.clone());
        merge(&mut self.stored, &patch);
        (self.webhook)(&mut self.stored);
        Ok(Some(Box::new(self.service())))
    }
}

fn next<T: Clone>(answers: &mut VecDeque<T>) -> T {
    if answers.len() > 1 {
        return answers.pop_front().unwrap();
    }
    answers[0].clone()
}

fn progressed(result: Result<Progress, CallFailure>) -> ServiceOutcome {
    ServiceOutcome::Progressed(result.map(|progress| Answered {
        reply: ProgressReply {
            progress,
            events: Vec::new(),
            annotations: Vec::new(),
        },
        mutations: 1,
        in_use: Vec::new(),
    }))
}

/// A strategic merge of the fields that a Service's patch may have.
pub(super) fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *target = patch.clone();
        return;
    };
    for (key, value) in fields {
        match (key.as_str(), value) {
            ("$setElementOrder/finalizers", _) => {}
            ("$deleteFromPrimitiveList/finalizers", Value::Array(gone)) => {
                if let Some(list) = target["finalizers"].as_array_mut() {
                    list.retain(|one| !gone.contains(one));
                }
            }
            ("finalizers", Value::Array(new)) => {
                if target["finalizers"].is_null() {
                    target["finalizers"] = json!([]);
                }
                let list = target["finalizers"].as_array_mut().unwrap();
                list.extend(
                    new.iter()
                        .filter(|one| !list.contains(one))
                        .cloned()
                        .collect::<Vec<_>>(),
                );
            }
            ("conditions", Value::Array(new)) => {
                let mut list = target["conditions"].as_array().cloned().unwrap_or_default();
                list.retain(|one| new.iter().all(|new| new["type"] != one["type"]));
                list.extend(new.iter().cloned());
                target["conditions"] = json!(list);
            }
            (_, Value::Null) => {
                if let Some(fields) = target.as_object_mut() {
                    fields.remove(key);
                }
            }
            (_, value) => merge(&mut target[key], value),
        }
    }
}

/// Runs a reconciliation that must neither call the provider nor write anything.
pub(super) fn does_nothing(world: &mut World) -> Run {
    let before = world.stored.clone();
    let run = world.reconcile();
    assert_eq!(run.effects, [] as [&str; 0]);
    assert_eq!(world.stored, before);
    run
}

impl Run {
    /// The effects without the Service's name.
    pub(super) fn acts(&self) -> Vec<String> {
        let one = |label: &String| label.replace(" service/default/web", "");
        self.effects.iter().map(one).collect()
    }

    pub(super) fn event_reasons(&self) -> Vec<&str> {
        let reasons = self.events.iter().map(|(reason, _)| reason.as_str());
        reasons.collect()
    }

    /// The delay until the next reconciliation.
    pub(super) fn again(&self) -> Duration {
        let after = self.end.after();
        after.unwrap_or_else(|| panic!("nobody comes back: {}", self.end))
    }

    pub(super) fn why(&self) -> &str {
        self.end.why().unwrap_or_default()
    }
}
