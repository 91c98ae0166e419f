//! When deferred Events are written, in which order, and which are left at shutdown.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use ccm_core::cloud::EventType;
use ccm_core::safety::tenure::Tenure;
use ccm_core::well_known::NODE_CONTROLLER;
use ccm_sim::cluster::{Cluster, Fault, FaultEffect, Verb, Write};

use super::*;

struct Setup {
    cluster: Cluster,
    events: Events,
    deferred: DeferredEvents,
    new_nodes: NodeWrites,
    known_nodes: NodeWrites,
}

impl Setup {
    fn new() -> Arc<Setup> {
        let cluster = Cluster::new();
        cluster.keep_writes();
        let tenure = Arc::new(Tenure::unlimited());
        let setup = Arc::new(Setup {
            events: Events::new(cluster.client_as("ccm").into(), tenure),
            cluster,
            deferred: DeferredEvents::default(),
            new_nodes: NodeWrites::default(),
            known_nodes: NodeWrites::default(),
        });
        tokio::spawn({
            let setup = setup.clone();
            async move { setup.deferred.write(&setup.events, &setup.new_nodes).await }
        });
        setup
    }

    fn add(&self, name: &str) -> bool {
        let node = NodeRef {
            name: name.to_owned(),
            uid: format!("uid of {name}"),
        };
        let message = "Node synced successfully".to_owned();
        let event = CloudEvent::new(EventType::Normal, "Synced", message);
        self.deferred.add(NODE_CONTROLLER, &node, &event)
    }

    async fn finish(&self) {
        let writes = [&self.new_nodes, &self.known_nodes];
        self.deferred.finish(writes, Duration::from_secs(5)).await;
    }

    /// The nodes of the Events that the API server has, in the order of their creation.
    fn written(&self) -> Vec<String> {
        let writes = self.cluster.writes();
        let name = |write: &Write| {
            let name = &write.body["involvedObject"]["name"];
            name.as_str().unwrap().to_owned()
        };
        writes.iter().map(name).collect()
    }
}

/// Lets all tasks run that can without time passing.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(100)).await;
}

#[tokio::test(start_paused = true)]
async fn events_wait_until_the_last_new_node_is_written() {
    let setup = Setup::new();
    let (first, second) = (setup.new_nodes.begin(), setup.new_nodes.begin());
    for name in ["c", "a", "b"] {
        assert!(setup.add(name));
    }
    settle().await;
    drop(first);
    settle().await;
    assert_eq!(setup.written(), Vec::<String>::new());
    drop(second);
    settle().await;
    let mut written = setup.written();
    written.sort();
    assert_eq!(written, ["a", "b", "c"]);
    // The same again.
    let third = setup.new_nodes.begin();
    setup.add("d");
    settle().await;
    assert_eq!(setup.written().len(), 3);
    drop(third);
    settle().await;
    assert_eq!(setup.written().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn an_orderly_end_writes_every_event_although_nodes_wait() {
    let setup = Setup::new();
    let _waiting = setup.new_nodes.begin();
    for number in 0..100 {
        assert!(setup.add(&format!("n-{number}")));
    }
    settle().await;
    setup.finish().await;
    assert_eq!(setup.written().len(), 100);
}

#[tokio::test(start_paused = true)]
async fn an_orderly_end_writes_the_events_of_nodes_that_are_being_written() {
    let setup = Setup::new();
    let (new, known) = (setup.new_nodes.begin(), setup.known_nodes.begin());
    let before = tokio::time::Instant::now();
    let written = async {
        settle().await;
        assert!(setup.new_nodes.are_closed() && setup.known_nodes.are_closed());
        setup.add("a");
        drop(new);
        settle().await;
        // As its reconciliation does: there is no moment without either of them.
        let writing = setup.deferred.begin();
        drop(known);
        settle().await;
        setup.add("b");
        drop(writing);
    };
    tokio::join!(setup.finish(), written);
    assert_eq!(setup.written(), ["a", "b"]);
    assert!(before.elapsed() < Duration::from_secs(1));
}

/// A new node would wait behind them.
#[tokio::test(start_paused = true)]
async fn few_events_are_on_the_wire_at_once() {
    let setup = Setup::new();
    let slow = FaultEffect::Delayed(Duration::from_secs(1));
    let slow = Fault::next(Verb::Create, "events", slow).times(100);
    setup.cluster.inject(slow);
    for number in 0..100 {
        assert!(setup.add(&format!("n-{number}")));
    }
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!(setup.written().len(), 8);
}

#[tokio::test(start_paused = true)]
async fn an_end_takes_no_longer_than_its_limit() {
    let setup = Setup::new();
    let late = FaultEffect::Delayed(Duration::from_secs(60));
    setup
        .cluster
        .inject(Fault::next(Verb::Create, "events", late));
    setup.add("a");
    let before = tokio::time::Instant::now();
    setup.finish().await;
    assert_eq!(before.elapsed(), Duration::from_secs(5));
}

#[tokio::test(start_paused = true)]
async fn more_events_than_there_can_be_nodes_are_not_kept() {
    let setup = Setup::new();
    let _waiting = setup.new_nodes.begin();
    for number in 0..MOST {
        assert!(setup.add(&number.to_string()));
    }
    assert!(!setup.add("one more"));
}
