//! Elections against the in-memory API server, with a paused clock. `ccm-core` tests the elector's decisions; these
//! tests show their effect in a cluster.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::cell::Cell;

use ccm_sim::cluster::{Cluster, Fault, FaultEffect, Verb};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{ListParams, Patch, PatchParams};
use prometheus_client::registry::Registry;
use serde_json::json;
use tokio::time::Instant;

use super::*;
use crate::metrics::tests::encoded;

const TIMING: Timing = Timing {
    lease_duration: Duration::from_secs(15),
    renew_deadline: Duration::from_secs(10),
    retry_period: Duration::from_secs(2),
};
const NAME: &str = "cloud-controller-manager";

thread_local! {
    static STARTED: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// The clock of the test's timers, which advances whenever no task can run.
fn paused() -> Moment {
    let started = STARTED.get().unwrap_or_else(|| {
        let now = Instant::now();
        STARTED.set(Some(now));
        now
    });
    Moment(Duration::from_secs(1_000) + started.elapsed())
}

fn election(cluster: &Cluster, identity: &str) -> (Election, Arc<Tenure>, Registry) {
    let tenure = Arc::new(Tenure::pending());
    let mut registry = Registry::default();
    let metrics = ElectionMetrics::register(&mut registry);
    let settings = ElectionSettings {
        namespace: "kube-system".to_owned(),
        name: NAME.to_owned(),
        identity: identity.to_owned(),
        timing: TIMING,
    };
    let client = || cluster.client_as(identity);
    let holder = watch::Sender::default();
    let mut election = Election::new(
        client(),
        client(),
        settings,
        tenure.clone(),
        metrics,
        holder,
    );
    election.now = paused;
    (election, tenure, registry)
}

fn leases(cluster: &Cluster) -> Api<Lease> {
    Api::namespaced(cluster.client(), "kube-system")
}

async fn lease(cluster: &Cluster) -> Lease {
    leases(cluster).get(NAME).await.unwrap()
}

async fn holder(cluster: &Cluster) -> String {
    lease(cluster)
        .await
        .spec
        .unwrap()
        .holder_identity
        .unwrap_or_default()
}

/// Changes the Lease as another client would.
async fn tamper(cluster: &Cluster, patch: serde_json::Value) {
    leases(cluster)
        .patch(NAME, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
}

async fn events(cluster: &Cluster) -> Vec<(String, String, String)> {
    let events: Api<Event> = Api::namespaced(cluster.client(), "kube-system");
    let found = events.list(&ListParams::default()).await.unwrap();
    let reported = found.items.into_iter().map(|event| {
        (
            event.reason.unwrap(),
            event.message.unwrap(),
            event.source.unwrap().component.unwrap(),
        )
    });
    reported.collect()
}

/// Holds the Lease for this many seconds, and expects to hold it longer.
async fn hold_for(election: &mut Election, seconds: u64) {
    let end = Duration::from_secs(seconds);
    if let Ok(lost) = timeout(end, election.hold()).await {
        panic!("lost: {lost}");
    }
}

fn refusals(times: u32) -> Fault {
    let effect = FaultEffect::Refused {
        code: 503,
        retry_after: None,
    };
    Fault::next(Verb::Update, "leases", effect).times(times)
}

#[tokio::test(start_paused = true)]
async fn proc_040_the_first_creates_the_lease_and_renews_it() {
    let cluster = Cluster::new();
    let (mut election, tenure, _) = election(&cluster, "host_1");
    assert!(!tenure.may_begin(paused()));
    election.acquire().await;
    assert!(tenure.may_begin(paused()));
    // Requests may begin until the renew deadline, and have to be over when the Lease ends.
    let left = tenure.begins_until().until(tenure.ends());
    assert_eq!(left, TIMING.unacknowledged());
    let created = lease(&cluster).await.spec.unwrap();
    assert_eq!(created.holder_identity.as_deref(), Some("host_1"));
    assert_eq!(created.lease_duration_seconds, Some(15));
    hold_for(&mut election, 60).await;
    assert!(tenure.may_begin(paused()));
    let renewed = lease(&cluster).await.spec.unwrap();
    assert_eq!(renewed.acquire_time, created.acquire_time);
    assert_eq!(renewed.lease_transitions, Some(0));
    // Only renewals: one request each.
    let requests = cluster.requests();
    let count = |verb: &str| {
        let asked = requests.iter().filter(|request| {
            request.identity == "host_1" && request.resource == "leases" && request.verb == verb
        });
        asked.count()
    };
    assert_eq!((count("get"), count("create")), (1, 1));
    assert!((29..=30).contains(&count("update")), "{}", count("update"));
}

#[tokio::test(start_paused = true)]
async fn proc_043_events_on_the_lease_say_who_leads() {
    let cluster = Cluster::new();
    let (mut election, ..) = election(&cluster, "host_1");
    election.acquire().await;
    hold_for(&mut election, 3).await;
    election.release().await;
    let expected = ["became leader", "stopped leading"].map(|what| {
        (
            "LeaderElection".to_owned(),
            format!("host_1 {what}"),
            NAME.to_owned(),
        )
    });
    assert_eq!(events(&cluster).await, expected);
    let events: Api<Event> = Api::namespaced(cluster.client(), "kube-system");
    let about = &events.list(&ListParams::default()).await.unwrap().items[0].involved_object;
    assert_eq!(about.kind.as_deref(), Some("Lease"));
    assert_eq!(about.name.as_deref(), Some(NAME));
    assert_eq!(about.uid, lease(&cluster).await.metadata.uid);
}

#[tokio::test(start_paused = true)]
async fn edge_090_a_lease_that_is_given_back_is_taken_over_within_three_seconds() {
    let cluster = Cluster::new();
    let (mut first, first_tenure, _) = election(&cluster, "host_1");
    let (mut second, second_tenure, _) = election(&cluster, "host_2");
    first.acquire().await;
    {
        let standby = second.acquire();
        tokio::pin!(standby);
        let ends = tokio::select! {
            () = &mut standby => panic!("two leaders"),
            () = hold_for(&mut first, 31) => paused(),
        };
        first.release().await;
        assert_eq!(holder(&cluster).await, "");
        standby.await;
        assert!(ends.until(paused()) <= Duration::from_secs(3));
    }
    assert_eq!(holder(&cluster).await, "host_2");
    assert!(first_tenure.is_closed() && second_tenure.may_begin(paused()));
    assert_eq!(
        lease(&cluster).await.spec.unwrap().lease_transitions,
        Some(1)
    );
}

/// A stopping process has two seconds for the release.
#[tokio::test(start_paused = true)]
async fn a_release_waits_for_no_event_and_is_tried_again_when_another_client_was_faster() {
    let cluster = Cluster::new();
    let (mut election, ..) = election(&cluster, "host_1");
    election.acquire().await;
    hold_for(&mut election, 3).await;
    let late = FaultEffect::Delayed(Duration::from_secs(60));
    cluster.inject(Fault::next(Verb::Create, "events", late));
    let conflict = FaultEffect::Refused {
        code: 409,
        retry_after: None,
    };
    cluster.inject(Fault::next(Verb::Update, "leases", conflict).times(2));
    let since = paused();
    election.release().await;
    assert!(since.until(paused()) < Duration::from_secs(1));
    assert_eq!(holder(&cluster).await, "");
}

#[tokio::test(start_paused = true)]
async fn proc_042_a_lease_that_is_not_given_back_is_taken_over_after_its_end_and_not_before() {
    let cluster = Cluster::new();
    let (mut first, tenure, _) = election(&cluster, "host_1");
    let (mut second, ..) = election(&cluster, "host_2");
    first.acquire().await;
    let standby = async {
        second.acquire().await;
        paused()
    };
    let dies = async {
        hold_for(&mut first, 31).await;
        paused()
    };
    let (taken, died) = tokio::join!(standby, dies);
    let took = died.until(taken);
    // It was renewed at most two seconds before.
    assert!(
        (13..=20).contains(&took.as_secs()),
        "taken over after {took:?}"
    );
    assert!(!tenure.may_begin(taken) && tenure.ends() < taken);
}

#[tokio::test(start_paused = true)]
async fn proc_042_a_leader_that_cannot_renew_is_none_after_the_renew_deadline() {
    let late = FaultEffect::Delayed(Duration::from_secs(600));
    let unanswered = Fault::next(Verb::Update, "leases", late).times(1_000);
    for fault in [refusals(1_000), unanswered] {
        let cluster = Cluster::new();
        let (mut election, tenure, registry) = election(&cluster, "host_1");
        election.acquire().await;
        cluster.inject(fault);
        let since = paused();
        assert_eq!(election.hold().await, Lost::Expired);
        let after = since.until(paused());
        let late = after.saturating_sub(TIMING.renew_deadline);
        assert!(
            !late.is_zero() && late < Duration::from_secs(1),
            "{after:?}"
        );
        assert!(tenure.is_closed());
        let text = encoded(&registry);
        assert!(
            text.contains(r#"leader_election_master_status{name="cloud-controller-manager"} 0"#),
            "{text}"
        );
        // A process that has lost the Lease writes nothing to the cluster.
        assert_eq!(events(&cluster).await.len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn edge_091_an_api_server_that_is_away_for_less_than_the_renew_deadline_loses_no_lease() {
    for (case, fault) in [
        ("refuses", refusals(3)),
        (
            "breaks off before",
            Fault::next(Verb::Update, "leases", FaultEffect::LostBeforeCommit).times(3),
        ),
        (
            "breaks off after",
            Fault::next(Verb::Update, "leases", FaultEffect::LostAfterCommit).times(3),
        ),
        (
            "answers after ten minutes",
            Fault::next(
                Verb::Update,
                "leases",
                FaultEffect::Delayed(Duration::from_secs(600)),
            ),
        ),
    ] {
        let cluster = Cluster::new();
        let (mut election, tenure, registry) = election(&cluster, case);
        election.acquire().await;
        hold_for(&mut election, 30).await;
        cluster.inject(fault);
        hold_for(&mut election, 30).await;
        assert!(tenure.may_begin(paused()), "{case}");
        let text = encoded(&registry);
        assert!(
            text.contains(r#"leader_election_slowpath_total{name="cloud-controller-manager"}"#),
            "{case}: {text}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_stolen_is_lost_at_the_next_renewal() {
    let cluster = Cluster::new();
    let (mut election, tenure, _) = election(&cluster, "host_1");
    election.acquire().await;
    hold_for(&mut election, 5).await;
    tamper(&cluster, json!({"spec": {"holderIdentity": "thief"}})).await;
    let since = paused();
    assert_eq!(election.hold().await, Lost::Taken("thief".to_owned()));
    assert!(since.until(paused()) <= TIMING.retry_period);
    assert!(tenure.is_closed());
    election.release().await;
    assert_eq!(holder(&cluster).await, "thief");
}

#[tokio::test(start_paused = true)]
async fn what_others_keep_on_the_lease_stays_there() {
    let cluster = Cluster::new();
    let (mut election, _, registry) = election(&cluster, "host_1");
    election.acquire().await;
    let noted = json!({"metadata": {
        "annotations": {"wasm-ccm.dev/spent": "2"}, "labels": {"kept": "yes"},
    }});
    tamper(&cluster, noted).await;
    hold_for(&mut election, 5).await;
    // The conflict cost no retry period.
    assert!(
        encoded(&registry)
            .contains(r#"leader_election_slowpath_total{name="cloud-controller-manager"} 1"#)
    );
    election.release().await;
    let metadata = lease(&cluster).await.metadata;
    assert_eq!(metadata.annotations.unwrap()["wasm-ccm.dev/spent"], "2");
    assert_eq!(metadata.labels.unwrap()["kept"], "yes");
}

#[tokio::test(start_paused = true)]
async fn a_candidate_that_withdraws_while_it_writes_gives_back_what_it_may_have_got() {
    let cluster = Cluster::new();
    let (mut election, ..) = election(&cluster, "host_1");
    let lost = FaultEffect::LostAfterCommit;
    cluster.inject(Fault::next(Verb::Create, "leases", lost));
    assert!(!election.may_be_ours());
    let withdraws = timeout(Duration::from_secs(1), election.acquire()).await;
    assert!(withdraws.is_err(), "it knows that it has the lease");
    assert!(election.may_be_ours());
    assert_eq!(holder(&cluster).await, "host_1");
    election.release().await;
    assert_eq!(holder(&cluster).await, "");
}

#[tokio::test(start_paused = true)]
async fn proc_047_names_and_labels_are_upstreams() {
    let cluster = Cluster::new();
    let (mut election, _, registry) = election(&cluster, "host_1");
    let standby = r#"leader_election_master_status{name="cloud-controller-manager"} 0"#;
    let text = encoded(&registry);
    assert!(text.contains(standby), "{text}");
    election.acquire().await;
    let text = encoded(&registry);
    for line in [
        "# TYPE leader_election_master_status gauge",
        r#"leader_election_master_status{name="cloud-controller-manager"} 1"#,
    ] {
        assert!(text.contains(line), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_taken_only_to_record_something_makes_no_leader_for_the_alerts() {
    let cluster = Cluster::new();
    let (mut election, _, registry) = election(&cluster, "host_1");
    election.metrics = election.metrics.of_a_standby();
    election.acquire().await;
    assert_eq!(holder(&cluster).await, "host_1");
    let standby = r#"leader_election_master_status{name="cloud-controller-manager"} 0"#;
    let text = encoded(&registry);
    assert!(text.contains(standby), "{text}");
}
