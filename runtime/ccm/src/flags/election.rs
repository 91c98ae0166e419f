//! Flags of leader election and leader migration (PROC-040 to PROC-046).

use std::path::PathBuf;
use std::time::Duration;

use ccm_core::safety::lease::Timing;
use clap::ArgMatches;

use super::{path, text};

/// The flags of leader election and shutdown.
pub(crate) struct LeadershipFlags {
    /// `None` with `--leader-elect=false`: runs at once, without a lock.
    pub election: Option<ElectionFlags>,
    /// `--shutdown-drain`.
    pub drain: Duration,
}

/// The lock and its timing.
pub(crate) struct ElectionFlags {
    /// `--leader-elect-lease-duration`, `-renew-deadline` and `-retry-period`.
    pub timing: Timing,
    /// `--leader-elect-resource-name`.
    pub name: String,
    /// `--leader-elect-resource-namespace`; also of the migration's Lease.
    pub namespace: String,
    /// `--enable-leader-migration`.
    pub migration: Option<MigrationFlags>,
}

/// Flags of an enabled leader migration.
pub(crate) struct MigrationFlags {
    /// `--leader-migration-config`; `None`: the built-in configuration.
    pub config: Option<PathBuf>,
}

impl LeadershipFlags {
    /// Reads the flags; adds errors to `mistakes`.
    pub(super) fn read(matches: &ArgMatches, mistakes: &mut Vec<String>) -> LeadershipFlags {
        let drain = duration(matches, "shutdown-drain");
        let is_on = matches.get_one("leader-elect") != Some(&false);
        let election = is_on.then(|| ElectionFlags::read(matches, mistakes));
        LeadershipFlags { election, drain }
    }
}

impl ElectionFlags {
    fn read(matches: &ArgMatches, mistakes: &mut Vec<String>) -> ElectionFlags {
        let timing = Timing {
            lease_duration: duration(matches, "leader-elect-lease-duration"),
            renew_deadline: duration(matches, "leader-elect-renew-deadline"),
            retry_period: duration(matches, "leader-elect-retry-period"),
        };
        mistakes.extend(timing.mistakes().into_iter().map(str::to_owned));
        let lock = text(matches, "leader-elect-resource-lock").unwrap_or_default();
        if lock != "leases" {
            mistakes.push("resourceLock value must be \"leases\"".to_owned());
        }
        let mut named = |flag: &str| {
            let name = text(matches, flag).unwrap_or_default();
            if name.is_empty() {
                mistakes.push(format!("--{flag} cannot be empty"));
            }
            name
        };
        ElectionFlags {
            timing,
            name: named("leader-elect-resource-name"),
            namespace: named("leader-elect-resource-namespace"),
            migration: (matches.get_one("enable-leader-migration") == Some(&true)).then(|| {
                MigrationFlags {
                    config: path(matches, "leader-migration-config"),
                }
            }),
        }
    }
}

/// Warnings about migration flags while the migration is not enabled.
pub(super) fn warnings(matches: &ArgMatches) -> Vec<String> {
    let is_on = |flag: &str| matches.get_one(flag) == Some(&true);
    let mut warnings = Vec::new();
    if is_on("enable-leader-migration") && !is_on("leader-elect") {
        warnings.push("--enable-leader-migration has no effect without --leader-elect".to_owned());
    }
    let file = path(matches, "leader-migration-config");
    if file.is_some() && !is_on("enable-leader-migration") {
        warnings.push(
            "--leader-migration-config has no effect without --enable-leader-migration".to_owned(),
        );
    }
    warnings
}

/// The value of a flag, or its default in the table.
pub(super) fn duration(matches: &ArgMatches, name: &str) -> Duration {
    matches.get_one(name).copied().unwrap_or_default()
}
