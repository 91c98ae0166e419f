//! What the service controller does to the world, as values, and how each act ended. Carries nothing out.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;

use super::ClusterError;
use crate::brake::{Brake, Rise};
use crate::cloud::error::ProviderError;
use crate::cloud::instance::CloudEvent;
use crate::load_balancer::{
    CloudService, DeleteRequest, EnsureReply, EnsureRequest, Ensured, Found, GetReply, Progress,
    ProgressReply, UpdateRequest,
};
use crate::patch::ServicePatch;

/// Which Service.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceRef {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
}

impl fmt::Display for ServiceRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "service/{}/{}", self.namespace, self.name)
    }
}

/// One act about one Service.
#[derive(Debug, Clone, PartialEq)]
pub enum ServiceEffect {
    /// Make or update the load balancer.
    Ensure(Arc<EnsureRequest>),
    /// Change the set of nodes behind it.
    UpdateTargets(Arc<UpdateRequest>),
    /// Remove it.
    Delete(Arc<DeleteRequest>),
    /// Look whether there is one, without what was kept.
    Get(Arc<CloudService>),
    /// Ask whether the Service with this UID, which somebody's load balancer names as its owner, is alive.
    FindOwner(String),
    /// Ask the provider about nodes and load balancers that are known to exist: does it speak of this cluster's account?
    Vouch(Vouching),
    /// Read whether the Service's namespace is being deleted.
    ReadNamespace,
    /// Read the Service from the API server itself, not from a cache.
    Read,
    /// Take one change out of a brake's budget, for this Service. Nothing is given back.
    TakeBudget(Brake, Rise),
    /// Write what we own of it: finalizer, annotations, status.
    Patch(ServicePatch),
    /// Record an Event about it. Best effort: never fails.
    RecordEvent(CloudEvent),
}

/// How it ended.
#[derive(Debug, Clone, PartialEq)]
pub enum ServiceOutcome {
    /// Of [`ServiceEffect::Ensure`].
    Ensured(Result<Answered<EnsureReply>, ProviderError>),
    /// Of [`ServiceEffect::UpdateTargets`] and [`ServiceEffect::Delete`].
    Progressed(Result<Answered<ProgressReply>, ProviderError>),
    /// Of [`ServiceEffect::Get`].
    Got(Result<GetReply, ProviderError>),
    /// Of [`ServiceEffect::FindOwner`].
    Owner(OwnerState),
    /// Of [`ServiceEffect::Vouch`].
    Vouched(Result<Witnesses, ProviderError>),
    /// Of [`ServiceEffect::ReadNamespace`]. Where that may not be read, it is not being deleted.
    NamespaceGoes(bool),
    /// Of [`ServiceEffect::Read`] and [`ServiceEffect::Patch`]: the Service as it is now. `None`: there is none of
    /// that name.
    Service(Result<Option<Box<Service>>, ClusterError>),
}

/// A provider's reply, and what only the manager knows about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Answered<T> {
    /// The reply.
    pub reply: T,
    /// How many changes the call made at the cloud.
    pub mutations: u32,
    /// Of the IPs that it names, those that are in use elsewhere in the cluster.
    pub in_use: Vec<InUse>,
}

/// An IP that something else in the cluster has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InUse {
    /// The IP, canonical.
    pub ip: IpAddr,
    /// What has it, for people: `node/worker-1`, `service/default/web`.
    pub by: String,
}

/// Whether the owner that a cloud object names is alive in this cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OwnerState {
    /// It is this Service.
    Alive(ServiceRef),
    /// A complete, current list has no Service with this UID.
    Gone,
    /// Nobody knows yet which Services there are.
    Unsynced,
}

/// For what somebody has to vouch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vouching {
    /// The provider's [generation](crate::cloud::CloudProvider::generation) whose answers this is about.
    pub generation: u64,
    /// What was said of that generation before does not count: something is let go of.
    pub is_anew: bool,
}

/// What a provider says of nodes, or of load balancers where no node could be asked about, that are known to exist.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Witnesses {
    /// It finds these.
    pub found: Vec<String>,
    /// It says that these do not exist.
    pub missing: Vec<String>,
}

impl Witnesses {
    /// Whether they speak of another account. What was made there by mistake is found there: the greater part has to be.
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
    /// Whether the API server keeps something of it.
    pub fn is_write(&self) -> bool {
        matches!(
            self,
            ServiceEffect::Patch(_) | ServiceEffect::RecordEvent(_)
        )
    }

    /// Whether it may change something at the cloud.
    pub fn is_cloud_change(&self) -> bool {
        matches!(
            self,
            ServiceEffect::Ensure(_) | ServiceEffect::UpdateTargets(_) | ServiceEffect::Delete(_)
        )
    }

    /// The label of this act about this Service.
    pub fn label(&self, service: &ServiceRef, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hint = |hint: &Option<Arc<[u8]>>| if hint.is_some() { " hint" } else { "" };
        match self {
            ServiceEffect::Ensure(request) => {
                write!(f, "ensure {service} targets({})", request.targets.len())?;
                match request.adopt.as_deref() {
                    Some("") => write!(f, " adopt")?,
                    Some(owner) => write!(f, " adopt={owner}")?,
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
            ServiceOutcome::Ensured(Err(error))
            | ServiceOutcome::Progressed(Err(error))
            | ServiceOutcome::Got(Err(error)) => write!(f, "{error}"),
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
