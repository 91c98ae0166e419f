//! Persists spent deletion budgets across restarts, in annotations of the manager's own Lease, which every
//! cloud-controller-manager may already read and write. Decides nothing.
//!
//! A withdrawal is written before the change that it pays for is made, so that a process that dies in between has spent
//! budget and deleted nothing. All providers share the annotations: each date carries the provider's name.

use std::sync::Arc;
use std::time::Duration;

use ccm_core::moment::{Moment, Now};
use ccm_core::reconciliation::effect::ClusterError;
use ccm_core::safety::brake::{Brake, ClusterBudgets, Spent};
use ccm_core::safety::tenure::Tenure;
use ccm_core::well_known::{
    SPENT_LOAD_BALANCER_DELETIONS, SPENT_NODE_DELETIONS, SPENT_ROUTE_DELETIONS,
};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::PostParams;
use kube::{Api, Client};

use super::request::by_right;

/// The brakes whose budgets survive a restart, and the annotations that hold the withdrawals: dates, each followed by
/// `=` and the provider's name, separated by commas. Deletions cannot be undone, so that a process that restarts again
/// and again must not get a full budget each time; the next answer corrects the changes that the other brakes hold.
const KEPT: [(Brake, &str); 3] = [
    (Brake::NodeDeletion, SPENT_NODE_DELETIONS),
    (Brake::LoadBalancerDeletion, SPENT_LOAD_BALANCER_DELETIONS),
    (Brake::RouteDeletion, SPENT_ROUTE_DELETIONS),
];
/// Maximum attempts at a write. The election renews the Lease every two seconds, so that conflicts do happen.
const MOST_CONFLICTS: u32 = 10;

/// Namespace and name of a Lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseName {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
}

/// Reads and writes the annotations of the Lease.
pub(crate) struct BudgetLease {
    leases: Option<(Api<Lease>, String)>,
    tenure: Arc<Tenure>,
    /// Whether a warning has said that the Lease may not be read or written.
    is_told: bool,
    /// Number of the last withdrawal that is persisted.
    written: u64,
}

impl BudgetLease {
    /// Uses the Lease of this name; without one, withdrawals are lost at a restart.
    pub(crate) fn new(
        client: Client,
        lease: Option<LeaseName>,
        tenure: Arc<Tenure>,
    ) -> BudgetLease {
        BudgetLease {
            leases: lease.map(|lease| (Api::namespaced(client, &lease.namespace), lease.name)),
            tenure,
            is_told: false,
            written: 0,
        }
    }

    /// Whether withdrawals from this brake's budget survive a restart.
    pub(crate) fn keeps(brake: Brake) -> bool {
        KEPT.iter().any(|(kept, _)| *kept == brake)
    }

    /// Reads the withdrawals of earlier processes that still count: those of the last `window` of each brake. `None`: the
    /// Lease may not be read, at least now; a warning says so once.
    ///
    /// # Errors
    /// The API server cannot be reached now.
    pub(crate) async fn read(
        &mut self,
        at: Now,
        window: impl Fn(Brake) -> Duration,
    ) -> Result<Option<Vec<(Brake, Vec<Spent>)>>, ClusterError> {
        let Some((api, name)) = &self.leases else {
            return Ok(Some(Vec::new()));
        };
        let read = by_right(&self.tenure, api.get(name)).await;
        let Some(lease) = self.unless_refused(read)? else {
            return Ok(None);
        };
        let annotations = lease.and_then(|lease| lease.metadata.annotations);
        let annotations = annotations.unwrap_or_default();
        let spent = |(brake, key): (Brake, &str)| {
            let text = annotations.get(key).map(String::as_str).unwrap_or_default();
            (brake, spent(text, at, window(brake)))
        };
        Ok(Some(KEPT.into_iter().map(spent).collect()))
    }

    /// Whether the withdrawal with this number is persisted.
    pub(crate) fn has(&self, number: u64) -> bool {
        self.written >= number
    }

    /// Persists all withdrawals that still count, those of the last `window` of each brake; `taken` is the number of the last
    /// one. If the Lease may not be read or written, as with `--leader-elect=false`, the budgets are in memory only until the
    /// next write; a warning says so once.
    ///
    /// # Errors
    /// The API server did not store them; a retry may succeed.
    pub(crate) async fn write(
        &mut self,
        budgets: &ClusterBudgets,
        taken: u64,
        at: Now,
        window: impl Fn(Brake) -> Duration,
    ) -> Result<(), ClusterError> {
        let dates = |brake| {
            let counts = |one: &&Spent| one.at.after(window(brake)) > at.moment;
            let spent = budgets.spent(brake).iter().filter(counts);
            let spent: Vec<String> = spent.map(|spent| entry(spent, at)).collect();
            spent.join(",")
        };
        let kept = KEPT.map(|(brake, key)| (key.to_owned(), dates(brake)));
        let Some((api, name)) = &self.leases else {
            return Ok(());
        };
        let stored = store(&self.tenure, api, name, &kept).await;
        if self.unless_refused(stored)?.is_some() {
            self.written = taken;
        }
        Ok(())
    }

    /// The value; `None` after a refusal, which is not for ever: an API server that has just started refuses for a moment
    /// what is allowed, and rights may be granted later.
    fn unless_refused<T>(
        &mut self,
        result: Result<T, ClusterError>,
    ) -> Result<Option<T>, ClusterError> {
        match result {
            Err(error @ (ClusterError::Denied(_) | ClusterError::Rejected(_))) => {
                if !std::mem::replace(&mut self.is_told, true) {
                    tracing::warn!(%error, "spent budgets cannot be saved in the Lease; a restart resets the brakes");
                }
                Ok(None)
            }
            other => other.map(Some),
        }
    }
}

/// Writes the annotations to the Lease of this name, which is created if necessary.
async fn store(
    tenure: &Tenure,
    api: &Api<Lease>,
    name: &str,
    kept: &[(String, String)],
) -> Result<(), ClusterError> {
    let params = PostParams::default();
    let mut last = String::new();
    for _ in 0..MOST_CONFLICTS {
        let stored = match by_right(tenure, api.get(name)).await? {
            Some(mut lease) => {
                let annotations = lease.metadata.annotations.get_or_insert_default();
                annotations.extend(kept.iter().cloned());
                by_right(tenure, api.replace(name, &params, &lease)).await
            }
            None => {
                let lease = Lease {
                    metadata: ObjectMeta {
                        name: Some(name.to_owned()),
                        annotations: Some(kept.iter().cloned().collect()),
                        ..ObjectMeta::default()
                    },
                    spec: None,
                };
                by_right(tenure, api.create(&params, &lease)).await
            }
        };
        match stored {
            Ok(Some(_)) => return Ok(()),
            // The Lease was deleted in between.
            Ok(None) => {}
            Err(ClusterError::Conflict(why)) => last = why,
            Err(error) => return Err(error),
        }
    }
    Err(ClusterError::Conflict(last))
}

fn date(moment: Moment, at: Now) -> String {
    let ago = SignedDuration::try_from(moment.until(at.moment)).unwrap_or(SignedDuration::MAX);
    let date = at.wall.checked_sub(ago).unwrap_or(Timestamp::MIN);
    // Rounded up, so that reading the date back never frees budget early.
    let date = date
        .checked_add(SignedDuration::from_millis(999))
        .unwrap_or(date);
    Timestamp::from_second(date.as_second())
        .unwrap_or(date)
        .to_string()
}

fn entry(spent: &Spent, at: Now) -> String {
    let date = date(spent.at, at);
    match &spent.by {
        Some(by) => format!("{date}={by}"),
        None => date,
    }
}

/// Parses the withdrawals in `text`. Skips entries that are no dates, because other programs may write the annotation,
/// too, and those that are older than `window`: on a machine that has just started, all dates before its start are one
/// moment. A date in the future (wrong clock) counts as now; a date without a provider counts for every provider.
fn spent(text: &str, at: Now, window: Duration) -> Vec<Spent> {
    let moment = |date: &str| {
        let date = date.trim().parse::<Timestamp>().ok()?;
        let ago = Duration::try_from(at.wall.duration_since(date)).unwrap_or_default();
        (ago < window).then(|| Moment(at.moment.0.saturating_sub(ago)))
    };
    let spent = text.split(',').filter_map(|entry| {
        let (date, by) = match entry.split_once('=') {
            Some((date, by)) => (date, Some(by.trim().to_owned())),
            None => (entry, None),
        };
        let by = by.filter(|by| !by.is_empty());
        moment(date).map(|at| Spent { at, by })
    });
    spent.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_secs(600);

    fn clocks(seconds: u64, wall: &str) -> Now {
        Now {
            moment: Moment(Duration::from_secs(seconds)),
            wall: wall.parse().unwrap_or_default(),
        }
    }

    fn spent_by(seconds: u64, by: Option<&str>) -> Spent {
        Spent {
            at: Moment(Duration::from_secs(seconds)),
            by: by.map(str::to_owned),
        }
    }

    #[test]
    fn what_is_written_is_read_by_a_process_with_another_clock() {
        let old = clocks(1000, "2026-11-21T12:00:00Z");
        let text = [spent_by(900, Some("one")), spent_by(1000, Some("two"))]
            .map(|spent| entry(&spent, old))
            .join(",");
        assert_eq!(text, "2026-11-21T11:58:20Z=one,2026-11-21T12:00:00Z=two");
        let new = clocks(5000, "2026-11-21T12:00:10Z");
        let expected = [spent_by(4890, Some("one")), spent_by(4990, Some("two"))];
        assert_eq!(spent(&text, new, WINDOW), expected);
        // Rounded down, it would be free again too early.
        let next = clocks(1000, "2026-11-21T12:00:00.001Z");
        let text = entry(&spent_by(1000, None), next);
        assert_eq!(text, "2026-11-21T12:00:01Z");
    }

    #[test]
    fn what_is_no_date_is_left_out_the_future_is_now_and_a_date_without_a_name_is_everybodys() {
        let now = clocks(100, "2026-11-21T12:00:00Z");
        let read = spent(
            "x=one, 2026-11-21T13:00:00Z= one,,1e9,2026-11-21T11:55:00Z,2026-11-21T11:55:00Z=",
            now,
            WINDOW,
        );
        let expected = [
            spent_by(100, Some("one")),
            spent_by(0, None),
            spent_by(0, None),
        ];
        assert_eq!(read, expected);
    }

    /// As the pages say.
    #[test]
    fn the_budgets_of_deletions_and_no_others_survive_a_restart() {
        for brake in Brake::ALL {
            let is_of_deletions = brake.as_str().ends_with("-deletion");
            assert_eq!(BudgetLease::keeps(brake), is_of_deletions, "{brake}");
        }
    }

    /// As after the reboot of a machine, months after something was deleted.
    #[test]
    fn what_is_older_than_the_window_counts_for_nothing_however_young_the_machine_is() {
        let now = clocks(100, "2026-11-21T12:00:00Z");
        let text = "2020-01-01T00:00:00Z=one,2026-11-21T11:50:00Z=one,2026-11-21T11:51:00Z=one";
        assert_eq!(spent(text, now, WINDOW), [spent_by(0, Some("one"))]);
    }
}
