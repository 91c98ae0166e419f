//! What one guest call may send: the three ways in, and the steps that they share.
//!
//! Cancel-safe: whoever drops a future drops its request, gives its slot back and tells the permit.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ccm_core::permit::{CloudRequest, Permit};
use futures::StreamExt as _;
use http::Method;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep, timeout_at};
use url::{Url, form_urlencoded};

use super::headers::Source;
use super::kept::Turn;
use super::message::{Exchange, FetchError, FetchRequest, FetchResponse};
use super::permit::{Allowed, now};
use super::prepare::{self, Prepared};
use super::record::{Record, Records};
use super::target::Target;
use super::{Egress, send};

/// The contract's number.
const MAX_TOGETHER: usize = 64;

/// See the module's documentation. Clones are the same call.
#[derive(Clone)]
pub struct CallScope(Arc<Call>);

struct Call {
    egress: Arc<Egress>,
    permit: Arc<Permit>,
    deadline: Instant,
    fresh: bool,
    slots: Semaphore,
    records: Records,
}

impl CallScope {
    pub(super) fn new(egress: Arc<Egress>, permit: Arc<Permit>, deadline: Instant, fresh: bool) -> CallScope {
        let slots = Semaphore::new(egress.limits.in_flight_per_call);
        CallScope(Arc::new(Call { egress, permit, deadline, fresh, slots, records: Records::default() }))
    }

    /// Sends one request to a target, as `ccm:provider/http.fetch`.
    ///
    /// # Errors
    /// Why there is no answer. The text holds no credential.
    pub async fn fetch(&self, request: FetchRequest) -> Result<FetchResponse, FetchError> {
        let method = request.method.clone();
        let name = request.target.clone();
        self.0.run(&name, &method, || self.0.aim(request)).await
    }

    /// Sends up to 64 requests side by side; answers in the order of the requests. More are refused, all of them.
    pub async fn fetch_all(&self, requests: Vec<FetchRequest>) -> Vec<Result<FetchResponse, FetchError>> {
        if requests.len() > MAX_TOGETHER {
            let error = FetchError::Invalid(format!("{} requests at once, at most {MAX_TOGETHER}", requests.len()));
            self.0.records.begin();
            return vec![Err(error); requests.len()];
        }
        let width = self.0.egress.limits.in_flight_per_call;
        let answers = requests.into_iter().map(|request| self.fetch(request));
        futures::stream::iter(answers).buffered(width).collect().await
    }

    /// Sends a request with an absolute URL, as `wasi:http` has it. The URL must lie in a granted target; from there
    /// on it is a [`CallScope::fetch`].
    ///
    /// # Errors
    /// Why there is no answer. The text holds no credential.
    pub async fn fetch_url(&self, request: http::Request<Bytes>) -> Result<http::Response<Bytes>, FetchError> {
        let method = request.method().clone();
        let name = self.0.name_of(request.uri());
        let answer = self.0.run(&name, &method, || self.0.aim_url(request)).await?;
        let mut response = http::Response::builder().status(answer.status);
        for (name, value) in &answer.headers {
            response = response.header(name, value);
        }
        response.body(answer.body).map_err(|error| FetchError::Unavailable(error.to_string()))
    }

    /// Whether the answers of this call may prove absence; see `ccm_core::cloud::FindReply::complete`. Kept
    /// answers and those of other calls are not this call's own. Without any granted target there is nothing to ask.
    pub fn complete(&self) -> bool {
        self.0.records.complete(self.0.egress.has_targets())
    }

    /// What was asked so far, in the order in which it ended.
    pub fn exchanges(&self) -> Vec<Exchange> {
        self.0.records.exchanges()
    }
}

impl Call {
    /// One exchange, from the guest's asking to its end.
    async fn run(
        &self,
        name: &str,
        method: &Method,
        aim: impl FnOnce() -> Result<Prepared, FetchError>,
    ) -> Result<FetchResponse, FetchError> {
        let cap = self.egress.limits.requests_per_call;
        if self.records.begin() >= cap {
            return Err(FetchError::Denied(format!("a call makes at most {cap} requests")));
        }
        let mut record = Record::new(&self.egress, &self.records, name, method);
        let (end, kept) = match aim() {
            Ok(prepared) => {
                record.admitted(&prepared.line);
                self.answer(&prepared).await
            }
            Err(error) => (Err(error), false),
        };
        let end = end.map_err(|error| self.shown(error));
        record.ended(&end, kept);
        end
    }

    /// A target by its name.
    fn aim(&self, request: FetchRequest) -> Result<Prepared, FetchError> {
        let targets = &self.egress.targets;
        let Some(index) = targets.iter().position(|target| target.name == request.target) else {
            return Err(FetchError::Denied(format!("{} on target {}: no such target is granted", request.method, request.target)));
        };
        self.prepare(index, request, Source::Fetch)
    }

    /// A target by where it is: the one with the longest base path that admits the request.
    fn aim_url(&self, request: http::Request<Bytes>) -> Result<Prepared, FetchError> {
        let (head, body) = request.into_parts();
        let origin = origin(&head.uri)?;
        let mut refusal = FetchError::Denied(format!("{} {origin}: not a granted target", head.method));
        let mut headers = Vec::with_capacity(head.headers.len());
        for (name, value) in &head.headers {
            let text = value.to_str().map_err(|_| FetchError::Invalid(format!("the value of header {name} is not ASCII")))?;
            headers.push((name.as_str().to_owned(), text.to_owned()));
        }
        let query = head.uri.query().unwrap_or_default();
        let query: Vec<_> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        let mut near: Vec<_> = self
            .egress
            .targets
            .iter()
            .enumerate()
            .filter(|(_, target)| target.endpoint.origin() == origin.origin())
            .filter_map(|(index, target)| Some((index, below(&target.endpoint, head.uri.path())?)))
            .collect();
        // The shorter the rest, the longer the base path; equals stay in the order of the grant.
        near.sort_by_key(|(_, rest)| rest.len());
        for (index, path) in near {
            let request = FetchRequest {
                target: String::new(),
                method: head.method.clone(),
                path,
                query: query.clone(),
                headers: headers.clone(),
                body: Some(body.clone()).filter(|body| !body.is_empty()),
            };
            match self.prepare(index, request, Source::Wasi) {
                Ok(prepared) => return Ok(prepared),
                Err(error) => refusal = error,
            }
        }
        Err(refusal)
    }

    fn prepare(&self, index: usize, request: FetchRequest, source: Source) -> Result<Prepared, FetchError> {
        let ground = self.target(index)?.ground(index);
        prepare::prepare(&ground, request, source, self.fresh, &self.egress.limits)
    }

    fn target(&self, index: usize) -> Result<&Target, FetchError> {
        let target = self.egress.targets.get(index);
        target.ok_or_else(|| FetchError::Denied("no such target is granted".to_owned()))
    }

    /// The name under which an exchange by URL is recorded: that of the target whose host it is.
    fn name_of(&self, uri: &http::Uri) -> String {
        let origin = origin(uri).map(|url| url.origin());
        let known = self.egress.targets.iter().find(|target| Ok(target.endpoint.origin()) == origin);
        known.map_or_else(|| "(not granted)".to_owned(), |target| target.name.clone())
    }

    /// The answer, and whether it was somebody else's.
    async fn answer(&self, prepared: &Prepared) -> (Result<FetchResponse, FetchError>, bool) {
        let kept = &self.egress.kept;
        let Some(max_age) = prepared.max_age else {
            let _changing = (prepared.method != Method::GET).then(|| kept.changing(prepared.target));
            return (self.send(prepared).await, false);
        };
        let key = super::kept::Key::new(prepared.target, prepared.url.as_str(), &prepared.headers);
        loop {
            match kept.turn(&key, max_age, Instant::now()) {
                Turn::Answer(answer) => return (Ok(answer), true),
                Turn::Lead(lead) => {
                    let end = self.send(prepared).await;
                    lead.done(&end);
                    return (end, false);
                }
                Turn::Follow(mut leader) => {
                    let shared = timeout_at(self.deadline, leader.wait_for(Option::is_some)).await;
                    let shared = shared.map(|value| value.ok().and_then(|value| value.clone()));
                    match shared {
                        Err(_) => return (Err(FetchError::TimedOut("waited for an equal request".to_owned())), true),
                        Ok(Some(end)) => return (end, true),
                        Ok(None) => {}
                    }
                }
            }
        }
    }

    /// Waits for its turn, asks the permit, sends.
    async fn send(&self, prepared: &Prepared) -> Result<FetchResponse, FetchError> {
        let egress = &self.egress;
        let target = self.target(prepared.target)?;
        let _slot = self.slot(&self.slots).await?;
        let _slot = self.slot(&egress.slots).await?;
        self.wait_out(target).await?;
        let request = target.request(prepared);
        let cloud_request = CloudRequest {
            provider: egress.provider.clone(),
            target: target.name.clone(),
            method: prepared.method.to_string(),
            path: prepared.path.as_str().to_owned(),
            access: prepared.line.access,
        };
        let until = self.until()?;
        let allowed = Allowed::ask(&self.permit, cloud_request).map_err(|refusal| {
            FetchError::Denied(format!("{} {} on target {}: {refusal}", prepared.method, prepared.path.as_str(), target.name))
        })?;
        let answer = send::send(target, request, &egress.limits, until).await?;
        allowed.answered(answer.status);
        Ok(answer)
    }

    async fn slot<'a>(&self, slots: &'a Semaphore) -> Result<SemaphorePermit<'a>, FetchError> {
        match timeout_at(self.deadline, slots.acquire()).await {
            Ok(Ok(slot)) => Ok(slot),
            Ok(Err(_)) => Err(FetchError::Unavailable("the egress is closed".to_owned())),
            Err(_) => Err(FetchError::TimedOut("too many requests are under way".to_owned())),
        }
    }

    /// A short hold is waited out, a long one is the guest's to report.
    async fn wait_out(&self, target: &Target) -> Result<(), FetchError> {
        while let Some(left) = target.patience.remaining(Instant::now()) {
            let in_time = Instant::now().checked_add(left).is_some_and(|end| end < self.deadline);
            if left > self.egress.limits.patient || !in_time {
                let ms = left.as_nanos().div_ceil(1_000_000);
                return Err(FetchError::Throttled(u64::try_from(ms).unwrap_or(u64::MAX)));
            }
            sleep(left).await;
        }
        Ok(())
    }

    /// When a request that begins now has to be over: its own limit, the call's deadline and the permit's end.
    fn until(&self) -> Result<Instant, FetchError> {
        let begin = Instant::now();
        let allowed: Duration = now().until(self.permit.valid_until());
        let ends = [begin.checked_add(self.egress.limits.total), begin.checked_add(allowed), Some(self.deadline)];
        let until = ends.into_iter().flatten().min().unwrap_or(self.deadline);
        if self.deadline <= begin {
            return Err(FetchError::TimedOut("the call is over".to_owned()));
        }
        Ok(until)
    }

    fn shown(&self, error: FetchError) -> FetchError {
        let shown = |text: String| self.egress.shown(&text);
        match error {
            FetchError::Denied(text) => FetchError::Denied(shown(text)),
            FetchError::Invalid(text) => FetchError::Invalid(shown(text)),
            FetchError::Throttled(ms) => FetchError::Throttled(ms),
            FetchError::TimedOut(text) => FetchError::TimedOut(shown(text)),
            FetchError::TooLarge(text) => FetchError::TooLarge(shown(text)),
            FetchError::Unavailable(text) => FetchError::Unavailable(shown(text)),
        }
    }
}

/// Scheme, host and port of a URL, in the one form in which hosts are compared: names in lower case, every notation of
/// an IPv4 address as four numbers. The path is not looked at here, because reading it would resolve its dots.
fn origin(uri: &http::Uri) -> Result<Url, FetchError> {
    let invalid = || FetchError::Invalid("expected an absolute URL: http or https, a host, no user".to_owned());
    let (Some(scheme @ ("http" | "https")), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
        return Err(invalid());
    };
    if authority.as_str().contains('@') {
        return Err(invalid());
    }
    Url::parse(&format!("{scheme}://{authority}/")).map_err(|_| invalid())
}

/// The part of a path below a target's base path.
fn below(endpoint: &Url, path: &str) -> Option<String> {
    let rest = path.strip_prefix(endpoint.path().trim_end_matches('/'))?;
    match rest {
        "" => Some("/".to_owned()),
        rest => rest.starts_with('/').then(|| rest.to_owned()),
    }
}
