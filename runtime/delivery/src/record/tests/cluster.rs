//! A record in a cluster, with a simulated API server that behaves as the definition of the kind says.

mod waiting;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::to_bytes;
use axum::extract::Request;
use ccm_core::cloud::EventType;
use ccm_core::rollout::{Order, Orders, Record, RolloutEvent};
use ccm_host::CallLimits;
use ccm_sim::cluster::{Cluster, Fault, FaultEffect, Verb};
use http::StatusCode;
use k8s_openapi::api::core::v1::Event;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::{digest, full};
use crate::record::{
    ClusterRecordStore, Inherited, Limits, MemoryRecordStore, RecordStore as _, RecordStoreError,
    Report, StoredRecord,
};

const TIMEOUT: Duration = Duration::from_secs(30);

struct World {
    cluster: Cluster,
    record_store: Arc<ClusterRecordStore>,
    leader: watch::Sender<Option<Client>>,
    watching: JoinHandle<()>,
}

impl Drop for World {
    fn drop(&mut self) {
        self.watching.abort();
    }
}

impl World {
    fn start(is_defined: bool, memory: MemoryRecordStore) -> World {
        let cluster = Cluster::new();
        cluster.define_providers(is_defined);
        let leader = watch::Sender::new(Some(cluster.client()));
        let record_store =
            ClusterRecordStore::new("hcloud", cluster.client(), leader.subscribe(), memory);
        let record_store = Arc::new(record_store);
        let watched = record_store.clone();
        World {
            cluster,
            record_store,
            leader,
            watching: tokio::spawn(async move { watched.run().await }),
        }
    }

    /// A cluster that has the kind and no record, as the store has seen.
    async fn without_record() -> World {
        let world = World::start(true, MemoryRecordStore::new());
        world
            .seen("there is nothing", |record, _| record.is_none())
            .await;
        world
    }

    fn api(&self) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("wasm-ccm.dev", "v1alpha1", "Provider");
        let kind = ApiResource::from_gvk_with_plural(&kind, "providers");
        Api::all_with(self.cluster.client(), &kind)
    }

    async fn annotate(&self, key: &str, value: &str) {
        let patch = json!({ "metadata": { "annotations": { key: value } } });
        let api = self.api();
        api.patch("hcloud", &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .unwrap();
    }

    async fn seen(&self, what: &str, is: impl Fn(Option<&Record>, &Orders) -> bool) {
        let mut seen = self.record_store.seen();
        let known = seen.wait_for(|seen| match seen {
            StoredRecord::Known { record, orders } => is(record.as_deref(), orders),
            StoredRecord::Unknown(_) => false,
        });
        if tokio::time::timeout(TIMEOUT, known).await.is_err() {
            panic!("waited for: {what}");
        }
    }
}

fn report() -> Report {
    Report {
        record: full(),
        source: "configmap://kube-system/provider/provider.wasm".to_owned(),
        source_trouble: String::new(),
        is_serving: true,
        limits: Some(limits()),
        ..Report::default()
    }
}

fn limits() -> Limits {
    let call = CallLimits {
        memory_mib: 64,
        call_seconds: 60,
        held_mib: 32,
    };
    Limits {
        call,
        memory_share_mib: Some(384),
    }
}

#[tokio::test]
async fn the_object_is_made_and_everybody_reads_what_the_leader_wrote() {
    let world = World::without_record().await;
    world.record_store.write(&report()).await.unwrap();
    world
        .seen("the record", |record, _| record == Some(&full()))
        .await;
    let object = world.api().get("hcloud").await.unwrap();
    let status = object.data.get("status").unwrap();
    assert_eq!(status["state"], "WaitsForApproval");
    assert_eq!(
        status["observedSource"],
        "configmap://kube-system/provider/provider.wasm"
    );
    let limits = json!({"memoryMiB": 64, "callSeconds": 60, "heldMiB": 32, "memoryShareMiB": 384});
    assert_eq!(status["limits"], limits);
    let empty = Report::default();
    world.record_store.write(&empty).await.unwrap();
    world
        .seen("the empty record", |record, _| {
            record == Some(&Record::default())
        })
        .await;
    let object = world.api().get("hcloud").await.unwrap();
    assert!(object.data["status"].get("limits").is_none());
}

#[tokio::test]
async fn orders_come_by_annotations_and_go_when_they_are_done() {
    let world = World::without_record().await;
    world.record_store.write(&report()).await.unwrap();
    world.annotate("wasm-ccm.dev/roll-back", "true").await;
    world.annotate("wasm-ccm.dev/pin", &digest(1)).await;
    let pinned = |orders: &Orders| orders.pin == Some(digest(1));
    world
        .seen("both", |_, orders| orders.roll_back && pinned(orders))
        .await;
    // This write succeeds although the object has changed since the last one.
    world.record_store.write(&Report::default()).await.unwrap();
    world.record_store.clear(&Order::RollBack).await.unwrap();
    world
        .seen("one is done", |_, orders| {
            !orders.roll_back && pinned(orders)
        })
        .await;
}

#[tokio::test]
async fn an_order_that_was_given_meanwhile_is_not_taken_away_with_the_one_that_is_done() {
    let world = World::without_record().await;
    world.record_store.write(&report()).await.unwrap();
    for (set, done, left) in [(2, 1, Some(digest(2))), (2, 2, None)] {
        world.annotate("wasm-ccm.dev/retry", &digest(set)).await;
        let done = Order::Retry(digest(done));
        world.record_store.clear(&done).await.unwrap();
        let object = world.api().get("hcloud").await.unwrap();
        let annotations = object.metadata.annotations.unwrap_or_default();
        let found = annotations.get("wasm-ccm.dev/retry");
        assert_eq!(found, left.as_ref());
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_that_was_read_once_stays_in_the_cluster_when_the_right_to_it_is_gone_for_a_while()
{
    let world = World::without_record().await;
    world.record_store.write(&report()).await.unwrap();
    world.seen("the record", |record, _| record.is_some()).await;
    let refused = FaultEffect::Refused {
        code: 403,
        retry_after: None,
    };
    let fault = Fault::next(Verb::List, "providers", refused);
    world.cluster.inject(fault.times(3));
    world.cluster.expire_watches();
    world.annotate("wasm-ccm.dev/pin", &digest(1)).await;
    world
        .seen("an order, and the record", |record, orders| {
            record == Some(&full()) && orders.pin == Some(digest(1))
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_record_whose_kind_is_deleted_is_in_memory_from_then_on() {
    let world = World::without_record().await;
    world.record_store.write(&report()).await.unwrap();
    world.seen("the record", |record, _| record.is_some()).await;
    world.cluster.define_providers(false);
    world.cluster.end_watches();
    tokio::time::sleep(Duration::from_secs(60)).await;
    world.record_store.write(&Report::default()).await.unwrap();
    world
        .seen("the new record", |record, _| {
            record == Some(&Record::default())
        })
        .await;
}

#[tokio::test]
async fn an_object_that_somebody_deletes_is_made_again() {
    let world = World::without_record().await;
    world.record_store.write(&report()).await.unwrap();
    world.seen("the record", |record, _| record.is_some()).await;
    world
        .api()
        .delete("hcloud", &DeleteParams::default())
        .await
        .unwrap();
    // The write succeeds whether the store has seen the deletion or not.
    world.record_store.write(&report()).await.unwrap();
    world
        .seen("the record again", |record, _| record == Some(&full()))
        .await;
}

#[tokio::test]
async fn whoever_does_not_lead_writes_nothing() {
    let world = World::without_record().await;
    world.leader.send_replace(None);
    assert_eq!(
        world.record_store.write(&report()).await,
        Err(RecordStoreError::NotLeader)
    );
    assert_eq!(
        world.record_store.clear(&Order::RollBack).await,
        Err(RecordStoreError::NotLeader)
    );
    let objects = world.api().list(&ListParams::default()).await.unwrap();
    assert!(objects.items.is_empty());
}

#[tokio::test]
async fn what_happens_is_told_by_events_about_the_object() {
    let world = World::without_record().await;
    world.record_store.write(&report()).await.unwrap();
    let event = RolloutEvent {
        event_type: EventType::Warning,
        reason: "ProviderRejected",
        message: "\u{1b}[31m1.0.3 is rejected\nit traps".to_owned(),
        release: None,
    };
    world.record_store.record_event(&event).await.unwrap();
    let api: Api<Event> = Api::namespaced(world.cluster.client(), "default");
    let events = api.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(events.len(), 1);
    let event = &events[0];
    assert_eq!(event.reason.as_deref(), Some("ProviderRejected"));
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    assert_eq!(event.involved_object.kind.as_deref(), Some("Provider"));
    assert_eq!(
        event.involved_object.uid,
        world.api().get("hcloud").await.unwrap().metadata.uid
    );
    let message = event.message.clone().unwrap();
    assert!(!message.contains(['\u{1b}', '\n']), "{message:?}");
}

#[tokio::test]
async fn without_the_kind_the_record_is_in_memory_and_what_was_kept_there_counts() {
    let folder = tempfile::tempdir().unwrap();
    MemoryRecordStore::kept_in(folder.path(), "hcloud")
        .write(&report())
        .await
        .unwrap();
    let world = World::start(false, MemoryRecordStore::kept_in(folder.path(), "hcloud"));
    let StoredRecord::Known { record, .. } = world.record_store.read().await.unwrap() else {
        panic!("it is known where the record is");
    };
    assert_eq!(record.as_deref(), Some(&full()));
    world.record_store.write(&Report::default()).await.unwrap();
    world
        .seen("the new record", |record, _| {
            record == Some(&Record::default())
        })
        .await;
    let next = MemoryRecordStore::kept_in(folder.path(), "hcloud");
    let kept = next.read().await.unwrap();
    assert!(
        matches!(kept, StoredRecord::Known { record: Some(record), .. } if *record == Record::default())
    );
}

#[tokio::test]
async fn a_status_that_somebody_edited_is_read_as_far_as_it_goes() {
    let world = World::without_record().await;
    world.record_store.write(&report()).await.unwrap();
    let edit: Value =
        json!({ "status": { "previous": null, "approved": [], "trouble": "\u{202e}x" } });
    let api = world.api();
    api.patch_status("hcloud", &PatchParams::default(), &Patch::Merge(&edit))
        .await
        .unwrap();
    let is_edited = |record: Option<&Record>| {
        record.is_some_and(|it| {
            it.previous.is_none() && it.approved.is_empty() && it.active.is_some()
        })
    };
    world.seen("the edit", |record, _| is_edited(record)).await;
}

/// Fields that an earlier definition of the kind lacks: JSON pointer, path in the message of the API server.
const LATER: [(&str, &str); 4] = [
    ("/status/goneBack", ".status.goneBack"),
    ("/status/active/untried", ".status.active.untried"),
    (
        "/status/rejected/0/hasAnswered",
        ".status.rejected[0].hasAnswered",
    ),
    ("/status/limits", ".status.limits"),
];

/// What the API server says of an apply with such fields. It does not name all of them at once.
fn refusal(body: &[u8]) -> Option<Vec<u8>> {
    let value = serde_json::from_slice::<Value>(body).ok()?;
    let found = LATER.iter().filter(|(at, _)| value.pointer(at).is_some());
    let found: Vec<_> = found
        .map(|(_, path)| format!("{path}: field not declared in schema"))
        .take(3)
        .collect();
    let what = match found.as_slice() {
        [] => return None,
        [one] => one.clone(),
        several => format!("errors:\n  {}", several.join("\n  ")),
    };
    let why = format!(
        "failed to create typed patch object (/hcloud; wasm-ccm.dev/v1alpha1, Kind=Provider): {what}"
    );
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": why, "code": 500});
    Some(status.to_string().into_bytes())
}

fn with_an_earlier_definition(cluster: &Cluster) -> Client {
    let client = cluster.client();
    let answer = move |request: Request| {
        let client = client.clone();
        async move {
            let (head, body) = request.into_parts();
            let body = to_bytes(body, usize::MAX).await.unwrap();
            if let Some(refusal) = refusal(&body) {
                return (StatusCode::INTERNAL_SERVER_ERROR, refusal);
            }
            let body = kube::client::Body::from(body.to_vec());
            let request = http::Request::from_parts(head, body);
            let (head, body) = client.send(request).await.unwrap().into_parts();
            (head.status, body.collect_bytes().await.unwrap().to_vec())
        }
    };
    Client::new(Router::new().fallback(answer), "default")
}

#[tokio::test]
async fn an_earlier_definition_of_the_kind_keeps_no_record_from_being_written() {
    let world = World::without_record().await;
    let client = with_an_earlier_definition(&world.cluster);
    world.leader.send_replace(Some(client));
    let mut report = report();
    for trouble in ["the registry is down", "the disk is full"] {
        report.record.trouble = trouble.to_owned();
        world.record_store.write(&report).await.unwrap();
        let mut expected = report.record.clone();
        expected.has_gone_back = false;
        expected.active.as_mut().unwrap().untried = None;
        expected.rejected[0].has_answered = false;
        world
            .seen("the rest of the record", |record, _| {
                record == Some(&expected)
            })
            .await;
    }
    let object = world.api().get("hcloud").await.unwrap();
    assert!(object.data["status"].get("limits").is_none());
    // Fields that a later record has not are taken away.
    world.record_store.write(&Report::default()).await.unwrap();
    world
        .seen("the empty record", |record, _| {
            record == Some(&Record::default())
        })
        .await;
}
