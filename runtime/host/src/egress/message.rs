//! Types of the egress interface: requests, responses, errors, and the record of a call's exchanges.
//!
//! Mirrors the contract's `http` interface. No value in here ever holds a credential.

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::budget::Body;
#[cfg(doc)]
use super::rules::Line;

/// One request of a guest, as `ccm:provider/http.request`.
#[derive(Debug, Clone)]
pub struct FetchRequest {
    /// Name of a granted target.
    pub target: String,
    /// One of GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS.
    pub method: Method,
    /// Path below the target's base path: begins with `/`, at most 2048 bytes.
    pub path: String,
    /// Query pairs, not yet encoded; at most 64 pairs and 8 KiB.
    pub query: Vec<(String, String)>,
    /// Headers: at most 32 and 16 KiB, none that belongs to the host.
    pub headers: Vec<(String, String)>,
    /// Body, at most 1 MiB.
    pub body: Option<Bytes>,
    /// Whether the answer only adds detail, so that nothing about the presence of objects follows from it, nor from its
    /// failure.
    pub supplementary: bool,
}

/// One response, read to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchResponse {
    /// Status, 200 to 599. Redirects are never followed.
    pub status: u16,
    /// Headers, names in lower case; without cookies and connection headers.
    pub headers: Vec<(String, String)>,
    /// Body, at most 16 MiB.
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

/// Why there is no response. The texts are human-readable and never hold a credential.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum FetchError {
    /// Outside the grant, or a change that is not allowed now. Nothing was sent.
    #[error("denied: {0}")]
    Denied(String),
    /// Malformed request. Nothing was sent.
    #[error("invalid request: {0}")]
    Invalid(String),
    /// Requests to the target are held back for this many milliseconds. Nothing was sent.
    #[error("the target throttles: next request in {0} ms")]
    Throttled(u64),
    /// No complete response in time. Whether the cloud acted is unknown.
    #[error("timed out: {0}")]
    TimedOut(String),
    /// The response is larger than the cap. Whether the cloud acted is unknown.
    #[error("answer too large: {0}")]
    TooLarge(String),
    /// Name resolution, connection, TLS or a broken response. Whether the cloud acted is unknown.
    #[error("unavailable: {0}")]
    Unavailable(String),
}

impl FetchError {
    /// Same variant with its text changed.
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

    /// Fixed word per variant, for metrics, logs and [`ExchangeEnd::Failed`].
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

/// One request of a guest during a call, and its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchange {
    /// Name of the target, as the guest gave it.
    pub target: String,
    /// Method of the request.
    pub method: Method,
    /// Path pattern of the rule that admitted it, and its fields: [`Line::label`]; `None` when no rule did.
    pub template: Option<String>,
    /// Status of the response, or why there is none.
    pub end: ExchangeEnd,
    /// Whether the response came from the cache or was shared with another request; nothing was sent for this one.
    pub kept: bool,
    /// Whether the answer proves that the requested object does not exist: 404 on a path that names one object, or an
    /// answer that the rule in the manifest lists as such a proof.
    pub absent: bool,
    /// Whether the request was marked as [`FetchRequest::supplementary`].
    pub supplementary: bool,
    /// Bytes of the response body.
    pub bytes: u64,
    /// Time from the guest's call to the end, waiting included.
    pub took: Duration,
}

/// Result of an [`Exchange`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExchangeEnd {
    /// Status of a complete response of the cloud.
    Answered(u16),
    /// No complete response: [`FetchError::reason`], or `cancelled` when the guest abandoned the request.
    Failed(&'static str),
}
