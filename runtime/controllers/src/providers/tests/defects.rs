//! Panics in tasks that serve all providers.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use http::Request;
use k8s_openapi::api::core::v1::Event as Recorded;
use kube::Client;
use kube::client::Body;

use super::*;

/// A client of `cluster` whose requests about Events panic while `panics`.
fn client(cluster: &cluster::Cluster, panics: Arc<AtomicBool>) -> Client {
    let inner = cluster.client_as("ccm");
    let service = tower::service_fn(move |request: Request<Body>| {
        let inner = inner.clone();
        let is_of_events = request.uri().path().ends_with("/events");
        let panics = is_of_events && panics.load(Ordering::Relaxed);
        async move {
            assert!(!panics, "on purpose, in a test");
            Ok::<_, tower::BoxError>(inner.send(request).await?)
        }
    });
    Client::new(service, "default")
}

#[tokio::test(start_paused = true)]
async fn events_that_wait_for_nodes_are_written_also_after_a_panic_of_their_writer() {
    let cluster = cluster::Cluster::new();
    let panics = Arc::new(AtomicBool::new(true));
    let client = client(&cluster, panics.clone());
    let script = async {
        for numbers in [1..=3, 4..=6] {
            for number in numbers {
                create(&cluster, "east", number).await;
            }
            tokio::time::sleep(Duration::from_secs(30)).await;
            panics.store(false, Ordering::Relaxed);
        }
    };
    let east = cloud("east", CloudMode::Good);
    let ended = fixtures::run_one(client, east, settings(), Metrics::default(), script);
    ended.await.unwrap();
    let events: Api<Recorded> = Api::all(cluster.client());
    let events = events.list(&ListParams::default()).await.unwrap();
    let about = events
        .into_iter()
        .filter_map(|event| event.involved_object.name);
    let about: BTreeSet<String> = about.collect();
    for number in 4..=6 {
        assert!(about.contains(&format!("east-{number}")), "{about:?}");
    }
}
