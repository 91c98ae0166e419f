//! Client for Robot, Hetzner's API for dedicated servers (<https://robot.hetzner.com/doc/webservice/en.html>), within
//! its request limits. Only this file and [`crate::api`] speak HTTP. It decides nothing about nodes.
//!
//! Robot counts requests per account and hour (200 lists) for all clients together, and answers 403 beyond the limit;
//! after three refused log-ins it blocks the client for ten minutes. So one list covers all servers and is cached for
//! minutes, and a refusal pauses all requests. The pause is kept in the host's state: if the host drops it, one more
//! request is refused.

use std::time::Duration;

use ccm_guest::http::{Request, Response};
use ccm_guest::{Error, log, state};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

use crate::api::refusal::error_code;
use crate::config::RobotSettings;

pub mod instance;

#[cfg(test)]
mod tests;

/// Name of the manifest's target.
pub const TARGET: &str = "robot";

/// Maximum age of a list that proves absence. A node waiting for it stays well below the request limit.
pub const ABSENCE_AGE: Duration = Duration::from_secs(60);
/// How long the absence of a number is cached. Numbers are never reused.
const ABSENCE_KNOWN: Duration = Duration::from_secs(600);
/// Maximum age of a power state when only one server is queried.
const POWER_AGE: Duration = Duration::from_secs(30);
/// Minimum average interval between power state requests: half of the 500 that Robot allows an hour.
const POWER_PACE: Duration = Duration::from_secs(15);
/// Maximum number of servers per call whose power state is queried; more would need cached responses older than the
/// host keeps. That many nodes not ready is not a problem of single servers.
pub const MAX_POWER: usize = 40;
/// How long Robot blocks a client after wrong credentials.
const LOGIN_BLOCK: Duration = Duration::from_secs(600);
/// Pause after Robot did not respond, so that not every call waits until its timeout.
const AFTER_SILENCE: Duration = Duration::from_secs(10);
/// How long the names of the last list are kept for times when Robot does not respond. The host's maximum.
const NAMES_KNOWN: Duration = Duration::from_secs(3600);

/// State key for the reason of the current pause.
const HOLD: &str = "robot/hold";
/// State key for the names of the last list.
const NAMES: &str = "robot/names";

/// A dedicated server of the Robot account.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
pub struct Server {
    /// Unique; never reused.
    #[serde(rename = "server_number")]
    pub number: u64,
    /// Set by the customer, can change; empty for a new server.
    #[serde(rename = "server_name", default, deserialize_with = "text")]
    pub name: String,
    /// The product, such as `AX41-NVMe`; may contain blanks and any other characters.
    #[serde(default, deserialize_with = "text")]
    pub product: String,
    /// The data center, such as `FSN1-DC8`.
    #[serde(default, deserialize_with = "text")]
    pub dc: String,
    /// The main IPv4 address; `None` for a server with IPv6 only.
    #[serde(rename = "server_ip", default)]
    pub ipv4: Option<String>,
    /// The main IPv6 network, such as `2001:db8:1::`, without prefix length.
    #[serde(rename = "server_ipv6_net", default)]
    pub ipv6_net: Option<String>,
}

impl Server {
    /// Whether this is the node's name. People write capital letters at Robot, and a node's name has none.
    pub fn is_named(&self, node: &str) -> bool {
        self.name.eq_ignore_ascii_case(node)
    }
}

/// Lists all servers of the account, from a response that is at most `max_age` old.
///
/// # Errors
/// The reason why they are not known.
pub fn list(settings: &RobotSettings, max_age: Duration) -> Result<Vec<Server>, Error> {
    let response = ask(settings, Request::get(TARGET, "/server").max_age(max_age))?;
    // For an account without servers, Robot answers 404 instead of an empty list.
    let is_empty = response.status() == 404 && has_code(&response, "SERVER_NOT_FOUND");
    let servers: Vec<Server> = if is_empty {
        Vec::new()
    } else {
        let envelopes: Vec<ServerEnvelope> = read(response)?;
        envelopes.into_iter().map(|one| one.server).collect()
    };
    let names: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
    // If the state has no space, only the fallback is lost. Node names contain no line feed.
    state::set(NAMES, names.join("\n").as_bytes(), NAMES_KNOWN);
    Ok(servers)
}

/// The server with this number; `None` if Robot itself reports, now or within ten minutes, that it does not exist.
///
/// # Errors
/// The reason why it is not known.
pub fn look_up(settings: &RobotSettings, number: u64) -> Result<Option<Server>, Error> {
    let key = format!("robot/absent/{number}");
    if state::get(&key).is_some() {
        return Ok(None);
    }
    let response = ask(
        settings,
        Request::get(TARGET, format!("/server/{number}")).max_age(ABSENCE_AGE),
    )?;
    // A 404 of an intermediary proves nothing.
    if response.status() == 404 && has_code(&response, "SERVER_NOT_FOUND") {
        state::set(&key, &[], ABSENCE_KNOWN);
        return Ok(None);
    }
    let ServerEnvelope { server } = read(response)?;
    if server.number != number {
        return Err(Error::unavailable(format!(
            "Robot's server {number} was asked for and server {} came",
            server.number
        )));
    }
    Ok(Some(server))
}

/// Whether the last list, at most an hour old, had this name. `None`: no list is cached.
pub fn had_name(name: &str) -> Option<bool> {
    let names = state::get(NAMES)?;
    let mut names = names.split(|byte| *byte == b'\n');
    Some(names.any(|known| known.eq_ignore_ascii_case(name.as_bytes())))
}

/// Whether the state records a list from the last hour.
pub fn was_listed() -> bool {
    state::get(NAMES).is_some()
}

/// Maximum age of power states that keeps requests for `servers` servers within their limit.
pub fn power_age(servers: usize) -> Duration {
    let servers = u32::try_from(servers.min(MAX_POWER)).unwrap_or(u32::MAX);
    POWER_AGE.max(POWER_PACE.saturating_mul(servers))
}

/// Whether a server is switched off, from a response that is at most `max_age` old; `None` if Robot has no information
/// or does not respond.
pub fn is_shut_off(settings: &RobotSettings, number: u64, max_age: Duration) -> Option<bool> {
    // It proves no absence: what was read of other machines stays complete without it.
    let request = Request::get(TARGET, format!("/reset/{number}")).supplementary();
    let answer = ask(settings, request.max_age(max_age)).and_then(read::<ResetEnvelope>);
    match answer {
        Ok(answer) => match answer.reset.operating_status.as_str() {
            // Servers in tower cases have no sensor.
            "" | "not supported" => None,
            status => Some(status == "shut off"),
        },
        Err(error) => {
            log::info!(reason = error.message(); "the power state is not known");
            None
        }
    }
}

/// Sends a request, unless requests to Robot are paused. A refusal starts a pause.
fn ask(settings: &RobotSettings, request: Request) -> Result<Response, Error> {
    if let Some(reason) = state::get(HOLD) {
        let reason = String::from_utf8_lossy(&reason).into_owned();
        let message = format!("Robot is left alone for a while after {reason}");
        return Err(Error::throttled(message, None));
    }
    match request.send() {
        Ok(response) => match refusal(settings, &response) {
            None => Ok(response),
            Some(wait) => {
                let status = response.status();
                let code = error_code(&response).unwrap_or_default();
                let reason = format!("{}: {status} {code}", response.label());
                leave_alone(&reason, wait);
                Err(match status {
                    401 => Error::denied(reason),
                    _ => Error::throttled(reason, Some(wait)),
                })
            }
        },
        Err(error) => {
            // Other errors come from the host itself, without waiting.
            if matches!(error, Error::Unavailable(_)) {
                leave_alone(error.message(), AFTER_SILENCE);
            }
            Err(error)
        }
    }
}

fn leave_alone(reason: &str, wait: Duration) {
    log::warn!(reason, seconds = wait.as_secs(); "Robot is left alone for a while");
    state::set(HOLD, reason.as_bytes(), wait);
}

/// The pause after this response; `None` if it is no refusal.
fn refusal(settings: &RobotSettings, response: &Response) -> Option<Duration> {
    match response.status() {
        401 => Some(LOGIN_BLOCK),
        403 | 429 => Some(settings.hold),
        // Robot documents 403; its clients also check the code.
        _ if has_code(response, "RATE_LIMIT_EXCEEDED") => Some(settings.hold),
        _ => None,
    }
}

fn read<T: DeserializeOwned>(response: Response) -> Result<T, Error> {
    response.ok()?.json()
}

/// Deserializes text that may be missing or null.
fn text<'de, D: Deserializer<'de>>(value: D) -> Result<String, D::Error> {
    Ok(Option::<String>::deserialize(value)?.unwrap_or_default())
}

/// Whether this is an error with this code. Robot writes most codes in capital letters, but not all.
fn has_code(response: &Response, code: &str) -> bool {
    error_code(response).is_some_and(|found| found.eq_ignore_ascii_case(code))
}

#[derive(Deserialize)]
struct ServerEnvelope {
    server: Server,
}

#[derive(Deserialize)]
struct ResetEnvelope {
    reset: Reset,
}

#[derive(Deserialize)]
struct Reset {
    #[serde(default, deserialize_with = "text")]
    operating_status: String,
}
