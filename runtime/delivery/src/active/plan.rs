//! Counts the changes that a candidate plans for load balancers that need none. Both versions are asked in plan mode to
//! ensure the same Services: nothing is changed, and the first refused change shows that a version wants one.
//!
//! Routes need no such check: routes to create or delete are decided from lists, which are compared, and a version on
//! trial is not asked to change any.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ccm_core::cloud::ProviderError;
use ccm_core::cloud::load_balancer::{CloudService, EnsureRequest, TargetNodes};
use ccm_core::moment::Moment;
use ccm_core::rollout::Plans;
use ccm_core::safety::audit::{AuditRecord, AuditSink, Refused, Subject, Unrecordable};
use ccm_core::safety::permit::{CloudRequest, Mode, Permit, Refusal};
use ccm_core::safety::tenure::Tenure;
use ccm_host::egress::now;
use ccm_host::limits;
use parking_lot::Mutex;

use super::{Active, Generation, Holding, revoked};

/// Maximum number of load balancers remembered and asked about: enough to tell a version that changes all of them from
/// one that finds something to do, and no more expensive than a shadow. Each costs one call if the candidate plans no
/// change.
const BALANCERS: usize = 12;

/// The load balancers that were most recently reported as matching their Services.
#[derive(Default)]
pub(super) struct Settled(Mutex<VecDeque<Arc<EnsureRequest>>>);

impl Settled {
    /// Forgets the load balancer of this Service when a call about it begins, until the call ends well.
    pub(super) fn begins(&self, uid: &str) {
        self.0.lock().retain(|request| request.service.uid != uid);
    }

    /// Records that the load balancer matches this Service and has these targets.
    pub(super) fn agreed(&self, service: &Arc<CloudService>, targets: &TargetNodes) {
        let mut settled = self.0.lock();
        settled.retain(|one| one.service.uid != service.uid);
        // Each list is as long as the cluster has nodes. Labels count: providers read them.
        let mut lists = settled.iter().map(|one| &one.targets);
        let shared = lists.find(|one| **one == *targets);
        let request = EnsureRequest {
            service: service.clone(),
            targets: shared.unwrap_or(targets).clone(),
            adopt: None,
            hint: None,
        };
        settled.push_back(Arc::new(request));
        if settled.len() > BALANCERS {
            settled.pop_front();
        }
    }

    pub(super) fn all(&self) -> Vec<Arc<EnsureRequest>> {
        self.0.lock().iter().cloned().collect()
    }

    /// Whether no call about its Service has begun since the request was recorded.
    fn has(&self, request: &Arc<EnsureRequest>) -> bool {
        self.0.lock().iter().any(|one| Arc::ptr_eq(one, request))
    }
}

impl<P: Holding> Active<P> {
    /// Counts how many load balancers that need no change the candidate would change, and how many of those the serving
    /// version would change, too. One call at a time. A planned change that only the candidate wants counts if the
    /// candidate repeats it after the serving version was asked, and no call about the Service began meanwhile.
    ///
    /// # Errors
    /// No result: the candidate fails where the serving version does not, or the cloud is in a rate-limit hold.
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
                Err(
                    error @ (ProviderError::Throttled { .. }
                    | ProviderError::Interrupted(_)
                    | ProviderError::NotBegun(_)),
                ) => return Err(error),
                Err(error) => {
                    if let Some(revoked) = revoked(tenure) {
                        return Err(revoked);
                    }
                    // If both fail, the failure is not attributed to the candidate.
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
            // Failures for only some load balancers are left to the canary.
            Some(error) if plans.asked == 0 => Err(error),
            _ => Ok(plans),
        }
    }
}

/// Whether the provider would change anything at the cloud for this Service.
async fn wants_change<P: Holding>(
    provider: &P,
    request: &EnsureRequest,
    tenure: &Arc<Tenure>,
) -> Result<bool, ProviderError> {
    let ensure = |permit| provider.ensure_load_balancer(request, permit);
    would_change(tenure, now().after(limits::CALL_WITH_WAIT), ensure).await
}

/// Whether this call would change anything at the cloud. It is made in plan mode and ends by `until`.
///
/// # Errors
/// It fails before it wants to change anything.
pub(super) async fn would_change<T, F>(
    tenure: &Arc<Tenure>,
    until: Moment,
    call: impl FnOnce(Arc<Permit>) -> F,
) -> Result<bool, ProviderError>
where
    F: Future<Output = Result<T, ProviderError>>,
{
    let wanted = Arc::new(ChangeWanted::default());
    let permit = Permit::new(until, Mode::Plan, 1, tenure.clone(), wanted.clone());
    let answer = call(Arc::new(permit)).await;
    // How the provider reacts to the refusal is irrelevant.
    if wanted.0.load(Ordering::Acquire) {
        return Ok(true);
    }
    answer.map(|_| false)
}

/// Set when a change was refused only because of plan mode.
#[derive(Default)]
struct ChangeWanted(AtomicBool);

impl AuditSink for ChangeWanted {
    fn before(&self, _: &Subject, _: &CloudRequest) -> Result<(), Unrecordable> {
        // Never reached by a change in plan mode.
        Err(Unrecordable)
    }

    fn after(&self, _: &AuditRecord) {}

    fn refused(&self, refused: &Refused<'_>) {
        if matches!(refused.refusal, Refusal::Mode(_)) {
            self.0.store(true, Ordering::Release);
        }
    }
}
