//! The service controller's effects, and their outcomes, as values. Performs nothing.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;

use super::ClusterError;
use crate::brake::{Brake, Rise};
use crate::cloud::error::{CallFailure, Owner, ProviderError};
use crate::cloud::instance::CloudEvent;
use crate::load_balancer::{
    Adoptable, CloudService, DeleteRequest, EnsureReply, EnsureRequest, Ensured, Found, GetReply,
    Progress, ProgressReply, UpdateRequest,
};
use crate::patch::ServicePatch;

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
pub enum ServiceEffect {
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
    Vouch(Vouching),
    /// Read whether the Service's namespace is being deleted.
    ReadNamespace,
    /// Read the Service from the API server itself, not from a cache.
    Read,
    /// Take one change from a brake's budget for this Service. It is not returned.
    TakeBudget(Brake, Rise),
    /// Write this manager's fields of the Service: finalizer, annotations, status.
    Patch(ServicePatch),
    /// Record an Event about the Service. Best effort: never fails.
    RecordEvent(CloudEvent),
}

/// The outcome of a [`ServiceEffect`].
#[derive(Debug, Clone, PartialEq)]
pub enum ServiceOutcome {
    /// Of [`ServiceEffect::Ensure`].
    Ensured(Result<Answered<EnsureReply>, CallFailure>),
    /// Of [`ServiceEffect::UpdateTargets`] and [`ServiceEffect::Delete`].
    Progressed(Result<Answered<ProgressReply>, CallFailure>),
    /// Of [`ServiceEffect::Get`].
    Got(Result<GetReply, ProviderError>),
    /// Of [`ServiceEffect::FindOwner`].
    Owner(OwnerState),
    /// Of [`ServiceEffect::Vouch`].
    Vouched(Result<Witnesses, ProviderError>),
    /// Of [`ServiceEffect::ReadNamespace`]. `false` also when the namespace may not be read.
    NamespaceGoes(bool),
    /// Of [`ServiceEffect::Read`] and [`ServiceEffect::Patch`]: the current Service. `None`: no Service has that name.
    Service(Result<Option<Box<Service>>, ClusterError>),
}

/// A provider's reply, with facts that only the manager knows.
#[derive(Debug, Clone, PartialEq)]
pub struct Answered<T> {
    /// The reply.
    pub reply: T,
    /// How many changes the call made at the cloud.
    pub mutations: u32,
    /// The IPs in the reply that are in use elsewhere in the cluster.
    pub in_use: Vec<InUse>,
}

/// An IP that another object in the cluster has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InUse {
    /// The IP, canonical.
    pub ip: IpAddr,
    /// The object that has it, for messages: `node/worker-1`, `service/default/web`.
    pub by: String,
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

/// What an account proof has to cover.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vouching {
    /// The provider's [generation](crate::cloud::CloudProvider::generation) that the proof is about.
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
    pub fn are_strange(&self) -> bool {
        !self.missing.is_empty() && self.found.len() <= self.missing.len()
    }
}

impl ServiceOutcome {
    /// Whether the rest of a decision may still be performed.
    pub fn is_success(&self) -> bool {
        match self {
            ServiceOutcome::Ensured(result) => result.is_ok(),
            ServiceOutcome::Progressed(result) => result.is_ok(),
            ServiceOutcome::Got(result) => result.is_ok(),
            ServiceOutcome::Vouched(result) => result.is_ok(),
            ServiceOutcome::Owner(_) | ServiceOutcome::NamespaceGoes(_) => true,
            ServiceOutcome::Service(result) => matches!(result, Ok(Some(_))),
        }
    }
}

impl ServiceEffect {
    /// Whether the effect writes to the API server.
    pub fn is_write(&self) -> bool {
        matches!(
            self,
            ServiceEffect::Patch(_) | ServiceEffect::RecordEvent(_)
        )
    }

    /// Whether the effect may change something at the cloud.
    pub fn is_cloud_change(&self) -> bool {
        matches!(
            self,
            ServiceEffect::Ensure(_) | ServiceEffect::UpdateTargets(_) | ServiceEffect::Delete(_)
        )
    }

    /// Writes the effect's label for this Service.
    pub fn label(&self, service: &ServiceRef, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hint = |hint: &Option<Arc<[u8]>>| if hint.is_some() { " hint" } else { "" };
        match self {
            ServiceEffect::Ensure(request) => {
                write!(f, "ensure {service} targets({})", request.targets.len())?;
                match &request.adopt {
                    Some(Adoptable::Unowned) => write!(f, " adopt")?,
                    Some(Adoptable::Of(owner)) => write!(f, " adopt={owner}")?,
                    None => {}
                }
                write!(f, "{}", hint(&request.hint))
            }
            ServiceEffect::UpdateTargets(request) => {
                let count = request.targets.len();
                write!(
                    f,
                    "update {service} targets({count}){}",
                    hint(&request.hint)
                )
            }
            ServiceEffect::Delete(request) => {
                write!(
                    f,
                    "delete load balancer of {service}{}",
                    hint(&request.hint)
                )
            }
            ServiceEffect::Get(_) => write!(f, "get load balancer of {service}"),
            ServiceEffect::FindOwner(uid) => write!(f, "find owner {uid} for {service}"),
            ServiceEffect::Vouch(_) => write!(f, "vouch for {service}"),
            ServiceEffect::ReadNamespace => write!(f, "read namespace/{}", service.namespace),
            ServiceEffect::Read => write!(f, "read {service}"),
            ServiceEffect::TakeBudget(brake, _) => write!(f, "take budget {brake} {service}"),
            ServiceEffect::Patch(patch) => write!(f, "patch {service}{patch}"),
            ServiceEffect::RecordEvent(event) => write!(
                f,
                "event {service} {} {}",
                event.event_type.as_str(),
                event.reason
            ),
        }
    }
}

impl fmt::Display for ServiceOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServiceOutcome::Ensured(Ok(answered)) => {
                match &answered.reply.ensured {
                    Ensured::Ready(status) => write!(f, "ready {status}")?,
                    Ensured::Pending(pending) => {
                        write!(f, "pending {:?}", pending.retry_after)?;
                    }
                }
                write!(f, " changes({})", answered.mutations)
            }
            ServiceOutcome::Progressed(Ok(answered)) => {
                match &answered.reply.progress {
                    Progress::Done => write!(f, "done")?,
                    Progress::Pending(pending) => {
                        write!(f, "pending {:?}", pending.retry_after)?;
                    }
                }
                write!(f, " changes({})", answered.mutations)
            }
            ServiceOutcome::Got(Ok(reply)) => {
                if !reply.complete {
                    write!(f, "incomplete: ")?;
                }
                match &reply.found {
                    Found::Present(status) => write!(f, "present {status}"),
                    Found::Absent => write!(f, "absent"),
                }
            }
            ServiceOutcome::Ensured(Err(failure)) | ServiceOutcome::Progressed(Err(failure)) => {
                write!(f, "{}", failure.error)
            }
            ServiceOutcome::Got(Err(error)) => write!(f, "{error}"),
            ServiceOutcome::Vouched(Err(error)) => write!(f, "{error}"),
            ServiceOutcome::Vouched(Ok(Witnesses { found, missing })) => {
                match found.is_empty() && missing.is_empty() {
                    true => write!(f, "nobody to ask about"),
                    false => write!(
                        f,
                        "found({}) missing({})",
                        found.join(" "),
                        missing.join(" ")
                    ),
                }
            }
            ServiceOutcome::NamespaceGoes(true) => write!(f, "being deleted"),
            ServiceOutcome::NamespaceGoes(false) => write!(f, "not being deleted"),
            ServiceOutcome::Owner(OwnerState::Alive(owner)) => write!(f, "alive: {owner}"),
            ServiceOutcome::Owner(OwnerState::Gone) => write!(f, "gone"),
            ServiceOutcome::Owner(OwnerState::Unsynced) => write!(f, "not known yet"),
            ServiceOutcome::Service(Ok(Some(_))) => write!(f, "done"),
            ServiceOutcome::Service(Ok(None)) => write!(f, "no such service"),
            ServiceOutcome::Service(Err(error)) => write!(f, "{error}"),
        }
    }
}
