//! Constructors for the errors of the contract. The host acts on the variant, never on the text, so the variant must
//! be right:
//!
//! | Case | When | What the host does |
//! |---|---|---|
//! | [`Error::Invalid`] | a person must change the Service, an annotation or the configuration | event, long back-off |
//! | [`Error::Denied`] | the cloud refused the credential, or the grant lacks the request | event, long back-off |
//! | [`Error::Conflict`] | another object holds the requested resource | in `ensure`: asks whether its owner is alive; elsewhere as for `Unavailable` |
//! | [`Error::Throttled`] | the cloud limits the request rate | waits as long as the cloud said |
//! | [`Error::Unavailable`] | network, 5xx, a locked object, an incomplete answer | retries with growing delay |
//! | [`Error::Unsupported`] | this provider can never do it | event, long back-off |
//! | [`Error::Elsewhere`] | another component implements this | leaves the object alone, without an event |
//! | [`Error::Internal`] | a defect of the provider | event, retries with growing delay |
//!
//! Absence is never an error: see [`Lookup`](crate::Lookup).

use std::fmt::{self, Display};
use std::time::Duration;

use crate::http::FetchError;
use crate::instances::REASON_BYTES;
use crate::{Conflict, Error, Event, Failure, Owner, Throttled, clock, event};

impl Error {
    /// A person has to change the Service, an annotation or the configuration.
    pub fn invalid(message: impl Into<String>) -> Error {
        Error::Invalid(message.into())
    }

    /// The cloud refused the credential, or the grant does not cover the request.
    pub fn denied(message: impl Into<String>) -> Error {
        Error::Denied(message.into())
    }

    /// Another object holds the requested resource. `owner` is its owner, if the cloud knows it: see [`Owner::uid`] and
    /// [`Owner::name`].
    pub fn conflict(message: impl Into<String>, owner: Option<Owner>) -> Error {
        Error::Conflict(Conflict {
            message: message.into(),
            owner,
        })
    }

    /// The cloud limits the request rate. `retry_after` is `None` if the cloud did not say how long to wait.
    pub fn throttled(message: impl Into<String>, retry_after: Option<Duration>) -> Error {
        Error::Throttled(Throttled {
            message: message.into(),
            retry_after_ms: retry_after.map(clock::millis),
        })
    }

    /// A temporary failure: network, 5xx, a locked object, an incomplete answer.
    pub fn unavailable(message: impl Into<String>) -> Error {
        Error::Unavailable(message.into())
    }

    /// This provider can never do what was requested.
    pub fn unsupported(message: impl Into<String>) -> Error {
        Error::Unsupported(message.into())
    }

    /// A defect of the provider.
    pub fn internal(message: impl Into<String>) -> Error {
        Error::Internal(message.into())
    }

    /// The same error with events that tell more about the object of the call: the first 16, which are as many as the
    /// contract allows. The host reports the error itself.
    pub fn with_events(self, events: Vec<Event>) -> Failure {
        Failure {
            error: self,
            events: event::first(events),
        }
    }

    /// The same case with another text. For clouds whose answers explain more than the status does.
    #[must_use]
    pub fn with_message(self, message: impl Into<String>) -> Error {
        let message = message.into();
        match self {
            Error::Invalid(_) => Error::Invalid(message),
            Error::Denied(_) => Error::Denied(message),
            Error::Unavailable(_) => Error::Unavailable(message),
            Error::Unsupported(_) => Error::Unsupported(message),
            Error::Internal(_) => Error::Internal(message),
            Error::Conflict(conflict) => Error::Conflict(Conflict {
                message,
                ..conflict
            }),
            Error::Throttled(throttled) => Error::Throttled(Throttled {
                message,
                ..throttled
            }),
            Error::Elsewhere => Error::Elsewhere,
        }
    }

    /// Why one question of several stays open, as short as the contract requires: it may be the answer to thousands, and
    /// quote the cloud. An error that would affect every other one, too, is returned: a refused credential and an exhausted
    /// request limit, which more requests would make worse.
    ///
    /// # Errors
    /// [`Error::Denied`] and [`Error::Throttled`].
    pub fn of_one(self) -> Result<String, Error> {
        match self {
            Error::Denied(_) | Error::Throttled(_) => Err(self),
            error => {
                let why = error.message();
                let end = why.floor_char_boundary(REASON_BYTES);
                Ok(why.get(..end).unwrap_or(why).to_owned())
            }
        }
    }

    /// The human-readable text of the variant.
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

/// The case and its text, such as `invalid: region: it is empty`.
impl Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let case = match self {
            Error::Invalid(_) => "invalid",
            Error::Denied(_) => "denied",
            Error::Conflict(_) => "conflict",
            Error::Throttled(_) => "throttled",
            Error::Unavailable(_) => "unavailable",
            Error::Unsupported(_) => "unsupported",
            Error::Internal(_) => "internal",
            Error::Elsewhere => return f.write_str(self.message()),
        };
        write!(f, "{case}: {}", self.message())
    }
}

impl std::error::Error for Error {}

/// The error, which has no source: the events are about the object of the call.
impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for Failure {}

impl Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FetchError::Denied(why) => write!(f, "denied: {why}"),
            FetchError::Invalid(why) => write!(f, "invalid request: {why}"),
            FetchError::Throttled(ms) => {
                write!(f, "the target throttles: next request in {ms} ms")
            }
            FetchError::TimedOut(why) => write!(f, "timed out: {why}"),
            FetchError::TooLarge(why) => write!(f, "answer too large: {why}"),
            FetchError::Unavailable(why) => write!(f, "unavailable: {why}"),
        }
    }
}

impl std::error::Error for FetchError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_shown_with_its_case() {
        let invalid = Error::invalid("region: it is empty");
        assert_eq!(invalid.to_string(), "invalid: region: it is empty");
        let failure = invalid.with_events(vec![Event::normal("Looked", "there")]);
        assert_eq!(failure.to_string(), "invalid: region: it is empty");
        assert_eq!(Error::Elsewhere.to_string(), "implemented elsewhere");
        let timed_out = FetchError::TimedOut("no answer".to_owned());
        assert_eq!(timed_out.to_string(), "timed out: no answer");
    }

    #[test]
    fn a_refused_credential_and_a_limit_affect_every_question() {
        for error in [Error::denied("no"), Error::throttled("later", None)] {
            assert_eq!(error.clone().of_one(), Err(error));
        }
        for error in [
            Error::unavailable("why"),
            Error::invalid("why"),
            Error::conflict("why", None),
        ] {
            assert_eq!(error.of_one(), Ok("why".to_owned()));
        }
        // The text of a hostile answer, which every node of a call would get.
        let why = Error::internal("é".repeat(1 << 20)).of_one();
        assert_eq!(why, Ok("é".repeat(512)));
    }
}
