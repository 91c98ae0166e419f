//! A request that has not been sent.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Method, Response, method_name, status};
use crate::bindings::host::ccm::provider::http as raw;
use crate::{Error, host};

/// Content type of a form.
const FORM: &str = "application/x-www-form-urlencoded";

/// An HTTP request to a target of the manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    raw: raw::Request,
    form: Vec<(String, String)>,
}

impl Request {
    /// A request to `path`, relative to the base path of the manifest's target `target`. The path begins with `/`. A
    /// path with values from outside is made by [`path`](super::path); the host refuses `.`, `..`, empty segments and
    /// encoded slashes.
    pub fn new(method: Method, target: &str, path: impl Into<String>) -> Request {
        Request {
            raw: raw::Request {
                target: target.to_owned(),
                method,
                path: path.into(),
                query: Vec::new(),
                headers: Vec::new(),
                body: None,
                supplementary: false,
            },
            form: Vec::new(),
        }
    }

    /// A `GET` request; see [`Request::new`].
    pub fn get(target: &str, path: impl Into<String>) -> Request {
        Request::new(Method::Get, target, path)
    }

    /// A `POST` request; see [`Request::new`].
    pub fn post(target: &str, path: impl Into<String>) -> Request {
        Request::new(Method::Post, target, path)
    }

    /// A `PUT` request; see [`Request::new`].
    pub fn put(target: &str, path: impl Into<String>) -> Request {
        Request::new(Method::Put, target, path)
    }

    /// A `PATCH` request; see [`Request::new`].
    pub fn patch(target: &str, path: impl Into<String>) -> Request {
        Request::new(Method::Patch, target, path)
    }

    /// A `DELETE` request; see [`Request::new`].
    pub fn delete(target: &str, path: impl Into<String>) -> Request {
        Request::new(Method::Delete, target, path)
    }

    /// Adds a query parameter; the host encodes it. At most 64 parameters and 8 KiB.
    #[must_use]
    pub fn query(mut self, key: &str, value: impl ToString) -> Request {
        self.raw.query.push((key.to_owned(), value.to_string()));
        self
    }

    /// Adds a field of a form, which is the body, in the order of the calls; it replaces a body set before. At most
    /// 1 MiB once encoded.
    #[must_use]
    pub fn form(self, key: &str, value: impl ToString) -> Request {
        let mut request = self.without_body();
        request.form.push((key.to_owned(), value.to_string()));
        request
    }

    /// Adds a header. At most 32 headers and 16 KiB. Sending fails for headers reserved for the host, such as
    /// `authorization` and `host`.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl Into<String>) -> Request {
        self.raw.headers.push((name.to_owned(), value.into()));
        self
    }

    /// Lets the host answer from its response cache if the response is not older than `age` (whole seconds; nothing
    /// below one second), and join equal requests in flight. For `GET`, and for `POST` where the manifest's rule has
    /// the access `read`. Never use it for a request that must prove absence.
    #[must_use]
    pub fn max_age(self, age: Duration) -> Request {
        match age.as_secs() {
            0 => self,
            seconds => self.header("cache-control", format!("max-age={seconds}")),
        }
    }

    /// Says that the answer adds detail and proves no absence: if the request fails, the host still believes a
    /// [`Lookup::Gone`](crate::Lookup::Gone) of the same call.
    #[must_use]
    pub fn supplementary(mut self) -> Request {
        self.raw.supplementary = true;
        self
    }

    /// Sets the body, at most 1 MiB, and its content type. It replaces a form, and a body set before with its type.
    #[must_use]
    pub fn body(self, content_type: &str, body: impl Into<Vec<u8>>) -> Request {
        let mut request = self.without_body();
        request.raw.body = Some(body.into());
        request.form.clear();
        request.header("content-type", content_type)
    }

    /// Removes a body that was set before, and its content type: the host refuses a request with two types.
    fn without_body(mut self) -> Request {
        if self.raw.body.take().is_some() {
            let is_type = |name: &str| name.eq_ignore_ascii_case("content-type");
            self.raw.headers.retain(|(name, _)| !is_type(name));
        }
        self
    }

    /// Sets a JSON body, at most 1 MiB.
    ///
    /// # Errors
    /// [`Error::Internal`] when `body` cannot be serialized.
    pub fn json<T: Serialize + ?Sized>(self, body: &T) -> Result<Request, Error> {
        match serde_json::to_vec(body) {
            Ok(text) => Ok(self.body("application/json", text)),
            Err(error) => Err(Error::internal(format!(
                "{}: cannot write the body: {error}",
                self.label()
            ))),
        }
    }

    /// Sends the request. A response with any status is `Ok`: see [`Response::ok`] and [`Response::found`].
    ///
    /// # Errors
    /// When there is no response. For a write, it is then unknown whether the cloud acted.
    pub fn send(self) -> Result<Response, Error> {
        let label = self.label();
        match host::http::fetch(&self.to_raw()) {
            Ok(raw) => Ok(Response { label, raw }),
            Err(error) => Err(status::no_answer(&label, error)),
        }
    }

    /// Sends the request and reads the JSON of the answer: `send()?.ok()?.json()`.
    ///
    /// # Errors
    /// As [`Request::send`], [`Response::ok`] and [`Response::json`].
    pub fn fetch_json<T: DeserializeOwned>(self) -> Result<T, Error> {
        self.send()?.ok()?.json()
    }

    /// For requests that name one object: `None` if the status is 404, otherwise the JSON of the answer. See
    /// [`Response::found`].
    ///
    /// # Errors
    /// As [`Request::send`], [`Response::found`] and [`Response::json`].
    pub fn find_json<T: DeserializeOwned>(self) -> Result<Option<T>, Error> {
        let found = self.send()?.found()?;
        found.map(|answer| answer.json()).transpose()
    }

    /// Method and path, for messages. Omits the query, which may contain names.
    pub fn label(&self) -> String {
        format!("{} {}", method_name(self.raw.method), self.raw.path)
    }

    pub(super) fn path(&self) -> &str {
        &self.raw.path
    }

    /// Replaces every query parameter with this key by a single one.
    pub(super) fn with_query(mut self, key: &str, value: String) -> Request {
        set(&mut self.raw.query, key, value);
        self
    }

    /// Replaces every field of the form with this key by a single one.
    pub(super) fn with_form(mut self, key: &str, value: String) -> Request {
        set(&mut self.form, key, value);
        self
    }

    /// Replaces the whole query.
    pub(super) fn queries(mut self, query: impl Iterator<Item = (String, String)>) -> Request {
        self.raw.query = query.collect();
        self
    }

    /// The request as the host gets it.
    #[doc(hidden)]
    pub fn to_raw(&self) -> raw::Request {
        let mut raw = self.raw.clone();
        if !self.form.is_empty() {
            let mut body = form_urlencoded::Serializer::new(String::new());
            body.extend_pairs(&self.form);
            raw.body = Some(body.finish().into_bytes());
            raw.headers
                .push(("content-type".to_owned(), FORM.to_owned()));
        }
        raw
    }
}

fn set(pairs: &mut Vec<(String, String)>, key: &str, value: String) {
    pairs.retain(|(known, _)| known != key);
    pairs.push((key.to_owned(), value));
}
