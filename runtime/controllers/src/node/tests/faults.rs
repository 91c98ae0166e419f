//! What goes wrong around the controller: the API server, the provider, and the end.

use std::sync::Mutex;

use ccm_sim::cluster::{Fault, FaultEffect, Verb};

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
        run_for(&cluster, Everybody::new(), settings(), 10).await;
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
    run_for(&cluster, Everybody::new(), settings(), 2).await;
    assert!(
        before.elapsed() >= Duration::from_secs(5),
        "it was waited for"
    );
    let node = nodes(&cluster).get("worker-1").await.unwrap();
    assert!(is_uninitialized(&node), "the second patch was not begun");
    assert_eq!(node.status.unwrap().addresses.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_hangs_costs_ten_seconds_and_not_the_node() {
    let cluster = Cluster::new();
    create(&cluster, "worker-1").await;
    let hanging = FaultEffect::Delayed(Duration::from_secs(3600));
    cluster.inject(Fault::next(Verb::Patch, "nodes", hanging).on("status"));
    let cloud = Everybody::new();
    run_for(&cluster, cloud.clone(), settings(), 30).await;
    assert_eq!(left(&cluster).await, 0);
    assert_eq!(cloud.calls(), [1], "the cloud is not asked again");
}

/// A cloud whose first calls panic.
struct Panicking(Arc<Everybody>, AtomicUsize);

impl CloudProvider for Panicking {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn schemes(&self) -> &[String] {
        self.0.schemes()
    }

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn find_fresh<'a>(
        &'a self,
        nodes: &'a [CloudNode],
        permit: Arc<Permit>,
    ) -> Reply<'a, FindReply> {
        self.find(nodes, permit)
    }

    fn find<'a>(&'a self, nodes: &'a [CloudNode], permit: Arc<Permit>) -> Reply<'a, FindReply> {
        assert!(
            self.1.fetch_add(1, Ordering::SeqCst) >= 3,
            "{LAST_WORDS}, on purpose, in a test"
        );
        self.0.find(nodes, permit)
    }
}

/// What a panic might hold.
const LAST_WORDS: &str = "a-secret-that-was-at-hand";

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
        .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
        .with_writer(move || writer.clone());
    let _guard = tracing::subscriber::set_default(log.finish());
    let cluster = Cluster::new();
    cluster.keep_writes();
    create(&cluster, "worker-1").await;
    create(&cluster, "worker-2").await;
    let cloud = Arc::new(Panicking(Everybody::new(), AtomicUsize::new(0)));
    let shutdown = tokio::time::sleep(Duration::from_secs(60));
    let client = cluster.client_as("ccm");
    let running = tokio::spawn(crate::run(
        client,
        cloud.clone(),
        settings(),
        Metrics::default(),
        shutdown,
    ));
    running.await.unwrap().unwrap();
    assert_eq!(left(&cluster).await, 0);
    assert!(cloud.1.load(Ordering::SeqCst) > 3);
    let log = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    assert!(log.contains("ended with a panic"), "{log}");
    assert!(!log.contains(LAST_WORDS), "{log}");
    let told = format!("{:?}", cluster.writes());
    assert!(!told.contains(LAST_WORDS), "{told}");
}
