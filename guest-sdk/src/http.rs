//! A small HTTP client: sends requests to *targets* of the manifest, reads whole responses and converts statuses to
//! errors.
//!
//! It never sees a URL or a credential, never follows a redirect and never retries: the host obeys the cloud's rate
//! limits, and the controllers call again.

use serde::de::DeserializeOwned;

use crate::{Error, host};

pub use crate::bindings::host::ccm::provider::http::{FetchError, Method};
pub use counted_listing::{CountedListing, Page};
pub(crate) use follow::walk;
pub use follow::{Next, follow, follow_with};
pub use path::path;
pub use request::Request;

mod counted_listing;
mod follow;
mod path;
mod request;
mod status;

#[cfg(test)]
mod tests;

/// Maximum number of requests that the host accepts in one `fetch-all` call.
const MAX_BATCH: usize = 64;

/// Maximum number of pages of a list; a longer one is an error. 100 000 objects at the usual 50 per page.
pub(crate) const MAX_PAGES: usize = 2000;

/// Sends requests concurrently, at most 8 at a time, and returns the responses in request order. All bodies are in
/// memory together; for long lists use [`CountedListing`] or [`send_in_windows`].
pub fn send_all(requests: Vec<Request>) -> Vec<Result<Response, Error>> {
    let mut answers = Vec::with_capacity(requests.len());
    for batch in requests.chunks(MAX_BATCH) {
        let raw: Vec<_> = batch.iter().map(Request::to_raw).collect();
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

/// Number of concurrent requests of [`send_in_windows`] and [`CountedListing`], equal to the host's limit: more would
/// only hold unread bodies in memory.
pub(crate) const WINDOW: usize = 8;

/// Sends many requests, 8 at a time. `read` gets the responses in request order, and all of one window before
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

    /// The target of the first link with this relation in the header `Link` (RFC 8288), unmodified.
    pub fn link(&self, rel: &str) -> Option<&str> {
        let headers = self.raw.headers.iter();
        let mut links = headers.filter(|(key, _)| key.eq_ignore_ascii_case("link"));
        links.find_map(|(_, value)| path::link(value, rel))
    }

    /// The body's bytes; empty if there is none.
    pub fn body(&self) -> &[u8] {
        &self.raw.body
    }

    /// The body as text, such as XML.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the body is not UTF-8.
    pub fn text(&self) -> Result<&str, Error> {
        std::str::from_utf8(&self.raw.body).map_err(|error| {
            Error::unavailable(format!("{}: the answer is no text: {error}", self.label))
        })
    }

    /// Method and path of the request, for messages.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Returns the response if its status is 2xx.
    ///
    /// # Errors
    /// The error for the status: 401 and 403 are [`Error::Denied`]; 429, and 503 with `Retry-After`,
    /// [`Error::Throttled`]; 404, 408, 409, 412, 423, 425, 3xx and 5xx [`Error::Unavailable`]; 501
    /// [`Error::Unsupported`]; any other 4xx [`Error::Invalid`]. Never [`Error::Conflict`], which says that another object
    /// holds what was asked for, and leads to the question of its owner. If the cloud uses a status differently, check
    /// [`Response::status`] first.
    pub fn ok(self) -> Result<Response, Error> {
        match self.error() {
            None => Ok(self),
            Some(error) => Err(error),
        }
    }

    /// The error of [`Response::ok`]; `None` for 2xx. For clouds whose error codes explain more than the status: see
    /// also [`Error::with_message`].
    pub fn error(&self) -> Option<Error> {
        status::meaning(self)
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

fn inconsistent(label: &str, why: &str) -> Error {
    Error::unavailable(format!("{label}: inconsistent list: {why}"))
}
