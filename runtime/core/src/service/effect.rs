//! The service controller's effects, and their outcomes, as values. Performs nothing.

use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;

use crate::cloud::error::{CallFailure, Owner, ProviderError};
use crate::cloud::instance::CloudEvent;
use crate::cloud::load_balancer::{
    Adoptable, CloudService, DeleteRequest, EnsureReply, EnsureRequest, Ensured, Found, GetReply,
    ProgressReply, UpdateRequest, hint_label,
};
use crate::reconciliation::effect::{
    Answered, BudgetOutcome, Effect, EventOutcome, Modification, ObjectKind, ObjectResult,
    ObjectWrite, Outcome, object_label,
};
use crate::reconciliation::patch::ServicePatch;
use crate::safety::brake::{Brake, Rise};
use crate::safety::plan::bookkeeping::is_all_of_service;
use crate::well_known::SERVICE_CONTROLLER;

/// Identifies one Service object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceRef {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
}

impl ServiceRef {
    /// Whether this is the owner that a cloud has recorded.
    pub fn is(&self, owner: &Owner) -> bool {
        match owner {
            Owner::Uid(uid) => self.uid == *uid,
            Owner::Name { namespace, name } => self.namespace == *namespace && self.name == *name,
        }
    }
}

impl fmt::Display for ServiceRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "service/{}/{}", self.namespace, self.name)
    }
}

/// One action about one Service.
#[derive(Debug, Clone, PartialEq)]
pub struct ServiceEffect {
    /// The Service that the action is about.
    pub service: ServiceRef,
    /// The provider's [generation](crate::cloud_provider::CloudProvider::generation) when the reconciliation began. The account
    /// of another one is unproven: it must not be asked to make anything.
    pub generation: u64,
    /// The action itself.
    pub action: ServiceAction,
}

/// An action about a Service.
#[derive(Debug, Clone, PartialEq)]
pub enum ServiceAction {
    /// Create or update the load balancer.
    Ensure(Arc<EnsureRequest>),
    /// Change the set of nodes behind the load balancer.
    UpdateTargets(Arc<UpdateRequest>),
    /// Delete the load balancer.
    Delete(Arc<DeleteRequest>),
    /// Check whether the load balancer exists, without caches.
    Get(Arc<CloudService>),
    /// Check whether the Service with this UID or name, which a load balancer names as its owner, exists.
    FindOwner(Owner),
    /// Ask the provider about nodes and load balancers that are known to exist, to prove that it uses this cluster's
    /// account.
    ProveAccount(ProofScope),
    /// Read whether the Service's namespace is being deleted.
    ReadNamespace,
    /// Read the Service from the API server itself, not from a cache.
    Read,
    /// Take one change from a brake's budget. It is not returned.
    TakeBudget(Brake, Rise),
    /// Write this manager's fields: finalizer, annotations, status.
    Patch(ServicePatch),
    /// Record an Event. Best effort: never fails.
    RecordEvent(CloudEvent),
}

/// The outcome of a [`ServiceEffect`].
#[derive(Debug, Clone, PartialEq)]
pub enum ServiceOutcome {
    /// Outcome of [`ServiceAction::Ensure`].
    Ensured(Result<Answered<EnsureReply>, CallFailure>),
    /// Outcome of [`ServiceAction::UpdateTargets`] and [`ServiceAction::Delete`].
    Progressed(Result<Answered<ProgressReply>, CallFailure>),
    /// Outcome of [`ServiceAction::Get`].
    Got(Result<GetReply, ProviderError>),
    /// Outcome of [`ServiceAction::FindOwner`].
    Owner(OwnerState),
    /// Outcome of [`ServiceAction::ProveAccount`].
    Witnesses(Result<Witnesses, ProviderError>),
    /// Outcome of [`ServiceAction::ReadNamespace`]. `false` also when the namespace may not be read.
    NamespaceGoes(bool),
    /// Outcome of [`ServiceAction::Read`] and [`ServiceAction::Patch`].
    Service(ObjectResult<Service>),
    /// Outcome of [`ServiceAction::TakeBudget`].
    Budget(Brake, BudgetOutcome),
    /// Outcome of [`ServiceAction::RecordEvent`].
    Event(EventOutcome),
}

/// Whether the owner that a cloud object names exists in this cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OwnerState {
    /// The owner is this Service.
    Alive(ServiceRef),
    /// A complete, current list has no such Service.
    Gone,
    /// The list of Services is not synced yet.
    Unsynced,
}

/// The scope of an account proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProofScope {
    /// The provider's [generation](crate::cloud_provider::CloudProvider::generation) that the proof is about.
    pub generation: u64,
    /// Ignore earlier proofs of that generation, because something is about to be given up.
    pub is_anew: bool,
}

/// The provider's answers about nodes that are known to exist, or about load balancers if no node could be asked about.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Witnesses {
    /// Objects that it finds.
    pub found: Vec<String>,
    /// Objects that it reports as missing.
    pub missing: Vec<String>,
}

impl Witnesses {
    /// Whether the answers come from another account: at least half are missing. A majority has to be found, because
    /// objects created there by mistake are found there, too.
    pub fn are_of_other_account(&self) -> bool {
        !self.missing.is_empty() && self.found.len() <= self.missing.len()
    }
}

impl Effect for ServiceEffect {
    type Outcome = ServiceOutcome;
    const CONTROLLER: &'static str = SERVICE_CONTROLLER;

    fn modification(&self) -> Modification<'_> {
        match &self.action {
            ServiceAction::Ensure(_)
            | ServiceAction::UpdateTargets(_)
            | ServiceAction::Delete(_) => Modification::Cloud,
            ServiceAction::Get(_)
            | ServiceAction::FindOwner(_)
            | ServiceAction::ProveAccount(_)
            | ServiceAction::ReadNamespace
            | ServiceAction::Read
            | ServiceAction::TakeBudget(..) => Modification::None,
            ServiceAction::Patch(patch) => Modification::Object(ObjectWrite {
                kind: ObjectKind::Service,
                object: &self.service,
                verb: "patch",
                is_bookkeeping: is_all_of_service(patch),
            }),
            ServiceAction::RecordEvent(_) => Modification::Event,
        }
    }
}

impl Outcome for ServiceOutcome {
    fn is_success(&self) -> bool {
        match self {
            ServiceOutcome::Ensured(result) => result.is_ok(),
            ServiceOutcome::Progressed(result) => result.is_ok(),
            ServiceOutcome::Got(result) => result.is_ok(),
            ServiceOutcome::Witnesses(result) => result.is_ok(),
            ServiceOutcome::Service(result) => matches!(result, Ok(Some(_))),
            ServiceOutcome::Budget(_, outcome) => outcome.is_success(),
            ServiceOutcome::Owner(_)
            | ServiceOutcome::NamespaceGoes(_)
            | ServiceOutcome::Event(_) => true,
        }
    }
}

impl fmt::Display for ServiceEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let service = &self.service;
        match &self.action {
            ServiceAction::Ensure(request) => {
                write!(f, "ensure {service} targets({})", request.targets.len())?;
                match &request.adopt {
                    Some(Adoptable::Unowned) => write!(f, " adopt")?,
                    Some(Adoptable::Of(owner)) => write!(f, " adopt={owner}")?,
                    None => {}
                }
                f.write_str(hint_label(&request.hint))
            }
            ServiceAction::UpdateTargets(request) => {
                let (count, hint) = (request.targets.len(), hint_label(&request.hint));
                write!(f, "update {service} targets({count}){hint}")
            }
            ServiceAction::Delete(request) => {
                let hint = hint_label(&request.hint);
                write!(f, "delete load balancer of {service}{hint}")
            }
            ServiceAction::Get(_) => write!(f, "get load balancer of {service}"),
            ServiceAction::FindOwner(uid) => write!(f, "find owner {uid} for {service}"),
            ServiceAction::ProveAccount(_) => write!(f, "vouch for {service}"),
            ServiceAction::ReadNamespace => write!(f, "read namespace/{}", service.namespace),
            ServiceAction::Read => write!(f, "read {service}"),
            ServiceAction::TakeBudget(brake, _) => write!(f, "take budget {brake} {service}"),
            ServiceAction::Patch(patch) => write!(f, "patch {service}{patch}"),
            ServiceAction::RecordEvent(event) => write!(f, "event {service} {event}"),
        }
    }
}

impl fmt::Display for ServiceOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServiceOutcome::Ensured(Ok(answered)) => {
                match &answered.reply.ensured {
                    Ensured::Ready(status) => write!(f, "ready {status}")?,
                    Ensured::Pending(pending) => pending.fmt(f)?,
                }
                write!(f, " changes({})", answered.mutations)
            }
            ServiceOutcome::Progressed(Ok(answered)) => {
                let (progress, changes) = (&answered.reply.progress, answered.mutations);
                write!(f, "{progress} changes({changes})")
            }
            ServiceOutcome::Got(Ok(reply)) => {
                if !reply.complete {
                    write!(f, "incomplete: ")?;
                }
                match &reply.found {
                    Found::Present(status) => write!(f, "present {status}"),
                    Found::Absent => f.write_str("absent"),
                }
            }
            ServiceOutcome::Ensured(Err(failure)) | ServiceOutcome::Progressed(Err(failure)) => {
                failure.error.fmt(f)
            }
            ServiceOutcome::Got(Err(error)) | ServiceOutcome::Witnesses(Err(error)) => error.fmt(f),
            ServiceOutcome::Witnesses(Ok(Witnesses { found, missing })) => {
                match found.is_empty() && missing.is_empty() {
                    true => f.write_str("nobody to ask about"),
                    false => {
                        let (found, missing) = (found.join(" "), missing.join(" "));
                        write!(f, "found({found}) missing({missing})")
                    }
                }
            }
            ServiceOutcome::NamespaceGoes(true) => f.write_str("being deleted"),
            ServiceOutcome::NamespaceGoes(false) => f.write_str("not being deleted"),
            ServiceOutcome::Owner(OwnerState::Alive(owner)) => write!(f, "alive: {owner}"),
            ServiceOutcome::Owner(OwnerState::Gone) => f.write_str("gone"),
            ServiceOutcome::Owner(OwnerState::Unsynced) => f.write_str("not known yet"),
            ServiceOutcome::Service(result) => object_label(result, "service", f),
            ServiceOutcome::Budget(_, outcome) => outcome.fmt(f),
            ServiceOutcome::Event(outcome) => outcome.fmt(f),
        }
    }
}
