//! The values of flags as Go prints them, in the log and at `/flagz`: the parsed value, whatever its spelling.

use std::collections::BTreeMap;

use ccm_core::go_text::duration_text;
use clap::ArgMatches;

use super::arguments::go_bool;
use super::table::{FLAGS, Flag, FlagKind};
use super::{list, raw};
use crate::api_server_url::redact_login;

/// Upstream's flag of type `mapStringBool`.
const GATES: &str = "feature-gates";
/// The flag of an address that may have a user and a password, which are in no log and on no page.
const MASTER: &str = "master";
/// Upstream's flag of type `pattern=N,...`.
const VMODULE: &str = "vmodule";

/// Every flag with its value, given or not.
pub(crate) fn values(matches: &ArgMatches) -> Vec<(&'static str, String)> {
    let flags = FLAGS.iter();
    flags
        .map(|flag| (flag.name, value(matches, flag)))
        .collect()
}

fn value(matches: &ArgMatches, flag: &Flag) -> String {
    let name = flag.name;
    let parsed = match flag.kind {
        FlagKind::Bool => matches.get_one::<bool>(name).map(bool::to_string),
        FlagKind::Number | FlagKind::Level => matches.get_one::<u32>(name).map(u32::to_string),
        FlagKind::Float => matches.get_one::<f32>(name).map(f32::to_string),
        FlagKind::Duration => matches.get_one(name).copied().map(duration_text),
        FlagKind::List => Some(match (name, list(matches, name)) {
            (GATES, gates) => gates_in_order(&gates),
            (VMODULE, entries) => entries.join(","),
            (_, entries) => {
                let entries: Vec<_> = entries.iter().map(|entry| quoted(entry)).collect();
                format!("[{}]", entries.join(","))
            }
        }),
        FlagKind::Repeated => Some(format!("[{}]", list(matches, name).join(";"))),
        FlagKind::Text | FlagKind::File | FlagKind::Folder | FlagKind::Cidrs => {
            let text = raw(matches, name);
            Some(match name {
                MASTER => redact_login(&text),
                _ => text,
            })
        }
    };
    parsed.unwrap_or_default()
}

/// An entry of a list; in quotes if it could not be told from several otherwise.
fn quoted(entry: &str) -> String {
    match entry.contains([',', '"']) {
        true => format!("\"{}\"", entry.replace('"', "\"\"")),
        false => entry.to_owned(),
    }
}

/// The gates by name. Of two entries for one gate the last one counts.
fn gates_in_order(gates: &[String]) -> String {
    let gates: BTreeMap<_, _> = gates
        .iter()
        .filter_map(|gate| gate.split_once('='))
        .map(|(name, value)| (name.trim(), go_bool(value.trim()).unwrap_or_default()))
        .collect();
    let gates = gates.iter().map(|(name, is_on)| format!("{name}={is_on}"));
    gates.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::flags::{go_duration, run_command};

    #[test]
    fn a_value_is_shown_as_go_prints_what_it_has_parsed() {
        for (words, expected) in [
            // Bool.
            (&[][..], "leader-elect=true"),
            (&["--leader-elect"], "leader-elect=true"),
            (&["--leader-elect=T"], "leader-elect=true"),
            (&["--leader-elect=0"], "leader-elect=false"),
            // Number.
            (&[], "v=0"),
            (&["-v2"], "v=2"),
            (&["--v", "010"], "v=10"),
            (&["--secure-port", "+010"], "secure-port=8"),
            (&["--secure-port=0x1f90"], "secure-port=8080"),
            // Float.
            (&[], "kube-api-qps=-1"),
            (&["--kube-api-qps=5e1"], "kube-api-qps=50"),
            (&["--kube-api-qps=0.10"], "kube-api-qps=0.1"),
            // The flag's own value: `/configz` shows the rate that comes with the burst.
            (&["--kube-api-burst=7"], "kube-api-qps=-1"),
            // Duration.
            (&[], "node-monitor-period=5s"),
            (&["--node-monitor-period=10s"], "node-monitor-period=10s"),
            (&["--node_monitor_period=90s"], "node-monitor-period=1m30s"),
            (&["--node-monitor-period=0"], "node-monitor-period=0s"),
            (&["--min-resync-period=12h"], "min-resync-period=12h0m0s"),
            // Lists.
            (&[], "controllers=[*]"),
            (&["--controllers=-a,*"], "controllers=[-a,*]"),
            (
                &["--controllers=a", "--controllers=,b"],
                "controllers=[a,b]",
            ),
            (
                &["--requestheader-allowed-names=\"a, b\",c"],
                "requestheader-allowed-names=[\"a, b\",c]",
            ),
            (&[], "tls-cipher-suites=[]"),
            (
                &["--tls-curve-preferences=29,23"],
                "tls-curve-preferences=[29,23]",
            ),
            (&[], "tls-sni-cert-key=[]"),
            (
                &["--tls-sni-cert-key=a,b:x,y", "--tls-sni-cert-key=c,d"],
                "tls-sni-cert-key=[a,b:x,y;c,d]",
            ),
            // Pairs.
            (&[], "feature-gates="),
            (
                &["--feature-gates=B=F,A=1", "--feature-gates=B=t"],
                "feature-gates=A=true,B=true",
            ),
            (&[], "vmodule="),
            (&["--vmodule=b=2,a=1"], "vmodule=b=2,a=1"),
            // Texts.
            (&[], "bind-address=0.0.0.0"),
            (&["--cloud-provider", "x"], "cloud-provider=x"),
            (&["--master=10.0.0.1:6443"], "master=10.0.0.1:6443"),
            (
                &["--master=https://me:se/cr@et@10.0.0.1:6443/x"],
                "master=https://10.0.0.1:6443/x",
            ),
            (&["--master=me:secret@ x"], "master= x"),
            (&["--cluster-cidr=10.0.0.0/8"], "cluster-cidr=10.0.0.0/8"),
        ] {
            let command = run_command().no_binary_name(true);
            let matches = command.try_get_matches_from(words.iter().map(|word| {
                // Underscores are replaced, as in every argument of the process.
                crate::flags::dashed(word.into())
            }));
            let values = values(&matches.unwrap());
            let mut shown = values.iter().map(|(name, value)| format!("{name}={value}"));
            assert!(
                shown.any(|shown| shown == expected),
                "{words:?}: {values:?}"
            );
        }
    }

    #[test]
    fn the_defaults_of_durations_are_shown_as_they_are_documented() {
        for flag in FLAGS.iter().filter(|flag| flag.kind == FlagKind::Duration) {
            let written = go_duration(flag.default).map(duration_text);
            assert_eq!(written.as_deref(), Ok(flag.default), "{}", flag.name);
        }
    }
}
