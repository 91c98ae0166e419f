//! The registry with all metrics of the program, and the handles that count in it. Serves nothing.

use ccm_controllers::lease::ElectionMetrics;
use ccm_controllers::{RateLimit, RestClients};
use ccm_metrics::build::{self, Build};
use ccm_metrics::process;
use ccm_metrics::requests::RequestMetrics;
use prometheus_client::registry::Registry;

/// This program's build. The commit is that of `CCM_GIT_COMMIT` at build time, if it was set.
pub(crate) const BUILD: Build = Build {
    version: env!("CARGO_PKG_VERSION"),
    commit: match option_env!("CCM_GIT_COMMIT") {
        Some(commit) => commit,
        None => "",
    },
};

/// Handles to registered metrics.
pub(crate) struct Handles {
    /// Metrics of the controllers.
    pub controllers: ccm_controllers::Metrics,
    /// Metrics of leader election.
    pub elections: ElectionMetrics,
    /// Metrics of the providers' versions.
    pub versions: ccm_delivery::metrics::Metrics,
    /// Metrics of the providers' requests.
    pub requests: RequestMetrics,
    /// Metrics of the clients of the API server, with the limit of each.
    pub clients: RestClients,
}

/// Creates and registers every metric that a scrape of this program shows. `limit` applies to each Kubernetes client.
pub(crate) fn register(limit: Option<RateLimit>) -> (Registry, Handles) {
    let mut registry = Registry::default();
    build::register(&mut registry, BUILD);
    process::register(&mut registry);
    let handles = Handles {
        controllers: ccm_controllers::Metrics::register(&mut registry),
        elections: ElectionMetrics::register(&mut registry),
        versions: ccm_delivery::metrics::Metrics::register(&mut registry),
        requests: RequestMetrics::register(&mut registry),
        clients: RestClients::register(&mut registry, limit),
    };
    (registry, handles)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::collections::BTreeSet;

    use ccm_fixtures::metrics::page;
    use ccm_metrics::text::{Format, encode};
    use ccm_serving::Checks;

    use super::*;

    /// The names of all metrics in a registry, with or without series, and without the suffix of counters. A scrape
    /// leaves out what has no series yet. The registry can be asked for all names only in its debug form, where the
    /// metrics of collectors are missing; those are in the scrape if they always have series.
    fn registered(registry: &Registry) -> BTreeSet<String> {
        let debug = format!("{registry:?}");
        let names = debug.split("Descriptor { name: \"").skip(1);
        let names: Vec<&str> = names.filter_map(|rest| rest.split('"').next()).collect();
        let mut registered: BTreeSet<&str> = names.iter().copied().collect();
        assert_eq!(registered.len(), names.len(), "one is registered twice");
        let scrape = encode(registry, Format::OpenMetrics).unwrap();
        let types = scrape
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE "));
        registered.extend(types.filter_map(|line| line.split(' ').next()));
        registered.into_iter().map(str::to_owned).collect()
    }

    fn documented(path: &str) -> BTreeSet<String> {
        let names = page(path).into_iter().map(|row| row.name);
        names
            .map(|name| name.strip_suffix("_total").unwrap_or(&name).to_owned())
            .collect()
    }

    /// The page is made from golden scrapes, so that a metric without a series in them is found here.
    #[test]
    fn the_page_for_operators_has_every_metric_and_no_other() {
        let (registry, _handles) = register(None);
        let mut metrics = registered(&registry);
        // Of the queues' collector, whose series begin with the first queue.
        let collected = [
            "workqueue_depth",
            "workqueue_longest_running_processor_seconds",
            "workqueue_unfinished_work_seconds",
        ];
        metrics.extend(collected.map(str::to_owned));
        assert_eq!(metrics, documented("/metrics"));
        let mut slis = Registry::default();
        let _checks = Checks::new(&mut slis);
        assert_eq!(registered(&slis), documented("/metrics/slis"));
    }
}
