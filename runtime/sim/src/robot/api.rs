//! The web service as a function of one call and the account's state.
//!
//! Knows the vendor's paths and envelopes, but no sockets, faults, logins or limits.

use std::collections::BTreeMap;

use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::rate::RateLimit;
use super::servers::{Server, ServerSpec};
use super::{resets, servers};
use crate::loopback::Reply;

/// The first server's number, with as many digits as the vendor's.
const FIRST_NUMBER: u32 = 1_000_001;

/// The servers of one account.
#[derive(Default)]
pub(super) struct Account {
    pub(super) servers: BTreeMap<u32, Server>,
    made: u16,
}

impl Account {
    pub(super) fn add(&mut self, spec: ServerSpec) -> u32 {
        let number = FIRST_NUMBER + u32::from(self.made);
        self.servers
            .insert(number, Server::new(number, self.made, spec));
        self.made = self.made.wrapping_add(1);
        number
    }

    /// Finds a server by its number, or by its main IPv4 address as the vendor still allows.
    pub(super) fn find(&self, id: &str) -> Result<&Server, Refusal> {
        let by_number = id.parse().ok().and_then(|number| self.servers.get(&number));
        let by_address = || {
            let address = id.parse().ok();
            let mut all = self.servers.values();
            all.find(|server| address.is_some() && server.ipv4 == address)
        };
        by_number.or_else(by_address).ok_or_else(|| {
            let message = format!("Server with id {id} not found");
            Refusal::not_found("SERVER_NOT_FOUND", &message)
        })
    }
}

/// The fields of a posted form.
pub(super) struct Form(Vec<(String, String)>);

impl Form {
    pub(super) fn parse(body: &[u8]) -> Self {
        Self(url::form_urlencoded::parse(body).into_owned().collect())
    }

    pub(super) fn required(&self, name: &str) -> Result<&str, Refusal> {
        let field = self.0.iter().find(|(key, _)| key == name);
        let value = field.map(|(_, value)| value.as_str());
        value.ok_or_else(|| Refusal::missing(name))
    }
}

/// A refusal in the vendor's error envelope.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    error: Value,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, code: &str, message: &str) -> Self {
        Self {
            status,
            error: json!({"status": status.as_u16(), "code": code, "message": message}),
        }
    }

    pub(super) fn not_found(code: &str, message: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, code, message)
    }

    pub(super) fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "UNAUTHORIZED", "Unauthorized")
    }

    pub(super) fn rate_limited(limit: RateLimit) -> Self {
        let code = "RATE_LIMIT_EXCEEDED";
        Self::new(StatusCode::FORBIDDEN, code, "rate limit exceeded")
            .with("max_request", json!(limit.max_request))
            .with("interval", json!(limit.interval.as_secs()))
    }

    fn missing(field: &str) -> Self {
        Self::invalid_input(json!([field]), Value::Null)
    }

    pub(super) fn invalid(field: &str) -> Self {
        Self::invalid_input(Value::Null, json!([field]))
    }

    fn invalid_input(missing: Value, invalid: Value) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "INVALID_INPUT", "invalid input")
            .with("missing", missing)
            .with("invalid", invalid)
    }

    fn with(mut self, field: &str, value: Value) -> Self {
        self.error[field] = value;
        self
    }

    pub(super) fn into_reply(self) -> Reply {
        Reply {
            status: self.status,
            body: Some(json!({"error": self.error})),
        }
    }
}

/// Answers one call about the account.
pub(super) fn answer(
    account: &mut Account,
    method: &Method,
    path: &str,
    body: &[u8],
) -> Result<Value, Refusal> {
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    match (method.as_str(), segments.as_slice()) {
        ("GET", ["server"]) => servers::list(account),
        ("GET", ["server", id]) => servers::get(account, id),
        ("POST", ["server", id]) => servers::rename(account, id, &Form::parse(body)),
        ("GET", ["reset"]) => resets::list(account),
        ("GET", ["reset", id]) => resets::get(account, id),
        ("POST", ["reset", id]) => resets::execute(account, id, &Form::parse(body)),
        _ => Err(Refusal::not_found("NOT_FOUND", "Not found")),
    }
}
