//! Metrics of provider versions. Decides nothing and starts no server.

use std::time::Duration;

use ccm_core::reconciliation::event::reasons;
use ccm_core::rollout::RolloutState;
use ccm_metrics::Registration as _;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Histogram buckets of a load, in seconds: from a cache hit to the compiler's time limit.
const LOADS: [f64; 9] = [0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 90.0];

/// Labels of the serving version: provider, digest, version, state.
type Info = [(&'static str, String); 4];
/// Labels of a version change: provider, result.
type Change = [(&'static str, String); 2];
/// Label of a provider.
type Of = [(&'static str, String); 1];

/// The metrics of all providers. Clones share the same metrics.
#[derive(Debug, Clone)]
pub struct Metrics {
    info: Family<Info, Gauge>,
    swaps: Family<Change, Counter>,
    loads: Family<Of, Histogram>,
}

impl Default for Metrics {
    /// Creates metrics that no registry exposes.
    fn default() -> Metrics {
        Metrics::register(&mut Registry::default())
    }
}

impl Metrics {
    /// Creates the metrics and registers them.
    pub fn register(registry: &mut Registry) -> Metrics {
        Metrics {
            info: registry.add(
                "ccm_provider_info",
                "The version of a provider that serves, and the provider's state; always 1, \
                 one series for each provider",
                Family::default(),
            ),
            swaps: registry.add(
                "ccm_provider_swaps",
                "Versions of a provider that were activated, rejected or rolled back, by result",
                Family::default(),
            ),
            loads: registry.add(
                "ccm_provider_load_seconds",
                "Seconds from a module's bytes to a provider that has started, \
                 compilation included",
                Family::new_with_constructor(|| Histogram::new(LOADS)),
            ),
        }
    }

    /// Sets the info series of a provider to `now` and removes the series `before`.
    pub(crate) fn stands(&self, before: Option<&Info>, now: &Info) {
        if before == Some(now) {
            return;
        }
        if let Some(before) = before {
            self.info.remove(before);
        }
        self.info.get_or_create(now).set(1);
    }

    /// Removes the series of a provider that no longer exists.
    pub(crate) fn gone(&self, last: &Info) {
        self.info.remove(last);
    }

    /// Adds or removes the series of a provider that is configured and for which no rollout controller runs.
    pub fn show_not_run(&self, provider: &str, is_shown: bool) {
        let info = info(provider, "", "", RolloutState::NotServing);
        if is_shown {
            self.info.get_or_create(&info).set(1);
        } else {
            self.info.remove(&info);
        }
    }

    /// Counts a version that was activated or turned away, if an Event with this reason reports that.
    pub(crate) fn reported(&self, provider: &str, reason: &str) {
        let Some(result) = result(reason) else {
            return;
        };
        let labels = [
            ("provider", provider.to_owned()),
            ("result", result.to_owned()),
        ];
        self.swaps.get_or_create(&labels).inc();
    }

    /// Records the duration of a load.
    pub(crate) fn loaded(&self, provider: &str, took: Duration) {
        let labels = [("provider", provider.to_owned())];
        self.loads
            .get_or_create(&labels)
            .observe(took.as_secs_f64());
    }
}

/// What an Event with this reason reports of a version, as the value of the label, which alerts select. `None`: nothing
/// that is counted.
fn result(reason: &str) -> Option<&'static str> {
    let counted = [
        (reasons::PROVIDER_ACTIVATED, "activated"),
        (reasons::PROVIDER_REJECTED, "rejected"),
        (reasons::PROVIDER_ROLLED_BACK, "rolled-back"),
    ];
    let found = counted.into_iter().find(|(one, _)| one.reason == reason);
    found.map(|(_, result)| result)
}

/// Builds the labels of the serving version.
pub(crate) fn info(provider: &str, digest: &str, version: &str, state: RolloutState) -> Info {
    [
        ("provider", provider.to_owned()),
        ("digest", digest.to_owned()),
        ("version", version.to_owned()),
        ("state", state.as_str().to_owned()),
    ]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::path::Path;

    use ccm_metrics::text::{Format, encode};

    use super::*;

    const ACTIVE: RolloutState = RolloutState::Active;

    /// `tests/metrics/versions.txt` is a scrape of one provider that was loaded once.
    #[test]
    fn a_scrape_is_the_golden_one() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        metrics.stands(None, &info("hcloud", "sha256:0", "0.2.0", ACTIVE));
        metrics.reported("hcloud", reasons::PROVIDER_ACTIVATED.reason);
        metrics.loaded("hcloud", Duration::from_secs(1));
        let found = encode(&registry, Format::Classic).unwrap();
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/metrics/versions.txt");
        if std::env::var_os("CCM_BLESS").is_some() {
            std::fs::write(&path, &found).unwrap();
        }
        let golden = std::fs::read_to_string(&path).unwrap();
        assert_eq!(found, golden, "CCM_BLESS=1 writes it anew");
    }

    #[test]
    fn what_an_event_reports_of_a_version_is_counted_under_the_name_that_alerts_select() {
        for (reason, expected) in [
            (reasons::PROVIDER_ACTIVATED, Some("activated")),
            (reasons::PROVIDER_REJECTED, Some("rejected")),
            (reasons::PROVIDER_ROLLED_BACK, Some("rolled-back")),
            (reasons::PROVIDER_DISTRUSTED, None),
        ] {
            let reason = reason.reason;
            assert_eq!(result(reason), expected, "{reason}");
        }
    }

    #[test]
    fn h8_versions_that_call_themselves_as_they_like_leave_one_series() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let mut before = None;
        for number in 0..1_000 {
            let version = format!("version {number} of a guest's own choice");
            let now = info("cloud", &format!("sha256:{number}"), &version, ACTIVE);
            metrics.stands(before.as_ref(), &now);
            metrics.reported("cloud", reasons::PROVIDER_ACTIVATED.reason);
            metrics.loaded("cloud", Duration::from_secs(1));
            before = Some(now);
        }
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let about = |name: &str| text.lines().filter(|line| line.starts_with(name)).count();
        assert_eq!(about("ccm_provider_info{"), 1, "{text}");
        assert_eq!(about("ccm_provider_swaps_total{"), 1, "{text}");
        metrics.gone(&before.unwrap());
        text.clear();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        assert!(!text.contains("own choice"), "{text}");
    }
}
