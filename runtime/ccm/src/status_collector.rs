//! Collects the contents of the status page: from the controllers, the providers' versions and the elections. Only
//! reads, and only on request; holds no secret.

use std::sync::Arc;

use ccm_controllers::Activity;
use ccm_core::rollout::Trial;
use ccm_core::safety::permit::{Access, Mode};
use ccm_core::safety::tenure::Tenure;
use ccm_core::status_report::{
    CloudQuotaReport, LeaseReport, ProviderReport, ProviderState, StatusReport, TargetReport, Time,
    TrialReport,
};
use ccm_core::well_known::COMPONENT;
use ccm_delivery::record::StoredRecord;
use ccm_delivery::rollout_controller::Served;
use ccm_host::egress::{TargetLevel, now};
use ccm_serving::status::StatusSource;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::provider_manager::ProviderOverview;

/// The sources of the status page. Clones share them.
#[derive(Clone)]
pub(crate) struct StatusCollector(Arc<Parts>);

struct Parts {
    mode: Mode,
    has_election: bool,
    api_server: String,
    started: Timestamp,
    activity: Activity,
    /// `None` until the providers are configured.
    providers: Mutex<Option<watch::Receiver<Arc<[ProviderOverview]>>>>,
    candidacies: Mutex<Vec<(Candidacy, Arc<Tenure>)>>,
}

/// A Lease for which this process is a candidate.
pub(crate) struct Candidacy {
    /// The Lease as `namespace/name`.
    pub lease: String,
    /// The identity of this candidate.
    pub identity: String,
    /// The holder as last read; empty if there is none.
    pub holder: watch::Receiver<String>,
}

impl StatusCollector {
    /// Shows nothing yet but the mode, whether there is an election, and the API server's URL, which must hold no password.
    pub(crate) fn new(mode: Mode, has_election: bool, api_server: String) -> StatusCollector {
        StatusCollector(Arc::new(Parts {
            mode,
            has_election,
            api_server,
            started: Timestamp::now(),
            activity: Activity::default(),
            providers: Mutex::default(),
            candidacies: Mutex::default(),
        }))
    }

    /// The activity in which controllers report.
    pub(crate) fn activity(&self) -> Activity {
        self.0.activity.clone()
    }

    /// Sets the providers to show; later changes are shown, too.
    pub(crate) fn shows_providers(&self, providers: watch::Receiver<Arc<[ProviderOverview]>>) {
        *self.0.providers.lock() = Some(providers);
    }

    /// Adds a Lease for which this process is a candidate, and under which it may act during `tenure`.
    pub(crate) fn add_candidacy(&self, candidacy: Candidacy, tenure: Arc<Tenure>) {
        self.0.candidacies.lock().push((candidacy, tenure));
    }

    /// Returns the function from which the endpoints get reports.
    pub(crate) fn source(&self) -> StatusSource {
        let collector = self.clone();
        Arc::new(move || collector.report())
    }

    fn report(&self) -> StatusReport {
        let (parts, now) = (&*self.0, Timestamp::now());
        let seen = parts.activity.snapshot();
        let candidacies = parts.candidacies.lock();
        let leases = candidacies.iter();
        let leases = leases.map(|(candidacy, tenure)| lease(candidacy, tenure, now));
        let providers = parts.providers.lock();
        let providers = providers
            .as_ref()
            .map(|providers| providers.borrow().clone());
        StatusReport {
            component: COMPONENT.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            mode: parts.mode.as_str().to_owned(),
            api_server: parts.api_server.clone(),
            started: Time(parts.started),
            now: Time(now),
            has_election: parts.has_election,
            leases: leases.collect(),
            providers: providers
                .iter()
                .flat_map(|all| all.iter())
                .map(provider)
                .collect(),
            waiting: seen.waiting,
            is_waiting_cut: seen.is_cut,
            brakes: seen.brakes,
            decisions: seen.decisions,
        }
    }
}

fn lease(candidacy: &Candidacy, tenure: &Tenure, wall: Timestamp) -> LeaseReport {
    let left = now().until(tenure.begins_until());
    let left = SignedDuration::try_from(left).ok();
    LeaseReport {
        lease: candidacy.lease.clone(),
        identity: candidacy.identity.clone(),
        is_leader: tenure.may_begin(now()),
        holder: candidacy.holder.borrow().clone(),
        valid_until: left.and_then(|left| wall.checked_add(left).ok()).map(Time),
    }
}

fn provider(one: &ProviderOverview) -> ProviderReport {
    let mut report = ProviderReport {
        name: one.name.clone(),
        source: one.source.clone(),
        state: ProviderState::Starting,
        trial: None,
        trouble: String::new(),
        targets: Vec::new(),
        annotation_prefixes: Vec::new(),
    };
    match &*one.served.borrow() {
        Served::Starting => {}
        Served::Failed { why, is_final } => {
            report.state = ProviderState::Failed {
                why: why.clone(),
                is_final: *is_final,
            };
        }
        Served::Serving(active) => {
            let loaded = &active.serving().provider;
            report.state = ProviderState::Serving {
                version: loaded.manifest().version.clone(),
                digest: loaded.digest().to_string(),
            };
            report.targets = loaded.targets().into_iter().map(target).collect();
            let granted = ccm_core::cloud_provider::CloudProvider::annotation_prefixes(&**loaded);
            report.annotation_prefixes = granted.to_vec();
        }
    }
    if let StoredRecord::Known {
        record: Some(record),
        ..
    } = &*one.recorded.borrow()
    {
        report.trouble.clone_from(&record.trouble);
        report.trial = record.trial.as_ref().map(trial);
    }
    report
}

fn trial(trial: &Trial) -> TrialReport {
    let since = i64::try_from(trial.since).ok();
    let since = since.and_then(|since| Timestamp::from_second(since).ok());
    TrialReport {
        version: trial.release.version.clone(),
        digest: trial.release.digest.clone(),
        phase: trial.phase.words().to_owned(),
        since: since.map(Time),
        lines: trial.lines.clone(),
    }
}

fn target(level: TargetLevel) -> TargetReport {
    let (writes, reads): (Vec<_>, Vec<_>) = level
        .lines
        .iter()
        .partition(|line| line.access == Access::Write);
    let shown = |lines: Vec<&ccm_host::egress::rules::Line>| {
        // The list shows whether they read or write.
        let lines = lines.into_iter().map(|line| {
            let line = line.to_string();
            let short = line.rsplit_once(" (").map(|(short, _)| short.to_owned());
            short.unwrap_or(line)
        });
        lines.collect()
    };
    TargetReport {
        name: level.name,
        endpoint: level.endpoint.to_string(),
        proxy: level.proxy,
        reads: shown(reads),
        writes: shown(writes),
        requests: level.budget.requests.get(),
        per_seconds: level.budget.per.as_secs(),
        requests_left: level.left,
        held_seconds: level.held.map(|held| held.as_secs().max(1)),
        cloud: level.cloud.map(|cloud| CloudQuotaReport {
            remaining: cloud.remaining,
            limit: cloud.limit,
            reset_seconds: cloud.reset.map(|reset| reset.as_secs()),
            age_seconds: cloud.age.as_secs(),
        }),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::num::NonZeroU32;
    use std::time::Duration;

    use ccm_host::egress::CloudQuota;
    use ccm_host::egress::rules::Rule;
    use ccm_host::grant::RequestBudget;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_target_is_shown_with_its_rights_and_with_what_is_left_of_its_budget() {
        let lines = |method: &str, path: &str, access: &str| {
            let rule = json!({"methods": [method], "path": path, "access": access});
            serde_json::from_value::<Rule>(rule).unwrap().lines()
        };
        let reads = lines("GET", "/servers", "read");
        let writes = lines("DELETE", "/load_balancers/{id}", "write");
        let level = TargetLevel {
            name: "api".to_owned(),
            endpoint: "https://cloud.test/v1".parse().unwrap(),
            proxy: Some("http://proxy.test:3128".to_owned()),
            lines: [reads, writes].concat(),
            budget: RequestBudget {
                requests: NonZeroU32::new(7).unwrap(),
                per: Duration::from_secs(60),
            },
            left: 3,
            // A part of a second is no end of the hold.
            held: Some(Duration::from_millis(1)),
            cloud: Some(CloudQuota {
                remaining: 5,
                limit: Some(9),
                reset: Some(Duration::from_secs(8)),
                age: Duration::from_secs(2),
            }),
        };
        let expected = TargetReport {
            name: "api".to_owned(),
            endpoint: "https://cloud.test/v1".to_owned(),
            proxy: Some("http://proxy.test:3128".to_owned()),
            reads: vec!["GET /servers".to_owned()],
            writes: vec!["DELETE /load_balancers/{id}".to_owned()],
            requests: 7,
            per_seconds: 60,
            requests_left: 3,
            held_seconds: Some(1),
            cloud: Some(CloudQuotaReport {
                remaining: 5,
                limit: Some(9),
                reset_seconds: Some(8),
                age_seconds: 2,
            }),
        };
        assert_eq!(target(level), expected);
    }
}
