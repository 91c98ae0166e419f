//! Checks the actions that the previous call started.

use std::time::Duration;

use ccm_guest::{Error, log, state};

use crate::api::actions::{Action, actions as ask_for};

/// How long a reported failure is cached. The host may keep a hint for any time.
const REPORTED: Duration = Duration::from_secs(600);

/// The combined status of actions.
#[derive(Debug, PartialEq)]
pub enum Wait {
    /// One or more actions are still running.
    Running,
    /// All actions have succeeded.
    Over,
    /// One has failed, which is reported once: the change is retried with growing delay.
    Failed(Error),
    /// Unknown: only reading the objects again shows the result.
    Unknown,
}

/// Queries the actions once.
///
/// # Errors
/// They cannot be queried.
pub fn ask(actions: &[u64]) -> Result<Wait, Error> {
    if actions.is_empty() {
        return Ok(Wait::Over);
    }
    let found = ask_for(actions)?;
    let failed = found.iter().find_map(|one| Some((one.id, one.failure()?)));
    if let Some((id, failure)) = failed {
        let key = format!("action/failed/{id}");
        if state::get(&key).is_some() {
            return Ok(Wait::Unknown);
        }
        state::set(&key, &[], REPORTED);
        return Ok(Wait::Failed(failure));
    }
    if found.len() < actions.len() {
        log::warn("the cloud does not name an action that it began", &[]);
        return Ok(Wait::Unknown);
    }
    match found.iter().any(Action::is_running) {
        true => Ok(Wait::Running),
        false => Ok(Wait::Over),
    }
}
