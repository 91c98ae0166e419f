//! A cluster that shows its objects `Provider` late.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use ccm_core::rollout::Orders;
use ccm_sim::cluster::{Cluster, Fault, FaultEffect, Verb};
use futures::{StreamExt as _, stream};
use http::StatusCode;
use kube::Client;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::record::{
    ClusterRecordStore, MemoryRecordStore, RecordStore as _, Report, StoredRecord,
};

fn object(version: &str, orders: &Value) -> Value {
    json!({
        "apiVersion": "wasm-ccm.dev/v1alpha1",
        "kind": "Provider",
        "metadata": {"name": "hcloud", "uid": "1", "resourceVersion": version, "annotations": orders},
    })
}

/// A store for this client, with nothing in memory.
fn store(client: Client, leader: &watch::Sender<Option<Client>>) -> ClusterRecordStore {
    ClusterRecordStore::new(
        "hcloud",
        client,
        leader.subscribe(),
        MemoryRecordStore::new(),
    )
}

/// A client of an API server that lists `listed` and a second later sends `events`. To read the object takes two seconds,
/// and returns `read`; null: there is none.
fn showing(listed: Value, events: Vec<Value>, read: Value) -> Client {
    let lines: Vec<_> = events
        .iter()
        .map(|object| format!("{}\n", json!({"type": "MODIFIED", "object": object})))
        .collect();
    let answer = move |request: Request| {
        let (listed, lines, read) = (listed.clone(), lines.clone(), read.clone());
        async move {
            if request.uri().path().ends_with("/hcloud") {
                tokio::time::sleep(Duration::from_secs(2)).await;
                let absent = json!({
                    "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
                    "message": "not found", "reason": "NotFound", "code": 404,
                });
                let (code, answer) = match read.is_null() {
                    true => (StatusCode::NOT_FOUND, absent),
                    false => (StatusCode::OK, read),
                };
                return (code, Body::from(answer.to_string()));
            }
            if request.uri().query().unwrap_or_default().contains("watch=") {
                tokio::time::sleep(Duration::from_secs(1)).await;
                let lines =
                    stream::iter(lines).map(|line| Ok::<_, std::io::Error>(Bytes::from(line)));
                let lines = Body::from_stream(lines.chain(stream::pending()));
                return (StatusCode::OK, lines);
            }
            let list = json!({
                "apiVersion": "wasm-ccm.dev/v1alpha1",
                "kind": "ProviderList",
                "metadata": {"resourceVersion": listed["metadata"]["resourceVersion"]},
                "items": [listed],
            });
            (StatusCode::OK, Body::from(list.to_string()))
        }
    };
    Client::new(Router::new().fallback(answer), "default")
}

/// A write returns a newer object than the watch has shown by then: an order that was carried out and removed must not
/// come back with an event that was under way.
#[tokio::test(start_paused = true)]
async fn an_event_that_is_older_than_what_is_known_changes_nothing() {
    let order = json!({"wasm-ccm.dev/roll-back": "true"});
    let pause = json!({"wasm-ccm.dev/pause": "true"});
    let rolls_back = Orders {
        roll_back: true,
        ..Orders::default()
    };
    let pauses = Orders {
        pause: true,
        ..Orders::default()
    };
    for (events, expected) in [
        (vec![object("9", &order)], Orders::default()),
        (vec![object("9", &order), object("11", &pause)], pauses),
        (vec![object("11", &order)], rolls_back.clone()),
        // A version that is no number cannot be compared.
        (vec![object("x", &order)], rolls_back),
    ] {
        let client = showing(object("10", &json!({})), events, Value::Null);
        let leader = watch::Sender::new(None);
        let store = store(client, &leader);
        let store = Arc::new(store);
        let watched = store.clone();
        let watching = tokio::spawn(async move { watched.run().await });
        tokio::time::sleep(Duration::from_secs(5)).await;
        let seen = store.seen().borrow().clone();
        assert!(
            matches!(&seen, StoredRecord::Known { orders, .. } if *orders == expected),
            "{seen:?}"
        );
        watching.abort();
    }
}

/// The same holds for a read that was under way.
#[tokio::test(start_paused = true)]
async fn a_read_that_is_older_than_what_the_watch_has_shown_meanwhile_changes_nothing() {
    let order = json!({"wasm-ccm.dev/roll-back": "true"});
    let done = || vec![object("10", &json!({}))];
    let mut another = object("9", &order);
    another["metadata"]["uid"] = json!("0");
    for (read, events, expected) in [
        (object("9", &order), done(), false),
        (object("11", &order), done(), true),
        // Nothing else has been shown: it is that of a restored backup.
        (object("7", &order), vec![], true),
        // It was deleted, and made anew.
        (another, done(), false),
        (Value::Null, vec![object("10", &order)], true),
    ] {
        let version = read["metadata"]["resourceVersion"].clone();
        let client = showing(object("8", &json!({})), events, read);
        let leader = watch::Sender::new(None);
        let store = Arc::new(store(client, &leader));
        let watched = store.clone();
        let watching = tokio::spawn(async move { watched.run().await });
        tokio::time::sleep(Duration::from_millis(500)).await;
        let read = store.read().await.unwrap();
        assert!(
            matches!(&read, StoredRecord::Known { orders, .. } if orders.roll_back == expected),
            "{version}: {read:?}"
        );
        watching.abort();
    }
}

/// The right to read it may be applied after the first process has started, or be missing for good: an alert counts more than
/// two refusals in twenty minutes.
#[tokio::test(start_paused = true)]
async fn a_record_that_the_cluster_has_refused_to_show_is_shown_once_it_takes_it() {
    let cluster = Cluster::new();
    cluster.define_providers(true);
    let refused = FaultEffect::Refused {
        code: 403,
        retry_after: None,
    };
    cluster.inject(Fault::next(Verb::Get, "providers", refused));
    let leader = watch::Sender::new(Some(cluster.client()));
    let store = store(cluster.client(), &leader).waiting();
    let shown = || {
        let requests = cluster.requests().into_iter();
        requests.filter(|one| one.verb == "create").count()
    };
    let report = Report::default();
    let began = tokio::time::Instant::now();
    store.write(&report).await.unwrap();
    let asked = cluster.requests().len();
    for minutes in [0, 20, 20] {
        tokio::time::sleep(Duration::from_secs(minutes * 60)).await;
        store.write(&report).await.unwrap();
        assert_eq!(cluster.requests().len(), asked, "after {minutes} minutes");
    }
    assert_eq!(shown(), 0);
    let again = store.show_again().expect("it is asked again");
    tokio::time::sleep_until(again).await;
    assert_eq!(began.elapsed().as_secs(), 3600);
    store.write(&report).await.unwrap();
    assert_eq!(shown(), 1);
    assert_eq!(store.show_again(), None);
}

/// The definition, or the right to read it, may be applied after the first process has started.
#[tokio::test(start_paused = true)]
async fn a_record_in_memory_moves_to_the_cluster_once_that_takes_it() {
    for (code, times) in [(403, 5), (404, 2)] {
        let cluster = Cluster::new();
        cluster.define_providers(true);
        let refused = FaultEffect::Refused {
            code,
            retry_after: None,
        };
        cluster.inject(Fault::next(Verb::List, "providers", refused).times(times));
        let leader = watch::Sender::new(Some(cluster.client()));
        let store = store(cluster.client(), &leader);
        let store = Arc::new(store);
        let watched = store.clone();
        let watching = tokio::spawn(async move { watched.run().await });
        let report = Report {
            record: super::full(),
            ..Report::default()
        };
        let mut seen = store.seen();
        let known = seen.wait_for(|seen| matches!(seen, StoredRecord::Known { .. }));
        tokio::time::timeout(Duration::from_secs(30), known)
            .await
            .unwrap()
            .unwrap();
        store.write(&report).await.unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        // The leader is told that the cluster has no record, and writes it again.
        let seen = store.seen().borrow().clone();
        assert!(
            matches!(seen, StoredRecord::Known { record: None, .. }),
            "{code}: {seen:?}"
        );
        store.write(&report).await.unwrap();
        let mut seen = store.seen();
        let shown = |seen: &StoredRecord| match seen {
            StoredRecord::Known { record, .. } => record.as_deref() == Some(&report.record),
            StoredRecord::Unknown(_) => false,
        };
        let read = seen.wait_for(shown);
        tokio::time::timeout(Duration::from_secs(30), read)
            .await
            .unwrap()
            .unwrap();
        let writes = cluster.requests().into_iter();
        let mut writes = writes.filter(|one| !["get", "list", "watch"].contains(&one.verb));
        assert!(writes.next().is_some(), "{code}");
        watching.abort();
    }
}

/// An API server that has just started may refuse a list before it has read the roles.
#[tokio::test(start_paused = true)]
async fn the_record_of_a_cluster_that_refuses_it_for_a_while_is_not_forgotten() {
    for (times, is_decided, prevails) in [(1, false, None), (4, true, Some(true))] {
        let cluster = Cluster::new();
        cluster.define_providers(true);
        let leader = watch::Sender::new(Some(cluster.client()));
        let report = Report {
            record: super::full(),
            ..Report::default()
        };
        let before = store(cluster.client(), &leader);
        before.write(&report).await.unwrap();
        let refused = FaultEffect::Refused {
            code: 403,
            retry_after: None,
        };
        cluster.inject(Fault::next(Verb::List, "providers", refused).times(times));
        let store = Arc::new(store(cluster.client(), &leader));
        let watched = store.clone();
        let watching = tokio::spawn(async move { watched.run().await });
        // Whether this process takes it that there is no record.
        let mut seen = store.seen();
        let known = seen.wait_for(|seen| matches!(seen, StoredRecord::Known { .. }));
        let known = tokio::time::timeout(Duration::from_secs(30), known);
        let known = known.await.unwrap().unwrap().clone();
        let is_none = matches!(known, StoredRecord::Known { record: None, .. });
        assert_eq!(is_none, is_decided, "{times}: {known:?}");
        tokio::time::sleep(Duration::from_secs(30)).await;
        let read = store.read().await.unwrap();
        assert!(
            matches!(&read, StoredRecord::Known { record: Some(record), .. } if **record == super::full()),
            "{times}: {read:?}"
        );
        let inherited = store.inherited();
        assert_eq!(inherited.map(|it| it.prevails), prevails, "{times}");
        watching.abort();
    }
}

/// Else the file of a record from before the move would count again, with versions that were rejected since.
#[tokio::test(start_paused = true)]
async fn a_record_in_memory_is_forgotten_once_the_cluster_has_another() {
    for leads in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("hcloud.record.json");
        let interrupted = folder.path().join("hcloud.record.json.new");
        let cluster = Cluster::new();
        cluster.define_providers(true);
        let leader = watch::Sender::new(Some(cluster.client()));
        let report = Report {
            record: super::full(),
            ..Report::default()
        };
        let written = store(cluster.client(), &leader);
        written.write(&report).await.unwrap();
        let memory = || MemoryRecordStore::kept_in(folder.path(), "hcloud");
        memory().write(&Report::default()).await.unwrap();
        std::fs::write(&interrupted, b"{").unwrap();
        let start = || {
            let (client, writing) = (cluster.client(), leader.subscribe());
            let store = ClusterRecordStore::new("hcloud", client, writing, memory());
            let store = Arc::new(store);
            let watched = store.clone();
            (store, tokio::spawn(async move { watched.run().await }))
        };
        let is_full = |seen: &StoredRecord| match seen {
            StoredRecord::Known { record, .. } => record.as_deref() == Some(&super::full()),
            StoredRecord::Unknown(_) => false,
        };
        leader.send_replace(leads.then(|| cluster.client()));
        let (before, watching) = start();
        let mut seen = before.seen();
        let full = tokio::time::timeout(Duration::from_secs(30), seen.wait_for(is_full));
        full.await.unwrap().unwrap();
        // What the leader has in memory may be newer.
        assert_eq!(file.exists(), leads);
        if leads {
            before.write(&report).await.unwrap();
        }
        assert!(!file.exists() && !interrupted.exists(), "{leads}");
        watching.abort();

        let refused = FaultEffect::Refused {
            code: 403,
            retry_after: None,
        };
        cluster.inject(Fault::next(Verb::List, "providers", refused).times(4));
        let (next, watching) = start();
        let mut seen = next.seen();
        let known = seen.wait_for(|seen| matches!(seen, StoredRecord::Known { .. }));
        let known = tokio::time::timeout(Duration::from_secs(30), known);
        let known = known.await.unwrap().unwrap().clone();
        assert!(
            matches!(known, StoredRecord::Known { record: None, .. }),
            "{leads}: {known:?}"
        );
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert!(is_full(&next.seen().borrow()), "{leads}");
        let inherited = next.inherited();
        assert_eq!(inherited.map(|it| it.prevails), Some(true), "{leads}");
        watching.abort();
    }
}
