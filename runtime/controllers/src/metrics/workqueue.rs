//! The `workqueue_*` metrics, under upstream's names, labels and buckets. A queue counts through a [`QueueMeter`]; the
//! queues of several providers add up to one series. Decides nothing.

use std::collections::BTreeMap;
use std::fmt::Error;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Weak};

use ccm_core::moment::Moment;
use ccm_metrics::Registration as _;
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::clock::Clock;

ccm_core::named_enum! {
    /// A queue that upstream has metrics for, with its name there.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub(crate) enum QueueName {
        /// The node controller's nodes.
        Nodes = "Nodes",
        /// The service controller's Services.
        Services = "service",
        /// The service controller's changes of nodes: a pass over the load balancers is one item.
        ServiceNodes = "node",
        /// The route controller's passes.
        Routes = "Routes",
        /// The node IPAM controller's nodes.
        PodCidrs = "cidrallocator_node",
    }
}

/// A queue that exists while the weak pointer does.
type LiveQueue = (QueueName, Weak<Live>);
/// Name, help and value of a gauge.
type Gauge = (&'static str, &'static str, fn(&Sum) -> f64);
type ByName = [(&'static str, &'static str); 1];

/// The metrics of all queues. Clones share the same metrics.
#[derive(Debug, Clone)]
pub(crate) struct QueueMetrics {
    adds: Family<ByName, Counter>,
    retries: Family<ByName, Counter>,
    waited: Family<ByName, Histogram>,
    worked: Family<ByName, Histogram>,
    live: Arc<Mutex<Vec<LiveQueue>>>,
}

/// Counts and times the items of one queue. The items count until it is dropped.
#[derive(Debug)]
pub(crate) struct QueueMeter {
    adds: Counter,
    retries: Counter,
    waited: Histogram,
    worked: Histogram,
    live: Arc<Live>,
}

/// The state of one queue.
#[derive(Debug)]
struct Live {
    clock: Clock,
    depth: AtomicI64,
    /// How many items that are being worked on were begun at each moment.
    running: Mutex<BTreeMap<Moment, usize>>,
}

/// Upstream's buckets, 10 ns to 10 s, multiplied one by one as component-base does.
fn buckets() -> impl Iterator<Item = f64> {
    std::iter::successors(Some(10e-9), |bound| Some(bound * 10.0)).take(10)
}

impl QueueMetrics {
    pub(super) fn register(registry: &mut Registry) -> QueueMetrics {
        let histogram = || Histogram::new(buckets());
        let metrics = QueueMetrics {
            adds: registry.add(
                "workqueue_adds",
                "[BETA] Items that became due, by queue",
                Family::default(),
            ),
            retries: registry.add(
                "workqueue_retries",
                "[BETA] Items that were queued again because of a failure or unfinished work, \
                 by queue",
                Family::default(),
            ),
            waited: registry.add(
                "workqueue_queue_duration_seconds",
                "[BETA] Seconds from an item's due time until its processing began, by queue",
                Family::new_with_constructor(histogram),
            ),
            worked: registry.add(
                "workqueue_work_duration_seconds",
                "[BETA] Seconds of processing one item, by queue",
                Family::new_with_constructor(histogram),
            ),
            live: Arc::default(),
        };
        registry.register_collector(Box::new(metrics.clone()));
        metrics
    }

    /// Creates the meter of a new queue.
    pub(crate) fn meter(&self, name: QueueName, clock: Clock) -> QueueMeter {
        let label = [("name", name.as_str())];
        let live = Arc::new(Live {
            clock,
            depth: AtomicI64::new(0),
            running: Mutex::default(),
        });
        let mut all = self.live.lock();
        all.retain(|(_, live)| live.strong_count() > 0);
        all.push((name, Arc::downgrade(&live)));
        QueueMeter {
            adds: self.adds.get_or_create_owned(&label),
            retries: self.retries.get_or_create_owned(&label),
            waited: self.waited.get_or_create_owned(&label),
            worked: self.worked.get_or_create_owned(&label),
            live,
        }
    }
}

impl QueueMeter {
    /// Counts items whose turn has come.
    pub(crate) fn added(&self, count: usize) {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        self.adds.inc_by(count);
        self.waits(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Changes the number of items whose turn has come and that are not being worked on.
    pub(crate) fn waits(&self, change: i64) {
        self.live.depth.fetch_add(change, Ordering::Relaxed);
    }

    /// Records that the work on an item begins, whose turn had come at `due`.
    pub(crate) fn begins(&self, due: Moment, now: Moment) {
        self.waits(-1);
        self.waited.observe(due.until(now).as_secs_f64());
        *self.live.running.lock().entry(now).or_default() += 1;
    }

    /// Records the end of work that began at `began`.
    pub(crate) fn ends(&self, began: Moment, now: Moment) {
        self.worked.observe(began.until(now).as_secs_f64());
        let mut running = self.live.running.lock();
        if let Some(count) = running.get_mut(&began) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                running.remove(&began);
            }
        }
    }

    /// Number of items whose turn has come and that are not being worked on.
    #[cfg(test)]
    pub(crate) fn depth(&self) -> i64 {
        self.live.depth.load(Ordering::Relaxed)
    }

    /// Number of items that are being worked on.
    #[cfg(test)]
    pub(crate) fn running(&self) -> usize {
        self.live.running.lock().values().sum()
    }

    /// Counts an item that was put back because of a failure.
    pub(crate) fn retries(&self) {
        self.retries.inc();
    }
}

/// The sums over all queues of one name.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    depth: i64,
    /// Seconds of work on all items that has not ended.
    unfinished: f64,
    longest: f64,
}

impl QueueMetrics {
    /// The sums of all queues that exist.
    fn sums(&self) -> BTreeMap<QueueName, Sum> {
        let mut sums = BTreeMap::<_, Sum>::new();
        for (name, live) in self.live.lock().iter() {
            let Some(live) = live.upgrade() else { continue };
            let sum = sums.entry(*name).or_default();
            sum.depth += live.depth.load(Ordering::Relaxed);
            let now = live.clock.now();
            for (began, count) in live.running.lock().iter() {
                let age = began.until(now).as_secs_f64();
                sum.unfinished += age * f64::from(u32::try_from(*count).unwrap_or(u32::MAX));
                sum.longest = sum.longest.max(age);
            }
        }
        sums
    }
}

impl Collector for QueueMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let sums = self.sums();
        // Like other families, these are shown only once they have a series.
        if sums.is_empty() {
            return Ok(());
        }
        let gauges: [Gauge; 3] = [
            (
                "workqueue_depth",
                "[BETA] Items that are due and not being processed, by queue.",
                |sum| sum.depth as f64,
            ),
            (
                "workqueue_unfinished_work_seconds",
                "[BETA] Seconds of processing that has not ended, of all items together, by queue.",
                |sum| sum.unfinished,
            ),
            (
                "workqueue_longest_running_processor_seconds",
                "[BETA] Seconds for which the longest-running item has been processed, by queue.",
                |sum| sum.longest,
            ),
        ];
        for (name, help, value) in gauges {
            let zero = ConstGauge::new(0.0);
            let mut metric = encoder.encode_descriptor(name, help, None, zero.metric_type())?;
            for queue in QueueName::ALL {
                let Some(sum) = sums.get(&queue) else {
                    continue;
                };
                let labels = [("name", queue.as_str())];
                ConstGauge::new(value(sum)).encode(metric.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
