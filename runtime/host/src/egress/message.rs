//! What crosses the egress: requests, answers, errors, and the record of what happened in a call.
//!
//! Mirrors the contract's `http` interface. No value in here ever holds a credential.

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::budget::Body;

/// One request of a guest, as `ccm:provider/http.request`.
#[derive(Debug, Clone)]
pub struct FetchRequest {
    /// The name of a granted target.
    pub target: String,
    /// One of GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS.
    pub method: Method,
    /// Begins with `/`, below the target's base path; at most 2048 bytes.
    pub path: String,
    /// Not yet encoded; at most 64 pairs and 8 KiB.
    pub query: Vec<(String, String)>,
    /// At most 32 and 16 KiB, none of those that belong to the host.
    pub headers: Vec<(String, String)>,
    /// At most 1 MiB.
    pub body: Option<Bytes>,
}

/// One answer, read to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchResponse {
    /// 200 to 599. Redirects are never followed.
    pub status: u16,
    /// Names in lower case; without cookies and what belongs to the connection.
    pub headers: Vec<(String, String)>,
    /// At most 16 MiB.
    pub body: Body,
}

impl TryFrom<FetchResponse> for http::Response<Bytes> {
    type Error = FetchError;

    fn try_from(answer: FetchResponse) -> Result<http::Response<Bytes>, FetchError> {
        let mut response = http::Response::builder().status(answer.status);
        for (name, value) in &answer.headers {
            response = response.header(name, value);
        }
        response
            .body(answer.body.into())
            .map_err(|error| FetchError::Unavailable(error.to_string()))
    }
}

/// Why there is no answer. The texts are for people and never hold a credential.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum FetchError {
    /// Outside the grant, or a change that is not allowed now. Nothing was sent.
    #[error("denied: {0}")]
    Denied(String),
    /// Not a request. Nothing was sent.
    #[error("invalid request: {0}")]
    Invalid(String),
    /// The target asked for patience; requests are held back for this many milliseconds. Nothing was sent.
    #[error("the target asked for patience: next request in {0} ms")]
    Throttled(u64),
    /// No complete answer in time. Whether the cloud acted is not known.
    #[error("timed out: {0}")]
    TimedOut(String),
    /// The answer is larger than the cap. Whether the cloud acted is not known.
    #[error("answer too large: {0}")]
    TooLarge(String),
    /// Name resolution, connection, TLS or a broken answer. Whether the cloud acted is not known.
    #[error("unavailable: {0}")]
    Unavailable(String),
}

impl FetchError {
    /// The same case with another text.
    pub(super) fn with_text(self, change: impl FnOnce(String) -> String) -> FetchError {
        match self {
            FetchError::Denied(text) => FetchError::Denied(change(text)),
            FetchError::Invalid(text) => FetchError::Invalid(change(text)),
            FetchError::Throttled(ms) => FetchError::Throttled(ms),
            FetchError::TimedOut(text) => FetchError::TimedOut(change(text)),
            FetchError::TooLarge(text) => FetchError::TooLarge(change(text)),
            FetchError::Unavailable(text) => FetchError::Unavailable(change(text)),
        }
    }

    /// A fixed word per case, for metrics, logs and [`ExchangeEnd::Failed`].
    pub fn reason(&self) -> &'static str {
        match self {
            FetchError::Denied(_) => "denied",
            FetchError::Invalid(_) => "invalid",
            FetchError::Throttled(_) => "throttled",
            FetchError::TimedOut(_) => "timed-out",
            FetchError::TooLarge(_) => "too-large",
            FetchError::Unavailable(_) => "unavailable",
        }
    }
}

/// One thing that a guest asked for during a call, and how it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchange {
    /// The target's name, as the guest said it.
    pub target: String,
    /// The method.
    pub method: Method,
    /// The path pattern of the rule that admitted it; `None` when no rule did.
    pub template: Option<String>,
    /// How it ended.
    pub end: ExchangeEnd,
    /// Whether the answer was kept from, or shared with, another request: then nothing was sent for this one.
    pub kept: bool,
    /// Whether the path names one object, so that 404 is a complete answer.
    pub one_object: bool,
    /// Bytes of the answer's body.
    pub bytes: u64,
    /// From the guest's asking to the end, waiting included.
    pub took: Duration,
}

/// The end of an [`Exchange`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExchangeEnd {
    /// The cloud answered, completely, with this status.
    Answered(u16),
    /// No complete answer; [`FetchError::reason`], or `cancelled` when the guest went away.
    Failed(&'static str),
}
