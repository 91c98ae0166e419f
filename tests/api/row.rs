//! One row of the agreement table as a value: what is set up, what is asked, what must come back.
//! It holds no transport and compares nothing.

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

    /// The same, accepting another form of answer.
    pub(crate) fn accepting(mut self, accept: &'static str) -> Self {
        self.accept = accept;
        self
    }

    /// The same with a body of another type.
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

/// One row.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) given: Vec<Ask>,
    pub(crate) ask: Ask,
    /// How many lines of a watch make the answer; 0: no watch.
    pub(crate) events: usize,
    /// What happens after the watch is open.
    pub(crate) meanwhile: Vec<Ask>,
    pub(crate) code: u16,
    pub(crate) reason: &'static str,
    /// Pointers into the answer and what must stand there; `null` stands for absence.
    pub(crate) fields: Vec<(&'static str, Value)>,
    /// Whether the words of refusals are compared, too.
    pub(crate) words: bool,
    /// Pointers that are left out of the comparison of both answers, because the value is the server's choice.
    pub(crate) free: Vec<&'static str>,
    /// Code and reason of the real server where the in-memory one deliberately differs, and why.
    pub(crate) real: Option<(u16, &'static str, &'static str)>,
    /// Whether the in-memory server forgets its history first. A real one has forgotten its first revision anyway.
    pub(crate) forgets: bool,
}

/// Starts a row.
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
        words: true,
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

    /// The request, and the HTTP status that it is answered with.
    pub(crate) fn when(mut self, ask: Ask, code: u16) -> Self {
        self.ask = ask;
        self.code = code;
        self
    }

    /// A watch that is read until so many events have come.
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

    /// The reason in the `Status` of a refusal.
    pub(crate) fn refused(mut self, reason: &'static str) -> Self {
        self.reason = reason;
        self
    }

    /// What must stand at a place of the answer.
    pub(crate) fn has(mut self, pointer: &'static str, value: impl Into<Value>) -> Self {
        self.fields.push((pointer, value.into()));
        self
    }

    /// The two servers may use different words for the same refusal.
    pub(crate) fn any_words(mut self) -> Self {
        self.words = false;
        self
    }

    /// The value at this place is the server's own choice.
    pub(crate) fn free(mut self, pointer: &'static str) -> Self {
        self.free.push(pointer);
        self
    }

    /// The in-memory server deliberately answers otherwise than the real one.
    pub(crate) fn really(mut self, code: u16, reason: &'static str, why: &'static str) -> Self {
        self.real = Some((code, reason, why));
        self
    }

    /// History is forgotten before the request.
    pub(crate) fn after_forgetting(mut self) -> Self {
        self.forgets = true;
        self
    }
}
