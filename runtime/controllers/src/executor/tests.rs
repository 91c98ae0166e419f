//! Classification of failures, and counting of Events.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod drained;
mod owners;

use ccm_core::cloud::{CloudEvent, EventType};
use ccm_core::ipam::other_allocator::{Question, Why, Writer};
use ccm_core::node::answer_check::check_event;
use ccm_core::node::object::NodeRef;
use ccm_core::node::ownership::{Verdict, Vote};
use ccm_core::node::{CandidateVote, NodeEffect, NodeOutcome};
use ccm_core::reconciliation::effect::{EventOutcome, ObjectKind, Outcome as _};
use ccm_core::safety::audit::Subject;
use ccm_core::safety::brake::{Allowance, BudgetShare};
use ccm_core::safety::permit::CloudRequest;
use ccm_core::safety::tenure::Tenure;
use ccm_core::service::ServiceRef;
use ccm_core::status_report::BrakeReport;
use ccm_sim::cluster::{Cluster as SimCluster, Fault, FaultEffect, Verb};
use k8s_openapi::api::core::v1::Event as Stored;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::Api;
use kube::api::{DeleteParams, ListParams};

use ccm_core::well_known::{
    IPAM_CONTROLLER, NODE_CONTROLLER, NODE_LIFECYCLE_CONTROLLER, ROUTE_CONTROLLER,
};

use super::events::{
    Events, Recorded, Recorder, about_node, about_service, is_of_ending_namespace,
};
use super::*;
use crate::fixtures;

#[test]
fn an_event_in_a_namespace_that_is_being_deleted_is_no_missing_right() {
    let forbidden = "events \"e\" is forbidden: unable to create new content in namespace shop because it is being terminated";
    assert!(is_of_ending_namespace(&ClusterError::Denied(
        forbidden.to_owned()
    )));
    let forbidden = "events is forbidden: User \"ccm\" cannot create resource \"events\" in the namespace \"shop\"";
    assert!(!is_of_ending_namespace(&ClusterError::Denied(
        forbidden.to_owned()
    )));
}

fn node() -> NodeRef {
    NodeRef {
        name: "worker-1".to_owned(),
        uid: "u1".to_owned(),
    }
}

fn event(message: &str) -> CloudEvent {
    CloudEvent::new(
        EventType::Warning,
        "InstanceLookupFailed",
        message.to_owned(),
    )
}

#[test]
fn node_046_an_event_is_about_the_node_and_from_the_component_that_upstream_names() {
    for (controller, component) in [
        (NODE_CONTROLLER, "cloud-node-controller"),
        (NODE_LIFECYCLE_CONTROLLER, "cloud-node-lifecycle-controller"),
        (ROUTE_CONTROLLER, "route_controller"),
        (IPAM_CONTROLLER, "cidrAllocator"),
    ] {
        let mut recorder = Recorder::default();
        let node = node();
        let about = about_node(&node, controller);
        let recorded = recorder.record(&about, &event("m"), Timestamp::UNIX_EPOCH);
        let Some(Recorded::New(made)) = recorded else {
            panic!("the first is new");
        };
        assert_eq!(made.involved_object.kind.as_deref(), Some("Node"));
        assert_eq!(made.involved_object.uid.as_deref(), Some("u1"));
        let source = made.source.unwrap().component;
        assert_eq!(source.as_deref(), Some(component), "{controller}");
        assert_eq!(made.metadata.namespace.as_deref(), Some("default"));
        assert_eq!(made.count, Some(1));
    }
}

#[test]
fn equal_events_are_counted_up_within_ten_minutes_and_others_are_new() {
    let mut recorder = Recorder::default();
    let node = node();
    let about = about_node(&node, NODE_CONTROLLER);
    let at = |seconds: i64| Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds);
    let Some(Recorded::New(first)) = recorder.record(&about, &event("m"), at(0)) else {
        panic!("the first is new");
    };
    let again = recorder.record(&about, &event("m"), at(600));
    let Some(Recorded::Again { name, patch }) = again else {
        panic!("the second is counted");
    };
    assert_eq!(Some(name), first.metadata.name);
    assert_eq!(patch["count"], 2);
    assert!(matches!(
        recorder.record(&about, &event("other"), at(600)),
        Some(Recorded::New(_))
    ));
    assert!(matches!(
        recorder.record(&about, &event("m"), at(1201)),
        Some(Recorded::New(_))
    ));
    recorder.forget(&about, &event("m"));
    assert!(matches!(
        recorder.record(&about, &event("m"), at(1202)),
        Some(Recorded::New(_))
    ));
}

#[test]
fn svc_001_an_event_about_a_service_is_in_its_namespace_and_from_the_service_controller() {
    let service = ServiceRef {
        namespace: "shop".to_owned(),
        name: "web".to_owned(),
        uid: "u2".to_owned(),
    };
    let mut recorder = Recorder::default();
    let about = about_service(&service);
    let recorded = recorder.record(&about, &event("m"), Timestamp::UNIX_EPOCH);
    let Some(Recorded::New(made)) = recorded else {
        panic!("the first is new");
    };
    assert_eq!(made.involved_object.kind.as_deref(), Some("Service"));
    assert_eq!(made.involved_object.namespace.as_deref(), Some("shop"));
    assert_eq!(made.metadata.namespace.as_deref(), Some("shop"));
    let source = made.source.unwrap().component;
    assert_eq!(source.as_deref(), Some("service-controller"));
}

#[tokio::test(start_paused = true)]
async fn an_event_that_the_api_server_does_not_have_is_not_called_done() {
    let cluster = SimCluster::new();
    let tenure = Arc::new(Tenure::unlimited());
    let events = Events::new(cluster.client_as("ccm").into(), tenure.clone());
    let node = node();
    let about = about_node(&node, NODE_CONTROLLER);
    let recorded = events
        .record(NODE_CONTROLLER, &about, &event("first"))
        .await;
    assert_eq!(recorded.to_string(), "done");
    let away = FaultEffect::Refused {
        code: 503,
        retry_after: None,
    };
    cluster.inject(Fault::next(Verb::Create, "events", away));
    let refused = events
        .record(NODE_CONTROLLER, &about, &event("second"))
        .await;
    assert!(
        matches!(&refused, EventOutcome::Unrecorded(why) if why.contains("503")),
        "{refused}"
    );
    // Another process holds the lease by now: nothing is sent, and no effect counts as done.
    tenure.close();
    let before = cluster.requests().len();
    let withheld = events
        .record(NODE_CONTROLLER, &about, &event("third"))
        .await;
    assert!(
        withheld.to_string().starts_with("not recorded: "),
        "{withheld}"
    );
    let outcome = NodeOutcome::Event(withheld);
    assert!(outcome.is_success(), "nothing waits for it");
    assert_eq!(cluster.requests().len(), before);
}

/// As client-go: an Event may be over, or deleted, before it is repeated.
#[tokio::test(start_paused = true)]
async fn an_event_that_is_gone_when_it_is_repeated_is_created_again() {
    let cluster = SimCluster::new();
    let tenure = Arc::new(Tenure::unlimited());
    let events = Events::new(cluster.client_as("ccm").into(), tenure);
    let stored: Api<Stored> = Api::namespaced(cluster.client(), "default");
    let node = node();
    let about = about_node(&node, NODE_CONTROLLER);
    for _ in 0..3 {
        let recorded = events.record(NODE_CONTROLLER, &about, &event("m")).await;
        assert_eq!(recorded.to_string(), "done");
        let list = stored.list(&ListParams::default()).await.unwrap();
        assert_eq!(list.items.len(), 1);
        let name = list.items[0].metadata.name.as_deref().unwrap();
        let params = DeleteParams::default();
        stored.delete(name, &params).await.unwrap();
    }
}

/// A cluster whose API server always answers this.
fn answering(answer: &Value) -> (Arc<Cluster>, Settings) {
    answering_with(200, answer)
}

/// As [`answering`], with this status code.
fn answering_with(code: u16, answer: &Value) -> (Arc<Cluster>, Settings) {
    let answer = answer.to_string();
    answering_by(move |_| (code, answer.clone()))
}

/// A cluster whose API server answers each request by its query, with a status code and a body.
fn answering_by(
    answer: impl Fn(&str) -> (u16, String) + Send + 'static,
) -> (Arc<Cluster>, Settings) {
    let client = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let (code, text) = answer(request.uri().query().unwrap_or_default());
        let body = kube::client::Body::from(text.into_bytes());
        let response = http::Response::builder().status(code).body(body).unwrap();
        async { Ok::<_, tower::BoxError>(response) }
    });
    let client = Client::new(client, "default");
    let nodes = crate::node_store::NodeStore::default();
    let settings = fixtures::settings();
    let cluster = Cluster::new(client.into(), &settings, Metrics::default(), nodes);
    (Arc::new(cluster), settings)
}

/// A kubelet may write the times of its Node's managed fields, too.
#[tokio::test(start_paused = true)]
async fn a_node_with_a_time_that_cannot_be_represented_hides_no_writer() {
    let node = serde_json::json!({
        "metadata": {
            "name": "odd", "uid": "u3", "creationTimestamp": "2026-01-01T00:00:00Z",
            "managedFields": [
                { "manager": "kubelet", "operation": "Update", "time": "9999-12-31T23:59:59Z" },
                { "manager": "k3s", "fieldsV1": { "f:spec": { "f:podCIDR": {} } } },
                { "manager": "empty", "fieldsV1": null, "time": null }
            ]
        }
    });
    let executor = ClusterExecutor::new(answering(&node).0);
    let question = Question::Writer("odd".to_owned(), Why::Appeared);
    let Answer::Writer(_, _, Ok(Some(answer))) = executor.answer(question).await else {
        panic!("the node cannot be read");
    };
    assert_eq!(answer.writer, Writer::Allocator("k3s".to_owned()));
    assert_eq!(answer.created, "2026-01-01T00:00:00Z".parse().ok());
}

/// The executor of a provider that answers nothing.
fn executor(cluster: Arc<Cluster>, settings: &Settings) -> EffectExecutor {
    EffectExecutor::new(
        cluster,
        Arc::new(ccm_fixtures::provider::ScriptedProvider::new("sim")),
        Arc::new(OwnershipContext::alone("sim", vec!["sim".to_owned()])),
        settings,
        &mut JoinSet::new(),
    )
}

/// client-go's spam filter: whoever always has something new to say, such as a provider that is polled ten times a
/// second, does not fill the API server's store.
#[tokio::test(start_paused = true)]
async fn events_of_one_type_about_one_object_are_limited() {
    let cluster = SimCluster::new();
    let tenure = Arc::new(Tenure::unlimited());
    let events = Events::new(cluster.client_as("ccm").into(), tenure);
    let (node, normal) = (node(), EventType::Normal);
    let other = NodeRef {
        name: "worker-2".to_owned(),
        uid: "u2".to_owned(),
    };
    let about = about_node(&node, NODE_CONTROLLER);
    let mut outcomes = Vec::new();
    for number in 0..40 {
        let event = event(&format!("number {number}"));
        let outcome = events.record(NODE_CONTROLLER, &about, &event).await;
        outcomes.push(outcome.to_string());
    }
    let done = outcomes.iter().take_while(|outcome| *outcome == "done");
    assert_eq!(done.count(), 25);
    let rest = outcomes.iter().skip(25);
    assert!(
        rest.clone().all(|one| one.starts_with("not recorded: ")),
        "{outcomes:?}"
    );
    let of_other = about_node(&other, NODE_CONTROLLER);
    let normal = CloudEvent::new(normal, "Synced", "m".to_owned());
    for (about, event) in [(&of_other, &event("m")), (&about, &normal)] {
        let recorded = events.record(NODE_CONTROLLER, about, event).await;
        assert_eq!(recorded.to_string(), "done");
    }
    let stored: Api<Stored> = Api::namespaced(cluster.client(), "default");
    let list = stored.list(&ListParams::default()).await.unwrap();
    assert_eq!(list.items.len(), 27);
}

#[test]
fn one_more_event_is_sent_each_five_minutes() {
    let mut recorder = Recorder::default();
    let node = node();
    let about = about_node(&node, NODE_CONTROLLER);
    let mut sent = |seconds: i64, events: usize| {
        let now = Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds);
        let all = (0..events).filter_map(|_| recorder.record(&about, &event("m"), now));
        all.count()
    };
    assert_eq!(sent(1_000, 30), 25);
    // The clock is set back.
    assert_eq!(sent(0, 30), 0);
    assert_eq!(sent(299, 30), 0);
    assert_eq!(sent(301, 30), 1);
    assert_eq!(sent(901, 30), 2);
    assert_eq!(sent(1_000_000, 30), 25);
}

#[test]
fn a_providers_notices_leave_the_managers_own_events_their_budget() {
    let mut recorder = Recorder::default();
    let service = ServiceRef {
        namespace: "default".to_owned(),
        name: "web".to_owned(),
        uid: "u1".to_owned(),
    };
    let about = about_service(&service);
    let ours = |reason: &str| CloudEvent::new(EventType::Warning, reason, "m".to_owned());
    let theirs = |reason: &str| check_event(&ours(reason)).unwrap();
    let mut sent = |event: &CloudEvent, events: usize| {
        let all = (0..events).filter_map(|_| recorder.record(&about, event, Timestamp::UNIX_EPOCH));
        all.count()
    };
    assert_eq!(sent(&theirs("ServerNotFound"), 20), 20);
    let failed = "SyncLoadBalancerFailed";
    assert_eq!(sent(&theirs(failed), 30), 5, "whatever the reasons are");
    assert_eq!(sent(&ours(failed), 1), 1);
}

/// Its answers would otherwise keep a machine from a node of another provider for ever.
#[tokio::test(start_paused = true)]
async fn the_answers_of_a_provider_that_has_left_hold_no_machine() {
    let (cluster, _) = answering(&serde_json::json!({}));
    let named = |name: &str| ccm_fixtures::kubernetes::node(name).build();
    let (one, another) = (named("one"), named("another"));
    let machine = ccm_core::cloud::Instance {
        provider_id: "sim://1".to_owned(),
        ..ccm_core::cloud::Instance::default()
    };
    let reply = ccm_core::cloud::FindReply {
        lookups: vec![ccm_core::cloud::Lookup::Found(Box::new(machine.clone()))],
        events: Vec::new(),
        complete: true,
    };
    for node in [&one, &another] {
        cluster.node_index().apply(node);
    }
    let asked = [ccm_core::node::cloud_node::cloud_node(&one)];
    let (by, now) = (
        OwnershipContext::alone("old", vec!["sim".to_owned()]),
        cluster.clock.now(),
    );
    cluster.node_index().answered(&by, &asked, &reply, now);
    for (leaves, is_held) in [("other", true), ("old", false)] {
        cluster.leave(leaves);
        let clashes = cluster.node_index().clashes("another", &machine);
        assert_eq!(clashes.duplicate.is_some(), is_held, "{leaves}");
    }
}

/// Nothing would forget it again.
#[tokio::test(start_paused = true)]
async fn a_vote_on_a_node_that_was_deleted_or_recreated_meanwhile_is_not_kept() {
    for (known, is_leaving, is_kept) in [
        (Some("u1"), false, true),
        // The votes of its provider have been withdrawn.
        (Some("u1"), true, false),
        (Some("u2"), false, false),
        (None, false, false),
    ] {
        let (cluster, settings) = answering(&serde_json::json!({}));
        if let Some(uid) = known {
            let node = ccm_fixtures::kubernetes::node("worker-1").uid(uid);
            cluster.node_index().apply(&node.build());
        }
        let vote = CandidateVote {
            vote: Vote::NotMine,
            others: vec!["other".to_owned()],
            is_quiet: false,
        };
        let executor = executor(cluster.clone(), &settings);
        executor.is_leaving.store(is_leaving, Ordering::Release);
        let cast = NodeEffect::CastVote(node(), vote);
        let mut turn = WritePermit::default();
        let performed = executor.carry_out(&cast, Priority::New, &mut turn).await;
        let open = NodeOutcome::VoteCast(Verdict::Open, false);
        assert_eq!(performed, Performed::Ended(open), "{known:?}");
        let votes = format!("{:?}", cluster.claims());
        assert_eq!(votes.contains("u1"), is_kept, "{votes}");
    }
}

/// The changes at a cloud have a budget of their own.
#[tokio::test(start_paused = true)]
async fn each_brake_has_the_allowance_of_the_settings() {
    let mut settings = fixtures::settings();
    for brake in Brake::ALL {
        let allowance = Allowance {
            least: 7,
            percent: 0,
            most: 7,
            ..Allowance::default_of(brake)
        };
        settings.allowances.set(brake, allowance);
    }
    let (client, nodes) = (SimCluster::new().client_as("ccm"), Default::default());
    let cluster = Cluster::new(client.into(), &settings, Metrics::default(), nodes);
    let executor = executor(Arc::new(cluster), &settings);
    let of_all = executor.cloud.budget.level(boottime());
    let store = &executor.cluster.budget_store;
    let counted = store.state("sim", Brake::NodeDeletion, 5).level;
    assert_eq!((of_all.allowed, counted.allowed), (7, 7));
}

#[tokio::test(start_paused = true)]
async fn the_budget_of_all_changes_at_a_cloud_is_shown_with_what_it_holds() {
    let (cluster, settings) = answering(&serde_json::json!({}));
    let request = CloudRequest {
        author: Author {
            provider: "sim".to_owned(),
            digest: String::new(),
        },
        ..ccm_fixtures::permits::change("POST", "/servers")
    };
    let ask = |executor: &EffectExecutor, times: usize| {
        let subject = Subject {
            kind: Some(ObjectKind::Service),
            namespace: Some("default".to_owned()),
            name: "web".to_owned(),
            ..Subject::default()
        };
        let share = BudgetShare::Whole;
        let Ok(permit) = executor.cloud.changing(1_000, share, subject) else {
            panic!("the tenure has no end");
        };
        let asked = (0..times).map(|_| permit.ask(boottime(), &request));
        asked.filter(Result::is_ok).count()
    };
    let shown = || {
        let brakes = settings.reports.activity.snapshot().brakes;
        let level = |level: BrakeReport| {
            let held = level.held.map(|held| (held.object, held.free.is_some()));
            assert_eq!(
                (level.brake.as_str(), level.allowed),
                ("cloud-mutations", 600)
            );
            (level.provider, level.taken, held)
        };
        brakes.into_iter().map(level).collect::<Vec<_>>()
    };
    let sim = || "sim".to_owned();
    let first = executor(cluster.clone(), &settings);
    assert!(shown().is_empty(), "unused");
    assert_eq!(ask(&first, 1), 1);
    assert_eq!(shown(), [(sim(), 1, None)]);
    assert_eq!(ask(&first, 600), 405, "the part of one object");
    let held = ("service/default/web".to_owned(), true);
    assert_eq!(shown(), [(sim(), 406, Some(held))]);
    // The controllers of this provider start anew, with an empty budget.
    drop(first);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let second = executor(cluster, &settings);
    assert!(shown().is_empty());
    assert_eq!(ask(&second, 1), 1);
    assert_eq!(shown(), [(sim(), 1, None)]);
}
