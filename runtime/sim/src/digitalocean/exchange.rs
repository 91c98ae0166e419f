//! Processing of one request: its account, token and budget. Makes no decisions about the account's objects.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, HOST};
use http::request::Parts;
use http::{Method, StatusCode};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::account::Account;
use super::api::{self, Call, Refusal};
use super::{Fault, Options, Trouble};
use crate::loopback::{self, Answer, Bucket, Envelope, Exchange, Journal, Line, Reply};

/// State shared by all connections.
pub(super) struct Shared {
    options: Options,
    access: Arc<Mutex<Access>>,
}

/// The account with tokens, budget, faults and records, protected by one lock.
pub(super) struct Access {
    pub(super) token: String,
    /// The token that allows only reading.
    pub(super) read_token: Option<String>,
    pub(super) account: Account,
    pub(super) journal: Journal,
    pub(super) faults: Vec<Fault>,
    bucket: Option<Bucket>,
}

impl Shared {
    pub(super) fn new(options: Options) -> Self {
        let access = Access {
            token: options.token.clone(),
            read_token: None,
            account: Account::new(options.creation, options.change, Arc::clone(&options.clock)),
            journal: Journal::default(),
            faults: Vec::new(),
            bucket: options
                .rate_limit
                .map(|rule| Bucket::new(rule, Instant::now())),
        };
        Self {
            options,
            access: Arc::new(Mutex::new(access)),
        }
    }

    pub(super) fn access(&self) -> Arc<Mutex<Access>> {
        Arc::clone(&self.access)
    }

    /// Scheme, host and port as the client addressed them, for the URLs of pages.
    fn origin(&self, head: &Parts) -> String {
        let host = head.headers.get(HOST).and_then(|host| host.to_str().ok());
        let scheme = if self.options.tls.is_some() {
            "https"
        } else {
            "http"
        };
        format!("{scheme}://{}", host.unwrap_or_default())
    }
}

impl Access {
    fn admits(&self, head: &Parts) -> bool {
        let sent = bearer(head);
        sent.is_some() && (sent == Some(self.token.as_str()) || sent == self.read_token.as_deref())
    }

    /// Whether the request is a change, and its token allows only reading.
    fn is_read_only(&self, head: &Parts) -> bool {
        let changes = !matches!(head.method, Method::GET | Method::HEAD);
        changes && bearer(head) != Some(self.token.as_str())
    }
}

fn bearer(head: &Parts) -> Option<&str> {
    let header = head.headers.get(AUTHORIZATION)?;
    header.to_str().ok()?.strip_prefix("Bearer ")
}

impl Exchange for Shared {
    type Account = Mutex<Access>;
    type Vendor = Vendor;

    const MAX_BODY: usize = 1 << 20;

    fn latency(&self) -> Duration {
        self.options.latency
    }

    fn account(&self, _: &Parts) -> Option<Arc<Mutex<Access>>> {
        Some(self.access())
    }

    fn receive(&self, access: &Mutex<Access>, line: &Line, head: &Parts) -> (u64, Option<Trouble>) {
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
        let page = api::first(head.uri.query(), "page").and_then(|page| page.parse().ok());
        let mut state = access.lock();
        let trouble = loopback::pick(&mut state.faults, &head.method, path, page);
        let authorized = state.admits(head);
        let record = &mut state.journal;
        let sequence = record.record(line, head, path.to_owned(), page, authorized);
        (sequence, trouble)
    }

    fn carry_out(
        &self,
        access: &Mutex<Access>,
        head: &Parts,
        body: Bytes,
        trouble: Option<&Trouble>,
    ) -> Answer {
        let now = Instant::now();
        let mut state = access.lock();
        if !state.admits(head) {
            let message = "Unable to authenticate you";
            return Refusal::new(StatusCode::UNAUTHORIZED, "Unauthorized", message)
                .into_reply()
                .into();
        }
        let spent = state.bucket.as_mut().map(|bucket| bucket.take(now));
        let reply = if state.is_read_only(head) {
            let message = "You are not authorized to perform this operation";
            Refusal::new(StatusCode::FORBIDDEN, "Forbidden", message).into_reply()
        } else if spent.as_ref().is_some_and(|spent| !spent.allowed) {
            let (code, message) = Vendor::TOO_MANY;
            Vendor::refusal(StatusCode::TOO_MANY_REQUESTS, code, message)
        } else {
            let call = Call {
                method: head.method.clone(),
                path: head.uri.path().to_owned(),
                query: head.uri.query().unwrap_or_default().to_owned(),
                origin: self.origin(head),
                body,
                now,
                action_fails: matches!(trouble, Some(Trouble::ActionFails { .. })),
            };
            api::answer(&mut state.account, &call)
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

    fn answered(&self, access: &Mutex<Access>, sequence: u64, status: u16) {
        access.lock().journal.answered(sequence, status);
    }

    fn too_large() -> Reply {
        let message = "the request body is too large or never ends";
        Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "bad_request", message).into_reply()
    }
}

/// DigitalOcean's refusals and lists.
pub(super) struct Vendor;

impl Envelope for Vendor {
    const TOO_MANY: (&'static str, &'static str) =
        ("too_many_requests", "API Rate limit exceeded.");

    fn refusal(status: StatusCode, code: &str, message: &str) -> Reply {
        Refusal::new(status, code, message).into_reply()
    }

    fn empty(list: &mut Value) {
        list["meta"]["total"] = json!(0);
        list["links"] = json!({});
    }

    fn repeat(list: &mut Value) {
        let pages = &mut list["links"]["pages"];
        let here = |url: &Value| url.as_str().map(str::to_owned);
        // The page before the next page is this one.
        let page = here(&pages["next"]).and_then(|url| {
            let (base, query) = url.split_once('?')?;
            let number: u64 = api::first(Some(query), "page")?.parse().ok()?;
            let rest = query.replace(&format!("page={number}"), &format!("page={}", number - 1));
            Some(format!("{base}?{rest}"))
        });
        if let Some(page) = page {
            pages["next"] = json!(page);
        }
    }
}
