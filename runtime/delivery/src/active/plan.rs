//! What a candidate would change of load balancers that the cloud had agreed on. Both versions are asked to make it agree
//! with the same Services in plan mode: nothing is changed, and the first change that one wants is heard by its refusal.
//!
//! Routes need no such question. Which of them are made and removed is decided from lists, which are compared, and a
//! version that is tried is told to change none.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ccm_core::audit::{AuditRecord, AuditSink, Refused, Unrecordable};
use ccm_core::cloud::{CloudNode, ProviderError};
use ccm_core::load_balancer::{CloudService, EnsureRequest};
use ccm_core::permit::{CloudRequest, Mode, Permit, Refusal};
use ccm_core::rollout::Plans;
use ccm_core::tenure::Tenure;
use ccm_host::egress::now;

use super::{Active, Generation, Holding};

/// Load balancers that are remembered, and asked about: enough to tell a version that changes all of them from one that
/// finds something to do, and few enough to cost what a shadow does. Each costs a candidate that agrees one call.
const BALANCERS: usize = 12;
/// How long one call may take; nobody waits for it.
const CALL: Duration = Duration::from_secs(60);

/// The load balancers about which a version has said last that the cloud agrees with their Services: the latest ones.
#[derive(Default)]
pub(super) struct Settled(Mutex<VecDeque<Arc<EnsureRequest>>>);

impl Settled {
    /// A call about this Service begins. Until it has ended well, nothing is expected of its load balancer.
    pub(super) fn begins(&self, uid: &str) {
        self.lock().retain(|request| request.service.uid != uid);
    }

    /// The cloud agrees with this Service, and these nodes are behind its load balancer.
    pub(super) fn agreed(&self, service: &Arc<CloudService>, targets: &Arc<[CloudNode]>) {
        let request = EnsureRequest {
            service: service.clone(),
            targets: targets.clone(),
            adopt: None,
            hint: None,
        };
        let mut settled = self.lock();
        settled.retain(|one| one.service.uid != service.uid);
        settled.push_back(Arc::new(request));
        if settled.len() > BALANCERS {
            settled.pop_front();
        }
    }

    fn all(&self) -> Vec<Arc<EnsureRequest>> {
        self.lock().iter().cloned().collect()
    }

    /// Whether nothing was asked about its Service meanwhile.
    fn has(&self, request: &Arc<EnsureRequest>) -> bool {
        self.lock().iter().any(|one| Arc::ptr_eq(one, request))
    }

    /// Nothing that is done under this lock can panic half-way; a poisoned one is as good as any.
    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<EnsureRequest>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<P: Holding> Active<P> {
    /// How many load balancers that should need nothing a candidate would change, and how many of those the version that
    /// serves would. One call at a time. What a candidate wants to change counts if it still does after the other one was
    /// asked, and nobody has changed the Service meanwhile.
    ///
    /// # Errors
    /// Nothing can be said: the candidate fails where the version that serves does not, or the cloud wants to be left
    /// alone.
    pub async fn plans(
        &self,
        candidate: &Generation<P>,
        tenure: &Arc<Tenure>,
    ) -> Result<Plans, ProviderError> {
        let mut plans = Plans::default();
        let mut unanswered = None;
        let theirs = &candidate.provider;
        for request in self.settled.all() {
            if let Some(left) = theirs.held_for() {
                return Err(ProviderError::Throttled {
                    message: "the cloud wants to be left alone".to_owned(),
                    retry_after: Some(left),
                });
            }
            let ours = &self.serving().provider;
            match wants_change(theirs.as_ref(), &request, tenure).await {
                Ok(false) => plans.asked += 1,
                Ok(true) => match wants_change(ours.as_ref(), &request, tenure).await {
                    Ok(true) => {
                        plans.asked += 1;
                        plans.serving += 1;
                        plans.candidate += 1;
                    }
                    Ok(false) => {
                        let again = wants_change(theirs.as_ref(), &request, tenure).await;
                        if let (Ok(again), true) = (again, self.settled.has(&request)) {
                            plans.asked += 1;
                            plans.candidate += u32::from(again);
                        }
                    }
                    Err(_) => {}
                },
                Err(error @ ProviderError::Throttled { .. }) => return Err(error),
                Err(_) if !tenure.may_begin(now()) => {
                    let why = "this process does not lead any more".to_owned();
                    return Err(ProviderError::Unavailable(why));
                }
                Err(error) => {
                    // Where both fail, it is nothing about the candidate.
                    if wants_change(ours.as_ref(), &request, tenure).await.is_ok() {
                        if matches!(error, ProviderError::Trapped(_)) {
                            return Err(error);
                        }
                        unanswered = Some(error);
                    }
                }
            }
        }
        match unanswered {
            // The canary shows what it does not know of some.
            Some(error) if plans.asked == 0 => Err(error),
            _ => Ok(plans),
        }
    }
}

/// Whether it would change anything at the cloud for this Service.
async fn wants_change<P: Holding>(
    provider: &P,
    request: &EnsureRequest,
    tenure: &Arc<Tenure>,
) -> Result<bool, ProviderError> {
    let heard = Arc::new(Heard::default());
    let until = now().after(CALL);
    let permit = Permit::new(until, Mode::Plan, 1, tenure.clone(), heard.clone());
    let answer = provider.ensure_load_balancer(request, Arc::new(permit));
    let answer = answer.await;
    // How it takes a refusal says nothing.
    if heard.0.load(Ordering::Acquire) {
        return Ok(true);
    }
    answer.map(|_| false)
}

/// Whether a change was refused for the mode alone.
#[derive(Default)]
struct Heard(AtomicBool);

impl AuditSink for Heard {
    fn before(&self, _: &CloudRequest) -> Result<(), Unrecordable> {
        // No change gets this far in plan mode.
        Err(Unrecordable)
    }

    fn after(&self, _: &AuditRecord) {}

    fn refused(&self, refused: &Refused<'_>) {
        if matches!(refused.refusal, Refusal::Mode(_)) {
            self.0.store(true, Ordering::Release);
        }
    }
}
