//! Reconciles objects that no cluster has: the manager's own decisions, carried out on the objects in memory and, as
//! far as it is allowed, at the cloud.

use std::sync::Arc;

use ccm_core::cloud::{CallFailure, CloudEvent, ProviderError};
use ccm_core::cloud_provider::CloudProvider as _;
use ccm_core::moment::Now;
use ccm_core::node::object::PrunedNode;
use ccm_core::node::ownership::{OwnershipContext, Verdict};
use ccm_core::node::{self, Looked, NodeEffect, NodeOutcome};
use ccm_core::reconciliation::effect::{
    Answered, BudgetOutcome, Decision, Effect, EventOutcome, Outcome as _, Performed, When,
};
use ccm_core::safety::permit::{LOAD_BALANCER_CHANGES, Mode, Permit};
use ccm_core::safety::plan::Planned;
use ccm_core::service::{
    self, Account, OwnerState, RetainedState, ServiceAction, ServiceEffect, ServiceOutcome,
    Targets, Witnesses, World,
};
use ccm_core::settings::{IngressRules, NodeRules, ServiceRules};
use ccm_host::egress::now;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::TriedModule;
use super::objects::{apply_patch, apply_status, named, pruned, with_service_patch};

/// More rounds than any reconciliation needs.
const MOST_ROUNDS: usize = 128;

/// The result for one object.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Reconciled {
    /// `node/NAME` or `service/NAMESPACE/NAME`.
    pub(super) object: String,
    /// The module's answer, in one line.
    pub(super) answer: String,
    /// The writes that the manager would make, in order.
    pub(super) writes: Vec<Written>,
    /// The Events that the manager would record.
    pub(super) events: Vec<Recorded>,
    /// Why it is not done; absent if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) waits: Option<String>,
    /// Whether a change at the cloud was withheld, on which all later steps depend.
    pub(super) is_withheld: bool,
}

/// One write to the API server.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Written {
    /// The write in one line.
    pub(super) what: String,
    /// The body of the patch.
    pub(super) patch: Value,
}

/// An Event that the manager would record.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Recorded {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) reason: String,
    pub(super) message: String,
}

impl Reconciled {
    fn new(object: String) -> Reconciled {
        Reconciled {
            object,
            answer: "not asked".to_owned(),
            writes: Vec::new(),
            events: Vec::new(),
            waits: None,
            is_withheld: false,
        }
    }

    fn wrote<E: Effect>(&mut self, effect: &E, patch: Value) {
        let planned = Planned::of_effect(effect);
        self.writes.push(Written {
            what: planned.map_or_else(|| effect.to_string(), |planned| planned.what),
            patch,
        });
    }

    fn recorded(&mut self, event: &CloudEvent) {
        self.events.push(Recorded {
            kind: event.event_type.as_str(),
            reason: event.reason.clone(),
            message: event.message.clone(),
        });
    }

    fn ended(&mut self, when: &When) {
        self.waits = when.why().map(str::to_owned);
    }
}

fn moments() -> Now {
    Now {
        moment: now(),
        wall: Timestamp::now(),
    }
}

const ENDLESS: &str = "the reconciliation does not end; this is a defect";

impl TriedModule {
    pub(super) fn ownership(&self) -> Arc<OwnershipContext> {
        let mut ownership = OwnershipContext::alone(self.provider.name(), self.schemes.clone());
        ownership.has_instances = self.provider.capabilities().instances;
        Arc::new(ownership)
    }

    /// Reconciles a node with this answer. Returns the changed node.
    pub(super) fn reconcile_node(
        &self,
        mut object: Value,
        looked: Result<Looked, ProviderError>,
    ) -> (PrunedNode, Reconciled) {
        let node = pruned(&object);
        let mut report = Reconciled::new(node.node_ref().to_string());
        // Also if the manager would not ask this provider: the command is for that.
        report.answer = NodeOutcome::Looked(looked.clone()).to_string();
        let (rules, past) = (Arc::new(NodeRules::default()), Default::default());
        let mut facts = node::Facts::new(Arc::new(node), self.ownership(), rules, past);
        for _ in 0..MOST_ROUNDS {
            let effects = match node::decide(&facts, now()) {
                Decision::Done((when, _)) => {
                    report.ended(&when);
                    return (Arc::unwrap_or_clone(facts.node), report);
                }
                Decision::Do(effects) => effects,
            };
            for effect in &effects {
                let outcome = node_outcome(&mut object, effect, &looked, &mut report);
                let goes_on = outcome.is_success();
                facts.absorb(effect, Performed::Ended(outcome));
                if !goes_on {
                    break;
                }
            }
        }
        report.waits = Some(ENDLESS.to_owned());
        (Arc::unwrap_or_clone(facts.node), report)
    }

    /// Reconciles a Service again and again until nothing is pending.
    pub(super) async fn reconcile_service(
        &self,
        service: Service,
        nodes: &[PrunedNode],
    ) -> Reconciled {
        let mut report = Reconciled::new(named(&service));
        let prefixes = self.provider.annotation_prefixes().into();
        let rules = ServiceRules {
            // The command is about this Service, whatever its class.
            classes: class(&service).into_iter().collect(),
            adoption: self.load_balancers.adoption,
            ingress: IngressRules {
                allowed: self.load_balancers.ingress_cidrs.clone(),
                ..IngressRules::default()
            },
            ..ServiceRules::default()
        };
        let world = World::new(self.ownership(), prefixes, Arc::new(rules), self.mode);
        let (world, targets) = (Arc::new(world), Targets::of(nodes.iter(), true));
        let until = Instant::now() + self.pending_timeout;
        let (mut service, mut past) = (Arc::new(service), RetainedState::default());
        loop {
            let facts = service::Facts::new(
                service,
                false,
                world.clone(),
                targets.clone(),
                past,
                Account::default(),
            );
            let (facts, when, retained) = self.converse(facts, &mut report).await;
            service = facts.service;
            past = retained;
            report.ended(&when);
            let Some(after) = when.after() else {
                return report;
            };
            if !past.is_pending() || Instant::now() + after > until {
                return report;
            }
            sleep(after).await;
        }
    }

    async fn converse(
        &self,
        mut facts: service::Facts,
        report: &mut Reconciled,
    ) -> (service::Facts, When, RetainedState) {
        for _ in 0..MOST_ROUNDS {
            let effects = match service::decide(&facts, moments()) {
                Decision::Done((when, retained)) => return (facts, when, retained),
                Decision::Do(effects) => effects,
            };
            for effect in &effects {
                let outcome = self.service_outcome(&facts.service, effect, report).await;
                let goes_on = outcome.is_success();
                facts.absorb(effect, outcome);
                if !goes_on {
                    break;
                }
            }
        }
        let why = ENDLESS.to_owned();
        let when = When::Blocked { why };
        let retained = service::cut_short(&facts, &when, now());
        (facts, when, retained)
    }

    async fn service_outcome(
        &self,
        service: &Service,
        effect: &ServiceEffect,
        report: &mut Reconciled,
    ) -> Performed<ServiceOutcome> {
        let (permit, provider) = (self.permit(LOAD_BALANCER_CHANGES), &self.provider);
        let answer = match &effect.action {
            ServiceAction::Ensure(request) => {
                let reply = provider.ensure_load_balancer(request, permit.clone()).await;
                ServiceOutcome::Ensured(answered(reply, &permit))
            }
            ServiceAction::UpdateTargets(request) => {
                let reply = provider.update_targets(request, permit.clone()).await;
                ServiceOutcome::Progressed(answered(reply, &permit))
            }
            ServiceAction::Delete(request) => {
                let reply = provider.delete_load_balancer(request, permit.clone()).await;
                ServiceOutcome::Progressed(answered(reply, &permit))
            }
            ServiceAction::Get(service) => {
                ServiceOutcome::Got(provider.get_load_balancer(service, self.permit(0)).await)
            }
            // No cluster says whether the owner exists: its load balancer is taken over as a plan, and never in fact.
            ServiceAction::FindOwner(owner) => {
                let is_taken = self.load_balancers.adoption.allows(Some(owner));
                let state = match is_taken && self.mode == Mode::Enforce {
                    true => OwnerState::Unsynced,
                    false => OwnerState::Gone,
                };
                return Performed::Ended(ServiceOutcome::Owner(state));
            }
            ServiceAction::ProveAccount(_) => {
                return Performed::Ended(ServiceOutcome::Witnesses(Ok(Witnesses::default())));
            }
            ServiceAction::ReadNamespace => {
                return Performed::Ended(ServiceOutcome::NamespaceGoes(false));
            }
            ServiceAction::Read => return stored(service.clone()),
            ServiceAction::TakeBudget(brake, _) => {
                let taken = BudgetOutcome::Answered(Ok(()));
                return Performed::Ended(ServiceOutcome::Budget(*brake, taken));
            }
            ServiceAction::RecordEvent(event) => {
                report.recorded(event);
                return Performed::Ended(ServiceOutcome::Event(EventOutcome::Recorded));
            }
            ServiceAction::Patch(patch) => {
                report.wrote(effect, patch.to_json());
                let patched = with_service_patch(service.clone(), patch);
                return patched.map_or(Performed::Withheld, stored);
            }
        };
        if permit.has_withheld() {
            report.is_withheld = true;
            report.answer = "a change that was withheld".to_owned();
            return Performed::Withheld;
        }
        report.answer = answer.to_string();
        Performed::Ended(answer)
    }
}

fn stored(service: Service) -> Performed<ServiceOutcome> {
    Performed::Ended(ServiceOutcome::Service(Ok(Some(Box::new(service)))))
}

fn answered<T>(
    reply: Result<T, ProviderError>,
    permit: &Permit,
) -> Result<Answered<T>, CallFailure> {
    let mutations = permit.mutations_made();
    let answered = reply.map(|reply| Answered {
        reply,
        mutations,
        in_use: Vec::new(),
    });
    answered.map_err(|error| permit.failure(error))
}

fn node_outcome(
    object: &mut Value,
    effect: &NodeEffect,
    looked: &Result<Looked, ProviderError>,
    report: &mut Reconciled,
) -> NodeOutcome {
    match effect {
        NodeEffect::Find(_) => NodeOutcome::Looked(looked.clone()),
        NodeEffect::CastVote(..) => NodeOutcome::VoteCast(Verdict::Ours, false),
        NodeEffect::PatchStatus(_, patch) => {
            report.wrote(effect, patch.to_json());
            apply_status(object, patch);
            NodeOutcome::Node(Ok(Some(Box::new(pruned(object)))))
        }
        NodeEffect::Patch(_, patch) => {
            report.wrote(effect, patch.to_json());
            apply_patch(object, patch);
            NodeOutcome::Node(Ok(Some(Box::new(pruned(object)))))
        }
        NodeEffect::Read(_) => NodeOutcome::Node(Ok(Some(Box::new(pruned(object))))),
        NodeEffect::TakeBudget(_, brake, _) => {
            NodeOutcome::Budget(*brake, BudgetOutcome::Answered(Ok(())))
        }
        NodeEffect::RecordEvent(_, event) => {
            report.recorded(event);
            NodeOutcome::Event(EventOutcome::Recorded)
        }
    }
}

fn class(service: &Service) -> Option<String> {
    service.spec.as_ref()?.load_balancer_class.clone()
}

impl Written {
    /// The fields of interest, one line each.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let patch = &self.patch;
        if let Value::Array(addresses) = &patch["status"]["addresses"] {
            let addresses = addresses.iter().filter_map(|one| {
                let (kind, address) = (one["type"].as_str()?, one["address"].as_str()?);
                Some(format!("address {kind} {address}"))
            });
            lines.extend(addresses);
        }
        if let Some(provider_id) = patch["spec"]["providerID"].as_str() {
            lines.push(format!("providerID {provider_id}"));
        }
        for (what, key) in [("label", "labels"), ("annotation", "annotations")] {
            let values = patch["metadata"][key].as_object().into_iter().flatten();
            lines.extend(values.map(|(key, value)| match value {
                Value::String(value) => format!("{what} {key}={value}"),
                _ => format!("{what} {key} is removed"),
            }));
        }
        if let Value::Array(ingress) = &patch["status"]["loadBalancer"]["ingress"] {
            lines.extend(ingress.iter().map(|one| format!("ingress {one}")));
        }
        if let Value::Array(conditions) = &patch["status"]["conditions"] {
            lines.extend(conditions.iter().map(|one| {
                let text = |key: &str| one[key].as_str().unwrap_or_default().to_owned();
                format!(
                    "condition {}={} {}: {}",
                    text("type"),
                    text("status"),
                    text("reason"),
                    text("message")
                )
            }));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_write_is_shown_field_by_field() {
        let written = Written {
            what: String::new(),
            patch: json!({
                "metadata": { "uid": "u", "labels": { "a": "b" } },
                "spec": { "providerID": "acme://1", "taints": [] },
                "status": { "addresses": [{ "type": "Hostname", "address": "h" }, { "$patch": "replace" }] },
            }),
        };
        let expected = ["address Hostname h", "providerID acme://1", "label a=b"];
        assert_eq!(written.lines(), expected);
    }
}
