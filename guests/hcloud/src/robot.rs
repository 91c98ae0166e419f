//! Robot, Hetzner's API for dedicated servers (<https://robot.hetzner.com/doc/webservice/en.html>): its requests, and
//! the care that it needs. Beside [`crate::api`] the only file that speaks HTTP. It decides nothing about nodes.
//!
//! Robot counts requests per account and hour (200 lists), whoever sends them, and answers 403 beyond that; after three
//! refused log-ins it blocks the sender for ten minutes. So one list answers for all servers and is kept for minutes, and
//! after a refusal nothing is asked for a while. That while is kept in the host's state: where the host forgets it, one
//! more request is refused.

use std::time::Duration;

use ccm_guest::http::{Request, Response};
use ccm_guest::{Error, log, state};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

use crate::api::error_code;
use crate::config::RobotSettings;

pub mod instance;

#[cfg(test)]
mod tests;

/// The manifest's target.
pub const TARGET: &str = "robot";

/// How old the list may be that says that a server is not there. Well below the limit of requests when a node waits for it.
pub const ABSENCE_AGE: Duration = Duration::from_secs(60);
/// How long it is remembered that there is no server with a number. Numbers are not used again.
const ABSENCE_KNOWN: Duration = Duration::from_secs(600);
/// How old the power state of one server may be, when only that one is asked for.
const POWER_AGE: Duration = Duration::from_secs(30);
/// One request in so much time is what all power states together may take: half of the 500 that Robot allows an hour.
const POWER_PACE: Duration = Duration::from_secs(15);
/// The most servers whose power state is asked for in one call: with more, they would have to be older than the host keeps
/// answers. That so many are not ready is no matter of single servers.
pub const MAX_POWER: usize = 40;
/// How long Robot blocks a sender of wrong credentials.
const LOGIN_BLOCK: Duration = Duration::from_secs(600);
/// How long Robot is left alone after it did not answer, so that not every call waits for it until its time is over.
const AFTER_SILENCE: Duration = Duration::from_secs(10);
/// How long the names of the last list are remembered, for the time when Robot does not answer. The longest that the host keeps.
const NAMES_KNOWN: Duration = Duration::from_secs(3600);

/// The state's key for the reason why nothing is asked now.
const HOLD: &str = "robot/hold";
/// The state's key for the names of the last list.
const NAMES: &str = "robot/names";

/// A dedicated server.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
pub struct Server {
    /// Unique for ever.
    #[serde(rename = "server_number")]
    pub number: u64,
    /// Given by its tenant, changed at will; empty for a new server.
    #[serde(rename = "server_name", default, deserialize_with = "text")]
    pub name: String,
    /// Such as `AX41-NVMe`; blanks and signs of any kind occur.
    #[serde(default, deserialize_with = "text")]
    pub product: String,
    /// Data center, such as `FSN1-DC8`.
    #[serde(default, deserialize_with = "text")]
    pub dc: String,
    /// Main IPv4 address.
    #[serde(rename = "server_ip", default)]
    pub ipv4: Option<String>,
    /// Main IPv6 network, such as `2001:db8:1::`.
    #[serde(rename = "server_ipv6_net", default)]
    pub ipv6_net: Option<String>,
}

/// All servers of the account, in one answer that is at most `max_age` old.
///
/// # Errors
/// Why they are not known.
pub fn list(settings: &RobotSettings, max_age: Duration) -> Result<Vec<Server>, Error> {
    let response = ask(settings, Request::get(TARGET, "/server").max_age(max_age))?;
    // An account without any server has no empty list.
    let is_empty = response.status() == 404 && has_code(&response, "SERVER_NOT_FOUND");
    let servers: Vec<Server> = if is_empty {
        Vec::new()
    } else {
        let envelopes: Vec<ServerEnvelope> = read(response)?;
        envelopes.into_iter().map(|one| one.server).collect()
    };
    let names: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
    // Without room there is nothing to fall back on, and no more. No node's name has a line end.
    state::set(NAMES, names.join("\n").as_bytes(), NAMES_KNOWN);
    Ok(servers)
}

/// The server with this number; `None` if Robot itself says that there is none, now or within ten minutes.
///
/// # Errors
/// Why that is not known.
pub fn look_up(settings: &RobotSettings, number: u64) -> Result<Option<Server>, Error> {
    let key = format!("robot/absent/{number}");
    if state::get(&key).is_some() {
        return Ok(None);
    }
    let response = ask(
        settings,
        Request::get(TARGET, format!("/server/{number}")).max_age(ABSENCE_AGE),
    )?;
    // A 404 of anything in between is not proof.
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

/// Whether a server had this name when Robot last answered, within the hour. `None`: not remembered.
pub fn had_name(name: &str) -> Option<bool> {
    let names = state::get(NAMES)?;
    let mut names = names.split(|byte| *byte == b'\n');
    Some(names.any(|known| known == name.as_bytes()))
}

/// Whether a list was read in the last hour, as far as is remembered.
pub fn was_listed() -> bool {
    state::get(NAMES).is_some()
}

/// How old power states may be, so that those of so many servers stay within what they may take.
pub fn power_age(servers: usize) -> Duration {
    let servers = u32::try_from(servers.min(MAX_POWER)).unwrap_or(u32::MAX);
    POWER_AGE.max(POWER_PACE.saturating_mul(servers))
}

/// Whether a server is switched off, by an answer that is at most `max_age` old; `None` if Robot cannot tell, or does
/// not now.
pub fn is_shut_off(settings: &RobotSettings, number: u64, max_age: Duration) -> Option<bool> {
    let request = Request::get(TARGET, format!("/reset/{number}")).max_age(max_age);
    let answer = ask(settings, request).and_then(read::<ResetEnvelope>);
    match answer {
        Ok(answer) => match answer.reset.operating_status.as_str() {
            // Servers in tower cases have no sensor.
            "" | "not supported" => None,
            status => Some(status == "shut off"),
        },
        Err(error) => {
            log::debug(
                "the power state is not known",
                &[("reason", error.message())],
            );
            None
        }
    }
}

/// Sends a request, unless Robot is to be left alone. A refusal begins such a time.
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
                    _ => Error::throttled(reason, u64::try_from(wait.as_millis()).ok()),
                })
            }
        },
        Err(error) => {
            // Anything else is the host's own answer, which costs no time.
            if matches!(error, Error::Unavailable(_)) {
                leave_alone(error.message(), AFTER_SILENCE);
            }
            Err(error)
        }
    }
}

fn leave_alone(reason: &str, wait: Duration) {
    let seconds = wait.as_secs().to_string();
    let fields = [("reason", reason), ("seconds", seconds.as_str())];
    log::warn("Robot is left alone for a while", &fields);
    state::set(HOLD, reason.as_bytes(), wait);
}

/// How long Robot is left alone after this answer; `None` if it is no refusal.
fn refusal(settings: &RobotSettings, response: &Response) -> Option<Duration> {
    match response.status() {
        401 => Some(LOGIN_BLOCK),
        403 | 429 => Some(settings.hold),
        // Robot's documentation gives 403; its clients look at the code as well.
        _ if has_code(response, "RATE_LIMIT_EXCEEDED") => Some(settings.hold),
        _ => None,
    }
}

fn read<T: DeserializeOwned>(response: Response) -> Result<T, Error> {
    response.ok()?.json()
}

/// Text that may be missing or null.
fn text<'de, D: Deserializer<'de>>(value: D) -> Result<String, D::Error> {
    Ok(Option::<String>::deserialize(value)?.unwrap_or_default())
}

/// Whether this is an error with this code. Robot writes its codes in capital letters, and some of them not.
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
