//! Named health checks, and the answers that upstream's health handler makes of them (PROC-070, PROC-072). The reason
//! of a failed check is logged and not answered, because these paths need no authentication.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

use ccm_core::go_text::Quoted;
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Result of one check. The text of an error is for the log.
pub type Health = Result<(), String>;

type Check = Arc<dyn Fn() -> Health + Send + Sync>;
type Named = Vec<(String, Check)>;

/// The checks of a process. Clones share them; checks may be added at any time.
#[derive(Clone, Default)]
pub struct Checks {
    /// The checks in the order in which they were added, with unique names.
    named: Arc<Mutex<Named>>,
    state: Family<[(&'static str, String); 2], Gauge>,
    results: Family<[(&'static str, String); 3], Counter>,
    /// Path and name of each check that failed when it last ran.
    failing: Arc<Mutex<BTreeSet<(String, String)>>>,
}

/// Answer of a health path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Report {
    /// Whether every check passed.
    pub healthy: bool,
    /// The body, in upstream's format.
    pub text: String,
}

impl Checks {
    /// Creates a list with the check `ping` alone, which always passes. Registers the metrics of all checks.
    pub fn new(registry: &mut Registry) -> Checks {
        let checks = Checks::default();
        registry.register(
            "kubernetes_healthcheck",
            "[STABLE] Whether the health check passed when it last ran: 1 or 0. The type is the path that ran it: \
             healthz, livez or readyz",
            checks.state.clone(),
        );
        registry.register(
            "kubernetes_healthchecks",
            "[STABLE] Runs of the health check that ended with this status: success or error. The type is the path that \
             ran it: healthz, livez or readyz",
            checks.results.clone(),
        );
        checks.add("ping", || Ok(()));
        checks
    }

    /// An empty list that counts its results in the same metrics.
    pub fn beside(&self) -> Checks {
        Checks {
            named: Arc::default(),
            ..self.clone()
        }
    }

    /// Adds a check, or replaces the one with this name.
    pub fn add(&self, name: &str, check: impl Fn() -> Health + Send + Sync + 'static) {
        let check: Check = Arc::new(check);
        let mut named = self.named.lock();
        match named.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known = check,
            None => named.push((name.to_owned(), check)),
        }
    }

    /// Runs all checks of all lists but the excluded ones, for the path `/<kind>`.
    pub(crate) fn report(
        lists: &[&Checks],
        kind: &str,
        verbose: bool,
        excluded: &[String],
    ) -> Report {
        let (mut text, mut has_failed) = (String::new(), false);
        let all = lists.iter().flat_map(|list| {
            let named = list.named.lock().clone();
            named
                .into_iter()
                .map(move |(name, check)| (list, name, check))
        });
        let named: Vec<_> = all.collect();
        for (list, name, check) in &named {
            // Writing to a string cannot fail.
            if excluded.contains(name) {
                let _ = writeln!(text, "[+]{name} excluded: ok");
            } else if list.run(kind, name, check).is_err() {
                let _ = writeln!(text, "[-]{name} failed: reason withheld");
                has_failed = true;
            } else {
                let _ = writeln!(text, "[+]{name} ok");
            }
        }
        let mut unknown: Vec<String> = excluded
            .iter()
            .filter(|name| !named.iter().any(|(_, known, _)| known == *name))
            .map(|name| Quoted(name).to_string())
            .collect();
        unknown.sort();
        unknown.dedup();
        if !unknown.is_empty() {
            let _ = writeln!(
                text,
                "warn: some health checks cannot be excluded: no matches for {}",
                unknown.join(", ")
            );
        }
        if has_failed {
            let _ = writeln!(text, "{kind} check failed");
            return Report {
                healthy: false,
                text,
            };
        }
        let _ = writeln!(text, "{kind} check passed");
        Report {
            healthy: true,
            text: if verbose { text } else { "ok".to_owned() },
        }
    }

    /// Forgets the results of all checks so far (`DELETE /metrics/slis`).
    pub(crate) fn forget_results(&self) {
        self.state.clear();
        self.results.clear();
    }

    /// Runs one check, for the path `/<kind>/<name>`, without counting it, as upstream does. `None`: there is no such
    /// check.
    pub(crate) fn report_one(&self, kind: &str, name: &str) -> Option<Report> {
        let named = self.named.lock().clone();
        let (_, check) = named.iter().find(|(known, _)| known == name)?;
        let result = check();
        self.log(kind, name, &result);
        let healthy = result.is_ok();
        Some(Report {
            healthy,
            text: if healthy {
                "ok".to_owned()
            } else {
                "internal server error: reason withheld\n".to_owned()
            },
        })
    }

    fn run(&self, kind: &str, name: &str, check: &Check) -> Health {
        let result = check();
        self.log(kind, name, &result);
        let status = if result.is_ok() { "success" } else { "error" };
        let label = |key, value: &str| (key, value.to_owned());
        let (of, by) = (label("name", name), label("type", kind));
        self.state
            .get_or_create(&[of.clone(), by.clone()])
            .set(i64::from(result.is_ok()));
        self.results
            .get_or_create(&[of, by, label("status", status)])
            .inc();
        result
    }

    /// Logs a check that begins to fail. Its repetitions are for debugging: probes ask every few seconds, and strangers as
    /// often as they like.
    fn log(&self, kind: &str, name: &str, result: &Health) {
        let begins = self.begins_to_fail(kind, name, result);
        let Err(reason) = result else { return };
        if begins {
            tracing::warn!(path = kind, name, reason, "a health check failed");
        } else {
            tracing::debug!(path = kind, name, reason, "a health check failed again");
        }
    }

    /// Whether the check fails now and did not when it last ran for this path.
    fn begins_to_fail(&self, kind: &str, name: &str, result: &Health) -> bool {
        let key = (kind.to_owned(), name.to_owned());
        let mut failing = self.failing.lock();
        match result {
            Ok(()) => {
                failing.remove(&key);
                false
            }
            Err(_) => failing.insert(key),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::path::Path;

    use ccm_metrics::text::{Format, encode};

    use super::*;

    fn checks(named: &[(&str, bool)]) -> Checks {
        let checks = Checks::new(&mut Registry::default());
        for &(name, passes) in named {
            checks.add(name, move || {
                passes
                    .then_some(())
                    .ok_or_else(|| "the secret reason".to_owned())
            });
        }
        checks
    }

    /// Anybody can ask: the log is not theirs to fill.
    #[test]
    fn a_check_that_goes_on_failing_begins_to_fail_once() {
        let checks = checks(&[("bad", false)]);
        let report = |kind| Checks::report(&[&checks], kind, false, &[]);
        assert!(!report("readyz").healthy);
        for (kind, result, expected) in [
            ("readyz", Err("why"), false),
            ("readyz", Err("another reason"), false),
            ("livez", Err("why"), true),
            ("readyz", Ok(()), false),
            ("readyz", Err("why"), true),
        ] {
            let result = result.map_err(str::to_owned);
            assert_eq!(
                checks.begins_to_fail(kind, "bad", &result),
                expected,
                "{kind} {result:?}"
            );
        }
    }

    #[test]
    fn proc_070_test_mutable_healthz_handler() {
        let good = "[+]ping ok\n[+]good ok\nhealthz check passed\n";
        let bad = "[+]ping ok\n[+]good ok\n[-]bad failed: reason withheld\nhealthz check failed\n";
        let report = |named: &[(&str, bool)], verbose| {
            let report = Checks::report(&[&checks(named)], "healthz", verbose, &[]);
            (report.healthy, report.text)
        };
        let both = &[("good", true), ("bad", false)];
        for (case, found, healthy, text) in [
            (
                "TestMutableHealthzHandler/01",
                report(&[], false),
                true,
                "ok",
            ),
            (
                "TestMutableHealthzHandler/02",
                report(&both[..1], false),
                true,
                "ok",
            ),
            (
                "TestMutableHealthzHandler/03",
                report(&both[..1], true),
                true,
                good,
            ),
            (
                "TestMutableHealthzHandler/04",
                report(both, false),
                false,
                bad,
            ),
        ] {
            assert_eq!(found, (healthy, text.to_owned()), "{case}");
        }
        let (case, appended) = ("TestMutableHealthzHandler/05", checks(&both[..1]));
        appended.add("better", || Ok(()));
        assert!(
            Checks::report(&[&appended], "healthz", false, &[]).healthy,
            "{case}"
        );
        let case = "TestMutableHealthzHandler/06";
        appended.add("bad", || Err("the secret reason".to_owned()));
        assert!(
            !Checks::report(&[&appended], "healthz", false, &[]).healthy,
            "{case}"
        );
        let (case, one) = (
            "TestMutableHealthzHandler/07",
            appended.report_one("healthz", "good"),
        );
        assert_eq!(one.map(|one| one.text).as_deref(), Some("ok"), "{case}");
    }

    #[test]
    fn proc_070_a_check_is_left_out_by_its_name() {
        let checks = checks(&[("good", true), ("bad", false)]);
        let report = |verbose| Checks::report(&[&checks], "healthz", verbose, &["bad".to_owned()]);
        assert_eq!(report(false).text, "ok");
        let text = "[+]ping ok\n[+]good ok\n[+]bad excluded: ok\nhealthz check passed\n";
        assert_eq!(report(true).text, text);
    }

    #[test]
    fn proc_070_an_unknown_exclusion_is_a_warning() {
        let report = Checks::report(&[&checks(&[])], "livez", true, &["no\u{1b}".to_owned()]);
        assert!(report.healthy);
        assert_eq!(
            report.text,
            "[+]ping ok\nwarn: some health checks cannot be excluded: no matches for \"no\\x1b\"\nlivez check passed\n"
        );
    }

    #[test]
    fn a_check_that_is_added_later_counts_and_a_name_stands_for_one_check() {
        let case = "TestNamedHealthChecker/01";
        let checks = checks(&[("one", false)]);
        assert!(!Checks::report(&[&checks], "readyz", false, &[]).healthy);
        checks.add("one", || Ok(()));
        assert!(Checks::report(&[&checks], "readyz", false, &[]).healthy);
        checks.add("two", || Err("no".to_owned()));
        assert!(!Checks::report(&[&checks], "readyz", false, &[]).healthy);
        assert_eq!(
            checks.report_one("readyz", "one").map(|one| one.healthy),
            Some(true)
        );
        assert_eq!(
            checks.report_one("readyz", "two").map(|two| two.healthy),
            Some(false)
        );
        assert_eq!(checks.report_one("readyz", "three"), None, "{case}");
    }

    /// Upstream's handler of one check (`adaptCheckToHandler`) counts nothing.
    #[test]
    fn proc_074_a_check_that_is_asked_for_by_its_name_is_not_counted() {
        let mut registry = Registry::default();
        let checks = Checks::new(&mut registry);
        for kind in ["healthz", "livez", "readyz"] {
            let report = checks.report_one(kind, "ping");
            assert_eq!(report.map(|report| report.healthy), Some(true));
        }
        let scrape = encode(&registry, Format::Classic).unwrap();
        assert!(!scrape.contains("name=\"ping\""), "{scrape}");
    }

    /// `tests/metrics/slis.txt` is a scrape after one check. PROC-047 compares its names, types, labels and stability
    /// with those of component-base, metrics/prometheus/slis.
    #[test]
    fn proc_074_results_are_counted_in_upstreams_metrics() {
        let mut registry = Registry::default();
        let checks = Checks::new(&mut registry);
        assert!(Checks::report(&[&checks], "livez", false, &[]).healthy);
        let scrape = encode(&registry, Format::Classic).unwrap();
        for line in [
            "kubernetes_healthcheck{name=\"ping\",type=\"livez\"} 1",
            "kubernetes_healthchecks_total{name=\"ping\",type=\"livez\",status=\"success\"} 1",
        ] {
            assert!(scrape.lines().any(|one| one == line), "{line}: {scrape}");
        }
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/metrics/slis.txt");
        if std::env::var_os("CCM_BLESS").is_some() {
            std::fs::write(&path, &scrape).unwrap();
        }
        let golden = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(scrape, golden, "CCM_BLESS=1 writes it anew");
    }
}
