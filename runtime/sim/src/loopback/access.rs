//! Access to one project or account: its credentials, its budget of requests, their faults, and their record.

use http::Method;
use http::header::AUTHORIZATION;
use http::request::Parts;
use tokio::time::Instant;

use super::faults::{Fault, pick};
use super::journal::Journal;
use super::rate::{Bucket, RateLimit, Spent};
use super::serve::Line;
use super::trouble::Trouble;

/// The access to one project or account.
pub(super) struct Access {
    /// The `Authorization` header that clients must send.
    pub(super) credential: String,
    /// The one that allows only reading.
    pub(super) read_credential: Option<String>,
    pub(super) journal: Journal,
    pub(super) faults: Vec<Fault>,
    bucket: Option<Bucket>,
}

impl Access {
    pub(super) fn new(credential: String, rate_limit: Option<RateLimit>) -> Self {
        Self {
            credential,
            read_credential: None,
            journal: Journal::default(),
            faults: Vec::new(),
            bucket: rate_limit.map(|rule| Bucket::new(rule, Instant::now())),
        }
    }

    pub(super) fn admits(&self, head: &Parts) -> bool {
        let sent = authorization(head);
        sent.is_some()
            && (sent == Some(self.credential.as_str()) || sent == self.read_credential.as_deref())
    }

    /// Whether the request is a change, and its credential allows only reading.
    pub(super) fn is_read_only(&self, head: &Parts) -> bool {
        let changes = !matches!(head.method, Method::GET | Method::HEAD);
        changes && authorization(head) != Some(self.credential.as_str())
    }

    /// Records a request to an endpoint with the path `root`, and finds the fault for it. For those who are locked out it
    /// is a reset, and no fault counts the request.
    pub(super) fn receive(
        &mut self,
        line: &Line,
        head: &Parts,
        root: &str,
        is_locked_out: bool,
    ) -> (u64, Option<Trouble>) {
        let path = local_path(head, root);
        let page = page(head);
        let authorized = self.admits(head);
        let trouble = match is_locked_out {
            true => Some(Trouble::ResetBefore),
            false => pick(&mut self.faults, &head.method, &path, page),
        };
        let sequence = self.journal.record(line, head, path, page, authorized);
        (sequence, trouble)
    }

    /// Takes one request from the budget, if there is a budget.
    pub(super) fn spend(&mut self) -> Option<Spent> {
        let bucket = self.bucket.as_mut();
        bucket.map(|bucket| bucket.take(Instant::now()))
    }
}

/// The credential of a client with this token.
pub(crate) fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

fn authorization(head: &Parts) -> Option<&str> {
    head.headers.get(AUTHORIZATION)?.to_str().ok()
}

/// Path and query after the path of the endpoint; other paths unchanged.
fn local_path(head: &Parts, root: &str) -> String {
    let sent = head.uri.path_and_query().map_or("/", |path| path.as_str());
    let local = sent.strip_prefix(root);
    let local = local.filter(|rest| rest.starts_with('/'));
    local.unwrap_or(sent).to_owned()
}

fn page(head: &Parts) -> Option<u64> {
    let query = head.uri.query().unwrap_or_default();
    let mut pairs = url::form_urlencoded::parse(query.as_bytes());
    let (_, page) = pairs.find(|(name, _)| name == "page")?;
    page.parse().ok()
}
