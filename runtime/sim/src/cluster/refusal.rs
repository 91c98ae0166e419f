//! The refusals of an API server as values: HTTP code, reason, message and details, and the `Status` object
//! that carries them. It never decides when to refuse.

use serde_json::{Map, Value, json};

use super::field_error::FieldError;
use super::kinds::Kind;

/// One refused request, in the words that kube-apiserver 1.36 uses.
#[derive(Debug)]
pub(super) struct Refusal {
    /// The HTTP status code.
    pub(super) code: u16,
    /// The machine-readable reason; a few failures have none.
    reason: &'static str,
    message: String,
    details: Value,
    /// Whether the answer is the bare message instead of a `Status` object.
    bare: bool,
    /// With which token an expired list can go on; empty elsewhere.
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

    /// The server knows no such path at all, and says so in plain text.
    pub(super) fn no_such_path() -> Self {
        let mut refusal = Self::new(404, "", "404 page not found\n");
        refusal.bare = true;
        refusal
    }

    /// The group is served, the resource is not.
    pub(super) fn no_such_resource() -> Self {
        Self::new(
            404,
            "NotFound",
            "the server could not find the requested resource",
        )
        .about("", "", "")
    }

    /// No object of that name.
    pub(super) fn not_found(kind: &Kind, name: &str) -> Self {
        let message = format!("{} \"{name}\" not found", kind.qualified());
        Self::new(404, "NotFound", message).about(kind.group, kind.plural, name)
    }

    /// An object of that name is there already; `deleting` says that it only waits for its finalizers.
    pub(super) fn already_exists(kind: &Kind, name: &str, deleting: bool) -> Self {
        let prefix = if deleting {
            "object is being deleted: "
        } else {
            ""
        };
        let message = format!("{prefix}{} \"{name}\" already exists", kind.qualified());
        Self::new(409, "AlreadyExists", message).about(kind.group, kind.plural, name)
    }

    /// The write was made against another state than the stored one.
    pub(super) fn conflict(kind: &Kind, name: &str, why: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} \"{name}\": {why}",
            kind.qualified()
        );
        Self::new(409, "Conflict", message).about(kind.group, kind.plural, name)
    }

    /// A precondition of a deletion does not hold. These name the kind, not the resource, as upstream does.
    pub(super) fn precondition(kind: &Kind, name: &str, why: &str) -> Self {
        let qualified = kind.qualified_kind();
        let message = format!("Operation cannot be fulfilled on {qualified} \"{name}\": {why}");
        Self::new(409, "Conflict", message).about(kind.rules_group(), kind.kind, name)
    }

    /// The object breaks rules; `kind` is the kind as quoted in the message.
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

    /// The request itself cannot be understood.
    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// A patch that is well formed, and cannot be applied to the stored object.
    pub(super) fn inapplicable_patch() -> Self {
        Self::new(
            422,
            "Invalid",
            "the server rejected our request due to an error in our request",
        )
        .about("", "", "")
    }

    /// The resourceVersion is older than what the server still keeps.
    pub(super) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// The resourceVersion lies in the future of this server.
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

    /// The body is of a type that is not accepted here.
    pub(super) fn unsupported_media(accepted: &[&str]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            accepted.join(", ")
        );
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// None of the answers that the client accepts can be produced.
    pub(super) fn not_acceptable() -> Self {
        Self::new(
            406,
            "NotAcceptable",
            "406: Not Acceptable\n\nAvailable representations: application/json",
        )
        .about("", "", "")
    }

    /// The patch is of a type that is not applied here.
    pub(super) fn unsupported_patch() -> Self {
        Self::new(415, "UnsupportedMediaType", "415: Unsupported Media Type").about("", "", "")
    }

    /// The path is known, this method on it is not.
    pub(super) fn method_not_allowed() -> Self {
        Self::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )
        .about("", "", "")
    }

    /// A mistake of the client that upstream reports as its own failure, and without a reason. So do we.
    pub(super) fn failed(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    /// The list that a continue token belongs to is forgotten; with `token` it can go on, inconsistently.
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

    /// Content cannot be created in a namespace that goes away.
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

    /// A refusal that a test asked for, with the reason that belongs to the code.
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

    /// The text of an answer that carries no `Status` object.
    pub(super) fn plain_text(&self) -> Option<&str> {
        self.bare.then_some(self.message.as_str())
    }

    /// The `Status` object.
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
