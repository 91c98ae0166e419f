//! A small HTTP client: sends requests to *targets* of the manifest, reads whole responses and converts statuses to
//! errors.
//!
//! It never sees a URL or a credential, never follows a redirect and never retries: the host obeys the cloud's rate
//! limits, and the controllers call again.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Error, host};

pub use crate::bindings::host::ccm::provider::http::{FetchError, Method};

mod pages;
mod status;

pub use pages::{Listing, Page};

#[cfg(test)]
mod tests;

/// Maximum number of requests that the host accepts in one `fetch-all` call.
const MAX_BATCH: usize = 64;

/// A request that has not been sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    raw: crate::bindings::host::ccm::provider::http::Request,
}

impl Request {
    /// A request to `path`, relative to the base path of the manifest's target `target`. The path begins with `/`. The
    /// caller must percent-encode external values in it; the host refuses `.`, `..`, empty segments and encoded
    /// slashes.
    pub fn new(method: Method, target: &str, path: impl Into<String>) -> Request {
        Request {
            raw: crate::bindings::host::ccm::provider::http::Request {
                target: target.to_owned(),
                method,
                path: path.into(),
                query: Vec::new(),
                headers: Vec::new(),
                body: None,
            },
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

    /// Adds a header. At most 32 headers and 16 KiB. Sending fails for headers reserved for the host, such as
    /// `authorization` and `host`.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl Into<String>) -> Request {
        self.raw.headers.push((name.to_owned(), value.into()));
        self
    }

    /// Lets the host answer from its response cache if the response is not older than `age` (whole seconds; nothing
    /// below one second), and join equal requests in flight. Only for `GET`. Never use it for a request that must
    /// prove absence.
    #[must_use]
    pub fn max_age(self, age: Duration) -> Request {
        match age.as_secs() {
            0 => self,
            seconds => self.header("cache-control", format!("max-age={seconds}")),
        }
    }

    /// Sets the body, at most 1 MiB, and its content type.
    #[must_use]
    pub fn body(mut self, content_type: &str, body: impl Into<Vec<u8>>) -> Request {
        self.raw.body = Some(body.into());
        self.header("content-type", content_type)
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
        match host::http::fetch(&self.raw) {
            Ok(raw) => Ok(Response { label, raw }),
            Err(error) => Err(status::no_answer(&label, error)),
        }
    }

    /// Method and path, for messages. Omits the query, which may contain names.
    fn label(&self) -> String {
        format!("{} {}", method_name(self.raw.method), self.raw.path)
    }
}

/// Sends requests concurrently, at most 8 at a time, and returns the responses in request order. All bodies are in
/// memory together; for long lists use [`Listing`] or [`send_in_windows`].
pub fn send_all(requests: Vec<Request>) -> Vec<Result<Response, Error>> {
    let mut answers = Vec::with_capacity(requests.len());
    for batch in requests.chunks(MAX_BATCH) {
        let raw: Vec<_> = batch.iter().map(|request| request.raw.clone()).collect();
        for (request, answer) in batch.iter().zip(host::http::fetch_all(&raw)) {
            let label = request.label();
            answers.push(match answer {
                Ok(raw) => Ok(Response { label, raw }),
                Err(error) => Err(status::no_answer(&label, error)),
            });
        }
    }
    answers
}

/// Number of concurrent requests of [`send_in_windows`] and [`Listing`], equal to the host's limit: more would only
/// hold unread bodies in memory.
pub const WINDOW: usize = 8;

/// Sends many requests, [`WINDOW`] at a time. `read` gets the responses in request order, and all of one window before
/// the next is sent, so at most one window of bodies is in memory.
///
/// # Errors
/// The first error of `read`; later windows are not sent.
pub fn send_in_windows(
    requests: impl IntoIterator<Item = Request>,
    mut read: impl FnMut(Result<Response, Error>) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut requests = requests.into_iter().peekable();
    while requests.peek().is_some() {
        for answer in send_all(requests.by_ref().take(WINDOW).collect()) {
            read(answer)?;
        }
    }
    Ok(())
}

/// A complete response with any status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    label: String,
    raw: crate::bindings::host::ccm::provider::http::Response,
}

impl Response {
    /// The status code, 200 to 599.
    pub fn status(&self) -> u16 {
        self.raw.status
    }

    /// The first header with this name, compared case-insensitively.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self
            .raw
            .headers
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// The raw body.
    pub fn body(&self) -> &[u8] {
        &self.raw.body
    }

    /// Method and path of the request, for messages.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Returns the response if its status is 2xx.
    ///
    /// # Errors
    /// The error for the status: 401 and 403 are [`Error::Denied`]; 429, and 503 with `Retry-After`,
    /// [`Error::Throttled`]; 409 and 412 [`Error::Conflict`] without an owner; 404, 408, 423, 425, 3xx and 5xx
    /// [`Error::Unavailable`]; 501 [`Error::Unsupported`]; any other 4xx [`Error::Invalid`]. If the cloud uses a
    /// status differently, check [`Response::status`] first.
    pub fn ok(self) -> Result<Response, Error> {
        match status::meaning(&self) {
            None => Ok(self),
            Some(error) => Err(error),
        }
    }

    /// For requests that name one object: `None` if the status is 404. Check the body first if the 404 may have
    /// another cause than the object's absence, such as a proxy.
    ///
    /// # Errors
    /// As [`Response::ok`] for every other status.
    pub fn found(self) -> Result<Option<Response>, Error> {
        if self.status() == 404 {
            return Ok(None);
        }
        self.ok().map(Some)
    }

    /// Parses the body as JSON, whatever the status.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the body is not JSON or is truncated, [`Error::Internal`] when the JSON does not
    /// match `T`.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_slice(&self.raw.body).map_err(|error| {
            if error.is_data() {
                Error::internal(format!(
                    "{}: the answer has an unexpected shape: {error}",
                    self.label
                ))
            } else {
                Error::unavailable(format!(
                    "{}: the answer is not complete JSON: {error}",
                    self.label
                ))
            }
        })
    }
}

/// The method's name in HTTP.
pub fn method_name(method: Method) -> &'static str {
    match method {
        Method::Get => "GET",
        Method::Head => "HEAD",
        Method::Post => "POST",
        Method::Put => "PUT",
        Method::Patch => "PATCH",
        Method::Delete => "DELETE",
        Method::Options => "OPTIONS",
    }
}
