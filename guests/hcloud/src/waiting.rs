//! How the actions stand that the last call began.

use std::time::Duration;

use ccm_guest::{Error, log, state};

use crate::api::actions::{Action, actions as ask_for};

/// How long it is remembered that a failure was reported. The host keeps a hint as long as it likes.
const REPORTED: Duration = Duration::from_secs(600);

/// How actions stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Some have not ended.
    Running,
    /// All have done what they were to do.
    Over,
    /// It cannot be told any more: only a new look says what they have done.
    Unknown,
}

/// Asks how they stand, once.
///
/// # Errors
/// [`Error::Unavailable`] when one has failed, so that what it was to do is tried again with growing delay. Said once.
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
        return Err(failure);
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
