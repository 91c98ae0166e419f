//! How to say why a call did not do what was asked. The host decides on the case, never on the text, so the case is
//! what has to be right:
//!
//! | Case | When | What the host does |
//! |---|---|---|
//! | [`Error::Invalid`] | a person has to change the Service, an annotation or the configuration | event, long back-off |
//! | [`Error::Denied`] | the cloud refused the credential, or the grant does not cover a request | event, long back-off |
//! | [`Error::Conflict`] | another object holds what was asked for | asks whether its owner is alive |
//! | [`Error::Throttled`] | the cloud asked for patience | waits as long as it said |
//! | [`Error::Unavailable`] | network, 5xx, a locked object, an incomplete answer | retries with growing delay |
//! | [`Error::Unsupported`] | this provider cannot do it, ever | event, no retry |
//! | [`Error::Elsewhere`] | somebody else implements this | leaves the object alone, quietly |
//! | [`Error::Internal`] | a defect of the provider | event, retries with growing delay |
//!
//! Absence is never an error: see [`Lookup`](crate::Lookup).

use crate::{Conflict, Error, Throttled};

impl Error {
    /// A person has to change something.
    pub fn invalid(message: impl Into<String>) -> Error {
        Error::Invalid(message.into())
    }

    /// The credential or the grant does not cover this.
    pub fn denied(message: impl Into<String>) -> Error {
        Error::Denied(message.into())
    }

    /// Another object holds what was asked for; `owner` is the UID of its Service or Node, if the cloud knows it.
    pub fn conflict(message: impl Into<String>, owner: Option<String>) -> Error {
        Error::Conflict(Conflict {
            message: message.into(),
            owner,
        })
    }

    /// The cloud asked for patience, `None` if it did not say how much.
    pub fn throttled(message: impl Into<String>, retry_after_ms: Option<u64>) -> Error {
        Error::Throttled(Throttled {
            message: message.into(),
            retry_after_ms,
        })
    }

    /// Not now.
    pub fn unavailable(message: impl Into<String>) -> Error {
        Error::Unavailable(message.into())
    }

    /// Not by this provider.
    pub fn unsupported(message: impl Into<String>) -> Error {
        Error::Unsupported(message.into())
    }

    /// A defect of the provider.
    pub fn internal(message: impl Into<String>) -> Error {
        Error::Internal(message.into())
    }

    /// The text for people.
    pub fn message(&self) -> &str {
        match self {
            Error::Invalid(message)
            | Error::Denied(message)
            | Error::Unavailable(message)
            | Error::Unsupported(message)
            | Error::Internal(message) => message,
            Error::Conflict(conflict) => &conflict.message,
            Error::Throttled(throttled) => &throttled.message,
            Error::Elsewhere => "implemented elsewhere",
        }
    }
}
