//! Registers a metric in the expression that makes it, so that its name and its help stand beside its field. Measures
//! nothing.

use prometheus_client::registry::{Metric, Registry};

/// Registers metrics and returns them.
pub trait Registration {
    /// Registers `metric` under this name, to which the client appends `_total` if it is a counter.
    #[must_use]
    fn add<M: Metric + Clone>(&mut self, name: &str, help: &str, metric: M) -> M;
}

impl Registration for Registry {
    fn add<M: Metric + Clone>(&mut self, name: &str, help: &str, metric: M) -> M {
        self.register(name, help, metric.clone());
        metric
    }
}
