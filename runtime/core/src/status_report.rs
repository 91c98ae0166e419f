//! The contents of the status page as values; also its JSON form, which `ccm status` reads. Never holds a secret, a
//! header or a body. Texts may come from clouds, guests and tenants.

use std::fmt;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::safety::brake::{Brake, BudgetLevel};
use crate::well_known::DELETE_UNTIL;

/// The state of the process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusReport {
    /// The component's name, such as `cloud-controller-manager`.
    pub component: String,
    /// Version of the binary, without `v`.
    pub version: String,
    /// `enforce`, or another mode, in which no changes are made.
    pub mode: String,
    /// The URL of the API server.
    pub api_server: String,
    /// When the process started.
    pub started: Time,
    /// When the report was made.
    pub now: Time,
    /// Whether this process takes part in an election: not in every mode. While no provider serves, it is no candidate.
    #[serde(default)]
    pub has_election: bool,
    /// The leases for which this process is a candidate.
    pub leases: Vec<LeaseReport>,
    /// The configured providers, each with its state.
    pub providers: Vec<ProviderReport>,
    /// Objects that wait, those that wait longest first.
    pub waiting: Vec<WaitingReport>,
    /// Whether more objects wait than are kept.
    pub is_waiting_cut: bool,
    /// Brakes whose budget is used.
    pub brakes: Vec<BrakeReport>,
    /// The last decisions, newest first.
    pub decisions: Vec<DecisionReport>,
}

/// A Lease and this process's part in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaseReport {
    /// The Lease as `namespace/name`.
    pub lease: String,
    /// The identity with which this process is a candidate.
    pub identity: String,
    /// Whether this process leads.
    pub is_leader: bool,
    /// The holder as last read; empty if none is known.
    pub holder: String,
    /// Until when this process may act without another renewal.
    pub valid_until: Option<Time>,
}

/// A configured provider, with its module and its grants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProviderReport {
    /// The name of its configuration entry.
    pub name: String,
    /// The source of its module.
    pub source: String,
    /// The version that serves, or why none does.
    pub state: ProviderState,
    /// The version that is on trial, or waits.
    pub trial: Option<TrialReport>,
    /// Why the source cannot be read or a version cannot serve; empty without such an error.
    pub trouble: String,
    /// The targets granted to it. Empty unless it serves.
    pub targets: Vec<TargetReport>,
    /// Prefixes of annotations that it may set on Services.
    pub annotation_prefixes: Vec<String>,
}

/// Whether a version of the provider serves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "camelCase")]
pub enum ProviderState {
    /// No version is loaded yet.
    Starting,
    /// No version serves, because of a failure.
    Failed {
        /// The failure, in one line.
        why: String,
        /// Whether a person has to change something.
        #[serde(rename = "isFinal")]
        is_final: bool,
    },
    /// The version that answers calls now.
    Serving {
        /// The version of its manifest.
        version: String,
        /// `sha256:` and the digest of its module.
        digest: String,
    },
}

/// A version that does not serve yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TrialReport {
    /// The version of its manifest.
    pub version: String,
    /// `sha256:` and the digest of its module.
    pub digest: String,
    /// The phase of the rollout, in words.
    pub phase: String,
    /// When the phase began.
    pub since: Option<Time>,
    /// The conditions that it waits for, or its results; one line each.
    pub lines: Vec<String>,
}

/// A host that a provider may send requests to, with its budget.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetReport {
    /// The name in the manifest.
    pub name: String,
    /// Scheme, host, port and base path.
    pub endpoint: String,
    /// The proxy in front of it, without its login.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<String>,
    /// Requests that only read, one line each.
    pub reads: Vec<String>,
    /// Requests that change something, one line each.
    pub writes: Vec<String>,
    /// The budget: maximum number of requests in [`TargetReport::per_seconds`].
    pub requests: u32,
    /// Seconds until a spent budget is full again.
    pub per_seconds: u64,
    /// Requests that may be sent now.
    pub requests_left: u32,
    /// Seconds until requests may be sent again, after the cloud has asked for a pause.
    pub held_seconds: Option<u64>,
    /// The cloud's last answer about its own rate limit.
    pub cloud: Option<CloudQuotaReport>,
}

/// A cloud's statement about its rate limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CloudQuotaReport {
    /// Requests that the cloud still admits.
    pub remaining: u64,
    /// The cloud's limit, if it states one.
    pub limit: Option<u64>,
    /// Seconds until the cloud's limit is reset.
    pub reset_seconds: Option<u64>,
    /// Seconds since the statement.
    pub age_seconds: u64,
}

impl CloudQuotaReport {
    /// `3512 of 3600`, or the number alone.
    pub fn left(&self) -> String {
        match self.limit {
            Some(limit) => format!("{} of {limit}", self.remaining),
            None => self.remaining.to_string(),
        }
    }

    /// The age of the statement, and when the cloud's limit is reset.
    pub fn when(&self) -> String {
        let age = length(self.age_seconds);
        match self.reset_seconds.filter(|seconds| *seconds > 0) {
            Some(reset) => format!("said {age} ago; resets in {}", length(reset)),
            None => format!("said {age} ago"),
        }
    }
}

/// An object that waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WaitingReport {
    /// `node/<name>`, `service/<namespace>/<name>`, `route/<destination>`, or `routes` for their listing.
    pub object: String,
    /// The provider; `-` for a controller without one.
    pub provider: String,
    /// The controller that tries again.
    pub controller: String,
    /// The reason for waiting.
    pub why: String,
    /// Number of the last attempt, counted from the last success.
    pub attempt: u32,
    /// Since when it waits, for this reason or another.
    pub since: Time,
    /// The next attempt. `None`: when the object changes.
    pub next: Option<Time>,
    /// Whether the object is to be deleted.
    pub is_deletion: bool,
}

/// A brake of one provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BrakeReport {
    /// The brake's name, as in `--brake`.
    pub brake: String,
    /// The provider whose budget this is.
    pub provider: String,
    /// Changes made in the window that ends now.
    pub taken: usize,
    /// Changes allowed in a window.
    pub allowed: usize,
    /// Length of the window, in seconds.
    pub window_seconds: u64,
    /// Whether the budget of all providers together is spent.
    #[serde(default)]
    pub is_spent_by_all: bool,
    /// The change that was held last, unless a later one was allowed.
    pub held: Option<HeldReport>,
    /// How an operator releases the brake.
    pub release: String,
}

/// A change that a brake holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HeldReport {
    /// The object whose change is held.
    pub object: String,
    /// When it was held.
    pub at: Time,
    /// When the budget allows a change again. `None`: the operator allows no such change.
    pub free: Option<Time>,
}

/// A decision that was carried out, or tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DecisionReport {
    /// When it ended; the last time, if it was repeated.
    pub at: Time,
    /// The controller that decided.
    pub controller: String,
    /// The provider; `-` for a controller without one.
    pub provider: String,
    /// The object, written as in [`WaitingReport::object`].
    pub object: String,
    /// The effect's label, as in the log.
    pub effect: String,
    /// The outcome in words; for a failure the error.
    pub outcome: String,
    /// Whether the effect succeeded, so that the rest of the decision could go on.
    pub is_success: bool,
    /// How often it was decided, with the same outcome, without leaving the list.
    pub times: u32,
}

/// A point in time, in RFC 3339 when serialised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub Timestamp);

impl fmt::Display for Time {
    /// Formats the time in RFC 3339, to the second.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0}", self.0)
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:.3}", self.0))
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Time, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Time).map_err(de::Error::custom)
    }
}

impl Time {
    /// `in 12 s` or `3 min ago`, seen from `now`.
    pub fn seen_from(self, now: Time) -> String {
        let seconds = self.0.as_second() - now.0.as_second();
        match seconds {
            0 => "now".to_owned(),
            1.. => format!("in {}", length(seconds.unsigned_abs())),
            ..0 => format!("{} ago", length(seconds.unsigned_abs())),
        }
    }

    /// The time of day, in UTC.
    pub fn of_day(self) -> String {
        self.0.strftime("%H:%M:%S").to_string()
    }
}

/// A duration in its largest suitable unit.
pub fn length(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

impl LeaseReport {
    /// Whether this process holds the Lease and may begin nothing any more: it ends its work before it releases the Lease.
    pub fn is_stopping(&self) -> bool {
        !self.is_leader && self.holder == self.identity
    }
}

impl StatusReport {
    /// Who leads, where this process is a candidate for no Lease.
    pub fn without_candidacy(&self) -> &'static str {
        match (self.has_election, self.mode.as_str()) {
            (true, _) => "this process is no candidate: no provider serves yet",
            (false, "enforce") => "there is no election: this process acts alone",
            (false, _) => "this process takes part in no election, and changes nothing",
        }
    }

    /// The deletions that wait.
    pub fn held_deletions(&self) -> impl Iterator<Item = &WaitingReport> {
        self.waiting.iter().filter(|one| one.is_deletion)
    }

    /// The objects that wait and are not to be deleted.
    pub fn others_waiting(&self) -> impl Iterator<Item = &WaitingReport> {
        self.waiting.iter().filter(|one| !one.is_deletion)
    }
}

impl DecisionReport {
    /// Whether both differ in time and count only.
    pub fn is_like(&self, other: &DecisionReport) -> bool {
        (&self.controller, &self.provider, &self.object)
            == (&other.controller, &other.provider, &other.object)
            && (&self.effect, &self.outcome) == (&other.effect, &other.outcome)
    }
}

impl HeldReport {
    /// Whether it is still held: a change that is not asked for again once there is room is not needed any more.
    pub fn is_waiting(&self, now: Time) -> bool {
        self.free.is_none_or(|free| free > now)
    }
}

impl BrakeReport {
    /// The level of a provider's budget, of which `window` is the window; nothing is held.
    pub fn new(brake: Brake, provider: &str, level: BudgetLevel, window: Duration) -> BrakeReport {
        let window_seconds = window.as_secs();
        let window = length(window_seconds);
        let time = format!("time: each change counts for {window}; --brake sets another allowance");
        let release = match brake {
            Brake::NodeDeletion => format!(
                "{time}; the annotation {DELETE_UNTIL}, with a time, on a node that shall go"
            ),
            _ => time,
        };
        BrakeReport {
            brake: brake.as_str().to_owned(),
            provider: provider.to_owned(),
            taken: level.taken,
            allowed: level.allowed,
            window_seconds,
            is_spent_by_all: false,
            held: None,
            release,
        }
    }

    /// Whether the brake holds changes at this time.
    pub fn is_engaged(&self, now: Time) -> bool {
        self.held.as_ref().is_some_and(|held| held.is_waiting(now))
    }

    /// Whether only the budget of all providers together makes it hold changes.
    pub fn is_engaged_by_all(&self, now: Time) -> bool {
        self.is_engaged(now) && self.is_spent_by_all && self.taken < self.allowed
    }
}
