//! Why a provider call failed, and what follows for the caller. Values only.

use std::fmt;
use std::time::Duration;

use thiserror::Error;

use super::instance::CloudEvent;

/// The owner of a cloud object, as the cloud has it recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    /// The UID of an object of Kubernetes.
    Uid(String),
    /// A Service's name: all that some clouds keep.
    Name {
        /// `metadata.namespace`.
        namespace: String,
        /// `metadata.name`.
        name: String,
    },
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Owner::Uid(uid) => f.write_str(uid),
            Owner::Name { namespace, name } => write!(f, "{namespace}/{name}"),
        }
    }
}

/// Why a call about one object failed, and the Events that the provider requests nevertheless.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallFailure {
    /// Why the call failed.
    pub error: ProviderError,
    /// Events to record about the object of the call; unchecked.
    pub events: Vec<CloudEvent>,
}

impl From<ProviderError> for CallFailure {
    fn from(error: ProviderError) -> CallFailure {
        CallFailure {
            error,
            events: Vec::new(),
        }
    }
}

/// Why a cloud call failed. The cases are those of the contract, and five that only the manager produces. Controllers
/// decide by the case, never by the text.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ProviderError {
    /// The request or the configuration is wrong: a person has to change something.
    #[error("invalid: {0}")]
    Invalid(String),
    /// The cloud refused the credential, or the grant does not cover the request.
    #[error("denied: {0}")]
    Denied(String),
    /// Another object holds the requested resource.
    #[error("conflict: {message}")]
    Conflict {
        /// The provider's description of the conflict.
        message: String,
        /// The owner, if the cloud has it recorded.
        owner: Option<Owner>,
    },
    /// The cloud's rate limit was reached.
    #[error("throttled: {message}")]
    Throttled {
        /// The provider's description of the limit.
        message: String,
        /// Between 1 s and 1 h; `None` when the cloud did not say.
        retry_after: Option<Duration>,
    },
    /// Temporarily impossible; worth retrying.
    #[error("unavailable: {0}")]
    Unavailable(String),
    /// This provider cannot do it.
    #[error("unsupported: {0}")]
    Unsupported(String),
    /// Implemented by another component (IFACE-012).
    #[error("implemented by alternate to cloud provider")]
    Elsewhere,
    /// A defect of the provider, reported by itself or detected by the wrong shape of its answer.
    #[error("internal error of the provider: {0}")]
    Internal(String),
    /// The call did not end in time. Whether the cloud acted is unknown.
    #[error("timed out: {0}")]
    TimedOut(String),
    /// The provider crashed; the text has function, cause, digest and its last log lines.
    #[error("trapped: {0}")]
    Trapped(String),
    /// The process that ran the provider was ended from outside, or could not be started: not the provider's fault.
    /// Whether the cloud acted is unknown.
    #[error("interrupted: {0}")]
    Interrupted(String),
    /// The call waited too long for its turn or for memory, and the provider was never called: the cloud did nothing.
    #[error("did not begin: {0}")]
    NotBegun(String),
    /// A brake held a change that the Service asks for, for this long. Other changes about the same object have another
    /// part of its budget.
    #[error("held by the brake of all changes at the cloud")]
    Held(Duration),
}

impl ProviderError {
    /// Whether the call itself failed, perhaps because of what it was asked, and not the cloud.
    pub fn is_crash(&self) -> bool {
        matches!(
            self,
            ProviderError::Trapped(_) | ProviderError::Internal(_) | ProviderError::TimedOut(_)
        )
    }

    /// The same case with another text.
    pub fn with_text(mut self, change: impl FnOnce(String) -> String) -> ProviderError {
        match &mut self {
            ProviderError::Invalid(text)
            | ProviderError::Denied(text)
            | ProviderError::Conflict { message: text, .. }
            | ProviderError::Throttled { message: text, .. }
            | ProviderError::Unavailable(text)
            | ProviderError::Unsupported(text)
            | ProviderError::Internal(text)
            | ProviderError::TimedOut(text)
            | ProviderError::Trapped(text)
            | ProviderError::Interrupted(text)
            | ProviderError::NotBegun(text) => *text = change(std::mem::take(text)),
            ProviderError::Elsewhere | ProviderError::Held(_) => {}
        }
        self
    }

    /// A fixed name per case, for metrics and log fields.
    pub fn reason(&self) -> &'static str {
        self.names().0
    }

    /// The case as the reason of a condition.
    pub(crate) fn condition_reason(&self) -> &'static str {
        self.names().1
    }

    /// The fixed name of the case, and its name as the reason of a condition.
    fn names(&self) -> (&'static str, &'static str) {
        match self {
            ProviderError::Invalid(_) => ("invalid", "Invalid"),
            ProviderError::Denied(_) => ("denied", "Denied"),
            ProviderError::Conflict { .. } => ("conflict", "Conflict"),
            ProviderError::Throttled { .. } => ("throttled", "Throttled"),
            ProviderError::Unavailable(_) => ("unavailable", "Unavailable"),
            ProviderError::Unsupported(_) => ("unsupported", "Unsupported"),
            ProviderError::Elsewhere => ("elsewhere", "Elsewhere"),
            ProviderError::Internal(_) => ("internal", "Internal"),
            ProviderError::TimedOut(_) => ("timed-out", "TimedOut"),
            ProviderError::Trapped(_) => ("trapped", "Trapped"),
            ProviderError::Interrupted(_) => ("interrupted", "Interrupted"),
            ProviderError::NotBegun(_) => ("not-begun", "NotBegun"),
            ProviderError::Held(_) => ("held", "Throttled"),
        }
    }
}
