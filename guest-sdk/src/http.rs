//! A small HTTP client: requests to *targets* of the manifest, whole answers, statuses as errors.
//!
//! It never sees a URL or a credential, never follows a redirect and never retries: the host waits as long as the
//! cloud asks for, and the controllers come back.

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

/// The most requests that the host accepts in one go.
const MAX_BATCH: usize = 64;

/// One request, ready to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    raw: crate::bindings::host::ccm::provider::http::Request,
}

impl Request {
    /// A request to `path`, below the base path of the manifest's target `target`. The path begins with `/`; values in
    /// it that come from outside have to be percent-encoded by the caller, and the host refuses `.`, `..`, empty
    /// segments and encoded slashes.
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

    /// Adds a query parameter; the host encodes it. At most 64 and 8 KiB.
    #[must_use]
    pub fn query(mut self, key: &str, value: impl ToString) -> Request {
        self.raw.query.push((key.to_owned(), value.to_string()));
        self
    }

    /// Adds a header. Those that belong to the host, such as `authorization` and `host`, are refused when the request
    /// is sent. At most 32 and 16 KiB.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl Into<String>) -> Request {
        self.raw.headers.push((name.to_owned(), value.into()));
        self
    }

    /// Lets the host answer from what it kept, if that is not older than `age` (whole seconds; nothing below one
    /// second), and join equal requests that are under way. Only for `GET`. Never for a request that is to prove absence.
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
    /// [`Error::Internal`] when `body` cannot be written as JSON.
    pub fn json<T: Serialize + ?Sized>(self, body: &T) -> Result<Request, Error> {
        match serde_json::to_vec(body) {
            Ok(text) => Ok(self.body("application/json", text)),
            Err(error) => Err(Error::internal(format!(
                "{}: cannot write the body: {error}",
                self.label()
            ))),
        }
    }

    /// Sends the request. Any status is an answer: see [`Response::ok`] and [`Response::found`].
    ///
    /// # Errors
    /// When there is no answer. For a request that changes something this leaves open whether the cloud acted.
    pub fn send(self) -> Result<Response, Error> {
        let label = self.label();
        match host::http::fetch(&self.raw) {
            Ok(raw) => Ok(Response { label, raw }),
            Err(error) => Err(status::no_answer(&label, error)),
        }
    }

    /// Method and path, for messages. Without the query, which may hold names.
    fn label(&self) -> String {
        format!("{} {}", method_name(self.raw.method), self.raw.path)
    }
}

/// Sends requests side by side, at most 8 at a time, and gives the answers in the order of the requests. All
/// bodies are in memory together; for long lists use [`Listing`], or [`send_in_windows`].
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

/// The number of requests that [`send_in_windows`] and [`Listing`] have under way at a time, which is what the host
/// allows: more would only put bodies into memory that nobody reads yet.
pub const WINDOW: usize = 8;

/// Sends many requests, [`WINDOW`] at a time. `read` gets the answers in the order of the requests, those of one window
/// before the next one is sent, so that never more than a window of bodies is in memory.
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

/// An answer, read to its end. Its status may be anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    label: String,
    raw: crate::bindings::host::ccm::provider::http::Response,
}

impl Response {
    /// The status, 200 to 599.
    pub fn status(&self) -> u16 {
        self.raw.status
    }

    /// The first header of this name, in any case of letters.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self
            .raw
            .headers
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// The body as it came.
    pub fn body(&self) -> &[u8] {
        &self.raw.body
    }

    /// Method and path of the request, for messages.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// The answer itself if its status is 2xx.
    ///
    /// # Errors
    /// What the status means: 401 and 403 are [`Error::Denied`]; 429, and 503 with `Retry-After`, [`Error::Throttled`];
    /// 409 and 412 [`Error::Conflict`] without an owner; 404, 408, 423, 425, 3xx and 5xx [`Error::Unavailable`]; 501
    /// [`Error::Unsupported`]; any other 4xx [`Error::Invalid`]. A provider whose cloud means something else by a
    /// status looks at [`Response::status`] first.
    pub fn ok(self) -> Result<Response, Error> {
        match status::meaning(&self) {
            None => Ok(self),
            Some(error) => Err(error),
        }
    }

    /// For requests that name one object: `None` if its status is 404. Check the body first if the cloud's 404 could
    /// come from anything but the object's absence, such as a proxy in between.
    ///
    /// # Errors
    /// As [`Response::ok`] for every other status.
    pub fn found(self) -> Result<Option<Response>, Error> {
        if self.status() == 404 {
            return Ok(None);
        }
        self.ok().map(Some)
    }

    /// Reads the body as JSON, whatever the status.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the body is not JSON or ends early, [`Error::Internal`] when it is JSON of another shape
    /// than the provider knows.
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

/// The method as HTTP spells it.
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
