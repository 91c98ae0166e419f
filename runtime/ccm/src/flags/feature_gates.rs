//! `--feature-gates`: the gates that upstream's cloud-controller-manager knows, and the effect of each in this program.
//!
//! This program has no gates of its own. A setting that this program fulfils anyway is silent; any other one warns.
//! Names, stages and errors are upstream's (component-base, `featuregate`, v0.36).

use std::collections::BTreeMap;

use ccm_core::go_text::Quoted;
use clap::ArgMatches;

use super::arguments::go_bool;
use super::list;
use Here::{Always, LoggingBeta, Never, Unused};
use Stage::{Alpha, Beta};

/// A gate that upstream's manager reads.
struct Gate {
    name: &'static str,
    stage: Stage,
    here: Here,
}

/// Stage of a gate; `AllAlpha` and `AllBeta` set all gates of one stage.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Alpha,
    Beta,
}

/// Effect of a gate in this program.
#[derive(Clone, Copy)]
enum Here {
    /// The feature is always on, for this reason; `=false` warns.
    Always(&'static str),
    /// The feature is never on, for this reason; `=true` warns.
    Never(&'static str),
    /// `=false` forbids `--logging-format=json`, as upstream.
    LoggingBeta,
    /// Upstream's manager registers the gate and does not use it.
    Unused,
}

const fn gate(name: &'static str, stage: Stage, here: Here) -> Gate {
    Gate { name, stage, here }
}

const GATES: &[Gate] = &[
    gate(
        "CloudControllerManagerWatchBasedRoutesReconciliation",
        Alpha,
        Always("routes always follow the changes of nodes, besides --route-reconciliation-period"),
    ),
    gate(
        "CloudControllerManagerWebhook",
        Alpha,
        Never("webhooks are not served"),
    ),
    gate(
        "ControllerManagerReleaseLeaderElectionLockOnExit",
        Alpha,
        Always("a process that is stopped always releases its Lease"),
    ),
    gate(
        "ContextualLogging",
        Beta,
        Always("log lines always name their object"),
    ),
    gate(
        "LoggingAlphaOptions",
        Alpha,
        Never("the log is one stream without a buffer"),
    ),
    gate("LoggingBetaOptions", Beta, LoggingBeta),
    gate(
        "NativeHistograms",
        Alpha,
        Never("histograms have fixed buckets"),
    ),
    gate("ComponentFlagz", Beta, Unused),
    gate("ComponentStatusz", Beta, Unused),
];

/// Gates of the generic API server's library. Upstream's manager shares its registry and knows them; they do not
/// concern a manager.
#[rustfmt::skip]
const API_SERVER: &[&str] = &[
    "APIResponseCompression", "APIServerIdentity", "APIServingWithRoutine", "AggregatedDiscoveryRemoveBetaType",
    "AllowParsingUserUIDFromCertAuth", "AllowUnsafeMalformedObjectDeletion", "CBORServingAndStorage",
    "ConcurrentWatchObjectDecode", "ConstrainedImpersonation", "CoordinatedLeaderElection",
    "DeclarativeValidationBeta", "DeclarativeValidationTakeover", "DetectCacheInconsistency", "KMSv1",
    "ListFromCacheSnapshot", "ManifestBasedAdmissionControlConfig", "MutatingAdmissionPolicy", "OpenAPIEnums",
    "RemoteRequestHeaderUID", "ShardedListAndWatch", "SizeBasedListCostEstimate", "StorageVersionAPI",
    "StorageVersionHash", "StructuredAuthenticationConfigurationEgressSelector",
    "StructuredAuthenticationConfigurationJWKSMetrics", "TokenRequestServiceAccountUIDValidation",
    "UnauthenticatedHTTP2DOSMitigation", "UnknownVersionInteroperabilityProxy",
    "WatchCacheInitializationPostStartHook", "WatchList",
];

/// Gates of that library that are locked to this value.
#[rustfmt::skip]
const API_SERVER_LOCKED: &[(&str, bool)] = &[
    ("APIServerTracing", true), ("AggregatedDiscoveryRemoveBetaType", true),
    ("AnonymousAuthConfigurableEndpoints", true), ("AuthorizeWithSelectors", true), ("BtreeWatchCache", true),
    ("ConsistentListFromCache", true), ("DeclarativeValidation", true),
    ("ResilientWatchCacheInitialization", true), ("RetryGenerateName", true), ("SeparateCacheWatchRPC", false),
    ("StreamingCollectionEncodingToJSON", true), ("StreamingCollectionEncodingToProtobuf", true),
    ("StructuredAuthenticationConfiguration", true),
];

/// The values that `--feature-gates` sets.
#[derive(Debug, Default)]
pub(super) struct FeatureGates(BTreeMap<String, bool>);

impl FeatureGates {
    /// Reads the flag; adds errors to `mistakes`.
    pub(super) fn read(matches: &ArgMatches, mistakes: &mut Vec<String>) -> FeatureGates {
        let mut gates = FeatureGates::default();
        for entry in list(matches, "feature-gates") {
            if let Err(mistake) = gates.set(&entry) {
                mistakes.push(format!(
                    "invalid argument {} for \"--feature-gates\" flag: {mistake}",
                    Quoted(&entry)
                ));
            }
        }
        gates
    }

    /// Sets one `NAME=BOOL`. The errors are upstream's.
    fn set(&mut self, entry: &str) -> Result<(), String> {
        let (name, value) = match entry.split_once('=') {
            Some((name, value)) => (name.trim(), value.trim()),
            None => return Err(format!("missing bool value for {}", entry.trim())),
        };
        let value = go_bool(value).map_err(|_| {
            format!(
                "invalid value of {name}={value}, err: strconv.ParseBool: parsing {}: invalid syntax",
                Quoted(value)
            )
        })?;
        let locked = API_SERVER_LOCKED.iter().find(|(known, _)| *known == name);
        if let Some((_, only)) = locked
            && *only != value
        {
            return Err(format!(
                "cannot set feature gate {name} to {value}, feature is locked to {only}"
            ));
        }
        let is_known = ["AllAlpha", "AllBeta"].contains(&name)
            || locked.is_some()
            || API_SERVER.contains(&name)
            || GATES.iter().any(|gate| gate.name == name);
        if !is_known {
            return Err(format!("unrecognized feature gate: {name}"));
        }
        self.0.insert(name.to_owned(), value);
        Ok(())
    }

    /// The value that the flag gives a gate: by its name, or by its stage. `None`: none.
    fn requested(&self, gate: &Gate) -> Option<bool> {
        let all = match gate.stage {
            Alpha => "AllAlpha",
            Beta => "AllBeta",
        };
        let value = self.0.get(gate.name).or_else(|| self.0.get(all));
        value.copied()
    }

    /// Whether `LoggingBetaOptions` is on, as it is by default.
    pub(super) fn has_logging_beta_options(&self) -> bool {
        let off =
            |gate: &&Gate| matches!(gate.here, LoggingBeta) && self.requested(gate) == Some(false);
        !GATES.iter().any(|gate| off(&gate))
    }

    /// Warnings about gates whose effect this program does not have.
    pub(super) fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        for gate in GATES {
            let warning = match (gate.here, self.requested(gate)) {
                (Always(reason), Some(false)) => Some(("false", reason)),
                (Never(reason), Some(true)) => Some(("true", reason)),
                (Always(_) | Never(_) | LoggingBeta | Unused, _) => None,
            };
            if let Some((value, reason)) = warning {
                warnings.push(format!(
                    "--feature-gates={}={value} has no effect: {reason}",
                    gate.name
                ));
            }
        }
        warnings
    }
}

#[cfg(test)]
mod tests;
