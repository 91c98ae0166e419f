//! Faults around the controller: of the API server, of the provider, and at shutdown.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use ccm_sim::cluster::{Fault, FaultEffect, Verb};
use futures::StreamExt as _;
use http::Request;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use kube::Client;
use kube::client::Body;

use super::*;

#[tokio::test(start_paused = true)]
async fn an_api_server_without_streaming_lists_is_listed_in_pages() {
    for (refuses, lists) in [(false, false), (true, true)] {
        let cluster = Cluster::new();
        create(&cluster, "worker-1").await;
        if refuses {
            let effect = FaultEffect::Refused {
                code: 422,
                retry_after: None,
            };
            cluster.inject(Fault::next(Verb::Watch, "nodes", effect));
        }
        run_for(&cluster, Arc::new(finds_all()), settings(), 10).await;
        let requests = cluster.requests();
        let has_listed = requests
            .iter()
            .any(|request| request.identity == "ccm" && request.verb == "list");
        assert_eq!(has_listed, lists);
        assert_eq!(left(&cluster).await, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_on_the_wire_at_the_end_is_waited_for_and_nothing_new_begins() {
    let cluster = Cluster::new();
    create(&cluster, "worker-1").await;
    let slow = FaultEffect::Delayed(Duration::from_secs(5));
    cluster.inject(Fault::next(Verb::Patch, "nodes", slow).on("status"));
    let before = tokio::time::Instant::now();
    run_for(&cluster, Arc::new(finds_all()), settings(), 2).await;
    assert!(
        before.elapsed() >= Duration::from_secs(5),
        "it was waited for"
    );
    let node = nodes(&cluster).get("worker-1").await.unwrap();
    assert_eq!(left(&cluster).await, 1, "the second patch was not begun");
    assert_eq!(node.status.unwrap().addresses.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_hangs_costs_a_minute_and_not_the_node() {
    let cluster = Cluster::new();
    create(&cluster, "worker-1").await;
    let hanging = FaultEffect::Delayed(Duration::from_secs(3600));
    cluster.inject(Fault::next(Verb::Patch, "nodes", hanging).on("status"));
    let cloud = Arc::new(finds_all());
    run_for(&cluster, cloud.clone(), settings(), 80).await;
    assert_eq!(left(&cluster).await, 0);
    assert_eq!(cloud.lookup_sizes(), [1], "the cloud is not asked again");
}

#[tokio::test(start_paused = true)]
async fn a_busy_api_server_is_tried_again_when_it_says() {
    for (seconds, waiting) in [(6, 1), (9, 0)] {
        let cluster = Cluster::new();
        create(&cluster, "worker-1").await;
        let busy = FaultEffect::Refused {
            code: 429,
            retry_after: Some(7),
        };
        cluster.inject(Fault::next(Verb::Patch, "nodes", busy).on("status"));
        run_for(&cluster, Arc::new(finds_all()), settings(), seconds).await;
        assert_eq!(left(&cluster).await, waiting, "after {seconds} s");
    }
}

/// A client whose watches tell each event this much later.
fn watching_late(cluster: &Cluster, late: Duration) -> Client {
    let inner = cluster.client_as("ccm");
    let service = tower::service_fn(move |request: Request<Body>| {
        let inner = inner.clone();
        async move {
            let query = request.uri().query().unwrap_or_default();
            let late = match query.contains("watch=true") {
                true => late,
                false => Duration::ZERO,
            };
            let answer = inner.send(request).await?;
            Ok::<_, tower::BoxError>(answer.map(|body| {
                let events = body.into_data_stream().then(move |data| async move {
                    tokio::time::sleep(late).await;
                    data.map(Frame::data)
                });
                StreamBody::new(events)
            }))
        }
    });
    Client::new(service, "default")
}

#[tokio::test(start_paused = true)]
async fn a_retry_does_not_wait_longer_than_the_watch_needs_to_show_our_own_write() {
    let cluster = Cluster::new();
    create(&cluster, "worker-1").await;
    let failing = FaultEffect::Refused {
        code: 500,
        retry_after: None,
    };
    // The node's addresses are written by then.
    cluster.inject(Fault::next(Verb::Patch, "nodes", failing));
    let client = watching_late(&cluster, Duration::from_secs(1));
    let (cloud, metrics) = (Arc::new(finds_all()), Metrics::default());
    let shutdown = tokio::time::sleep(Duration::from_secs(6));
    fixtures::run_one(client, cloud.clone(), settings(), metrics, shutdown)
        .await
        .unwrap();
    assert_eq!(left(&cluster).await, 0);
    assert_eq!(cloud.lookup_sizes(), [1], "the cloud is not asked again");
}

/// A message that a panic might hold.
const LAST_EVENT_TIMEOUT: &str = "a-secret-that-was-at-hand";

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_panics_takes_nothing_else_with_it() {
    let lines = Lines::default();
    let writer = lines.clone();
    let log = tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::DEBUG)
        .with_writer(move || writer.clone());
    // For all tests here: the first thread that logs without a subscriber of its own would switch the line off for all
    // threads.
    tracing::subscriber::set_global_default(log.finish()).unwrap();
    let cluster = Cluster::new();
    cluster.keep_writes();
    create(&cluster, "worker-1").await;
    create(&cluster, "worker-2").await;
    let cloud = Arc::new(behind(|before| {
        assert!(before >= 3, "{LAST_EVENT_TIMEOUT}, on purpose, in a test");
        Ok(())
    }));
    let shutdown = tokio::time::sleep(Duration::from_secs(60));
    let client = cluster.client_as("ccm");
    let running = tokio::spawn(fixtures::run_one(
        client,
        cloud.clone(),
        settings(),
        Metrics::default(),
        shutdown,
    ));
    running.await.unwrap().unwrap();
    assert_eq!(left(&cluster).await, 0);
    assert!(cloud.calls().len() > 3);
    let log = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    assert!(log.contains("ended with a panic"), "{log}");
    assert!(!log.contains(LAST_EVENT_TIMEOUT), "{log}");
    let reported = format!("{:?}", cluster.writes());
    assert!(!reported.contains(LAST_EVENT_TIMEOUT), "{reported}");
}

#[tokio::test(start_paused = true)]
async fn e7_a_cloud_that_comes_back_after_ten_minutes_is_not_overrun() {
    const NODES: usize = 200;
    let cluster = Cluster::new();
    for number in 0..NODES {
        create(&cluster, &format!("worker-{number}")).await;
    }
    let back = tokio::time::Instant::now() + Duration::from_secs(600);
    let during = Arc::<AtomicUsize>::default();
    let counted = during.clone();
    let cloud = Arc::new(behind(move |_| {
        if tokio::time::Instant::now() >= back {
            return Ok(());
        }
        counted.fetch_add(1, Ordering::SeqCst);
        Err(ProviderError::Unavailable("it is away".to_owned()))
    }));
    let shutdown = tokio::time::sleep(Duration::from_secs(1_200));
    let client = cluster.client_as("ccm");
    fixtures::run_one(
        client,
        cloud.clone(),
        settings(),
        Metrics::default(),
        shutdown,
    )
    .await
    .unwrap();
    assert_eq!(left(&cluster).await, 0);
    // One node alone is looked up a dozen times in ten minutes, and all of them together hardly more often.
    let during = during.load(Ordering::SeqCst);
    let afterwards = cloud.lookup_sizes().split_off(during);
    assert!((5..=40).contains(&during), "{during} calls meanwhile");
    assert!(afterwards.len() <= 5, "{afterwards:?}");
    assert!(
        afterwards.iter().sum::<usize>() <= 2 * NODES,
        "{afterwards:?}"
    );
}
