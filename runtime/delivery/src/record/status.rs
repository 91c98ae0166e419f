//! The form of a provider's `status`, field by field. The definition of the kind is derived from it: a field that is
//! described here stands in it, and no other one. Holds no rules.

use ccm_core::rollout::Phase;
use schemars::JsonSchema;
use serde::Serialize;

use super::Limits;

/// What serves, what is on its way, and what keeps it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderStatus {
    /// The generation of the object whose spec this is about; absent where the spec is not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
    /// In one word how it stands.
    #[schemars(length(max = 64))]
    pub state: &'static str,
    /// The first twelve digits of the digest that serves.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 12))]
    pub short_digest: Option<String>,
    /// The place that was configured when this was written.
    #[schemars(length(max = 2048))]
    pub observed_source: String,
    /// What the version that serves may use, by the operator's limits, its manifest and the leader's memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
    /// Written for people only: the module is a part of the program, and each replica serves its own.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub informational: bool,
    /// The record that every replica obeys.
    #[serde(flatten)]
    pub record: RecordStatus,
    /// `Ready`, `Progressing`, `Degraded` and others, in the standard form.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<ConditionStatus>,
}

/// The versions of a provider.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecordStatus {
    /// The version that serves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active: Option<ActiveStatus>,
    /// The version that served before, and can again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous: Option<ReleaseStatus>,
    /// The version on its way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trial: Option<TrialStatus>,
    /// Versions that are not tried again until somebody says so; the latest first.
    #[schemars(length(max = 32))]
    pub rejected: Vec<RejectedStatus>,
    /// Versions whose wider requests a person has approved; the latest first.
    #[schemars(length(max = 32), inner(regex(pattern = "^sha256:[0-9a-f]{64}$")))]
    pub approved: Vec<String>,
    /// What keeps the source from being read or a version from being served.
    pub trouble: String,
    /// The order `wasm-ccm.dev/roll-back` was carried out, and is being removed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub gone_back: bool,
}

/// One version.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseStatus {
    /// Of its bytes.
    #[schemars(regex(pattern = "^sha256:[0-9a-f]{64}$"))]
    pub digest: String,
    /// As its manifest says.
    #[serde(default)]
    #[schemars(length(max = 128))]
    pub version: String,
    /// Where exactly these bytes can be had again.
    #[serde(default)]
    #[schemars(length(max = 2048))]
    pub origin: String,
}

/// The version that serves.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ActiveStatus {
    /// Which version.
    #[serde(flatten)]
    pub release: ReleaseStatus,
    /// Since when.
    #[schemars(extend("format" = "date-time"))]
    pub since: String,
    /// What it requests, as JSON; compared with what would stand in for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 131072))]
    pub requests: Option<String>,
    /// The highest version that has served since a person last ordered a lower one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub highest_version: Option<String>,
    /// Why it was not tried beside its predecessor, if it was not.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub untried: Option<String>,
}

/// The version on its way.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrialStatus {
    /// Which version.
    #[serde(flatten)]
    pub release: ReleaseStatus,
    /// How far it has come.
    #[schemars(extend("enum" = Phase::ALL.map(Phase::as_str)))]
    pub phase: &'static str,
    /// Since when.
    #[schemars(extend("format" = "date-time"))]
    pub since: String,
    /// What it waits for or has shown so far, for people.
    #[serde(default)]
    #[schemars(length(max = 64))]
    pub lines: Vec<String>,
}

/// A version that is not tried again.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RejectedStatus {
    /// Of its bytes.
    #[schemars(regex(pattern = "^sha256:[0-9a-f]{64}$"))]
    pub digest: String,
    /// As its manifest says.
    #[serde(default)]
    #[schemars(length(max = 128))]
    pub version: String,
    /// Why.
    #[schemars(length(max = 1024))]
    pub reason: String,
    /// Whether it had answered calls, as the version that served or as a canary.
    #[serde(default)]
    pub has_answered: bool,
    /// When.
    #[schemars(extend("format" = "date-time"))]
    pub at: String,
}

/// A condition in the standard form.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConditionStatus {
    /// What it is about.
    #[serde(rename = "type")]
    #[schemars(length(max = 316))]
    pub kind: &'static str,
    /// Whether it is so.
    #[schemars(extend("enum" = ["True", "False", "Unknown"]))]
    pub status: &'static str,
    /// The generation of the object's spec that this is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
    /// When the status last changed.
    #[schemars(extend("format" = "date-time"))]
    pub last_transition_time: String,
    /// Why, in one word.
    #[schemars(length(min = 1, max = 1024))]
    pub reason: &'static str,
    /// Why, for people.
    #[schemars(length(max = 32768))]
    pub message: String,
}
