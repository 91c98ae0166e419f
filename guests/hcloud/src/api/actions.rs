//! Actions: the cloud's asynchronous operations.

use ccm_guest::Error;
use ccm_guest::http::Request;
use serde::Deserialize;
use serde_json::Value;

use super::refusal::Refusal;
use super::{API, read, write};

/// An asynchronous operation started by a write.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Action {
    /// Unique; never reused.
    pub id: u64,
    /// `running`, `success` or `error`.
    pub status: String,
    /// The operation, such as `add_target`.
    #[serde(default)]
    pub command: String,
    /// The reason of the failure; only with the status `error`.
    pub error: Option<ActionError>,
}

impl Action {
    /// Whether the action has not ended.
    pub fn is_running(&self) -> bool {
        self.status == "running"
    }

    /// The error, if the action has failed.
    pub fn failure(&self) -> Option<Error> {
        if matches!(self.status.as_str(), "running" | "success") {
            return None;
        }
        let Action { id, command, .. } = self;
        let why = match &self.error {
            Some(ActionError { code, message }) => format!("{message} ({code})"),
            None => "no reason given".to_owned(),
        };
        Some(Error::unavailable(format!(
            "action {id} ({command}) failed: {why}"
        )))
    }
}

/// A failure of an action.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ActionError {
    /// An error code, as in refused requests.
    pub code: String,
    /// The vendor's message for people.
    #[serde(default)]
    pub message: String,
}

/// Starts an action by a request to its path.
///
/// # Errors
/// The reason why it was not started.
pub fn begin(path: String, body: &Value) -> Result<Action, Refusal> {
    let answer: ActionAnswer = write(Request::post(API, path), body)?;
    Ok(answer.action)
}

/// Reads the status of actions; omits those the API does not return.
///
/// # Errors
/// The reason why the status is not known.
pub fn actions(ids: &[u64]) -> Result<Vec<Action>, Error> {
    let list = Request::get(API, "/actions");
    let list = ids.iter().fold(list, |list, id| list.query("id", id));
    let ActionsAnswer { mut actions } = read(list)?;
    actions.retain(|action| ids.contains(&action.id));
    Ok(actions)
}

#[derive(Deserialize)]
struct ActionAnswer {
    action: Action,
}

#[derive(Deserialize)]
struct ActionsAnswer {
    actions: Vec<Action>,
}
