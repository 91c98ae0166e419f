//! Errors of an API server as values: HTTP code, reason, message and details, and the `Status` object that carries
//! them. Never decides when to refuse.

use serde_json::{Map, Value, json};

use super::field_error::FieldError;
use super::kinds::Kind;

/// A refused request, in the wording of kube-apiserver 1.36.
#[derive(Debug)]
pub(super) struct Refusal {
    /// The HTTP status code.
    pub(super) code: u16,
    /// The machine-readable reason; empty for a few failures.
    reason: &'static str,
    message: String,
    details: Value,
    /// Whether the response is the plain message instead of a `Status` object.
    bare: bool,
    /// The token that continues an expired list; otherwise empty.
    resume: String,
    /// Whole seconds for the `Retry-After` header.
    pub(super) retry_after: Option<u32>,
}

impl Refusal {
    fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: Value::Null,
            bare: false,
            resume: String::new(),
            retry_after: None,
        }
    }

    fn about(mut self, group: &str, kind: &str, name: &str) -> Self {
        let mut details = Map::new();
        for (key, value) in [("name", name), ("group", group), ("kind", kind)] {
            if !value.is_empty() {
                details.insert(key.into(), value.into());
            }
        }
        self.details = Value::Object(details);
        self
    }

    /// The path does not exist; answered in plain text.
    pub(super) fn no_such_path() -> Self {
        let mut refusal = Self::new(404, "", "404 page not found\n");
        refusal.bare = true;
        refusal
    }

    /// The group is served, but not the resource.
    pub(super) fn no_such_resource() -> Self {
        Self::new(
            404,
            "NotFound",
            "the server could not find the requested resource",
        )
        .about("", "", "")
    }

    /// The object does not exist.
    pub(super) fn not_found(kind: &Kind, name: &str) -> Self {
        let message = format!("{} \"{name}\" not found", kind.qualified());
        Self::new(404, "NotFound", message).about(kind.group, kind.plural, name)
    }

    /// An object of that name exists already; `deleting` means that it only waits for its finalizers.
    pub(super) fn already_exists(kind: &Kind, name: &str, deleting: bool) -> Self {
        let prefix = if deleting {
            "object is being deleted: "
        } else {
            ""
        };
        let message = format!("{prefix}{} \"{name}\" already exists", kind.qualified());
        Self::new(409, "AlreadyExists", message).about(kind.group, kind.plural, name)
    }

    /// The write is based on another state than the stored one.
    pub(super) fn conflict(kind: &Kind, name: &str, why: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} \"{name}\": {why}",
            kind.qualified()
        );
        Self::new(409, "Conflict", message).about(kind.group, kind.plural, name)
    }

    /// A precondition of a deletion failed. The message names the kind, not the resource, as upstream does.
    pub(super) fn precondition(kind: &Kind, name: &str, why: &str) -> Self {
        let qualified = kind.qualified_kind();
        let message = format!("Operation cannot be fulfilled on {qualified} \"{name}\": {why}");
        Self::new(409, "Conflict", message).about(kind.rules_group(), kind.kind, name)
    }

    /// The object is invalid; `kind` is the kind as quoted in the message.
    pub(super) fn invalid(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> Self {
        let mut texts: Vec<String> = Vec::new();
        for error in errors {
            let text = error.text();
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        let list = match texts.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let qualified = if group.is_empty() {
            kind.to_owned()
        } else {
            format!("{kind}.{group}")
        };
        let message = format!("{qualified} \"{name}\" is invalid: {list}");
        let mut refusal = Self::new(422, "Invalid", message).about(group, kind, name);
        let causes: Vec<Value> = errors.iter().map(FieldError::cause).collect();
        if let Value::Object(details) = &mut refusal.details {
            details.insert("causes".into(), causes.into());
        }
        refusal
    }

    /// The request is malformed.
    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// A well-formed patch cannot be applied to the stored object.
    pub(super) fn inapplicable_patch() -> Self {
        Self::new(
            422,
            "Invalid",
            "the server rejected our request due to an error in our request",
        )
        .about("", "", "")
    }

    /// The resourceVersion is older than the retained history.
    pub(super) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// The resourceVersion lies in the future.
    pub(super) fn too_large(asked: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
        let mut refusal = Self::new(504, "Timeout", message);
        refusal.details = json!({
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        });
        refusal.retry_after = Some(1);
        refusal
    }

    /// The type of the body is not accepted here.
    pub(super) fn unsupported_media(accepted: &[&str]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            accepted.join(", ")
        );
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// No accepted response type can be produced.
    pub(super) fn not_acceptable() -> Self {
        Self::new(
            406,
            "NotAcceptable",
            "406: Not Acceptable\n\nAvailable representations: application/json",
        )
        .about("", "", "")
    }

    /// The patch type is not supported.
    pub(super) fn unsupported_patch() -> Self {
        Self::new(415, "UnsupportedMediaType", "415: Unsupported Media Type").about("", "", "")
    }

    /// The path exists, but not with this method.
    pub(super) fn method_not_allowed() -> Self {
        Self::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )
        .about("", "", "")
    }

    /// A client error that upstream, and therefore this server, reports as a server error without a reason.
    pub(super) fn failed(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    /// The list of a continue token has expired; `token` allows to continue inconsistently.
    pub(super) fn expired_page(token: String) -> Self {
        let mut refusal = Self::expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a new \
             list without the continue parameter, or use the continue token in this response to retrieve the \
             remainder of the results. Continuing with the provided token results in an inconsistent list - objects \
             that were created, modified, or deleted between the time the first chunk was returned and now may \
             show up in the list.",
        );
        refusal.resume = token;
        refusal
    }

    /// The namespace is terminating and accepts no new content.
    pub(super) fn terminating(kind: &Kind, name: &str, namespace: &str) -> Self {
        let message = format!(
            "{} \"{name}\" is forbidden: unable to create new content in namespace {namespace} because it is being terminated",
            kind.qualified()
        );
        let mut refusal = Self::new(403, "Forbidden", message).about(kind.group, kind.plural, name);
        if let Value::Object(details) = &mut refusal.details {
            let message = format!("namespace {namespace} is being terminated");
            details.insert(
                "causes".into(),
                json!([{"reason": "NamespaceTerminating", "message": message, "field": "metadata.namespace"}]),
            );
        }
        refusal
    }

    /// An injected refusal, with the reason that belongs to the code.
    pub(super) fn injected(code: u16, retry_after: Option<u32>) -> Self {
        let (reason, message) = match code {
            401 => ("Unauthorized", "Unauthorized"),
            403 => ("Forbidden", "forbidden by an injected fault"),
            404 => ("NotFound", "not found, by an injected fault"),
            409 => ("Conflict", "Operation cannot be fulfilled: injected fault"),
            410 => ("Expired", "expired, by an injected fault"),
            422 => ("Invalid", "invalid, by an injected fault"),
            429 => (
                "TooManyRequests",
                "too many requests, please try again later",
            ),
            503 => (
                "ServiceUnavailable",
                "the server is currently unable to handle the request",
            ),
            504 => (
                "Timeout",
                "request did not complete within the allotted timeout",
            ),
            _ => ("InternalError", "Internal error occurred: injected fault"),
        };
        let mut refusal = Self::new(code, reason, message);
        if let Some(seconds) = retry_after {
            refusal.details = json!({"retryAfterSeconds": seconds});
        }
        refusal.retry_after = retry_after;
        refusal
    }

    /// The text of a response without `Status` object.
    pub(super) fn plain_text(&self) -> Option<&str> {
        self.bare.then_some(self.message.as_str())
    }

    /// The `Status` object of the response.
    pub(super) fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = json!(self.reason);
        }
        if !self.resume.is_empty() {
            status["metadata"] = json!({"continue": self.resume});
        }
        if !self.details.is_null() {
            status["details"] = self.details.clone();
        }
        status
    }
}
