//! Sends the requests of one guest call: the three entry points and their common steps.
//!
//! Cancel-safe: dropping a future drops its request, frees its slot and reports to the permit.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use ccm_core::cloud::CloudEvent;
use ccm_core::safety::audit::Attempt;
use ccm_core::safety::permit::{Permit, Refusal};
use futures::{FutureExt as _, StreamExt as _};
use http::{HeaderMap, Method};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep, timeout_at};

use super::budget::Budget;
use super::call_record::{Record, Records};
use super::canonical_request::Prepared;
use super::cloud_request_id::cloud_request_id;
use super::message::{Exchange, FetchError, FetchRequest, FetchResponse};
use super::permit::{Allowed, now};
use super::quota::TakenRequest;
use super::response_cache::Lookup;
use super::target::Target;
use super::{Egress, MAX_TEXT, request_identity, resolve_target, send};
use crate::interceptor::disturbed;
use crate::sanitize::clean;

/// Limit of the contract.
pub(crate) const MAX_TOGETHER: usize = 64;

/// Egress scope of one guest call. Clones share the call.
#[derive(Clone)]
pub struct CallScope(Arc<Call>);

/// The slots of the provider that the requests of a call may use.
pub(super) enum SlotShare {
    /// All.
    Whole,
    /// Those that are not left to calls about nodes.
    BesideNodes,
}

struct Call {
    egress: Arc<Egress>,
    permit: Arc<Permit>,
    deadline: Instant,
    fresh: bool,
    share: SlotShare,
    slots: Semaphore,
    /// One permit for each request body that is being read.
    bodies: Semaphore,
    budget: Arc<Budget>,
    records: Records,
}

impl CallScope {
    pub(super) fn new(
        egress: Arc<Egress>,
        permit: Arc<Permit>,
        deadline: Instant,
        fresh: bool,
        share: SlotShare,
    ) -> CallScope {
        let slots = Semaphore::new(egress.limits.in_flight_per_call);
        let bodies = Semaphore::new(egress.limits.in_flight_per_call);
        let held = egress.limits.held_bytes_per_call;
        CallScope(Arc::new(Call {
            budget: Budget::of_call(held, egress.budget.clone()),
            egress,
            permit,
            deadline,
            fresh,
            share,
            slots,
            bodies,
            records: Records::default(),
        }))
    }

    /// Sends one request to a target, as `ccm:provider/http.fetch`.
    ///
    /// # Errors
    /// Why there is no response. The text holds no credential.
    pub async fn fetch(&self, mut request: FetchRequest) -> Result<FetchResponse, FetchError> {
        let method = request.method.clone();
        // All other parts of a request have limits where they are judged. The name is shown before that.
        if request.target.len() > MAX_TEXT {
            request.target = clean(&request.target, MAX_TEXT);
        }
        let name = request.target.clone();
        let supplementary = request.supplementary;
        self.0
            .run(&name, &method, supplementary, || {
                resolve_target::by_name(&self.0.egress, request, self.0.fresh)
            })
            .await
    }

    /// Sends up to 64 requests concurrently; responses keep the order of the requests. A longer list is refused as a
    /// whole.
    pub async fn fetch_all(
        &self,
        requests: Vec<FetchRequest>,
    ) -> Vec<Result<FetchResponse, FetchError>> {
        if requests.len() > MAX_TOGETHER {
            return vec![Err(self.too_many(requests.len())); requests.len()];
        }
        let width = self.0.egress.limits.in_flight_per_call;
        side_by_side(width, requests, |request| self.fetch(request)).await
    }

    /// Error for a list of more requests than a call may send at once.
    pub(crate) fn too_many(&self, requests: usize) -> FetchError {
        self.0.records.begin();
        FetchError::Invalid(format!(
            "{requests} requests at once, at most {MAX_TOGETHER}"
        ))
    }

    /// Sends a request with an absolute URL, as `wasi:http` does. The URL must lie in a granted target; then it is
    /// handled as in [`CallScope::fetch`].
    ///
    /// # Errors
    /// Why there is no response. The text holds no credential.
    pub async fn fetch_url(
        &self,
        request: http::Request<Bytes>,
    ) -> Result<http::Response<Bytes>, FetchError> {
        self.fetch_url_whole(request).await?.try_into()
    }

    /// [`CallScope::fetch_url`] with a response as in [`CallScope::fetch`].
    pub(crate) async fn fetch_url_whole(
        &self,
        request: http::Request<Bytes>,
    ) -> Result<FetchResponse, FetchError> {
        let method = request.method().clone();
        let name = resolve_target::name_of(&self.0.egress, request.uri());
        self.0
            .run(&name, &method, false, || {
                resolve_target::by_url(&self.0.egress, request, self.0.fresh)
            })
            .await
    }

    /// Whether the answers of this call may prove absence; see `ccm_core::cloud::FindReply::complete`. Cached
    /// answers and those of other calls do not count as this call's own. Without a granted target no request is
    /// needed.
    pub fn complete(&self) -> bool {
        self.0.records.complete(self.0.egress.has_targets())
    }

    /// Waits for a permit to read one more request body: the host buffers at most as many bodies of a call as the
    /// call may send requests at a time.
    pub(crate) async fn place(&self) -> Result<SemaphorePermit<'_>, FetchError> {
        self.0.slot(&self.0.bodies).await
    }

    /// Removes credentials from a text; see [`Egress::redacted`].
    pub(crate) fn redacted(&self, text: &str) -> String {
        self.0.egress.redacted(text)
    }

    /// Records a guest log line that has no credential; see [`Permit::note_log_line`].
    pub(crate) fn note_log_line(&self, line: &str) {
        self.0.permit.note_log_line(line);
    }

    /// Keeps the events of a guest's failure for the caller, and logs them: see [`Permit::fail_with`].
    pub(crate) fn fail_with(&self, mut events: Vec<CloudEvent>) {
        let Call { egress, permit, .. } = &*self.0;
        events.retain(|event| !egress.finds_credential(&[&event.reason]));
        for event in &mut events {
            event.message = egress.redacted(&event.message);
            let (provider, reason, message) = (egress.provider(), &event.reason, &event.message);
            tracing::info!(provider, reason, message, "said of a failure");
        }
        permit.fail_with(events);
    }

    /// Exchanges so far, in the order in which they ended.
    pub fn exchanges(&self) -> Vec<Exchange> {
        self.0.records.exchanges()
    }
}

/// Runs `width` requests at a time; returns the responses in the order of the requests.
pub(crate) async fn side_by_side<F: Future<Output = Result<FetchResponse, FetchError>>>(
    width: usize,
    requests: Vec<FetchRequest>,
    fetch: impl FnMut(FetchRequest) -> F,
) -> Vec<F::Output> {
    let answers = requests.into_iter().map(fetch);
    futures::stream::iter(answers)
        .buffered(width)
        .collect()
        .await
}

impl Call {
    /// Runs one exchange, from the guest's call to its end.
    async fn run(
        &self,
        name: &str,
        method: &Method,
        supplementary: bool,
        resolve_target: impl FnOnce() -> Result<Prepared, FetchError>,
    ) -> Result<FetchResponse, FetchError> {
        let cap = self.egress.limits.requests_per_call;
        if self.records.begin() >= cap {
            return Err(FetchError::Denied(format!(
                "a call makes at most {cap} requests"
            )));
        }
        let mut record = Record::new(&self.egress, &self.records, name, method, supplementary);
        let (end, kept) = match resolve_target() {
            Ok(prepared) => {
                record.admitted(&self.target(prepared.target)?.name, prepared.line.clone());
                self.answer(&prepared).await
            }
            Err(error) => {
                let error =
                    error.with_text(|text| self.egress.shown(&self.egress.of_version(text)));
                self.attempted(name, method, &error);
                (Err(error), false)
            }
        };
        let end = end.map_err(|error| error.with_text(|text| self.egress.shown(&text)));
        record.ended(&end, kept);
        end
    }

    /// Writes a refused request to the audit, even when the log suppresses it.
    fn attempted(&self, name: &str, method: &Method, error: &FetchError) {
        if let FetchError::Denied(refusal) | FetchError::Invalid(refusal) = error {
            self.permit.attempted(&Attempt {
                author: request_identity::author(&self.egress),
                subject: self.permit.subject(),
                target: &self.egress.shown(name),
                method: method.as_str(),
                outcome: error.reason(),
                refusal,
            });
        }
    }

    fn target(&self, index: usize) -> Result<&Target, FetchError> {
        let target = self.egress.targets.get(index);
        target.ok_or_else(|| FetchError::Denied("no such target is granted".to_owned()))
    }

    /// The result, and whether it came from the response cache or from another request.
    async fn answer(&self, prepared: &Prepared) -> (Result<FetchResponse, FetchError>, bool) {
        let kept = &self.egress.kept;
        let Some(max_age) = prepared.max_age else {
            let _changing = (!prepared.is_shareable).then(|| kept.changing(prepared.target));
            return (self.send(prepared).await, false);
        };
        let key = super::response_cache::Key::new(
            prepared.target,
            &prepared.method,
            prepared.url.as_str(),
            &prepared.headers,
            prepared.body.as_deref(),
        );
        loop {
            match kept.turn(&key, max_age, Instant::now(), &self.budget) {
                Lookup::Answer(answer) => return (answer, true),
                Lookup::Lead(lead) => {
                    let end = self.send(prepared).await;
                    match end {
                        // Its followers may have more time.
                        Err(FetchError::TimedOut(_)) if self.is_over() => drop(lead),
                        _ => lead.done(&end),
                    }
                    return (end, false);
                }
                Lookup::Follow(mut leader) => {
                    let shared = timeout_at(self.deadline, leader.wait_for(Option::is_some)).await;
                    let shared = shared.map(|value| value.ok().and_then(|value| value.clone()));
                    match shared {
                        Err(_) => {
                            return (
                                Err(FetchError::TimedOut(
                                    "waited for an equal request".to_owned(),
                                )),
                                true,
                            );
                        }
                        Ok(Some(end)) => return (end, true),
                        Ok(None) => {}
                    }
                }
            }
        }
    }

    /// Waits for the credential, the rate limit and a slot, asks the permit, sends.
    async fn send(&self, prepared: &Prepared) -> Result<FetchResponse, FetchError> {
        let egress = &self.egress;
        let target = self.target(prepared.target)?;
        let tenure = self.permit.tenure();
        let attachment = async || {
            let until = self.until()?;
            target.authentication.attachment(tenure, until).await
        };
        let (_slots, taken, request) = loop {
            // Without the slots, which all targets share: a slow issuer, or a target that limits the rate of requests, holds
            // up its own requests only.
            drop(attachment().await?);
            let taken = self.turn(target).await?;
            let of_call = self.slot(&self.slots).await?;
            // In this order: a request that waits for the narrower share takes no general slot.
            let of_share = match self.share {
                SlotShare::Whole => None,
                SlotShare::BesideNodes => Some(self.slot(&egress.slots_beside_nodes).await?),
            };
            let slots = (of_call, of_share, self.slot(&egress.slots).await?);
            // The cloud may have asked for a hold meanwhile, and the credential may have ended or been refused.
            if target.share.held(Instant::now()).is_some() {
                continue;
            }
            if let Some(attachment) = attachment().now_or_never() {
                break (slots, taken, target.request(prepared, &attachment?)?);
            }
        };
        let cloud_request = request_identity::cloud_request(egress, target, prepared);
        let until = self.until()?;
        let allowed = Allowed::ask(&self.permit, cloud_request)
            .map_err(|refusal| self.refused(refusal, target, prepared))?;
        taken.spend();
        let exchange = send::send(
            target,
            request,
            &egress.limits,
            until,
            &self.permit,
            &self.budget,
        );
        let answer = match &egress.interceptor {
            None => exchange.await,
            Some(interceptor) => {
                let observe = |status, headers: &HeaderMap| {
                    target
                        .share
                        .observe(status, headers, Instant::now(), SystemTime::now());
                };
                let interceptor = interceptor.as_ref();
                disturbed(interceptor, allowed.request(), until, observe, exchange).await
            }
        }?;
        if let Some(quota) = target.share.stated(Instant::now()) {
            let (requests, provider) = (&egress.requests, egress.provider());
            requests.cloud_admits(provider, &target.name, &target.share.shown(&quota));
        }
        allowed.answered(answer.status, cloud_request_id(&answer));
        Ok(answer)
    }

    async fn slot<'a>(&self, slots: &'a Semaphore) -> Result<SemaphorePermit<'a>, FetchError> {
        match timeout_at(self.deadline, slots.acquire()).await {
            Ok(Ok(slot)) => Ok(slot),
            Ok(Err(_)) => Err(FetchError::Unavailable("the egress is closed".to_owned())),
            Err(_) => Err(FetchError::TimedOut(
                "too many requests are under way".to_owned(),
            )),
        }
    }

    /// Takes a request out of the target's budget and waits until it may be sent. Waits out short holds; reports long
    /// ones to the guest as `throttled`.
    async fn turn<'a>(&self, target: &'a Target) -> Result<TakenRequest<'a>, FetchError> {
        while let Some(left) = target.share.held(Instant::now()) {
            let in_time = Instant::now()
                .checked_add(left)
                .is_some_and(|end| end < self.deadline);
            if left > self.egress.limits.longest_wait || !in_time {
                return Err(throttled(left));
            }
            sleep(left).await;
        }
        let now = Instant::now();
        let left = self.deadline.saturating_duration_since(now);
        let most = self.egress.limits.longest_wait.min(left);
        let (taken, wait) = target.share.take(now, most).map_err(|wait| {
            if self.records.may_warn() {
                tracing::warn!(target: "egress", provider = self.egress.provider(), name = target.name, ?wait, "the budget of requests is spent: nothing is sent");
            }
            throttled(wait)
        })?;
        if !wait.is_zero() {
            sleep(wait).await;
        }
        Ok(taken)
    }

    /// Whether this call is out of time, so that a request may have ended for that alone.
    fn is_over(&self) -> bool {
        self.deadline <= Instant::now() || self.permit.valid_until() <= now()
    }

    /// Deadline of a request that begins now: the earlier of its own limit and the call's deadline. The permit's end
    /// moves with renewals, so it is checked while the request is sent.
    fn until(&self) -> Result<Instant, FetchError> {
        let begin = Instant::now();
        let ends = [
            begin.checked_add(self.egress.limits.total),
            Some(self.deadline),
        ];
        let until = ends.into_iter().flatten().min().unwrap_or(self.deadline);
        if self.deadline <= begin {
            return Err(FetchError::TimedOut("the call is over".to_owned()));
        }
        Ok(until)
    }

    /// Guest error for a refusal of the permit. An engaged brake is not the guest's mistake: it gets `throttled`, to
    /// retry.
    fn refused(&self, refusal: Refusal, target: &Target, prepared: &Prepared) -> FetchError {
        if let Refusal::Brake { brake, again } = refusal {
            let left = now().until(again);
            if self.records.may_warn() {
                tracing::warn!(target: "egress", provider = self.egress.provider(), name = target.name, %brake, ?left, "the brake is engaged: the change is held");
            }
            return FetchError::Throttled(u64::try_from(left.as_millis()).unwrap_or(u64::MAX));
        }
        FetchError::Denied(format!(
            "{} {}{} on target {}: {refusal}",
            prepared.method,
            prepared.path.as_str(),
            prepared.line.fields(),
            target.name
        ))
    }
}

/// Error for a hold of this length.
fn throttled(left: Duration) -> FetchError {
    let ms = left.as_nanos().div_ceil(1_000_000);
    FetchError::Throttled(u64::try_from(ms).unwrap_or(u64::MAX))
}
