//! The counts of queues, and the metrics under upstream's names.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use prometheus_client::registry::Registry;

use super::*;
use crate::Pace;
use crate::metrics::tests::encoded;
use crate::queue::{Capacity, Queue};

struct World {
    registry: Registry,
    metrics: QueueMetrics,
    clock: Clock,
}

impl World {
    fn new() -> World {
        let mut registry = Registry::default();
        let metrics = QueueMetrics::register(&mut registry);
        let clock = Clock::start(Pace::REAL);
        World {
            registry,
            metrics,
            clock,
        }
    }

    fn queue(&self, name: QueueName) -> Queue {
        Queue::new(self.metrics.meter(name, self.clock))
    }

    #[track_caller]
    fn shows(&self, lines: &[&str]) {
        let text = encoded(&self.registry);
        for line in lines {
            assert!(text.lines().any(|one| one == *line), "{line}: {text}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn names_labels_and_buckets_of_queues_are_upstreams() {
    let world = World::new();
    let mut queue = world.queue(QueueName::Nodes);
    let now = world.clock.now();
    queue.ask("a", now, false);
    queue.ask("b", now, true);
    queue.ask("b", now, false);
    queue.ask("later", now.after(Duration::from_secs(60)), false);
    let begun = now.after(Duration::from_secs(2));
    assert!(queue.take(begun, Capacity::Any).is_some());
    world.shows(&[
        "workqueue_depth{name=\"Nodes\"} 1.0",
        "workqueue_adds_total{name=\"Nodes\"} 2",
        "workqueue_queue_duration_seconds_count{name=\"Nodes\"} 1",
        "workqueue_queue_duration_seconds_bucket{le=\"1e-8\",name=\"Nodes\"} 0",
        "workqueue_queue_duration_seconds_bucket{le=\"1.0\",name=\"Nodes\"} 0",
        "workqueue_queue_duration_seconds_bucket{le=\"10.0\",name=\"Nodes\"} 1",
    ]);
    tokio::time::advance(Duration::from_secs(12)).await;
    world.shows(&[
        "workqueue_unfinished_work_seconds{name=\"Nodes\"} 10.0",
        "workqueue_longest_running_processor_seconds{name=\"Nodes\"} 10.0",
    ]);
    queue.retries();
    queue.finish("b", begun.after(Duration::from_secs(3)));
    world.shows(&[
        "workqueue_unfinished_work_seconds{name=\"Nodes\"} 0.0",
        "workqueue_longest_running_processor_seconds{name=\"Nodes\"} 0.0",
        "workqueue_work_duration_seconds_sum{name=\"Nodes\"} 3.0",
        "workqueue_retries_total{name=\"Nodes\"} 1",
    ]);
}

#[tokio::test]
async fn the_depth_is_what_waits_however_an_object_leaves_its_queue() {
    let world = World::new();
    let (mut queue, mut other) = (
        world.queue(QueueName::Services),
        world.queue(QueueName::Services),
    );
    let now = world.clock.now();
    let depth = |count: &str| {
        let line = format!("workqueue_depth{{name=\"service\"}} {count}");
        world.shows(&[&line]);
    };
    for name in ["a", "b", "c", "d"] {
        queue.ask(name, now, false);
    }
    assert!(queue.take(now, Capacity::Any).is_some());
    depth("3.0");
    queue.hold("b", now.after(Duration::from_secs(9)));
    depth("2.0");
    queue.forget("c");
    depth("1.0");
    // A turn that is requested during a reconciliation of the object waits until that has ended.
    queue.ask("a", now, true);
    depth("1.0");
    queue.finish("a", now);
    depth("2.0");
    other.ask("z", now, false);
    assert!(other.take(now, Capacity::Urgent).is_none());
    depth("3.0");
    drop(other);
    depth("2.0");
    assert!(queue.take(now, Capacity::Any).is_some());
    assert!(queue.take(now, Capacity::Any).is_some());
    assert!(queue.take(now, Capacity::Any).is_none());
    depth("0.0");
    world.shows(&["workqueue_adds_total{name=\"service\"} 6"]);
}
