//! Which controllers run in this process, under upstream's name. Decides nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use ccm_core::well_known::COMPONENT;
use ccm_metrics::Registration as _;
use parking_lot::Mutex;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// The running controllers of all providers. Clones share the same metric.
#[derive(Debug, Clone)]
pub(crate) struct RunningControllers {
    gauge: Family<[(&'static str, &'static str); 2], Gauge>,
    /// Number of providers that have a controller of this name.
    counts: Arc<Mutex<BTreeMap<&'static str, usize>>>,
}

/// A controller that runs until this is dropped.
#[derive(Debug)]
pub(crate) struct RunningController {
    name: &'static str,
    all: RunningControllers,
}

impl RunningControllers {
    pub(super) fn register(registry: &mut Registry) -> RunningControllers {
        RunningControllers {
            gauge: registry.add(
                "running_managed_controllers",
                "[BETA] Whether a controller runs in this process, for at least one provider: \
                 1 or 0",
                Family::default(),
            ),
            counts: Arc::default(),
        }
    }

    /// Marks a controller as running. `name` is upstream's name for metrics, such as `cloud-node`.
    pub(crate) fn start(&self, name: &'static str) -> RunningController {
        *self.counts.lock().entry(name).or_default() += 1;
        self.show(name);
        RunningController {
            name,
            all: self.clone(),
        }
    }

    fn show(&self, name: &'static str) {
        let counts = self.counts.lock();
        let runs = counts.get(name).is_some_and(|count| *count > 0);
        let labels = [("name", name), ("manager", COMPONENT)];
        self.gauge.get_or_create(&labels).set(i64::from(runs));
    }
}

impl Drop for RunningController {
    fn drop(&mut self) {
        if let Some(count) = self.all.counts.lock().get_mut(self.name) {
            *count = count.saturating_sub(1);
        }
        self.all.show(self.name);
    }
}
