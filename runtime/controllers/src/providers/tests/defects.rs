//! Panics in tasks that serve all providers.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use ccm_core::settings::{IpamSettings, OtherAllocatorRules, PodNetwork};
use http::Request;
use k8s_openapi::api::core::v1::Event as Recorded;
use kube::Client;
use kube::client::Body;

use super::*;

/// A client of `cluster` whose requests with a path that ends in `path` panic while `panics`.
fn client(cluster: &cluster::Cluster, path: &'static str, panics: Arc<AtomicBool>) -> Client {
    let inner = cluster.client_as("ccm");
    let service = tower::service_fn(move |request: Request<Body>| {
        let inner = inner.clone();
        let panics = request.uri().path().ends_with(path) && panics.load(Ordering::Relaxed);
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
    let client = client(&cluster, "/events", panics.clone());
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

#[tokio::test(start_paused = true)]
async fn a_plan_awaits_the_first_pass_of_node_ipam_after_a_panic_only_once() {
    let cluster = cluster::Cluster::new();
    post(&cluster, node("a")).await;
    let panics = Arc::new(AtomicBool::new(true));
    let client = client(&cluster, "/leases/kube-controller-manager", panics.clone());
    let settings = Settings {
        controllers: Controllers {
            node_ipam: true,
            ..fixtures::NO_CONTROLLERS
        },
        ipam: Some(IpamSettings {
            families: vec![PodNetwork {
                cluster_cidr: "10.0.0.0/16".parse().unwrap(),
                node_mask: 24,
            }],
            service_cidrs: Vec::new(),
            concurrent_syncs: NonZeroUsize::MIN,
            settle: Duration::from_secs(5),
            other_allocator: OtherAllocatorRules::default(),
        }),
        ..settings()
    };
    let plan = settings.plan.clone();
    let script = async {
        tokio::time::sleep(Duration::from_secs(8)).await;
        assert!(!plan.snapshot().is_whole(), "no pass has ended");
        panics.store(false, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert!(plan.snapshot().is_whole());
    };
    let east = cloud("east", CloudMode::Good);
    let ended = fixtures::run_one(client, east, settings, Metrics::default(), script);
    ended.await.unwrap();
}
