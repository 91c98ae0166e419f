//! Flags about the changes that the manager may make, its records, and where providers run: mode, brakes, audit log,
//! isolation.

use std::path::PathBuf;
use std::time::Duration;

use ccm_core::safety::brake::{Allowance, Allowances, Brake};
use ccm_core::safety::permit::Mode;
use clap::ArgMatches;

use super::{go_duration, list, text};

/// Shortest and longest brake window: a longer one would outlive most processes, and a shorter one has no effect.
const WINDOWS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(24 * 3600)];

/// The values of the flags about changes, records and isolation.
#[derive(Debug)]
pub(crate) struct SafetyFlags {
    /// `--mode`.
    pub mode: Mode,
    /// `--plan-for`; `None`: no time limit.
    pub plan_for: Option<Duration>,
    /// `--brake`.
    pub allowances: Allowances,
    /// `--audit-log-path`.
    pub audit_log: AuditLog,
    /// `--provider-isolation`.
    pub isolation: ProviderIsolation,
    /// `--cloud-proxy`. `None`: not given.
    pub cloud_proxy: Option<CloudProxy>,
}

/// The proxy to the cloud of a provider with built-in grants for which no file names a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum CloudProxy {
    /// Direct connections, without a proxy.
    #[default]
    Direct,
    /// The proxy of `HTTPS_PROXY`, except for hosts in `NO_PROXY`.
    Environment,
}

/// The process in which a provider's guests run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ProviderIsolation {
    /// All providers run in this process.
    #[default]
    InProcess,
    /// Each module runs in its own child process.
    ChildProcess,
}

/// Destination of audit records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AuditLog {
    /// The ordinary log, as lines of its form.
    Log,
    /// Standard output, one JSON object per line.
    Stdout,
    /// Appended to this file, one JSON object per line.
    File(PathBuf),
}

impl SafetyFlags {
    /// Reads clap's matches; adds errors to `mistakes`.
    pub(crate) fn read(matches: &ArgMatches, mistakes: &mut Vec<String>) -> SafetyFlags {
        let word = text(matches, "mode").unwrap_or_default();
        let mode = Mode::parse(&word);
        if mode.is_none() {
            mistakes.push(format!(
                "--mode {word:?}: expected enforce, plan or observe"
            ));
        }
        let isolation = match text(matches, "provider-isolation").as_deref() {
            None | Some("in-process") => ProviderIsolation::InProcess,
            Some("child-process") => ProviderIsolation::ChildProcess,
            Some(other) => {
                mistakes.push(format!(
                    "--provider-isolation {other:?}: expected in-process or child-process"
                ));
                ProviderIsolation::default()
            }
        };
        let cloud_proxy = match text(matches, "cloud-proxy").as_deref() {
            None => None,
            Some("direct") => Some(CloudProxy::Direct),
            Some("environment") => Some(CloudProxy::Environment),
            Some(_) => {
                // Not quoted: the text may be a URL with a password.
                mistakes.push(
                    "--cloud-proxy: expected environment or direct; a URL stands in the file of --config"
                        .to_owned(),
                );
                None
            }
        };
        let plan_for = matches.get_one::<Duration>("plan-for").copied();
        let plan_for = plan_for.filter(|duration| !duration.is_zero());
        if plan_for.is_some() && mode != Some(Mode::Plan) {
            mistakes.push("--plan-for needs --mode=plan".to_owned());
        }
        let mut allowances = Allowances::default();
        for entry in list(matches, "brake") {
            match brake(entry.trim()) {
                Ok((brake, allowance)) => {
                    if !allowances.set(brake, allowance) {
                        mistakes.push(format!("--brake {brake} is there twice"));
                    }
                }
                Err(mistake) => mistakes.push(format!("--brake {entry:?}: {mistake}")),
            }
        }
        SafetyFlags {
            mode: mode.unwrap_or_default(),
            plan_for,
            allowances,
            audit_log: match text(matches, "audit-log-path") {
                None => AuditLog::Log,
                Some(path) if path == "-" => AuditLog::Stdout,
                Some(path) => AuditLog::File(path.into()),
            },
            isolation,
            cloud_proxy,
        }
    }
}

/// Parses `NAME=LEAST:PERCENT:MOST[:WINDOW]`.
fn brake(entry: &str) -> Result<(Brake, Allowance), String> {
    let (name, numbers) = entry
        .split_once('=')
        .ok_or("expected NAME=LEAST:PERCENT:MOST[:WINDOW]")?;
    let brake = Brake::parse(name).ok_or_else(|| {
        let known = Brake::ALL.map(Brake::as_str).join(", ");
        format!("no such brake: known are {known}")
    })?;
    let parts: Vec<_> = numbers.split(':').collect();
    let (numbers, window) = match parts.as_slice() {
        [least, percent, most] => ([*least, *percent, *most], None),
        [least, percent, most, window] => ([*least, *percent, *most], Some(*window)),
        _ => return Err("expected LEAST:PERCENT:MOST, and a window if it is not 10m".to_owned()),
    };
    let number = |text: &str| {
        let number = text.parse::<u32>().ok();
        let number = number.and_then(|number| usize::try_from(number).ok());
        number.ok_or_else(|| format!("{text:?} is not a whole number"))
    };
    let [least, percent, most] = numbers.map(number);
    let (least, percent, most) = (least?, percent?, most?);
    if percent > 100 {
        return Err(format!("{percent} per cent are more than all"));
    }
    if least > most {
        return Err(format!(
            "at least {least} and at most {most} is not possible"
        ));
    }
    let window = match window {
        None => Allowance::default_of(brake).window,
        Some(text) => go_duration(text)?,
    };
    if window < WINDOWS[0] || window > WINDOWS[1] {
        return Err(format!(
            "a window lasts between {:?} and {:?}",
            WINDOWS[0], WINDOWS[1]
        ));
    }
    let allowance = Allowance {
        least,
        percent,
        most,
        window,
    };
    Ok((brake, allowance))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::collections::BTreeMap;

    use super::*;
    use crate::flags::{FLAGS, RunFlags, run_command};

    fn run(arguments: &[&str]) -> Result<SafetyFlags, String> {
        let words = ["run", "--cloud-provider=x"].iter().chain(arguments);
        let matches = run_command()
            .try_get_matches_from(words)
            .map_err(|error| error.to_string())?;
        let flags = RunFlags::from_matches(&matches).map_err(|error| error.to_string())?;
        Ok(flags.safety)
    }

    fn allowance(least: usize, percent: usize, most: usize, seconds: u64) -> Allowance {
        Allowance {
            least,
            percent,
            most,
            window: Duration::from_secs(seconds),
        }
    }

    #[test]
    fn without_flags_it_acts_with_all_brakes_and_audits_into_the_log() {
        let flags = run(&[]).unwrap();
        assert_eq!(flags.mode, Mode::Enforce);
        assert_eq!(flags.allowances, Allowances::default());
        assert_eq!(flags.audit_log, AuditLog::Log);
        assert_eq!(flags.isolation, ProviderIsolation::InProcess);
    }

    #[test]
    fn providers_run_in_processes_of_their_own_when_it_is_said() {
        let flags = run(&["--provider-isolation=child-process"]).unwrap();
        assert_eq!(flags.isolation, ProviderIsolation::ChildProcess);
    }

    #[test]
    fn the_environments_proxy_counts_where_it_is_said() {
        for (flag, expected) in [
            (&[][..], None),
            (
                &["--cloud-proxy=environment"],
                Some(CloudProxy::Environment),
            ),
            (&["--cloud-proxy=direct"], Some(CloudProxy::Direct)),
        ] {
            assert_eq!(run(flag).unwrap().cloud_proxy, expected, "{flag:?}");
        }
        let text = run(&["--cloud-proxy=http://me:secret@proxy.test"]).unwrap_err();
        assert!(text.contains("expected environment or direct"), "{text}");
        assert!(!text.contains("secret"), "{text}");
    }

    #[test]
    fn brakes_are_set_one_by_one_or_in_a_list() {
        let flags = run(&[
            "--brake=node-deletion=1:5:10,relabel=0:0:0",
            "--brake",
            "cloud-mutations=60:0:60:1m",
        ])
        .unwrap();
        for brake in Brake::ALL {
            let expected = match brake {
                Brake::NodeDeletion => allowance(1, 5, 10, 600),
                Brake::Relabel => allowance(0, 0, 0, 600),
                Brake::CloudMutations => allowance(60, 0, 60, 60),
                other => Allowance::default_of(other),
            };
            assert_eq!(flags.allowances.of(brake), expected, "{brake}");
        }
    }

    #[test]
    fn all_mistakes_are_told_at_once_and_unknown_names_list_the_known() {
        let text = run(&[
            "--mode=simulate",
            "--provider-isolation=vm",
            "--brake=node-deletions=1:2:3",
            "--brake=relabel=1:2,relabel=a:2:3,relabel=1:101:200",
            "--brake=status-clear=5:1:4,route-deletion=1:1:1:0,internal-ip=1:1:1:soon",
            "--brake=shutdown-taint=1:1:1,shutdown-taint=2:2:2,lonely",
        ])
        .unwrap_err();
        for part in [
            "--mode \"simulate\": expected enforce, plan or observe",
            "--provider-isolation \"vm\": expected in-process or child-process",
            "\"node-deletions=1:2:3\": no such brake: known are internal-ip, relabel, node-deletion",
            "\"relabel=1:2\": expected LEAST:PERCENT:MOST",
            "\"a\" is not a whole number",
            "101 per cent are more than all",
            "at least 5 and at most 4 is not possible",
            "a window lasts between 1s and 86400s",
            "expected a duration such as 5m",
            "--brake shutdown-taint is there twice",
            "\"lonely\": expected NAME=LEAST:PERCENT:MOST[:WINDOW]",
        ] {
            assert!(text.contains(part), "{part:?} is not in {text}");
        }
    }

    #[test]
    fn modes_and_places_of_the_audit_log() {
        for mode in Mode::ALL {
            let flag = format!("--mode={}", mode.as_str());
            assert_eq!(run(&[&flag]).unwrap().mode, mode);
        }
        for (given, expected) in [
            ("", AuditLog::Log),
            ("-", AuditLog::Stdout),
            ("/a/b", AuditLog::File("/a/b".into())),
        ] {
            let flag = format!("--audit-log-path={given}");
            assert_eq!(run(&[&flag]).unwrap().audit_log, expected);
        }
        let plan = run(&["--mode=plan", "--plan-for=2m"]).unwrap();
        assert_eq!(plan.plan_for, Some(Duration::from_secs(120)));
        assert_eq!(run(&["--mode=plan"]).unwrap().plan_for, None);
        let text = run(&["--plan-for=2m"]).unwrap_err();
        assert!(text.contains("--plan-for needs --mode=plan"), "{text}");
    }

    #[test]
    fn the_help_of_brakes_says_the_defaults() {
        let help = FLAGS.iter().find(|flag| flag.name == "brake").unwrap().help;
        let (_, defaults) = help.split_once("Defaults: ").unwrap();
        let mut given = BTreeMap::new();
        for group in defaults.split("; ") {
            let (names, numbers) = group.rsplit_once(' ').unwrap();
            for name in names.split(", ") {
                given.insert(name, brake(&format!("{name}={numbers}")).unwrap());
            }
        }
        for brake in Brake::ALL {
            let expected = (brake, Allowance::default_of(brake));
            assert_eq!(given[brake.as_str()], expected, "{brake}");
        }
    }
}
