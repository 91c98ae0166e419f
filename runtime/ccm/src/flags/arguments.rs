//! The table of flags as clap arguments, with the spellings and values that Go's pflag accepts.

use std::ffi::OsString;
use std::time::Duration;

use ccm_core::go_text;
use clap::{Arg, ArgAction, ArgMatches, ValueHint};

use super::table::{self, FLAGS, FlagKind, State};
use crate::cli::GO_NAME;

/// ID of the argument that collects the words without a flag.
const POSITIONAL: &str = "arguments";

/// Headings of `--help` in upstream's order (`NamedFlagSets.Order`); those of the node IPAM controller, of AWS's manager
/// and ours follow.
const SECTIONS: [(&str, &str); 15] = [
    ("debugging", "Debugging flags"),
    ("leader-migration", "Leader-migration flags"),
    ("generic", "Generic flags"),
    ("cloud-node-controller", "Cloud-node-controller flags"),
    ("service-lb-controller", "Service-lb-controller flags"),
    ("webhook", "Webhook flags"),
    ("webhook serving", "Webhook serving flags"),
    ("secure serving", "Secure serving flags"),
    ("authentication", "Authentication flags"),
    ("authorization", "Authorization flags"),
    ("misc", "Misc flags"),
    ("global", GLOBAL),
    ("node-ipam-controller", "Node-ipam-controller flags"),
    ("AWS", "AWS flags"),
    ("wasm", "Wasm flags"),
];
const GLOBAL: &str = "Global flags";

/// Replaces underscores in flag names by dashes, as every Kubernetes binary does.
pub(crate) fn dashed(argument: OsString) -> OsString {
    let Some(text) = argument.to_str().filter(|text| text.starts_with("--")) else {
        return argument;
    };
    match text.split_once('=') {
        Some((name, value)) => format!("{}={value}", name.replace('_', "-")).into(),
        None => text.replace('_', "-").into(),
    }
}

/// `ccm run` with every flag of the table.
pub(crate) fn run_command() -> clap::Command {
    with_flags(clap::Command::new("run"))
        .about("Run the controllers against a real cluster; takes the flags of the Go cloud-controller-manager")
}

/// The same flags as a program of its own, called as upstream's.
pub(crate) fn go_command() -> clap::Command {
    with_flags(clap::Command::new(GO_NAME))
        .bin_name(GO_NAME)
        .override_usage(format!("{GO_NAME} [flags]"))
        .about("The cloud-controller-manager of a Kubernetes cluster, whose cloud providers are sandboxed WebAssembly components.")
}

fn with_flags(command: clap::Command) -> clap::Command {
    let command = command
        // As in Go, the last value of a repeated flag counts; lists are extended.
        .args_override_self(true)
        .disable_version_flag(true)
        .disable_help_flag(true)
        .after_help(AFTER_HELP)
        .arg(Arg::new(POSITIONAL).num_args(0..).hide(true));
    let command = SECTIONS
        .iter()
        .fold(command, |command, (section, heading)| {
            let flags = FLAGS.iter().filter(|flag| flag.section == *section);
            flags.fold(command, |command, flag| {
                command.arg(argument(flag).help_heading(*heading))
            })
        });
    let help = Arg::new("help").short('h').long("help");
    let version = Arg::new("version")
        .long("version")
        .num_args(0..=1)
        .require_equals(true)
        .default_missing_value("true")
        .value_name("FORM")
        .value_parser(asked_version);
    command
        .arg(
            help.action(ArgAction::Help)
                .help("Print this text")
                .help_heading(GLOBAL),
        )
        .arg(
            version
                .help("Print the version and end; raw: with more of what was built")
                .help_heading(GLOBAL),
        )
}

const AFTER_HELP: &str = "\
The Wasm flags belong to this program alone. All others have the names, the defaults and the
meaning of the Go cloud-controller-manager's; where the default is another one, the flag's text
says so. A flag with \"no effect\" is accepted so that a manifest of the Go program
starts. It warns when it asks for something that this program does not do.

DURATION is written as in Go: 500ms, 30s, 1h30m. BOOL takes its value with an equals sign:
--leader-elect=false. LIST is comma-separated, and a repeated flag extends it; of all other
repeated flags the last one counts. Underscores in names count as dashes.

The file name cloud-controller-manager, or one that ends in -cloud-controller-manager, takes
these flags without the word run. `completion bash`, zsh or fish prints a completion script.

Examples:
  HCLOUD_TOKEN=… ccm run --kubeconfig ~/.kube/config --cloud-provider hcloud
  ccm run --config /etc/ccm/ccm.yaml --mode plan --plan-for 2m

Exit codes:
  0  the process was stopped on request, or the plan is empty
  1  an option is wrong, a provider cannot be loaded, or the Lease is lost
  2  the plan is not empty (--plan-for)
  3  no change is known, but not everything could be judged (--plan-for)";

fn argument(flag: &'static table::Flag) -> Arg {
    let help = match flag.state {
        State::Works => flag.help.to_owned(),
        State::Accepted(reason) | State::Fulfilled(_, reason) => {
            format!("{}; no effect: {reason}", flag.help)
        }
    };
    let mut argument = Arg::new(flag.name).help(help).long(flag.name);
    if flag.name == "v" {
        argument = argument.short('v');
    }
    if !flag.default.is_empty() {
        argument = argument.default_value(flag.default);
    }
    if flag.kind == FlagKind::Bool {
        // A bare `--flag` means true; Go does not accept `--flag false`, so the value needs its equals sign.
        return argument
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true")
            .value_name("BOOL")
            .value_parser(go_bool);
    }
    // As in Go, the next word is the flag's value, whatever it begins with: `--controllers -service`.
    let argument = argument.allow_hyphen_values(true);
    match flag.kind {
        FlagKind::Bool | FlagKind::Text => argument.value_name("TEXT"),
        FlagKind::File => argument.value_name("FILE").value_hint(ValueHint::FilePath),
        FlagKind::Folder => argument.value_name("FOLDER").value_hint(ValueHint::DirPath),
        FlagKind::Cidrs => argument.value_name("CIDRS"),
        FlagKind::Number => argument.value_name("N").value_parser(go_number),
        FlagKind::Level => argument.value_name("N").value_parser(go_level),
        FlagKind::Float => argument
            .value_name("N")
            .value_parser(clap::value_parser!(f32)),
        FlagKind::Duration => argument.value_name("DURATION").value_parser(go_duration),
        FlagKind::List => {
            let entries: fn(&str) -> Result<Vec<String>, String> =
                match WITHOUT_QUOTES.contains(&flag.name) {
                    true => plain_list,
                    false => csv_list,
                };
            argument
                .value_name("LIST")
                .value_parser(entries)
                .action(ArgAction::Append)
        }
        FlagKind::Repeated => argument
            .value_name("VALUE")
            .value_parser(only_entry)
            .action(ArgAction::Append),
    }
}

/// Upstream's error about the words that belong to no flag; `None` if there are none. `program` is the name of the
/// program in the error.
pub(crate) fn positional_mistake(matches: &ArgMatches, program: &str) -> Option<String> {
    let words = matches.get_many::<String>(POSITIONAL).into_iter().flatten();
    let words: Vec<&str> = words.map(String::as_str).collect();
    // Upstream accepts empty words: a shell's empty variable in quotes.
    if words.iter().all(|word| word.is_empty()) {
        return None;
    }
    let list = go_text::quoted_list(words.iter().copied());
    let mut text = format!("\"{program}\" does not take any arguments, got {list}\n");
    if words.iter().any(|word| go_bool(word).is_ok()) {
        text.push_str(
            "\n  tip: a switch takes its value with an equals sign, such as --leader-elect=false\n",
        );
    }
    Some(text)
}

/// The form in which the version is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VersionForm {
    /// The version alone, in one line.
    Short,
    /// All properties of the build, one line each.
    Raw,
    /// The same and further properties, as a document in JSON.
    Json,
    /// The same document in YAML.
    Yaml,
}

/// Whether and how `--version` asks for the version.
pub(crate) fn version_form(matches: &ArgMatches) -> Option<VersionForm> {
    let form = matches.get_one::<Option<VersionForm>>("version");
    form.copied().flatten()
}

/// Upstream's values (component-base, `verflag`). A version, which replaces the reported one there, has to be this one.
fn asked_version(text: &str) -> Result<Option<VersionForm>, String> {
    if text == "raw" {
        return Ok(Some(VersionForm::Raw));
    }
    if let Some(version) = text.strip_prefix('v') {
        let own = env!("CARGO_PKG_VERSION");
        return if version == own {
            Ok(None)
        } else {
            Err(format!("this is v{own}, and reports no other version"))
        };
    }
    let is_asked = go_bool(text).map_err(|_| "expected true, false or raw".to_owned())?;
    Ok(is_asked.then_some(VersionForm::Short))
}

/// Accepts the spellings of Go's `strconv.ParseBool`.
pub(crate) fn go_bool(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("expected true or false".to_owned()),
    }
}

/// The lists of upstream's whose type is no `stringSlice`: quotes are part of their entries.
const WITHOUT_QUOTES: [&str; 2] = ["feature-gates", "vmodule"];

fn plain_list(text: &str) -> Result<Vec<String>, String> {
    Ok(text.split(',').map(str::to_owned).collect())
}

fn only_entry(text: &str) -> Result<Vec<String>, String> {
    Ok(vec![text.to_owned()])
}

/// Parses a line of comma-separated values as Go's `encoding/csv` does: an entry may stand in double quotes, in which
/// commas are part of it and a quote is written twice.
fn csv_list(text: &str) -> Result<Vec<String>, String> {
    let mut entries = Vec::new();
    let mut rest = Some(text);
    while let Some(text) = rest {
        let (entry, after) = first_entry(text)
            .ok_or("a double quote belongs at the beginning and at the end of an entry")?;
        entries.push(entry);
        rest = after;
    }
    Ok(entries)
}

/// The first entry, and the text behind the comma after it. `None`: a quote is misplaced.
fn first_entry(text: &str) -> Option<(String, Option<&str>)> {
    let Some(mut rest) = text.strip_prefix('"') else {
        let (entry, after) = match text.split_once(',') {
            Some((entry, after)) => (entry, Some(after)),
            None => (text, None),
        };
        return (!entry.contains('"')).then(|| (entry.to_owned(), after));
    };
    let mut entry = String::new();
    loop {
        let (part, after) = rest.split_once('"')?;
        entry.push_str(part);
        match after.strip_prefix('"') {
            Some(after) => {
                entry.push('"');
                rest = after;
            }
            None if after.is_empty() => return Some((entry, None)),
            None => return Some((entry, Some(after.strip_prefix(',')?))),
        }
    }
}

/// Parses a whole number as Go's `strconv.ParseInt` with base 0 does: decimal, or with the prefix `0x`, `0o`, `0` or
/// `0b`. At most 2³¹ - 1, as upstream's.
pub(super) fn go_number(text: &str) -> Result<u32, String> {
    let digits = text.strip_prefix('+').unwrap_or(text);
    let lower = digits.to_ascii_lowercase();
    let (digits, base) = match lower.as_bytes() {
        [b'0', b'x', ..] => (&lower[2..], 16),
        [b'0', b'o', ..] => (&lower[2..], 8),
        [b'0', b'b', ..] => (&lower[2..], 2),
        [b'0', _, ..] => (&lower[1..], 8),
        _ => (lower.as_str(), 10),
    };
    let number = (!digits.starts_with('+')).then(|| i32::from_str_radix(digits, base).ok());
    let number = number
        .flatten()
        .and_then(|number| u32::try_from(number).ok());
    number.ok_or_else(no_number)
}

/// Parses a verbosity as Go's `strconv.ParseUint` with base 10 and 31 bits does: digits alone.
pub(super) fn go_level(text: &str) -> Result<u32, String> {
    let are_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse::<i32>().ok().filter(|_| are_digits);
    let number = number.and_then(|number| u32::try_from(number).ok());
    number.ok_or_else(no_number)
}

fn no_number() -> String {
    format!("expected a whole number from 0 to {}", i32::MAX)
}

/// Parses a Go duration as `time.ParseDuration` does: numbers with units, such as `1h30m`, `1.5h`, `500ms` or `0`. A
/// negative one is refused.
pub(crate) fn go_duration(text: &str) -> Result<Duration, String> {
    let expected = || "expected a duration such as 5m, 1h30m or 500ms".to_owned();
    let (digits, is_negative) = match text.strip_prefix('-') {
        Some(digits) => (digits, true),
        None => (text.strip_prefix('+').unwrap_or(text), false),
    };
    let nanos = nanoseconds(digits).ok_or_else(expected)?;
    // Go's durations have 63 bits.
    if is_negative && nanos > 0 || i64::try_from(nanos).is_err() {
        return Err(expected());
    }
    Ok(Duration::from_nanos(nanos))
}

fn nanoseconds(text: &str) -> Option<u64> {
    if text == "0" {
        return Some(0);
    }
    let is_number = |letter: char| letter.is_ascii_digit() || letter == '.';
    let (mut rest, mut total) = (text, 0_u64);
    while !rest.is_empty() {
        let end = rest.find(|letter| !is_number(letter))?;
        let (number, after) = rest.split_at_checked(end)?;
        let end = after.find(is_number).unwrap_or(after.len());
        let (unit, after) = after.split_at_checked(end)?;
        let unit: u64 = match unit {
            "ns" => 1,
            "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
            return None;
        }
        let whole: u64 = match whole {
            "" => 0,
            whole => whole.parse().ok()?,
        };
        let mut part = 0;
        let mut place = unit;
        for digit in fraction.bytes() {
            place /= 10;
            part += place * u64::from(digit - b'0');
        }
        total = total.checked_add(whole.checked_mul(unit)?.checked_add(part)?)?;
        rest = after;
    }
    (!text.is_empty()).then_some(total)
}

/// Whether two texts mean the same value of this kind: `12h` and `12h0m0s` do. An invalid text equals only itself.
pub(super) fn same_value(kind: FlagKind, one: &str, other: &str) -> bool {
    fn same<T: PartialEq, E>(parse: impl Fn(&str) -> Result<T, E>, one: &str, other: &str) -> bool {
        matches!((parse(one), parse(other)), (Ok(one), Ok(other)) if one == other)
    }
    one == other
        || match kind {
            FlagKind::Bool => same(go_bool, one, other),
            FlagKind::Number => same(go_number, one, other),
            FlagKind::Level => same(go_level, one, other),
            FlagKind::Float => same(str::parse::<f32>, one, other),
            FlagKind::Duration => same(go_duration, one, other),
            FlagKind::Text
            | FlagKind::File
            | FlagKind::Folder
            | FlagKind::Cidrs
            | FlagKind::List
            | FlagKind::Repeated => false,
        }
}

#[cfg(test)]
mod tests;
