//! How the laws about load balancers are tested.

pub(super) mod sequence;

use std::sync::Arc;

use ccm_core::cloud::load_balancer::{
    CloudService, DeleteRequest, EnsureReply, EnsureRequest, Ensured, Found, LoadBalancerStatus,
    Progress,
};
use ccm_core::cloud::{CloudNode, ProviderError};
use ccm_core::cloud_provider::CloudProvider as _;
use ccm_core::safety::permit::{LOAD_BALANCER_CHANGES, Permit};
use ccm_core::service::cloud_service;
use ccm_host::InjectedFault;
use k8s_openapi::api::core::v1::Service;
use serde_json::json;
use std::time::Duration;
use uuid::Uuid;

use super::instances::named;
use super::law::{self, Findings, Law, Verdict};
use super::module_under_test::{Counted, LoadedModule, ModuleUnderTest};
use crate::provider::try_command::objects::completed;
use sequence::{Hints, Made, made, removed, targets_set, twice};

/// Maximum number of requests at which each fault is tried.
const MOST_PLACES: usize = 16;
/// A pause that the cloud asks for, so long that the egress does not wait it out by itself.
const THROTTLE_PAUSE: Duration = Duration::from_secs(3);

const UNPROVEN: &str = "get says absent by an answer that is not complete: a request of it failed, or none was answered with 2xx";

/// The laws after the first two; they need a load balancer that those have made.
const LATER: &[Law] = &[
    law::IDEMPOTENT,
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

/// A load balancer that several laws are tested with.
struct SharedLoadBalancer {
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
            let (verdict, made) = first(tested).await?;
            shared = made;
            Ok(verdict)
        })
        .await;
    let Some(shared) = shared else {
        return findings.skip(LATER, "ensure does not make a load balancer");
    };
    findings
        .judge(law::IDEMPOTENT, idempotent(tested, &shared))
        .await;
    findings.judge(law::TARGETS, targets(tested, &shared)).await;
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

fn all_targets(tested: &ModuleUnderTest) -> Arc<[CloudNode]> {
    tested.known().into()
}

/// Calls `ensure` once, for all nodes and without a hint.
async fn ensure(
    tested: &ModuleUnderTest,
    loaded: &LoadedModule<'_>,
    service: &Arc<CloudService>,
    permit: Arc<Permit>,
) -> Result<EnsureReply, ProviderError> {
    let request = EnsureRequest {
        service: service.clone(),
        targets: all_targets(tested),
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
    let answer = ensure(tested, &loaded, &service, permit.clone()).await;
    if !permit.has_withheld() {
        return Ok(Verdict::Fail(match answer {
            Ok(_) => "ensure tried no change, and gave an answer".to_owned(),
            Err(error) => format!("ensure tried no change: {error}"),
        }));
    }
    let got = loaded.recorded(
        loaded
            .provider
            .get_load_balancer(&service, loaded.reading())
            .await,
    )?;
    Ok(match (got.found, got.complete) {
        (Found::Absent, true) => Verdict::Pass("the first change was refused".to_owned()),
        (Found::Absent, false) => Verdict::Fail(UNPROVEN.to_owned()),
        (Found::Present(status), _) => Verdict::Fail(format!("get finds {status}")),
    })
}

async fn first(tested: &ModuleUnderTest) -> anyhow::Result<(Verdict, Option<SharedLoadBalancer>)> {
    let loaded = tested.load().await?;
    let service = service(tested);
    let made = match made(&loaded, &service, &all_targets(tested), Hints::Kept, tested).await {
        Ok(made) => made,
        Err(why) => {
            clean(tested, &service).await;
            return Ok((Verdict::Fail(why), None));
        }
    };
    let verdict = match present(tested, &service).await? {
        Ok(status) if status == made.status => Verdict::Pass(format!(
            "{}, by {} call(s) and {} change(s)",
            made.status,
            made.calls.len(),
            made.changes()
        )),
        Ok(status) => Verdict::Fail(format!(
            "ensure said {}, and get says {status}",
            made.status
        )),
        Err(why) => Verdict::Fail(why),
    };
    Ok((verdict, Some(SharedLoadBalancer { service, made })))
}

/// The status that `get` returns, or why the load balancer is not proven to exist.
async fn present(
    tested: &ModuleUnderTest,
    service: &CloudService,
) -> anyhow::Result<Result<LoadBalancerStatus, String>> {
    let loaded = tested.load().await?;
    let mark = loaded.mark();
    let got = loaded.recorded(
        loaded
            .provider
            .get_load_balancer(service, loaded.reading())
            .await,
    )?;
    if loaded.changes_since(mark) > 0 {
        return Ok(Err("get tried a change".to_owned()));
    }
    Ok(match got.found {
        Found::Present(status) => Ok(status),
        Found::Absent => Err("get says absent".to_owned()),
    })
}

/// Why the load balancer is not proven to be absent.
async fn not_absent(
    tested: &ModuleUnderTest,
    service: &CloudService,
) -> anyhow::Result<Option<String>> {
    let loaded = tested.load().await?;
    let got = loaded.recorded(
        loaded
            .provider
            .get_load_balancer(service, loaded.reading())
            .await,
    )?;
    Ok(match (got.found, got.complete) {
        (Found::Absent, true) => None,
        (Found::Absent, false) => Some(UNPROVEN.to_owned()),
        (Found::Present(status), _) => Some(format!("get finds {status}")),
    })
}

/// Why another `ensure` makes changes or has another status; `None` if it does not.
async fn not_settled(
    tested: &ModuleUnderTest,
    service: &Arc<CloudService>,
    status: &LoadBalancerStatus,
) -> anyhow::Result<Option<String>> {
    let loaded = tested.load().await?;
    let mark = loaded.mark();
    let permit = loaded.changing(LOAD_BALANCER_CHANGES);
    let answer = ensure(tested, &loaded, service, permit).await?;
    let changes = loaded.changes_since(mark);
    Ok(match answer.ensured {
        _ if changes > 0 => Some(format!("one more ensure makes {changes} change(s)")),
        Ensured::Ready(again) if again == *status => None,
        Ensured::Ready(again) => Some(format!("{status}, and then {again}")),
        Ensured::Pending(_) => Some("one more ensure is pending".to_owned()),
    })
}

/// Removes the load balancer, and notes if that fails.
async fn clean(tested: &ModuleUnderTest, service: &Arc<CloudService>) {
    let removed = match tested.load().await {
        Ok(loaded) => removed(&loaded, service, Hints::Kept, tested)
            .await
            .map(drop),
        Err(error) => Err(error.to_string()),
    };
    if let Err(why) = removed {
        tested.leave(format!("the load balancer of {} ({why})", service.name));
    }
}

async fn idempotent(
    tested: &ModuleUnderTest,
    shared: &SharedLoadBalancer,
) -> anyhow::Result<Verdict> {
    for _ in 0..2 {
        if let Some(why) = not_settled(tested, &shared.service, &shared.made.status).await? {
            return Ok(Verdict::Fail(why));
        }
    }
    Ok(Verdict::Pass("2 times".to_owned()))
}

async fn targets(tested: &ModuleUnderTest, shared: &SharedLoadBalancer) -> anyhow::Result<Verdict> {
    let all = all_targets(tested);
    let Some((_, fewer)) = all.split_last().filter(|(_, fewer)| !fewer.is_empty()) else {
        let why = "it needs two machines: --node NAME=PROVIDER_ID, twice";
        return Ok(Verdict::NotApplicable(why.to_owned()));
    };
    let fewer: Arc<[CloudNode]> = fewer.into();
    let (service, loaded) = (&shared.service, tested.load().await?);
    let mark = loaded.mark();
    if let Err(why) = targets_set(&loaded, service, &fewer, tested).await {
        return Ok(Verdict::Fail(why));
    }
    let removing = loaded.changes_since(mark);
    let again = tested.load().await?;
    if let Err(why) = targets_set(&again, service, &fewer, tested).await {
        return Ok(Verdict::Fail(why));
    }
    let repeated = again.changes_since(0);
    let back = tested.load().await?;
    if let Err(why) = made(&back, service, &all, Hints::Kept, tested).await {
        return Ok(Verdict::Fail(why));
    }
    let adding = back.changes_since(0);
    Ok(match (removing, repeated, adding) {
        (0, ..) => Verdict::Fail("update-targets with one node less changes nothing".to_owned()),
        (_, 0, 0) => Verdict::Fail("ensure does not bring the node back".to_owned()),
        (_, 0, _) => match not_settled(tested, service, &shared.made.status).await? {
            None => Verdict::Pass(format!("{removing} change(s), and {adding} back")),
            Some(why) => Verdict::Fail(why),
        },
        (_, again, _) => Verdict::Fail(format!(
            "update-targets with the same nodes makes {again} change(s)"
        )),
    })
}

async fn apart(tested: &ModuleUnderTest, shared: &SharedLoadBalancer) -> anyhow::Result<Verdict> {
    let other = service(tested);
    let loaded = tested.load().await?;
    // This Service has no load balancer yet: its removal must not remove another one's.
    let unmade = removed(&loaded, &other, Hints::Kept, tested).await;
    if let Err(why) = unmade {
        return Ok(Verdict::Fail(format!(
            "delete of a Service without one: {why}"
        )));
    }
    let made = made(&loaded, &other, &all_targets(tested), Hints::Kept, tested).await;
    clean(tested, &other).await;
    if let Err(why) = made {
        return Ok(Verdict::Fail(format!("of a second Service: {why}")));
    }
    Ok(
        match not_settled(tested, &shared.service, &shared.made.status).await? {
            None => Verdict::Pass("a second one was made and removed".to_owned()),
            Some(why) => Verdict::Fail(format!("of the first Service: {why}")),
        },
    )
}

async fn deleted(tested: &ModuleUnderTest, shared: &SharedLoadBalancer) -> anyhow::Result<Verdict> {
    let (service, loaded) = (&shared.service, tested.load().await?);
    if let Err(why) = removed(&loaded, service, Hints::Kept, tested).await {
        clean(tested, service).await;
        return Ok(Verdict::Fail(why));
    }
    let changes = loaded.changes_since(0);
    if let Some(why) = not_absent(tested, service).await? {
        tested.leave(format!("the load balancer of {}", service.name));
        return Ok(Verdict::Fail(why));
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
    Ok(match (answer.progress, again.changes_since(0)) {
        (Progress::Done, 0) => Verdict::Pass(format!("{changes} change(s)")),
        (Progress::Done, more) => Verdict::Fail(format!("a second delete makes {more} change(s)")),
        (Progress::Pending(_), _) => Verdict::Fail("a second delete is pending".to_owned()),
    })
}

async fn hints_dropped(tested: &ModuleUnderTest, usual: &Made) -> anyhow::Result<Verdict> {
    if !usual.has_hints {
        let why = "ensure gave no hint";
        return Ok(Verdict::NotApplicable(why.to_owned()));
    }
    let (service, loaded) = (service(tested), tested.load().await?);
    let made = made(
        &loaded,
        &service,
        &all_targets(tested),
        Hints::Dropped,
        tested,
    )
    .await;
    let verdict = match made {
        Err(why) => Verdict::Fail(why),
        Ok(made) if !made.is_like(usual) => {
            Verdict::Fail(format!("{}, and with hints {}", made.status, usual.status))
        }
        Ok(made) => match twice(&made, usual) {
            Some(what) => Verdict::Fail(what),
            None => match not_settled(tested, &service, &made.status).await? {
                Some(why) => Verdict::Fail(why),
                None => Verdict::Pass(format!("{} call(s)", made.calls.len())),
            },
        },
    };
    clean(tested, &service).await;
    Ok(verdict)
}

/// Makes one load balancer for each combination of place and fault.
async fn disturbed(
    tested: &ModuleUnderTest,
    usual: &Made,
    (counted, places): (Counted, usize),
    faults: &[InjectedFault],
) -> anyhow::Result<Verdict> {
    for place in 0..places {
        for fault in faults {
            let (service, loaded) = (service(tested), tested.load().await?);
            loaded.disturb(counted, place, *fault);
            let made = made(&loaded, &service, &all_targets(tested), Hints::Kept, tested).await;
            let broken = match made {
                Err(why) => Some(why),
                Ok(made) if !made.is_like(usual) => {
                    Some(format!("{}, and usually {}", made.status, usual.status))
                }
                Ok(made) => match twice(&made, usual) {
                    Some(what) => Some(what),
                    None => not_settled(tested, &service, &made.status).await?,
                },
            };
            clean(tested, &service).await;
            if let Some(why) = broken {
                let what = match counted {
                    Counted::Changes => "change",
                    Counted::Requests => "request",
                };
                return Ok(Verdict::Fail(format!(
                    "after {} at {what} {}: {why}",
                    named(*fault),
                    place + 1
                )));
            }
        }
    }
    Ok(Verdict::Pass(format!("{} place(s)", places * faults.len())))
}

async fn delete_lost(tested: &ModuleUnderTest) -> anyhow::Result<Verdict> {
    let mut place = 0;
    loop {
        let (service, loaded) = (service(tested), tested.load().await?);
        if let Err(why) = made(&loaded, &service, &all_targets(tested), Hints::Kept, tested).await {
            clean(tested, &service).await;
            return Ok(Verdict::Fail(why));
        }
        let loaded = tested.load().await?;
        loaded.disturb(Counted::Changes, place, InjectedFault::LoseAnswer);
        let gone = removed(&loaded, &service, Hints::Kept, tested).await;
        let calls = loaded.since(0);
        let was_lost = calls
            .iter()
            .flat_map(|call| call.changes())
            .any(|request| request.is_lost());
        let broken = match gone {
            Err(why) => Some(why),
            Ok(()) => not_absent(tested, &service).await?,
        };
        if let Some(why) = broken {
            clean(tested, &service).await;
            return Ok(Verdict::Fail(format!(
                "after a lost answer to change {}: {why}",
                place + 1
            )));
        }
        if !was_lost || place >= MOST_PLACES {
            return Ok(Verdict::Pass(format!("{place} place(s)")));
        }
        place += 1;
    }
}

async fn throttled(tested: &ModuleUnderTest, usual: &Made) -> anyhow::Result<Verdict> {
    let (service, loaded) = (service(tested), tested.load().await?);
    loaded.disturb(Counted::Changes, 0, InjectedFault::Throttle(THROTTLE_PAUSE));
    let permit = loaded.changing(LOAD_BALANCER_CHANGES);
    let broken = match ensure(tested, &loaded, &service, permit).await {
        Err(ProviderError::Throttled { .. }) => None,
        Err(error) => Some(format!("after 429 the error is: {error}")),
        Ok(_) => Some("after 429 there is an answer".to_owned()),
    };
    loaded.wait_out().await;
    let made = made(&loaded, &service, &all_targets(tested), Hints::Kept, tested).await;
    clean(tested, &service).await;
    Ok(match (broken, made) {
        (Some(why), _) | (None, Err(why)) => Verdict::Fail(why),
        (None, Ok(made)) => match twice(&made, usual) {
            Some(what) => Verdict::Fail(what),
            None => Verdict::Pass(format!("Retry-After of {THROTTLE_PAUSE:?}")),
        },
    })
}
