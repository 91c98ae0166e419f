//! What a configuration says: its values, each mistake in them, and the targets that are granted.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::time::Duration;

use super::*;

fn config(values: &[(&str, &str)]) -> Config {
    Config {
        values: values
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect(),
        ..Config::default()
    }
}

#[test]
fn every_mistake_is_reported_at_once() {
    let config = config(&[("A", "maybe"), ("B", "ipv7"), ("C", "10"), ("D", "yes")]);
    let mut values = config.values();
    assert_eq!(values.boolean("A"), None);
    assert_eq!(values.choice("B", &[("ipv4", 4), ("ipv6", 6)]), None);
    assert_eq!(values.duration("C"), None);
    values.wrong::<()>("D", "excludes A");
    let error = values.finish().unwrap_err();
    assert_eq!(
        error,
        Error::invalid(
            "A: must be true or false; B: must be one of ipv4, ipv6; C: must be a duration such as 10s or 1m30s; D: excludes A"
        )
    );
}

#[test]
fn a_target_is_granted_if_the_host_says_so_or_does_not_tell() {
    let told = |targets: &[(&str, Option<&str>)]| {
        let targets = targets.iter().map(|(name, region)| GrantedTarget {
            name: (*name).to_owned(),
            region: region.map(str::to_owned),
        });
        Config::of_host(RawConfig {
            cluster_name: String::new(),
            cluster_cidrs: Vec::new(),
            values: Vec::new(),
            targets: targets.collect(),
            schemes: vec!["acme".to_owned()],
            extra: vec![("later".to_owned(), "api".to_owned())],
        })
    };
    let table = [
        (Config::default(), true),
        (told(&[]), false),
        (told(&[("other", None), ("apis", None)]), false),
        (told(&[("other", None), ("api", Some("north"))]), true),
    ];
    assert_eq!(table[3].0.region("api"), Some("north"));
    assert_eq!(table[3].0.region("other"), None);
    assert_eq!(table[3].0.region("third"), None);
    assert_eq!(table[3].0.schemes, ["acme"]);
    assert_eq!(table[3].0.extra["later"], "api");
    for (config, expected) in table {
        assert_eq!(config.is_granted("api"), expected, "{config:?}");
    }
}

#[test]
fn an_empty_value_is_not_set() {
    let config = config(&[("A", ""), ("B", "  ")]);
    let mut values = config.values();
    assert_eq!(values.text("A"), None);
    assert_eq!(values.boolean("B"), None);
    assert_eq!(values.duration("C"), None);
    assert_eq!(values.finish(), Ok(()));
}

#[test]
fn truth_is_written_as_go_reads_it() {
    let table = [
        ("1", Some(true)),
        ("t", Some(true)),
        ("True", Some(true)),
        (" TRUE ", Some(true)),
        ("0", Some(false)),
        ("F", Some(false)),
        ("false", Some(false)),
        ("tRuE", None),
        ("yes", None),
        ("2", None),
    ];
    for (text, expected) in table {
        let config = config(&[("A", text)]);
        assert_eq!(config.values().boolean("A"), expected, "{text:?}");
    }
}

#[test]
fn durations_are_written_as_go_reads_them() {
    let table = [
        ("0", Some(0)),
        ("10s", Some(10_000)),
        ("1m30s", Some(90_000)),
        ("250ms", Some(250)),
        ("2h", Some(7_200_000)),
        ("1.5h", Some(5_400_000)),
        (".5s", Some(500)),
        ("2.s", Some(2_000)),
        ("0.0015s1500000ns", Some(3)),
        ("1000us", Some(1)),
        (".s", None),
        ("1.2.3s", None),
        ("1.", None),
        ("10", None),
        ("s", None),
        ("-1s", None),
        ("1 s", None),
        ("1d", None),
        ("99999999999999999999h", None),
        ("18446744073709551615h", None),
    ];
    for (text, expected) in table {
        let config = config(&[("A", text)]);
        assert_eq!(
            config.values().duration("A"),
            expected.map(Duration::from_millis),
            "{text:?}"
        );
    }
}

#[test]
fn a_reader_returns_what_it_read_or_every_mistake() {
    let right = config(&[("A", "true"), ("B", "7")]);
    let read =
        |config: &Config| config.read(|values| (values.boolean("A"), values.number("B", 1..=9)));
    assert_eq!(read(&right), Ok((Some(true), Some(7))));
    let wrong = config(&[("A", "x"), ("B", "10")]);
    let error = read(&wrong).unwrap_err();
    let expected = "A: must be true or false; B: must be a number from 1 to 9";
    assert_eq!(error, Error::invalid(expected));
}
