//! Processing of one request.
//!
//! The order is: record the request, look for a fault, check the token, take from the budget, execute, distort the
//! response. Makes no decisions about the project.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{Method, StatusCode};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::Options;
use super::answer::Vendor;
use super::api::{self, Call, Refusal};
use super::faults::{self, Fault, Trouble};
use super::query::Query;
use super::world::World;
use crate::loopback::{self, Answer, Bucket, Exchange, Journal, Line, Reply};

/// Distance between the IDs and addresses of two projects.
const PROJECT_SIZE: u32 = 32_768;

/// State shared by all connections.
pub(super) struct Shared {
    options: Options,
    /// Not empty once requests can arrive: the simulator opens its first project before it listens.
    projects: Mutex<Vec<Arc<Mutex<Project>>>>,
}

/// One project's state, protected by one lock.
pub(super) struct Project {
    pub(super) token: String,
    /// The token that allows only reading.
    pub(super) read_token: Option<String>,
    pub(super) world: World,
    pub(super) journal: Journal,
    pub(super) faults: Vec<Fault>,
    bucket: Option<Bucket>,
}

impl Shared {
    pub(super) fn new(options: Options) -> Self {
        Self {
            options,
            projects: Mutex::default(),
        }
    }

    /// Opens another project with this token.
    pub(super) fn open(&self, token: String) -> Arc<Mutex<Project>> {
        let mut projects = self.projects.lock();
        let number = u32::try_from(projects.len()).unwrap_or(u32::MAX);
        let first_number = number.saturating_mul(PROJECT_SIZE);
        let rate_limit = self.options.rate_limit;
        let project = Arc::new(Mutex::new(Project {
            token,
            read_token: None,
            world: World::new(
                self.options.first_id.saturating_add(first_number.into()),
                first_number,
                self.options.action_duration,
                Arc::clone(&self.options.clock),
            ),
            journal: Journal::default(),
            faults: Vec::new(),
            bucket: rate_limit.map(|rule| Bucket::new(rule, Instant::now())),
        }));
        projects.push(Arc::clone(&project));
        project
    }

    /// The project of a request: the one that its token opens, or the first one.
    fn project_of(&self, head: &Parts) -> Option<Arc<Mutex<Project>>> {
        let projects = self.projects.lock();
        let mut opened = projects.iter();
        let opened = opened.find(|project| project.lock().admits(head));
        opened.or_else(|| projects.first()).map(Arc::clone)
    }
}

impl Project {
    fn admits(&self, head: &Parts) -> bool {
        let sent = bearer(head);
        sent.is_some() && (sent == Some(self.token.as_str()) || sent == self.read_token.as_deref())
    }

    /// Whether the request is a change, and its token allows only reading.
    fn is_read_only(&self, head: &Parts) -> bool {
        let changes = !matches!(head.method, Method::GET | Method::HEAD);
        changes && bearer(head) != Some(self.token.as_str())
    }

    /// Records a request and finds the fault for it.
    fn receive(&mut self, line: &Line, head: &Parts) -> (u64, Option<Trouble>) {
        let path = local_path(head);
        let query = Query::parse(head.uri.query().unwrap_or_default());
        let page = query.first("page").and_then(|page| page.parse().ok());
        let authorized = self.admits(head);
        let trouble = loopback::pick(&mut self.faults, &head.method, &path, page);
        let sequence = self.journal.record(line, head, path, page, authorized);
        (sequence, trouble)
    }
}

impl Exchange for Shared {
    type Account = Mutex<Project>;
    type Vendor = Vendor;

    /// Larger than any valid request: the vendor's user data is at most 32 KiB.
    const MAX_BODY: usize = 1 << 20;

    fn latency(&self) -> Duration {
        self.options.latency
    }

    fn account(&self, head: &Parts) -> Option<Arc<Mutex<Project>>> {
        self.project_of(head)
    }

    fn receive(
        &self,
        project: &Mutex<Project>,
        line: &Line,
        head: &Parts,
    ) -> (u64, Option<Trouble>) {
        project.lock().receive(line, head)
    }

    fn answered(&self, project: &Mutex<Project>, sequence: u64, status: u16) {
        project.lock().journal.answered(sequence, status);
    }

    fn too_large() -> Reply {
        let status = StatusCode::PAYLOAD_TOO_LARGE;
        let message = "the request body is too large or never ends";
        Refusal::new(status, "invalid_input", message).into_reply()
    }

    /// Checks token and budget, and executes the request.
    fn carry_out(
        &self,
        project: &Mutex<Project>,
        head: &Parts,
        body: Bytes,
        trouble: Option<&Trouble>,
    ) -> Answer {
        let now = Instant::now();
        let mut state = project.lock();
        if !state.admits(head) {
            let message = "unable to authenticate";
            return Refusal::new(StatusCode::UNAUTHORIZED, "unauthorized", message)
                .into_reply()
                .into();
        }
        let spent = state.bucket.as_mut().map(|bucket| bucket.take(now));
        let reply = if state.is_read_only(head) {
            let message = "only read access is allowed, not write access";
            Refusal::new(StatusCode::FORBIDDEN, "token_readonly", message).into_reply()
        } else if spent.as_ref().is_some_and(|spent| !spent.allowed) {
            let message = "limit of requests per hour reached";
            Refusal::new(
                StatusCode::TOO_MANY_REQUESTS,
                "rate_limit_exceeded",
                message,
            )
            .into_reply()
        } else {
            let call = Call {
                method: head.method.clone(),
                path: head
                    .uri
                    .path()
                    .strip_prefix("/v1/")
                    .unwrap_or_default()
                    .to_owned(),
                query: Query::parse(head.uri.query().unwrap_or_default()),
                body,
                now,
                failure: faults::failure_of(trouble),
            };
            api::answer(&mut state.world, &call)
        };
        drop(state);
        let answer = match trouble {
            Some(trouble) => loopback::distort::<Vendor>(trouble, reply),
            None => reply.into(),
        };
        match spent {
            Some(spent) => spent.with_headers(answer, (self.options.clock)()),
            None => answer,
        }
    }
}

fn bearer(head: &Parts) -> Option<&str> {
    let header = head.headers.get(AUTHORIZATION)?;
    header.to_str().ok()?.strip_prefix("Bearer ")
}

/// Path and query after the endpoint's `/v1`; other paths unchanged.
fn local_path(head: &Parts) -> String {
    let sent = head.uri.path_and_query().map_or("/", |path| path.as_str());
    sent.strip_prefix("/v1")
        .filter(|rest| rest.starts_with('/'))
        .unwrap_or(sent)
        .to_owned()
}
