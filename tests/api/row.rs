//! One row of the agreement table as a value: its set-up, its request, and the expected answer. Holds no transport and
//! compares nothing.

use serde_json::Value;

pub(crate) const JSON_PATCH: &str = "application/json-patch+json";
pub(crate) const MERGE: &str = "application/merge-patch+json";
pub(crate) const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub(crate) const APPLY: &str = "application/apply-patch+yaml";
pub(crate) const METADATA_ONLY: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// One request. In its path and body `{n}` is the row's own name and namespace, `{0.rv}`, `{0.uid}` and
/// `{0.continue}` come from the answer to the first setup step, `{1.rv}` from the second, and so on.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) content_type: &'static str,
    pub(crate) accept: &'static str,
    pub(crate) body: String,
}

impl Ask {
    fn new(method: &'static str, path: &str, content_type: &'static str, body: String) -> Self {
        Self {
            method,
            path: path.to_owned(),
            content_type,
            accept: "application/json",
            body,
        }
    }

    /// The same request, accepting another form of answer.
    pub(crate) fn accepting(mut self, accept: &'static str) -> Self {
        self.accept = accept;
        self
    }

    /// The same request with a body of another type.
    pub(crate) fn typed(mut self, content_type: &'static str) -> Self {
        self.content_type = content_type;
        self
    }
}

pub(crate) fn get(path: &str) -> Ask {
    Ask::new("GET", path, "", String::new())
}

pub(crate) fn post(path: &str, body: impl ToString) -> Ask {
    Ask::new("POST", path, "application/json", body.to_string())
}

pub(crate) fn put(path: &str, body: impl ToString) -> Ask {
    Ask::new("PUT", path, "application/json", body.to_string())
}

pub(crate) fn patch(content_type: &'static str, path: &str, body: impl ToString) -> Ask {
    Ask::new("PATCH", path, content_type, body.to_string())
}

pub(crate) fn delete(path: &str) -> Ask {
    Ask::new("DELETE", path, "", String::new())
}

pub(crate) fn delete_with(path: &str, options: impl ToString) -> Ask {
    Ask::new("DELETE", path, "application/json", options.to_string())
}

/// One row of the table: set-up, request and expected answer.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) given: Vec<Ask>,
    pub(crate) ask: Ask,
    /// Number of watch events in the answer; 0: the request is no watch.
    pub(crate) events: usize,
    /// The requests that follow when the watch is open.
    pub(crate) meanwhile: Vec<Ask>,
    pub(crate) code: u16,
    pub(crate) reason: &'static str,
    /// JSON pointers into the answer, and the expected values; `null` stands for absence.
    pub(crate) fields: Vec<(&'static str, Value)>,
    /// Whether the messages of refusals are compared, too.
    pub(crate) compares_messages: bool,
    /// Pointers that are left out of the comparison of both answers, because the value is the server's choice.
    pub(crate) free: Vec<&'static str>,
    /// Code and reason of the real server where the in-memory one deliberately differs, and why.
    pub(crate) real: Option<(u16, &'static str, &'static str)>,
    /// Whether the in-memory server forgets its history first. A real one has already forgotten its first revision.
    pub(crate) forgets: bool,
}

/// A row of this name without set-up, request and expectations.
pub(crate) fn row(name: &'static str) -> Row {
    Row {
        name,
        given: Vec::new(),
        ask: get("/"),
        events: 0,
        meanwhile: Vec::new(),
        code: 200,
        reason: "",
        fields: Vec::new(),
        compares_messages: true,
        free: Vec::new(),
        real: None,
        forgets: false,
    }
}

impl Row {
    /// Adds a setup step, which must succeed.
    pub(crate) fn given(mut self, ask: Ask) -> Self {
        self.given.push(ask);
        self
    }

    /// Sets the request, and the expected HTTP status.
    pub(crate) fn when(mut self, ask: Ask, code: u16) -> Self {
        self.ask = ask;
        self.code = code;
        self
    }

    /// Sets a watch that is read until this many events have come.
    pub(crate) fn watching(mut self, path: &str, events: usize) -> Self {
        self.ask = get(path);
        self.events = events;
        self
    }

    /// Adds a step that is taken while the watch is open.
    pub(crate) fn meanwhile(mut self, ask: Ask) -> Self {
        self.meanwhile.push(ask);
        self
    }

    /// Sets the expected reason in the `Status` of a refusal.
    pub(crate) fn refused(mut self, reason: &'static str) -> Self {
        self.reason = reason;
        self
    }

    /// Adds an expected value at a place of the answer.
    pub(crate) fn has(mut self, pointer: &'static str, value: impl Into<Value>) -> Self {
        self.fields.push((pointer, value.into()));
        self
    }

    /// Excludes messages from the comparison: the two servers may have different ones for the same refusal.
    pub(crate) fn any_message(mut self) -> Self {
        self.compares_messages = false;
        self
    }

    /// Excludes the value at this place from the comparison: the server chooses it.
    pub(crate) fn free(mut self, pointer: &'static str) -> Self {
        self.free.push(pointer);
        self
    }

    /// Sets the real server's answer where the in-memory one deliberately differs, and the reason.
    pub(crate) fn really(mut self, code: u16, reason: &'static str, why: &'static str) -> Self {
        self.real = Some((code, reason, why));
        self
    }

    /// Lets the server forget its history before the request.
    pub(crate) fn after_forgetting(mut self) -> Self {
        self.forgets = true;
        self
    }
}
