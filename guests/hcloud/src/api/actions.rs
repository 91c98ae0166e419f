//! Actions: what a write has begun at the cloud, and how that stands.

use ccm_guest::Error;
use ccm_guest::http::Request;
use serde::Deserialize;

use super::{API, refusal};

/// What a write has begun.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Action {
    /// Unique for ever.
    pub id: u64,
    /// `running`, `success` or `error`.
    pub status: String,
    /// Such as `add_target`.
    #[serde(default)]
    pub command: String,
    /// Why it failed.
    #[serde(default)]
    pub error: Option<ActionError>,
}

impl Action {
    /// Whether it has not ended.
    pub fn is_running(&self) -> bool {
        self.status == "running"
    }

    /// Why it failed, if it did.
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

/// Why an action failed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ActionError {
    /// As that of a refused request.
    pub code: String,
    /// For people.
    #[serde(default)]
    pub message: String,
}

/// How actions stand. One that the API does not name is not among them.
///
/// # Errors
/// Why that is not known.
pub fn actions(ids: &[u64]) -> Result<Vec<Action>, Error> {
    let list = Request::get(API, "/actions");
    let list = ids.iter().fold(list, |list, id| list.query("id", id));
    let answer: ActionsAnswer = refusal::ok(list.send()?)?.json()?;
    let mut actions = answer.actions;
    actions.retain(|action| ids.contains(&action.id));
    Ok(actions)
}

#[derive(Deserialize)]
struct ActionsAnswer {
    actions: Vec<Action>,
}
