//! How the laws about load balancers are tested.

mod changes;
pub(super) mod sequence;

use std::sync::Arc;

use anyhow::{Context as _, anyhow, bail};
use ccm_core::cloud::ProviderError;
use ccm_core::cloud::load_balancer::{
    CloudService, DeleteRequest, EnsureReply, EnsureRequest, Ensured, Found, LoadBalancerStatus,
    Progress, TargetNodes, UpdateRequest,
};
use ccm_core::cloud_provider::CloudProvider as _;
use ccm_core::safety::permit::{LOAD_BALANCER_CHANGES, Permit};
use ccm_core::service::cloud_service;
use ccm_host::InjectedFault;
use k8s_openapi::api::core::v1::Service;
use serde_json::json;
use uuid::Uuid;

use super::instances::{THROTTLE_PAUSE, named};
use super::law::{self, Findings, Law, Verdict};
use super::module_under_test::{Counted, LoadedModule, ModuleUnderTest};
use crate::provider::observed_calls::ObservedCall;
use crate::provider::try_command::objects::completed;
use sequence::{Hints, Made, made, no_more_posts, removed};

/// Maximum number of requests at which each fault is tried.
const MOST_PLACES: usize = 16;

/// The laws after the first two; they need a load balancer that those have made.
const LATER: &[Law] = &[
    law::IDEMPOTENT,
    law::CHANGED,
    law::TARGETS,
    law::APART,
    law::DELETED,
    law::HINTS_DROPPED,
    law::ANSWERS_LOST,
    law::REFUSED,
    law::DELETE_LOST,
    law::LB_THROTTLED,
];

/// The Service that is used without `--service`.
pub(super) fn template() -> serde_json::Result<Service> {
    serde_json::from_value(json!({
        "metadata": { "name": "ccm-conformance", "namespace": "default" },
        "spec": {
            "type": "LoadBalancer",
            "ports": [{ "name": "http", "port": 80 }, { "name": "https", "port": 443 }],
        },
    }))
}

/// A load balancer that was made, with its Service.
struct MadeLoadBalancer {
    service: Arc<CloudService>,
    made: Made,
}

pub(super) async fn judge(tested: &ModuleUnderTest, findings: &mut Findings<'_>) {
    findings.judge(law::PLANNED, planned(tested)).await;
    if !tested.subjects.allow_changes {
        let why = "it makes load balancers: --allow-changes";
        findings.skip(&[law::MADE], why);
        return findings.skip(LATER, why);
    }
    let mut shared = None;
    findings
        .judge(law::MADE, async {
            let shared = shared.insert(new_load_balancer(tested).await?);
            is_found(tested, shared).await
        })
        .await;
    let Some(shared) = shared else {
        return findings.skip(LATER, "ensure does not make a load balancer");
    };
    findings
        .judge(law::IDEMPOTENT, idempotent(tested, &shared))
        .await;
    findings
        .judge(law::CHANGED, changes::changed(tested, &shared))
        .await;
    findings
        .judge(law::TARGETS, changes::targets(tested, &shared))
        .await;
    findings.judge(law::APART, apart(tested, &shared)).await;
    findings.judge(law::DELETED, deleted(tested, &shared)).await;
    findings
        .judge(law::HINTS_DROPPED, hints_dropped(tested, &shared.made))
        .await;
    let changes = shared.made.changes().min(MOST_PLACES);
    let lost = disturbed(
        tested,
        &shared.made,
        (Counted::Changes, changes),
        &[InjectedFault::LoseAnswer],
    );
    findings.judge(law::ANSWERS_LOST, lost).await;
    let requests = shared.made.requests().min(MOST_PLACES);
    let faults = [InjectedFault::Answer(503), InjectedFault::CutAnswer];
    let refused = disturbed(tested, &shared.made, (Counted::Requests, requests), &faults);
    findings.judge(law::REFUSED, refused).await;
    findings.judge(law::DELETE_LOST, delete_lost(tested)).await;
    findings
        .judge(law::LB_THROTTLED, throttled(tested, &shared.made))
        .await;
}

/// Another Service, of the same shape as all.
fn service(tested: &ModuleUnderTest) -> Arc<CloudService> {
    let mut service = completed(tested.subjects.service.clone());
    let uid = Uuid::new_v4();
    let short = uid.simple().to_string();
    let name = service.metadata.name.unwrap_or_default();
    service.metadata.name = Some(format!("{name}-{}", &short[..8]));
    service.metadata.uid = Some(uid.to_string());
    Arc::new(cloud_service(&service))
}

fn all_targets(tested: &ModuleUnderTest) -> TargetNodes {
    tested.known().into_iter().map(Arc::new).collect()
}

/// Calls `ensure` once, without a hint.
async fn ensure(
    loaded: &LoadedModule<'_>,
    service: &Arc<CloudService>,
    targets: TargetNodes,
    permit: Arc<Permit>,
) -> Result<EnsureReply, ProviderError> {
    let request = EnsureRequest {
        service: service.clone(),
        targets,
        adopt: None,
        hint: None,
    };
    let answer = loaded.provider.ensure_load_balancer(&request, permit);
    loaded.recorded(answer.await)
}

async fn planned(tested: &ModuleUnderTest) -> anyhow::Result<Verdict> {
    let loaded = tested.load().await?;
    let service = service(tested);
    let permit = loaded.reading();
    let targets = all_targets(tested);
    let answer = ensure(&loaded, &service, targets, permit.clone()).await;
    if !permit.has_withheld() {
        match answer {
            Ok(_) => bail!("ensure tried no change, and gave an answer"),
            Err(error) => bail!("ensure tried no change: {error}"),
        }
    }
    absent(&loaded, &service).await?;
    Ok(Verdict::Pass("the first change was refused".to_owned()))
}

/// Makes a load balancer for another Service. Removes what there may be of it if that fails.
async fn new_load_balancer(tested: &ModuleUnderTest) -> anyhow::Result<MadeLoadBalancer> {
    let (service, loaded) = (service(tested), tested.load().await?);
    match made(&loaded, &service, Hints::Kept).await {
        Ok(made) => Ok(MadeLoadBalancer { service, made }),
        Err(error) => {
            clean(tested, &service).await;
            Err(error)
        }
    }
}

async fn is_found(tested: &ModuleUnderTest, shared: &MadeLoadBalancer) -> anyhow::Result<Verdict> {
    let (loaded, made) = (tested.load().await?, &shared.made);
    let mark = loaded.mark();
    let got = loaded.get_load_balancer(&shared.service).await?;
    match got.found {
        _ if loaded.changes_since(mark) > 0 => bail!("get tried a change"),
        Found::Absent => bail!("get says absent"),
        Found::Present(status) if status == made.status => Ok(Verdict::Pass(format!(
            "{status}, by {} call(s) and {} change(s)",
            made.calls.len(),
            made.changes()
        ))),
        Found::Present(status) => bail!("ensure said {}, and get says {status}", made.status),
    }
}

/// Asks whether the load balancer is gone.
///
/// # Errors
/// Its absence is not proven.
async fn absent(loaded: &LoadedModule<'_>, service: &CloudService) -> anyhow::Result<()> {
    let got = loaded.get_load_balancer(service).await?;
    match (got.found, got.complete) {
        (Found::Absent, true) => Ok(()),
        (Found::Absent, false) => bail!(
            "get says absent by an answer that is not complete: a request of it failed, or none was answered with 2xx"
        ),
        (Found::Present(status), _) => bail!("get finds {status}"),
    }
}

/// Calls `ensure` again, which has nothing to do.
///
/// # Errors
/// It fails, makes changes or has another status.
async fn settled(
    tested: &ModuleUnderTest,
    service: &Arc<CloudService>,
    status: &LoadBalancerStatus,
) -> anyhow::Result<()> {
    let loaded = tested.load().await?;
    let mark = loaded.mark();
    let permit = loaded.changing(LOAD_BALANCER_CHANGES);
    let answer = ensure(&loaded, service, all_targets(tested), permit).await?;
    let changes = loaded.changes_since(mark);
    match answer.ensured {
        _ if changes > 0 => bail!("one more ensure makes {changes} change(s)"),
        Ensured::Ready(again) if again == *status => Ok(()),
        Ensured::Ready(again) => bail!("{status}, and then {again}"),
        Ensured::Pending(_) => bail!("one more ensure is pending"),
    }
}

/// Removes the load balancer, and notes if that fails.
async fn clean(tested: &ModuleUnderTest, service: &Arc<CloudService>) {
    let cleaned = async { removed(&tested.load().await?, service).await };
    if let Err(error) = cleaned.await {
        tested.leave(name_of_balancer(service), format!("{error:#}"));
    }
}

/// What reports call the load balancer of a Service.
fn name_of_balancer(service: &CloudService) -> String {
    format!("the load balancer of {}", service.name)
}

async fn idempotent(
    tested: &ModuleUnderTest,
    shared: &MadeLoadBalancer,
) -> anyhow::Result<Verdict> {
    for _ in 0..2 {
        settled(tested, &shared.service, &shared.made.status).await?;
    }
    Ok(Verdict::Pass("2 times".to_owned()))
}

async fn apart(tested: &ModuleUnderTest, shared: &MadeLoadBalancer) -> anyhow::Result<Verdict> {
    let other = service(tested);
    let loaded = tested.load().await?;
    // This Service has no load balancer yet: its removal must not remove another one's.
    let unmade = removed(&loaded, &other).await;
    unmade.context("delete of a Service without one")?;
    let request = UpdateRequest {
        service: other.clone(),
        targets: all_targets(tested),
        hint: None,
    };
    let permit = loaded.changing(LOAD_BALANCER_CHANGES);
    tested.make(name_of_balancer(&other));
    let answer = loaded.provider.update_targets(&request, permit).await;
    if !matches!(loaded.recorded(answer), Err(ProviderError::Unavailable(_))) {
        clean(tested, &other).await;
        bail!("the answer to update-targets of a Service without one is not `unavailable`");
    }
    let made = made(&loaded, &other, Hints::Kept).await;
    clean(tested, &other).await;
    made.context("of a second Service")?;
    let settled = settled(tested, &shared.service, &shared.made.status).await;
    settled.context("of the first Service")?;
    Ok(Verdict::Pass(
        "a second one was made and removed".to_owned(),
    ))
}

async fn deleted(tested: &ModuleUnderTest, shared: &MadeLoadBalancer) -> anyhow::Result<Verdict> {
    let (service, loaded) = (&shared.service, tested.load().await?);
    if let Err(error) = removed(&loaded, service).await {
        clean(tested, service).await;
        return Err(error);
    }
    let changes = loaded.changes_since(0);
    if let Err(error) = absent(&tested.load().await?, service).await {
        tested.leave(name_of_balancer(service), format!("{error:#}"));
        return Err(error);
    }
    let again = tested.load().await?;
    let request = DeleteRequest {
        service: service.clone(),
        hint: None,
    };
    let answer = again
        .provider
        .delete_load_balancer(&request, again.changing(LOAD_BALANCER_CHANGES));
    let answer = again.recorded(answer.await)?;
    match (answer.progress, again.changes_since(0)) {
        (Progress::Done, 0) => Ok(Verdict::Pass(format!("{changes} change(s)"))),
        (Progress::Done, more) => bail!("a second delete makes {more} change(s)"),
        (Progress::Pending(_), _) => bail!("a second delete is pending"),
    }
}

async fn hints_dropped(tested: &ModuleUnderTest, usual: &Made) -> anyhow::Result<Verdict> {
    if !usual.has_hints {
        let why = "ensure gave no hint";
        return Ok(Verdict::NotApplicable(why.to_owned()));
    }
    let (service, loaded) = (service(tested), tested.load().await?);
    let made = made_as_usual(&loaded, &service, Hints::Dropped, usual).await?;
    Ok(Verdict::Pass(format!("{} call(s)", made.calls.len())))
}

/// Makes one load balancer for each combination of place and fault.
async fn disturbed(
    tested: &ModuleUnderTest,
    usual: &Made,
    (counted, places): (Counted, usize),
    faults: &[InjectedFault],
) -> anyhow::Result<Verdict> {
    let what = match counted {
        Counted::Changes => "change",
        Counted::Requests => "request",
    };
    for place in 0..places {
        for fault in faults {
            let (service, loaded) = (service(tested), tested.load().await?);
            loaded.disturb(counted, place, *fault);
            let made = made_as_usual(&loaded, &service, Hints::Kept, usual).await;
            made.with_context(|| format!("after {} at {what} {}", named(*fault), place + 1))?;
        }
    }
    Ok(Verdict::Pass(format!("{} place(s)", places * faults.len())))
}

/// Makes a load balancer, and removes it again.
///
/// # Errors
/// It is not made, or not like the usual one, or by more objects, or another `ensure` changes it.
async fn made_as_usual(
    loaded: &LoadedModule<'_>,
    service: &Arc<CloudService>,
    hints: Hints,
    usual: &Made,
) -> anyhow::Result<Made> {
    let made = async {
        let made = made(loaded, service, hints).await?;
        if !made.is_like(usual) {
            let usually = match hints {
                Hints::Kept => "usually",
                Hints::Dropped => "with hints",
            };
            bail!("{}, and {usually} {}", made.status, usual.status);
        }
        no_more_posts(&made.calls, &usual.calls)?;
        settled(loaded.tested, service, &made.status).await?;
        Ok(made)
    };
    let made: anyhow::Result<Made> = made.await;
    clean(loaded.tested, service).await;
    made
}

async fn delete_lost(tested: &ModuleUnderTest) -> anyhow::Result<Verdict> {
    let mut place = 0;
    loop {
        let MadeLoadBalancer { service, .. } = new_load_balancer(tested).await?;
        let was_lost = deleted_without_answer(tested, &service, place).await;
        if was_lost.is_err() {
            clean(tested, &service).await;
        }
        let was_lost =
            was_lost.with_context(|| format!("after a lost answer to change {}", place + 1))?;
        if !was_lost || place >= MOST_PLACES {
            return Ok(Verdict::Pass(format!("{place} place(s)")));
        }
        place += 1;
    }
}

/// Deletes the load balancer while the answer to the change at this place is lost. Returns whether there was such a change.
///
/// # Errors
/// It is not proven that the load balancer is gone.
async fn deleted_without_answer(
    tested: &ModuleUnderTest,
    service: &Arc<CloudService>,
    place: usize,
) -> anyhow::Result<bool> {
    let loaded = tested.load().await?;
    loaded.disturb(Counted::Changes, place, InjectedFault::LoseAnswer);
    removed(&loaded, service).await?;
    absent(&tested.load().await?, service).await?;
    let calls = loaded.since(0);
    let mut changes = calls.iter().flat_map(ObservedCall::changes);
    Ok(changes.any(|request| request.is_lost()))
}

async fn throttled(tested: &ModuleUnderTest, usual: &Made) -> anyhow::Result<Verdict> {
    let (service, loaded) = (service(tested), tested.load().await?);
    loaded.disturb(Counted::Changes, 0, InjectedFault::Throttle(THROTTLE_PAUSE));
    let permit = loaded.changing(LOAD_BALANCER_CHANGES);
    let throttled = match ensure(&loaded, &service, all_targets(tested), permit).await {
        Err(ProviderError::Throttled { .. }) => Ok(()),
        Err(error) => Err(anyhow!("after 429 the error is: {error}")),
        Ok(_) => Err(anyhow!("after 429 there is an answer")),
    };
    loaded.wait_out().await;
    let made = made(&loaded, &service, Hints::Kept).await;
    clean(tested, &service).await;
    throttled?;
    no_more_posts(&made?.calls, &usual.calls)?;
    Ok(Verdict::Pass(format!("Retry-After of {THROTTLE_PAUSE:?}")))
}
