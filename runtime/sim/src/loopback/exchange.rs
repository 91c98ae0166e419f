//! Processing of one request, the same at every cloud.
//!
//! The order is: record the request, reset the connection if clients are locked out, look for a fault, check the
//! credential, take from the budget, execute the request or replace its execution, distort the response, deliver. Each
//! cloud implements the execution.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::{sleep, timeout};

use super::Clock;
use super::access::Access;
use super::rate::RateLimit;
use super::serve::{Line, REQUEST_TIMEOUT, Respond};
use super::trouble::{Reply, Trouble, distort, instead};
use super::wire::{Answer, Body, response};

/// A vendor's API, as the state of one project or account that executes requests.
pub(crate) trait Api: Send + 'static {
    /// The path of the endpoint, which records leave out.
    const ROOT: &'static str;
    /// The largest request body, in bytes.
    const MAX_BODY: usize;

    /// Whether all clients are locked out, so that their connections are reset.
    fn is_locked_out(&mut self) -> bool {
        false
    }

    /// Counts a request by whether its credential is valid.
    fn count_login(&mut self, _is_valid: bool) {}

    /// Executes a request whose credential is valid.
    fn execute(&mut self, head: &Parts, body: Bytes, trouble: Option<&Trouble>) -> Reply;

    /// The refusal of a request that is not executed.
    fn denial(why: Denial) -> Reply;

    /// A refusal in the vendor's envelope.
    fn refusal(status: StatusCode, code: &str, message: &str) -> Reply;

    /// Makes a list that has lost its entries consistent, if lists have totals.
    fn empty(_list: &mut Value) {}

    /// Makes a list name itself as the next page, if lists have pages.
    fn repeat(_list: &mut Value) {}
}

/// Why a request is not executed.
pub(crate) enum Denial {
    /// The credential is missing or unknown.
    Unauthorized,
    /// The request is a change, and its credential allows only reading.
    ReadOnly,
    /// The budget of requests is spent.
    TooMany,
    /// The body is too large or never ends.
    TooLarge,
}

/// A simulated cloud: all of its projects or accounts.
pub(crate) struct Cloud<A> {
    /// The request budget of each tenant.
    rate_limit: Option<RateLimit>,
    /// Delay before each request is executed.
    latency: Duration,
    clock: Clock,
    /// Not empty once requests can arrive: a simulator opens its first tenant before it listens.
    tenants: Mutex<Vec<Arc<Tenant<A>>>>,
}

/// One project or account.
pub(crate) struct Tenant<A> {
    /// Locked before the state by those who need both.
    pub(super) access: Arc<Mutex<Access>>,
    pub(crate) state: Mutex<A>,
}

impl<A: Api> Cloud<A> {
    pub(crate) fn new(rate_limit: Option<RateLimit>, latency: Duration, clock: Clock) -> Self {
        Self {
            rate_limit,
            latency,
            clock,
            tenants: Mutex::default(),
        }
    }

    /// Adds a tenant that this credential opens. Its number, from 0, determines its state.
    pub(crate) fn open(&self, credential: String, state: impl FnOnce(u32) -> A) -> Arc<Tenant<A>> {
        let mut tenants = self.tenants.lock();
        let number = u32::try_from(tenants.len()).unwrap_or(u32::MAX);
        let access = Access::new(credential, self.rate_limit);
        let tenant = Arc::new(Tenant {
            access: Arc::new(Mutex::new(access)),
            state: Mutex::new(state(number)),
        });
        tenants.push(Arc::clone(&tenant));
        tenant
    }

    /// The tenant of a request: the one that its credential opens, or the first one.
    fn tenant_of(&self, head: &Parts) -> Option<Arc<Tenant<A>>> {
        let tenants = self.tenants.lock();
        let mut opened = tenants.iter();
        let opened = opened.find(|tenant| tenant.access.lock().admits(head));
        opened.or_else(|| tenants.first()).map(Arc::clone)
    }

    /// Checks credential and budget, and executes the request.
    fn carry_out(
        &self,
        tenant: &Tenant<A>,
        head: &Parts,
        body: Bytes,
        trouble: Option<&Trouble>,
    ) -> Answer {
        let (mut access, mut state) = (tenant.access.lock(), tenant.state.lock());
        let is_valid = access.admits(head);
        state.count_login(is_valid);
        if !is_valid {
            return A::denial(Denial::Unauthorized).into();
        }
        let spent = access.spend();
        let reply = if access.is_read_only(head) {
            A::denial(Denial::ReadOnly)
        } else if spent.as_ref().is_some_and(|spent| !spent.allowed) {
            A::denial(Denial::TooMany)
        } else {
            state.execute(head, body, trouble)
        };
        drop((access, state));
        let answer = match trouble {
            Some(trouble) => distort::<A>(trouble, reply),
            None => reply.into(),
        };
        match spent {
            Some(spent) => spent.with_headers(answer, (self.clock)()),
            None => answer,
        }
    }
}

impl<A: Api> Respond for Cloud<A> {
    async fn respond(&self, line: &Line, request: Request<Incoming>) -> Response<Body> {
        let (head, body) = request.into_parts();
        let Some(tenant) = self.tenant_of(&head) else {
            return response(Answer::plain(503, Bytes::new()));
        };
        let access = &tenant.access;
        let is_locked_out = tenant.state.lock().is_locked_out();
        let (sequence, trouble) = access.lock().receive(line, &head, A::ROOT, is_locked_out);
        if self.latency > Duration::ZERO {
            sleep(self.latency).await;
        }
        match &trouble {
            Some(Trouble::ResetBefore) => match line.reset().await {},
            Some(Trouble::SlowBefore(pause)) => sleep(*pause).await,
            _ => {}
        }
        let answer = match trouble.as_ref().and_then(instead::<A>) {
            Some(answer) => answer,
            None => match timeout(REQUEST_TIMEOUT, Limited::new(body, A::MAX_BODY).collect()).await
            {
                Ok(Ok(body)) => self.carry_out(&tenant, &head, body.to_bytes(), trouble.as_ref()),
                _ => A::denial(Denial::TooLarge).into(),
            },
        };
        match &trouble {
            Some(Trouble::ResetAfter) => match line.reset().await {},
            Some(Trouble::SlowAfter(pause)) => sleep(*pause).await,
            _ => {}
        }
        let status = answer.status.as_u16();
        access.lock().journal.answered(sequence, status);
        response(answer)
    }
}
