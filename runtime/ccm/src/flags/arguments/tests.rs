#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use super::*;
use crate::flags::{RunFlags, given, list, raw, shown_values};

/// Parses with both programs that take the flags.
fn parse(words: &[&str]) -> Result<ArgMatches, String> {
    let parse = |command: clap::Command| {
        let words = ["program"].iter().chain(words);
        command
            .try_get_matches_from(words.map(|word| dashed(word.into())))
            .map_err(|error| error.to_string())
    };
    let [run, go] = [parse(run_command()), parse(go_command())];
    assert_eq!(run.is_ok(), go.is_ok(), "{words:?}");
    go
}

/// Values of each kind, and their text as upstream prints it.
fn values(kind: FlagKind) -> &'static [&'static str] {
    match kind {
        FlagKind::Bool => &[
            "true", "t", "T", "TRUE", "True", "1", "false", "f", "F", "FALSE", "False", "0",
        ],
        FlagKind::Text => &["text", "a b", "a=b", "-x", "--cloud-provider=x", ""],
        FlagKind::File | FlagKind::Folder => &["/a/b_c", "-", "rel/ative", ""],
        FlagKind::Cidrs => &["10.0.0.0/8", "10.0.0.0/8,fd00::/8", ""],
        FlagKind::Number => &["0", "7", "+7", "0x10", "0o17", "017", "0b11", "2147483647"],
        FlagKind::Level => &["0", "7", "017", "2147483647"],
        FlagKind::Float => &["0", "1.5", "1e3", "+20"],
        FlagKind::Duration => &[
            "0", "0s", "5m", "1h2m3s", "1.5h", "250ms", "3us", "3µs", "9ns",
        ],
        FlagKind::Repeated => &["/a.crt,/a.key", "/a.crt,/a.key:a.example.com,b"],
        FlagKind::List => &["a", "a,b,c", "-a,*", "a=b,c=d"],
    }
}

#[test]
fn upstream_add_flags_every_flag_is_accepted_in_every_spelling_of_pflags() {
    let case = "TestAddFlags/01";
    for flag in FLAGS {
        let name = flag.name;
        let underscored = name.replace('-', "_");
        for value in values(flag.kind) {
            let mut spellings = vec![
                vec![format!("--{name}={value}")],
                vec![format!("--{underscored}={value}")],
            ];
            if flag.kind != FlagKind::Bool {
                spellings.push(vec![format!("--{name}"), (*value).to_owned()]);
                spellings.push(vec![format!("--{underscored}"), (*value).to_owned()]);
            }
            if name == "v" {
                spellings.push(vec![format!("-v={value}")]);
                spellings.push(vec![format!("-v{value}")]);
                spellings.push(vec!["-v".to_owned(), (*value).to_owned()]);
            }
            for spelling in spellings {
                let words: Vec<&str> = spelling.iter().map(String::as_str).collect();
                let matches = parse(&words).unwrap_or_else(|error| panic!("{words:?}: {error}"));
                assert!(given(&matches, name), "{case}: {words:?}");
                // A value of its own that begins with two dashes loses its underscores, as a flag would.
                assert_eq!(raw(&matches, name), *value, "{words:?}");
                assert_eq!(positional_mistake(&matches, "x"), None, "{words:?}");
            }
        }
    }
}

#[test]
fn upstream_default_flags_names_kinds_and_defaults_are_upstreams() {
    let case = "TestDefaultFlags/01";
    let differs = [
        ("concurrent-node-syncs", "16"),
        ("concurrent-service-syncs", "16"),
        // No limit.
        ("kube-api-qps", "-1"),
        // Routes follow the changes of nodes here, so that a listing every ten seconds is not needed.
        ("route-reconciliation-period", "5m0s"),
    ];
    let upstream = include_str!("../upstream_flags.txt").lines().skip(1);
    let mut names = Vec::new();
    for line in upstream {
        let parts: Vec<_> = line.split('|').map(str::trim).collect();
        let [name, kind, default] = parts.as_slice() else {
            panic!("{line}");
        };
        let flag = FLAGS.iter().find(|flag| flag.name == *name).expect(name);
        let list = default
            .strip_prefix('[')
            .and_then(|it| it.strip_suffix(']'));
        let default = differs.iter().find(|(flag, _)| flag == name);
        let default = default.map_or(list.unwrap_or(parts[2]), |(_, ours)| ours);
        assert_eq!(flag.default, default, "{case}: {name}");
        let fits = match flag.kind {
            FlagKind::Bool => *kind == "bool",
            FlagKind::Duration => *kind == "duration",
            FlagKind::Float => *kind == "float32",
            FlagKind::Number => ["int", "int32"].contains(kind),
            FlagKind::Level => *kind == "Level",
            FlagKind::Text => ["string", "ip", "quantity"].contains(kind),
            FlagKind::File | FlagKind::Folder | FlagKind::Cidrs => *kind == "string",
            FlagKind::Repeated => *kind == "namedCertKey",
            FlagKind::List => [
                "stringSlice",
                "int32Slice",
                "mapStringBool",
                "pattern=N,...",
            ]
            .contains(kind),
        };
        assert!(fits, "{case}: {name} is a {kind}");
        names.push(*name);
    }
    let others = FLAGS.iter().filter(|flag| !names.contains(&flag.name));
    let ours = ["wasm", "node-ipam-controller", "AWS"];
    for flag in others {
        assert!(
            ours.contains(&flag.section),
            "{case}: --{} is no flag of upstream's",
            flag.name
        );
    }
}

#[test]
fn a_switch_alone_is_on_and_takes_no_word() {
    let switches = FLAGS.iter().filter(|flag| flag.kind == FlagKind::Bool);
    for flag in switches {
        let name = format!("--{}", flag.name);
        let matches = parse(&[&name]).unwrap();
        assert_eq!(matches.get_one(flag.name), Some(&true), "{name}");
        let matches = parse(&[&name, "false"]).unwrap();
        assert_eq!(matches.get_one(flag.name), Some(&true), "{name}");
        let mistake = positional_mistake(&matches, "cloud-controller-manager").unwrap();
        assert!(mistake.contains("got [\"false\"]"), "{mistake}");
        assert!(mistake.contains("--leader-elect=false"), "{mistake}");
        for wrong in ["", "yes", "tRUE"] {
            assert!(
                parse(&[&format!("{name}={wrong}")]).is_err(),
                "{name}={wrong}"
            );
        }
    }
}

#[test]
fn a_value_that_is_missing_or_not_of_its_kind_is_refused() {
    for flag in FLAGS.iter().filter(|flag| flag.kind != FlagKind::Bool) {
        let name = format!("--{}", flag.name);
        assert!(parse(&[&name]).is_err(), "{name}");
        let wrong: &[&str] = match flag.kind {
            FlagKind::Number => &["", "x", "-1", "1.5", "2147483648", "++1", "+", "0x"],
            FlagKind::Level => &["", "x", "-1", "+7", "0x10", "1_0", "1.5", "2147483648"],
            FlagKind::Float => &["", "x"],
            FlagKind::Duration => &["", "x", "5", "s"],
            _ => &[],
        };
        for wrong in wrong {
            assert!(
                parse(&[&format!("{name}={wrong}")]).is_err(),
                "{name}={wrong}"
            );
            assert!(parse(&[&name, wrong]).is_err(), "{name} {wrong}");
        }
    }
}

#[test]
fn upstream_add_flags_lists_grow_and_an_empty_one_is_empty() {
    let case = "TestAddFlags/01";
    for flag in FLAGS.iter().filter(|flag| flag.kind == FlagKind::List) {
        let name = format!("--{}", flag.name);
        let empty = format!("{name}=");
        let matches = parse(&[&empty]).unwrap();
        assert_eq!(
            list(&matches, flag.name),
            Vec::<String>::new(),
            "{case}: {name}"
        );
        let matches = parse(&[&name, "a,b", &format!("{name}=c")]).unwrap();
        assert_eq!(list(&matches, flag.name), ["a", "b", "c"], "{name}");
    }
}

#[test]
fn an_entry_of_a_list_with_a_comma_stands_in_quotes() {
    let name = "requestheader-allowed-names";
    for (value, expected) in [
        ("\"Example, Inc\"", &["Example, Inc"][..]),
        ("a,\"b, \"\"c\"\"\",d", &["a", "b, \"c\"", "d"]),
        ("\"\",a,", &["a"]),
    ] {
        let matches = parse(&[&format!("--{name}={value}")]).unwrap();
        assert_eq!(list(&matches, name), expected, "{value}");
    }
    for wrong in ["\"a", "a\"b", "\"a\"b", "a,\""] {
        assert!(parse(&[&format!("--{name}={wrong}")]).is_err(), "{wrong}");
    }
    // Upstream's other lists have no quotes.
    let matches = parse(&["--vmodule=\"a=1"]).unwrap();
    assert_eq!(list(&matches, "vmodule"), ["\"a=1"]);
}

#[test]
fn of_other_flags_the_last_value_counts() {
    let grow = [FlagKind::List, FlagKind::Repeated];
    for flag in FLAGS.iter().filter(|flag| !grow.contains(&flag.kind)) {
        let values = values(flag.kind);
        let (first, last) = (values[0], values[values.len() - 1]);
        let name = flag.name;
        let words = [format!("--{name}={first}"), format!("--{name}={last}")];
        let matches = parse(&words.each_ref().map(String::as_str)).unwrap();
        assert_eq!(raw(&matches, name), last, "{name}");
    }
}

#[test]
fn words_are_refused_as_upstream_refuses_them() {
    for (words, expected) in [
        (
            &["extra"][..],
            Some("\"cloud-controller-manager\" does not take any arguments, got [\"extra\"]\n"),
        ),
        (
            &["a b", "--v=1", "c\n"],
            Some(
                "\"cloud-controller-manager\" does not take any arguments, got [\"a b\" \"c\\n\"]\n",
            ),
        ),
        (
            &["--", "--v=1"],
            Some("\"cloud-controller-manager\" does not take any arguments, got [\"--v=1\"]\n"),
        ),
        (&["", ""], None),
        (&[], None),
    ] {
        let matches = parse(words).unwrap();
        let mistake = positional_mistake(&matches, GO_NAME);
        assert_eq!(mistake.as_deref(), expected, "{words:?}");
    }
}

#[test]
fn the_version_is_asked_for_as_upstream_is() {
    let own = concat!("--version=v", env!("CARGO_PKG_VERSION"));
    for (word, expected) in [
        ("--version", Some(VersionForm::Short)),
        ("--version=true", Some(VersionForm::Short)),
        ("--version=1", Some(VersionForm::Short)),
        ("--version=raw", Some(VersionForm::Raw)),
        ("--version=false", None),
        (own, None),
    ] {
        assert_eq!(version_form(&parse(&[word]).unwrap()), expected, "{word}");
    }
    assert_eq!(version_form(&parse(&[]).unwrap()), None);
    for wrong in ["--version=", "--version=x", "--version=v9.9.9"] {
        assert!(parse(&[wrong]).is_err(), "{wrong}");
    }
}

#[test]
fn the_help_has_upstreams_headings_in_upstreams_order() {
    for command in [run_command(), go_command()] {
        let help = command.clone().render_long_help().to_string();
        let places: Vec<_> = SECTIONS
            .iter()
            .map(|(_, heading)| help.find(&format!("{heading}:\n")).expect(heading))
            .collect();
        assert!(places.is_sorted(), "{help}");
        for flag in FLAGS {
            let is_listed = SECTIONS.iter().any(|(section, _)| *section == flag.section);
            assert!(is_listed, "{}", flag.section);
            assert!(help.contains(&format!("--{}", flag.name)), "{}", flag.name);
        }
    }
    let help = go_command().render_help().to_string();
    assert!(help.contains("cloud-controller-manager [flags]"), "{help}");
}

#[test]
fn proc_002_every_flag_and_its_value_are_known_for_the_log() {
    let matches = parse(&["--cloud-provider=x", "--controllers=a,b", "--controllers=*"]);
    let matches = matches.unwrap();
    // An unknown controller is a mistake; the values are parsed all the same.
    assert!(RunFlags::from_matches(&matches).is_err());
    let flags = RunFlags::from_matches(&parse(&["--cloud-provider=x"]).unwrap()).unwrap();
    let values = shown_values(&flags.matches);
    assert_eq!(values.len(), FLAGS.len());
    let value = |name| values.iter().find(|(flag, _)| *flag == name).unwrap();
    assert_eq!(value("cloud-provider").1, "x");
    assert_eq!(value("leader-elect-lease-duration").1, "15s");
}

#[test]
fn texts_that_mean_the_same_are_the_same_value() {
    for (kind, one, other, expected) in [
        (FlagKind::Duration, "12h", "12h0m0s", true),
        (FlagKind::Duration, "0", "0s", true),
        (FlagKind::Duration, "1s", "2s", false),
        (FlagKind::Bool, "T", "true", true),
        (FlagKind::Bool, "maybe", "true", false),
        (FlagKind::Number, "0x1e", "30", true),
        (FlagKind::Float, "20.0", "20", true),
        (FlagKind::Text, "20.0", "20", false),
    ] {
        assert_eq!(same_value(kind, one, other), expected, "{one} {other}");
    }
}
