//! Which events of the node watch are passed on, and what it does when the API server goes back to an earlier state or
//! cuts it off.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt as _, future};
use http::{Request, Response};
use http_body_util::StreamBody;
use hyper::body::Frame;
use kube::Client;
use kube::client::Body;
use kube::runtime::watcher::Event;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;
use tower::BoxError;

use super::{NodeStore, is_relevant_change, nodes};
use ccm_core::node::object::PrunedNode;

/// A node as the API server sends it, with a kubelet's reports.
fn node(version: u32, change: impl FnOnce(&mut Value)) -> Arc<PrunedNode> {
    let mut node = json!({
        "metadata": {"name": "a", "uid": "u", "resourceVersion": version.to_string(), "labels": {"pool": "x"}},
        "spec": {"providerID": "x://1"},
        "status": {
            "conditions": [{
                "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "posting",
                "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
        },
    });
    change(&mut node);
    Arc::new(serde_json::from_value(node).unwrap())
}

/// A change's name, and the function that makes it.
type Change = (&'static str, fn(&mut Value));

#[test]
fn edge_051_a_report_that_changes_nothing_is_not_passed_on() {
    let store = NodeStore::default();
    let first = Event::Apply(node(1, |_| {}));
    assert!(is_relevant_change(&first, &store), "a new node");
    store.apply(&first);

    let report = Event::Apply(node(2, |node| {
        node["status"]["conditions"][0]["lastHeartbeatTime"] = json!("2026-01-01T00:05:00Z");
        node["status"]["images"] = json!([{"names": ["an image"], "sizeBytes": 1}]);
    }));
    assert!(!is_relevant_change(&report, &store));
    store.apply(&report);
    let stored = store.get("a").unwrap();
    let version = stored.resource_version();
    assert_eq!(version, "2", "the store has it all the same");

    let changes: [Change; 8] = [
        ("a label", |node| {
            node["metadata"]["labels"]["pool"] = json!("y")
        }),
        ("an annotation", |node| {
            node["metadata"]["annotations"] = json!({"a": "b"})
        }),
        ("a deletion", |node| {
            node["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z")
        }),
        ("another object of that name", |node| {
            node["metadata"]["uid"] = json!("v")
        }),
        ("a taint", |node| {
            node["spec"]["taints"] = json!([{"key": "k", "effect": "NoSchedule"}])
        }),
        ("a provider ID", |node| {
            node["spec"]["providerID"] = json!("x://2")
        }),
        ("readiness", |node| {
            node["status"]["conditions"][0]["status"] = json!("False")
        }),
        ("an address", |node| {
            node["status"]["addresses"][0]["address"] = json!("10.0.0.2")
        }),
    ];
    for (what, change) in changes {
        assert!(
            is_relevant_change(&Event::Apply(node(3, change)), &store),
            "{what}"
        );
    }
    assert!(is_relevant_change(&Event::Delete(node(3, |_| {})), &store));
    assert!(is_relevant_change(&Event::Init, &store));
}

type Answer = Response<StreamBody<BoxStream<'static, Result<Frame<Bytes>, BoxError>>>>;

/// This text, after which the response ends or stays open.
fn answer(code: u16, text: String, ends: bool) -> Answer {
    let text = stream::iter([Ok(Frame::data(Bytes::from(text)))]);
    let body = match ends {
        true => text.boxed(),
        false => text.chain(stream::pending()).boxed(),
    };
    let answer = Response::builder().status(code);
    answer.body(StreamBody::new(body)).unwrap()
}

fn refusal(code: u16) -> Answer {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "no", "code": code,
    });
    answer(code, status.to_string(), true)
}

fn object(name: &str, version: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": name, "resourceVersion": version},
    })
}

/// The event of a node.
fn added(name: &str, version: &str) -> String {
    let event = json!({"type": "ADDED", "object": object(name, version)});
    format!("{event}\n")
}

/// The event that ends a streamed list.
fn end_of_list(version: &str) -> String {
    let end = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"resourceVersion": version, "annotations": {"k8s.io/initial-events-end": "true"}},
    });
    format!("{}\n", json!({"type": "BOOKMARK", "object": end}))
}

/// The list of one node.
fn list(name: &str, version: &str) -> String {
    let list = json!({
        "apiVersion": "v1",
        "kind": "NodeList",
        "metadata": {"resourceVersion": version},
        "items": [object(name, version)],
    });
    list.to_string()
}

/// A client of an API server that has the node a at the version 100, is away for three requests, and comes back with the
/// node b at the version 50. It sends nothing to a watch, whatever the version.
fn restored(streams_lists: bool) -> Client {
    let refused = Arc::new(AtomicUsize::new(0));
    let service = tower::service_fn(move |request: Request<Body>| {
        let query = request.uri().query().unwrap_or_default();
        let (name, version) = match refused.load(Ordering::Relaxed) {
            0..3 => ("a", "100"),
            _ => ("b", "50"),
        };
        let answer = if query.contains("sendInitialEvents=true") {
            match streams_lists {
                true => answer(200, added(name, version) + &end_of_list(version), true),
                false => refusal(400),
            }
        } else if !query.contains("watch=true") {
            answer(200, list(name, version), true)
        } else if refused.fetch_add(1, Ordering::Relaxed) < 3 {
            refusal(503)
        } else {
            answer(200, String::new(), false)
        };
        future::ready(Ok::<_, Infallible>(answer))
    });
    Client::new(service, "default")
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_comes_back_with_an_earlier_state_is_listed_again() {
    for streams_lists in [true, false] {
        let mut watched = nodes(restored(streams_lists));
        let mut names: Vec<String> = Vec::new();
        let lists = async {
            while names != ["a", "b"] {
                let event = watched.changes.next().await.unwrap();
                if matches!(event, Event::InitDone) {
                    let stored = watched.store.all().into_iter();
                    names.extend(stored.map(|node| node.name().to_owned()));
                }
            }
        };
        let lists = tokio::time::timeout(Duration::from_secs(300), lists).await;
        assert!(lists.is_ok(), "streamed: {streams_lists}: {names:?}");
    }
}

/// What a connection to the API server shows before it is reset, and when that is.
#[derive(Clone, Copy)]
struct Reset {
    /// Whether a streamed list arrives to its end.
    has_list: bool,
    /// Whether a watch shows a change.
    has_change: bool,
    after: Duration,
}

/// The queries of a client, and when they came.
type Queries = Arc<Mutex<Vec<(Instant, String)>>>;

/// A client of an API server with one node, behind something that resets each connection of a watch.
fn reset(reset: Reset) -> (Client, Queries) {
    let queries = Queries::default();
    let seen = queries.clone();
    let version = AtomicU32::new(100);
    let service = tower::service_fn(move |request: Request<Body>| {
        let query = request.uri().query().unwrap_or_default();
        seen.lock().push((Instant::now(), query.to_owned()));
        let version = version.fetch_add(1, Ordering::Relaxed).to_string();
        let text = match query.contains("sendInitialEvents=true") {
            true if reset.has_list => added("a", &version) + &end_of_list(&version),
            false if !reset.has_change => String::new(),
            true | false => added("a", &version),
        };
        let answer = match query.contains("watch=true") {
            true => {
                let text = stream::iter([Ok(Frame::data(Bytes::from(text)))]);
                let end = stream::once(async move {
                    tokio::time::sleep(reset.after).await;
                    Err(BoxError::from("connection reset"))
                });
                Response::new(StreamBody::new(text.chain(end).boxed()))
            }
            false => answer(200, list("a", &version), true),
        };
        future::ready(Ok::<_, Infallible>(answer))
    });
    (Client::new(service, "default"), queries)
}

type Changed = Event<Arc<PrunedNode>>;

/// Whether a list ends within a minute.
async fn is_listed(changes: &mut (impl Stream<Item = Changed> + Unpin)) -> bool {
    let listed = async { while !matches!(changes.next().await, Some(Event::InitDone)) {} };
    let listed = tokio::time::timeout(Duration::from_secs(60), listed).await;
    listed.is_ok()
}

async fn watch_for_ten_minutes(changes: &mut (impl Stream<Item = Changed> + Unpin)) {
    let changes = async { while changes.next().await.is_some() {} };
    let ended = tokio::time::timeout(Duration::from_secs(600), changes).await;
    assert!(ended.is_err(), "a watch never ends");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_has_run_or_shown_a_change_begins_again_after_the_first_pause() {
    // At most 1.6 s, and what timers add.
    let first_pause = Duration::from_millis(1650);
    for (seconds, has_change) in [(10, false), (2, true)] {
        let after = Duration::from_secs(seconds);
        let (client, queries) = reset(Reset {
            has_list: true,
            has_change,
            after,
        });
        let mut watched = nodes(client);
        watch_for_ten_minutes(&mut watched.changes).await;
        let queries = queries.lock();
        let begun: Vec<Instant> = queries.iter().map(|(at, _)| *at).collect();
        assert!(begun.len() > 40, "{seconds} s: {}", begun.len());
        for (one, next) in begun.iter().zip(&begun[1..]) {
            let blind = *next - *one - after;
            assert!(blind <= first_pause, "{seconds} s: {blind:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_is_read_in_pages_after_two_streams_of_it_were_cut_off() {
    let (client, queries) = reset(Reset {
        has_list: false,
        has_change: false,
        after: Duration::from_secs(1),
    });
    let mut watched = nodes(client);
    let listed = is_listed(&mut watched.changes).await;
    let queries = queries.lock();
    assert!(listed, "{queries:?}");
    let streamed = queries
        .iter()
        .filter(|(_, query)| query.contains("sendInitialEvents"));
    assert_eq!(
        streamed.count(),
        3,
        "the third one is given up as it begins: {queries:?}"
    );
}

/// A client of an API server whose first answer never comes, or is a refusal of this code that never ends, and the number
/// of requests. Each later answer shows one node, and then nothing.
fn silent(code: Option<u16>) -> (Client, Arc<AtomicUsize>) {
    let requests = Arc::<AtomicUsize>::default();
    let seen = requests.clone();
    let service = tower::service_fn(move |_: Request<Body>| {
        let is_first = seen.fetch_add(1, Ordering::Relaxed) == 0;
        async move {
            Ok::<_, Infallible>(match code {
                None if is_first => future::pending().await,
                Some(code) if is_first => answer(code, "{".to_owned(), false),
                None | Some(_) => answer(200, added("a", "1") + &end_of_list("1"), false),
            })
        }
    });
    (Client::new(service, "default"), requests)
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_never_comes_and_a_watch_that_shows_nothing_any_more_are_given_up() {
    for code in [None, Some(503)] {
        let (client, requests) = silent(code);
        let mut watched = nodes(client);
        assert!(is_listed(&mut watched.changes).await, "{code:?}");
        let before = requests.load(Ordering::Relaxed);
        watch_for_ten_minutes(&mut watched.changes).await;
        let watches = requests.load(Ordering::Relaxed) - before;
        assert!(watches >= 8, "one each minute: {watches}");
    }
}
