//! The time while the first list of all nodes is being read: the provider is asked about the first nodes, and nothing
//! is decided about them before every node is known.

use std::sync::Mutex;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, StreamBody};
use kube::Client;
use kube::client::Body;

use super::*;

type Answered = UnsyncBoxBody<Bytes, kube::Error>;

/// How the API server answers the first request for all nodes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FirstList {
    /// As a stream, which ends after this delay.
    StreamedUntil(Duration),
    /// It refuses to stream; lists are read in pages.
    Refused,
    /// It refuses to stream, and has no time for lists either.
    Overloaded,
}

/// A client of `cluster`, and the requests that it sends.
fn client(cluster: &cluster::Cluster, first_list: FirstList) -> (Client, Arc<Mutex<Vec<String>>>) {
    let (inner, asked) = (
        cluster.client_as("ccm"),
        Arc::<Mutex<Vec<String>>>::default(),
    );
    let received = asked.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (inner, uri) = (inner.clone(), request.uri().to_string());
        let is_of_nodes = uri.starts_with("/api/v1/nodes?");
        let streams = is_of_nodes && uri.contains("sendInitialEvents=true");
        if is_of_nodes {
            received.lock().unwrap().push(uri);
        }
        async move {
            match first_list {
                FirstList::StreamedUntil(late) if streams => {
                    let answer = inner.send(request).await?;
                    Ok(answer.map(|body| ended_late(body, late)))
                }
                FirstList::Refused | FirstList::Overloaded if streams => {
                    let text = r#"{"kind":"Status","status":"Failure","code":422,"reason":"Invalid",
                        "message":"sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"}"#;
                    let answer = Response::builder().status(422);
                    Ok(answer.body(Body::from(text.as_bytes().to_vec()).boxed_unsync())?)
                }
                FirstList::Overloaded if is_of_nodes => {
                    let text = r#"{"kind":"Status","status":"Failure","code":429,"reason":"TooManyRequests","message":"busy"}"#;
                    let answer = Response::builder().status(429);
                    Ok(answer.body(Body::from(text.as_bytes().to_vec()).boxed_unsync())?)
                }
                _ => {
                    let answer = inner.send(request).await?;
                    Ok::<_, tower::BoxError>(answer.map(|body| body.boxed_unsync()))
                }
            }
        }
    });
    (Client::new(service, "default"), asked)
}

/// The events of a watch, of which the one that ends the first list is delayed.
fn ended_late(body: Body, late: Duration) -> Answered {
    let frames = futures::stream::unfold(body, move |mut body| async move {
        let frame = body.frame().await?;
        let data = frame.as_ref().ok().and_then(|frame| frame.data_ref());
        if data.is_some_and(|data| String::from_utf8_lossy(data).contains("initial-events-end")) {
            tokio::time::sleep(late).await;
        }
        Some((frame, body))
    });
    StreamBody::new(frames).boxed_unsync()
}

/// Runs east's controllers on 20 new nodes, and `z`, which has the machine of `east-1`, until `script` ends.
async fn run_on(
    first_list: FirstList,
    script: impl AsyncFnOnce(&cluster::Cluster, &ScriptedProvider),
) -> (Stopped, Vec<String>) {
    let cluster = cluster::Cluster::new();
    for number in 1..=20 {
        create(&cluster, "east", number).await;
    }
    post(&cluster, node("z").provider_id("east://1")).await;
    let east = cloud("east", CloudMode::Good);
    let (client, asked) = client(&cluster, first_list);
    let (_told, received) = watch::channel(list(&[&east]));
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let stopped = async {
        let _ = stopped.await;
    };
    let mut settings = settings();
    settings.controllers.node_lifecycle = false;
    let running = run_all(client, received, settings, Metrics::default(), stopped);
    let script = async {
        script(&cluster, &east).await;
        let _ = stop.send(());
    };
    let (ended, ()) = tokio::join!(running, script);
    let asked = asked.lock().unwrap().clone();
    (ended.unwrap(), asked)
}

#[tokio::test(start_paused = true)]
async fn the_first_nodes_are_asked_about_at_once_and_judged_when_every_node_is_known() {
    let until = FirstList::StreamedUntil(Duration::from_secs(5));
    let (ended, asked) = run_on(until, async |cluster, east| {
        tokio::time::sleep(Duration::from_secs(4)).await;
        assert_eq!(east.calls().len(), 1, "about the first nodes");
        assert_eq!(waiting(cluster).await.len(), 20, "nothing is written");
        tokio::time::sleep(Duration::from_secs(4)).await;
        assert_eq!(
            waiting(cluster).await,
            ["east-1"],
            "it has the machine of z, which came last"
        );
    })
    .await;
    assert_eq!(ended, Stopped::Drained);
    assert_eq!(asked.len(), 1, "one stream: {asked:?}");
    assert!(
        !asked[0].contains("resourceVersion=") && asked[0].contains("timeoutSeconds=600"),
        "a current state, and time to send it: {asked:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_streams_no_lists_is_read_in_pages() {
    let (_, asked) = run_on(FirstList::Refused, async |cluster, _| {
        tokio::time::sleep(Duration::from_secs(4)).await;
        assert_eq!(waiting(cluster).await, ["east-1"]);
    })
    .await;
    let watches: Vec<bool> = asked.iter().map(|uri| uri.contains("watch=true")).collect();
    assert_eq!(
        watches,
        [true, false, true],
        "refused, a list, a watch: {asked:?}"
    );
    assert!(
        !asked[1].contains("resourceVersion="),
        "a current state: {asked:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_cannot_list_is_asked_less_and_less_often() {
    let (_, asked) = run_on(FirstList::Overloaded, async |_, _| {
        tokio::time::sleep(Duration::from_secs(600)).await;
    })
    .await;
    // At most 30 s apart, after some seconds.
    assert!((15..40).contains(&asked.len()), "{}", asked.len());
}

#[tokio::test(start_paused = true)]
async fn who_stops_before_every_node_is_known_has_nothing_in_flight() {
    let never = FirstList::StreamedUntil(Duration::from_secs(3600));
    let (ended, _) = run_on(never, async |cluster, east| {
        tokio::time::sleep(Duration::from_secs(4)).await;
        assert_eq!(east.calls().len(), 1);
        assert_eq!(waiting(cluster).await.len(), 20);
    })
    .await;
    assert_eq!(ended, Stopped::Drained);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_waits_too_long_for_the_list_is_asked_for_again() {
    let until = FirstList::StreamedUntil(Duration::from_secs(50));
    run_on(until, async |cluster, east| {
        tokio::time::sleep(Duration::from_secs(45)).await;
        assert!(east.calls().len() >= 2, "asked again");
        assert_eq!(waiting(cluster).await.len(), 20);
        tokio::time::sleep(Duration::from_secs(45)).await;
        assert_eq!(waiting(cluster).await, ["east-1"]);
    })
    .await;
}
