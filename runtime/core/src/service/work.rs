//! The requests of one reconciliation to the provider, and the answers: for the load balancer or for its removal. When
//! the Service changes in between, the answers about the other one no longer apply. Decides nothing.

use std::sync::Arc;

use super::effect::OwnerState;
use crate::cloud::error::ProviderError;
use crate::cloud::load_balancer::{
    Adoptable, CloudService, EnsureReply, Ensured, GetReply, LoadBalancerStatus, Pending, Progress,
    TargetNodes,
};
use crate::reconciliation::effect::Answered;
use crate::reconciliation::patch::ServicePatch;

/// Operation requested from the provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doing {
    Ensure,
    Update,
    Delete,
    /// The look before a deletion.
    Look,
    Check,
}

impl Doing {
    /// Upstream's wording: the end of "failed to …" (SVC-036, SVC-040, SVC-041).
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Doing::Ensure => "ensure load balancer",
            Doing::Update => "update load balancer hosts",
            Doing::Delete => "delete load balancer",
            Doing::Look => "check if load balancer exists before cleanup",
            Doing::Check => "check if load balancer exists after cleanup",
        }
    }
}

/// An answer to an ensure call.
pub(super) type EnsureAnswer = Result<Answered<EnsureReply>, ProviderError>;

/// The requests of one reconciliation to the provider.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) enum Work {
    /// No request was made.
    #[default]
    None,
    /// Only a look: in observe mode, or before a removal that may find nothing.
    Looked(Result<GetReply, ProviderError>),
    /// Requests for the load balancer, or for its targets.
    Making(Making),
    /// Requests to remove the load balancer.
    Removing(Removing),
    /// Nothing is left at the cloud; the removal of finalizer and owner was written, or withheld.
    Released,
}

/// The requests for a load balancer, and the answers.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Making {
    /// The last request that may change something.
    pub(super) asked: Asked,
    /// The load balancer that the last ensure call may adopt.
    pub(super) adopt: Option<Adoptable>,
    /// The last answer to an ensure call.
    pub(super) ensured: Option<EnsureAnswer>,
    /// The last answer to an update of the targets.
    pub(super) updated: Option<Result<Progress, ProviderError>>,
    /// Whether the owner named by a conflict exists.
    pub(super) owner: Option<OwnerState>,
    /// The mode withheld the last request, so that its consequences are unknown.
    pub(super) is_withheld: bool,
}

/// The requests to remove the load balancer, and the answers.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Removing {
    pub(super) asked: Asked,
    /// The answer; `None`: the mode withheld the request.
    pub(super) deleted: Option<Result<Progress, ProviderError>>,
    /// Whether anything is left, if looked up since.
    pub(super) got: Option<Result<GetReply, ProviderError>>,
    /// The answer to an ensure call before it.
    pub(super) ensured: Option<EnsureAnswer>,
}

/// A request to the provider that may change something.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Asked {
    /// The Service, without its status.
    pub(super) service: Arc<CloudService>,
    /// The nodes that receive traffic.
    pub(super) targets: TargetNodes,
}

impl Asked {
    pub(super) fn new(service: &CloudService, targets: &TargetNodes) -> Asked {
        Asked {
            service: without_status(service),
            targets: targets.clone(),
        }
    }
}

/// For comparison: a status that we wrote ourselves must not trigger another call.
pub(super) fn without_status(service: &CloudService) -> Arc<CloudService> {
    let mut service = service.clone();
    service.status = LoadBalancerStatus::default();
    Arc::new(service)
}

impl Work {
    /// The requests for a load balancer, unless its removal was requested since.
    pub(super) fn making(&self) -> Option<&Making> {
        match self {
            Work::Making(making) => Some(making),
            Work::None | Work::Looked(_) | Work::Removing(_) | Work::Released => None,
        }
    }

    /// The last request that may change something.
    pub(super) fn asked(&self) -> Option<&Asked> {
        match self {
            Work::Making(making) => Some(&making.asked),
            Work::Removing(removing) => Some(&removing.asked),
            Work::None | Work::Looked(_) | Work::Released => None,
        }
    }

    /// Whether the mode withheld the last request.
    pub(super) fn is_withheld(&self) -> bool {
        match self {
            Work::Making(making) => making.is_withheld,
            Work::Removing(removing) => removing.deleted.is_none(),
            Work::None | Work::Looked(_) | Work::Released => false,
        }
    }

    /// The last answer to an ensure call, also if a removal was requested since.
    pub(super) fn last_ensured(&self) -> Option<&EnsureAnswer> {
        match self {
            Work::Making(making) => making.ensured.as_ref(),
            Work::Removing(removing) => removing.ensured.as_ref(),
            Work::None | Work::Looked(_) | Work::Released => None,
        }
    }

    /// The operation that the last answers call pending.
    pub(super) fn pending(&self) -> Option<(Doing, &Pending)> {
        let (doing, progress) = match self {
            Work::Making(making) => {
                if let Some(Ok(answered)) = &making.ensured
                    && let Ensured::Pending(pending) = &answered.reply.ensured
                {
                    return Some((Doing::Ensure, pending));
                }
                (Doing::Update, making.updated.as_ref())
            }
            Work::Removing(removing) => (Doing::Delete, removing.deleted.as_ref()),
            Work::None | Work::Looked(_) | Work::Released => return None,
        };
        match progress? {
            Ok(Progress::Pending(pending)) => Some((doing, pending)),
            Ok(Progress::Done) | Err(_) => None,
        }
    }

    /// Adds a request for the load balancer or for its targets, with what `change` notes about it. Answers about a
    /// removal before it no longer apply.
    pub(super) fn make(&mut self, asked: Asked, change: impl FnOnce(&mut Making)) {
        let mut making = match std::mem::take(self) {
            Work::Making(before) => Making { asked, ..before },
            Work::None | Work::Looked(_) | Work::Removing(_) | Work::Released => Making {
                asked,
                adopt: None,
                ensured: None,
                updated: None,
                owner: None,
                is_withheld: false,
            },
        };
        change(&mut making);
        *self = Work::Making(making);
    }

    /// Adds a request to remove the load balancer.
    pub(super) fn remove(
        &mut self,
        asked: Asked,
        deleted: Option<Result<Progress, ProviderError>>,
    ) {
        *self = Work::Removing(Removing {
            asked,
            deleted,
            got: None,
            ensured: self.last_ensured().cloned(),
        });
    }

    /// Our own write of the provider's annotations, after which the Service is as `seen`: they must not trigger another
    /// call, also if an admission webhook has changed them.
    pub(super) fn note_annotations(&mut self, patch: &ServicePatch, seen: &CloudService) {
        let asked = match self {
            Work::Making(making) => &mut making.asked,
            Work::Removing(removing) => &mut removing.asked,
            Work::None | Work::Looked(_) | Work::Released => return,
        };
        let service = Arc::make_mut(&mut asked.service);
        for key in patch.annotations.keys() {
            match seen.annotations.get(key) {
                Some(value) => service.annotations.insert(key.clone(), value.clone()),
                None => service.annotations.remove(key),
            };
        }
    }
}

/// Whether the cloud may still carry out the ensure call with this answer.
pub(super) fn is_unsure(answer: &EnsureAnswer) -> bool {
    let error = answer.as_ref().err();
    let is_cut_off = |error: &ProviderError| {
        matches!(
            error,
            ProviderError::Unavailable(_) | ProviderError::Interrupted(_)
        )
    };
    error.is_some_and(|error| error.is_crash() || is_cut_off(error))
}
