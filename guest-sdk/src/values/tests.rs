//! Every getter with right and wrong values, of a configuration and of annotations.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fmt::Debug;
use std::net::Ipv4Addr;

use super::*;

const KEY: &str = "lb.example.com/some";

/// Reads the annotation with this value: the result, and the mistakes.
fn read<T>(
    value: &str,
    get: impl Fn(&mut Values<'_>) -> Option<T>,
) -> (Option<T>, Result<(), Error>) {
    let annotations = [(KEY.to_owned(), value.to_owned())];
    let mut values = Values::of_annotations(&annotations);
    let read = get(&mut values);
    (read, values.finish())
}

fn check<T: Debug + PartialEq>(
    table: &[(&str, Option<T>)],
    get: impl Fn(&mut Values<'_>) -> Option<T>,
) {
    for (value, expected) in table {
        let (read, finished) = read(value, &get);
        assert_eq!(read, *expected, "{value:?}");
        match finished {
            Ok(()) => assert!(
                expected.is_some(),
                "{value:?} is a mistake that nobody noted"
            ),
            Err(error) => {
                assert_eq!(*expected, None, "{value:?}: {error:?}");
                assert!(matches!(error, Error::Invalid(_)), "{error:?}");
                let names = [KEY.to_owned(), format!("{value:?}")];
                assert!(
                    names.iter().all(|name| error.message().contains(name)),
                    "{error:?}"
                );
            }
        }
    }
}

#[test]
fn a_host_name_is_one_that_a_status_can_have() {
    let part = "a".repeat(63);
    let longest = format!("{part}.{part}.{part}.{}", "a".repeat(61));
    let name = |name: &str| Some(name.to_owned());
    check(
        &[
            ("lb.example.com", name("lb.example.com")),
            (" LB-1.Example.com ", name("lb-1.example.com")),
            ("localhost", name("localhost")),
            (&longest, name(&longest)),
            ("lb.example.com.", None),
            ("*.example.com", None),
            ("-lb.example.com", None),
            ("lb_1.example.com", None),
            ("münchen.example", None),
            ("203.0.113.7", None),
        ],
        |values| values.hostname(KEY),
    );
    assert_eq!(read(" ", |values| values.hostname(KEY)), (None, Ok(())));
    for long in [format!("{longest}a"), format!("a{part}")] {
        let (name, finished) = read(&long, |values| values.hostname(KEY));
        assert_eq!(name, None);
        assert!(finished.is_err(), "{long}");
    }
}

#[test]
fn what_is_not_set_is_neither_a_value_nor_a_mistake() {
    let mut annotations = Values::of_annotations(&[]);
    assert_eq!(annotations.text(KEY), None);
    assert_eq!(annotations.boolean(KEY), None);
    assert_eq!(annotations.number(KEY, 1..=2), None);
    assert_eq!(annotations.duration(KEY), None);
    assert_eq!(annotations.choice(KEY, &[("a", 1)]), None);
    assert_eq!(annotations.list(KEY), None);
    assert_eq!(annotations.hostname(KEY), None);
    assert_eq!(annotations.parse::<Ipv4Addr>(KEY, ""), None);
    assert!(!annotations.is_set(KEY));
    assert_eq!(annotations.finish(), Ok(()));
}

#[test]
fn texts_are_taken_as_they_are() {
    for value in ["some value", "", " a ", "ü\n"] {
        assert_eq!(
            read(value, |annotations| annotations
                .text(KEY)
                .map(str::to_owned)),
            (Some(value.to_owned()), Ok(()))
        );
    }
    let filled = |value| {
        read(value, |annotations| {
            annotations.filled(KEY).map(str::to_owned)
        })
    };
    assert_eq!(filled("a"), (Some("a".to_owned()), Ok(())));
    assert_eq!(filled(""), (None, Ok(())));
    for (value, expected) in [(" a\n", Some("a")), (" ", None), ("", None)] {
        let trimmed = read(value, |values| values.trimmed(KEY).map(str::to_owned));
        assert_eq!(trimmed, (expected.map(str::to_owned), Ok(())));
    }
}

#[test]
fn annotations_of_a_prefix_are_read_by_what_follows_it_and_trimmed() {
    let annotations = [
        ("lb.example.com/size", " 3 "),
        ("lb.example.com/zones", " "),
        ("other.example.com/zones", "a"),
        ("lb.example.com/logs", " maybe "),
        ("lb.example.com/name", &"x".repeat(MAX_ANNOTATION + 1)),
    ];
    let annotations = annotations.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let mut values = Values::of_prefix(&annotations, "lb.example.com/");
    assert_eq!(values.number("size", 1..=9), Some(3));
    assert_eq!(values.list("zones"), None);
    assert_eq!(values.text("lb.example.com/size"), None);
    assert_eq!(values.text("name"), None);
    assert!(values.is_set("zones") && !values.is_set("other"));
    assert_eq!(values.boolean("logs"), None);
    let error = values.finish().unwrap_err();
    let message = error.message();
    assert!(message.contains("4096 are allowed"), "{message}");
    let logs = r#"logs: " maybe " must be true or false"#;
    assert!(message.ends_with(logs), "{message}");
}

#[test]
fn booleans_are_what_go_takes_for_them() {
    let true_words = ["1", "t", "T", "true", "TRUE", "True"].map(|value| (value, Some(true)));
    let false_words = ["0", "f", "F", "false", "FALSE", "False"].map(|value| (value, Some(false)));
    let others = ["", "invalid", " true", "tRUE", "yes", "no", "on", "2", "01"];
    for table in [
        &true_words[..],
        &false_words[..],
        &others.map(|value| (value, None))[..],
    ] {
        check(table, |annotations| annotations.boolean(KEY));
    }
}

#[test]
fn numbers_have_to_fit() {
    let table = [
        ("10", Some(10)),
        ("+10", Some(10)),
        ("0", Some(0)),
        ("65535", Some(65535)),
        ("65536", None),
        ("-1", None),
        ("", None),
        ("invalid", None),
        ("1.0", None),
        (" 1", None),
        ("99999999999999999999999", None),
    ];
    check(&table, |annotations| annotations.number(KEY, 0..=u16::MAX));
}

#[test]
fn durations_are_written_as_go_writes_them_and_counted_in_whole_seconds() {
    let table = [
        ("1h", Some(3600)),
        ("1m30s", Some(90)),
        ("15s", Some(15)),
        ("+15s", Some(15)),
        ("1.5m", Some(90)),
        ("1500ms", Some(1)),
        ("999ms", Some(0)),
        ("2000000µs", Some(2)),
        ("2000000μs", Some(2)),
        ("0", Some(0)),
        ("15", None),
        ("-15s", None),
        ("", None),
        ("invalid", None),
        ("15 s", None),
        ("1d", None),
        ("999999999999999999999h", None),
    ];
    check(&table, |annotations| {
        annotations.duration(KEY).map(|time| time.as_secs())
    });
}

#[test]
fn words_are_known_in_any_case_and_nothing_else_is() {
    let table = [
        ("tcp", Some(1)),
        ("HTTP", Some(2)),
        ("Https", Some(3)),
        ("", None),
        ("invalid", None),
        ("tcp ", None),
        ("ＴＣＰ", None),
    ];
    let words = [("tcp", 1), ("http", 2), ("https", 3)];
    check(&table, |annotations| annotations.choice(KEY, &words));
    let (_, finished) = read("udp", |annotations| annotations.choice(KEY, &words));
    let message = format!("{KEY}: \"udp\" must be one of tcp, http, https");
    assert_eq!(finished, Err(Error::invalid(message)));
}

#[test]
fn lists_are_split_at_commas_and_trimmed() {
    let table = [
        ("a,b,c", vec!["a", "b", "c"]),
        (" a, b ", vec!["a", "b"]),
        ("a b", vec!["a b"]),
        ("", vec![]),
        (",a,,", vec!["a"]),
    ];
    for (value, expected) in table {
        let read = read(value, |annotations| {
            let parts = annotations.list(KEY)?;
            Some(parts.into_iter().map(str::to_owned).collect::<Vec<_>>())
        });
        let expected = expected.into_iter().map(str::to_owned).collect();
        assert_eq!(read, (Some(expected), Ok(())));
    }
}

#[test]
fn each_part_of_a_list_that_cannot_be_read_is_a_mistake() {
    let ports = |value| {
        read(value, |values| {
            values.each(KEY, "must be a port", |part| part.parse().ok())
        })
    };
    assert_eq!(ports("80, 443"), (Some(vec![80_u16, 443]), Ok(())));
    assert_eq!(ports(""), (Some(vec![]), Ok(())));
    let (read, finished) = ports("http,80,70000");
    assert_eq!(read, Some(vec![80]));
    let both = format!("{KEY}: \"http\" must be a port; {KEY}: \"70000\" must be a port");
    assert_eq!(finished, Err(Error::invalid(both)));
}

#[test]
fn addresses_are_of_ipv4() {
    let table = [
        ("1.2.3.4", Some(Ipv4Addr::new(1, 2, 3, 4))),
        ("3c2e:2ef9:a7e9:1a5b:30ba:4912:e3fe:91b2", None),
        ("01.2.3.4", None),
        ("1.2.3", None),
        ("", None),
        ("invalid", None),
    ];
    check(&table, |annotations| {
        annotations.parse::<Ipv4Addr>(KEY, "must be an IPv4 address")
    });
}

#[test]
fn a_value_that_is_too_long_is_a_mistake_for_every_getter_and_not_shown_in_full() {
    let getters: [fn(&mut Values<'_>) -> bool; 7] = [
        |a| a.text(KEY).is_some(),
        |a| a.filled(KEY).is_some(),
        |a| a.boolean(KEY).is_some(),
        |a| a.number(KEY, 0..=u64::MAX).is_some(),
        |a| a.duration(KEY).is_some(),
        |a| a.list(KEY).is_some(),
        |a| a.required(KEY).is_some(),
    ];
    let long = "ü".repeat(MAX_ANNOTATION / 2 + 1);
    let fits = "ü".repeat(MAX_ANNOTATION / 2);
    for get in getters {
        let (_, finished) = read(&long, |annotations| get(annotations).then_some(()));
        let error = finished.unwrap_err();
        assert!(error.message().contains("4096 are allowed"), "{error:?}");
        assert!(error.message().len() < 300, "{error:?}");
    }
    let (text, finished) = read(&fits, |annotations| annotations.text(KEY).map(str::len));
    assert_eq!((text, finished), (Some(MAX_ANNOTATION), Ok(())));
    // One getter has a limit of its own.
    for (most, parts) in [(long.len(), Some(1)), (long.len() - 1, None)] {
        let (list, finished) = read(&long, |annotations| {
            annotations.long_list(KEY, most).map(|list| list.len())
        });
        assert_eq!((list, finished.is_ok()), (parts, parts.is_some()));
    }
}

#[test]
fn all_mistakes_are_reported_at_once_and_without_control_characters() {
    let wrong = [("a", "maybe"), ("b", "\u{1b}[31m\nred")];
    let wrong = wrong.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let mut annotations = Values::of_annotations(&wrong);
    annotations.boolean("a");
    annotations.duration("b");
    annotations.required("c");
    annotations.mistake("and more");
    annotations.mistake("and more");
    assert_eq!(
        annotations.finish(),
        Err(Error::invalid(
            r#"a: "maybe" must be true or false; b: "\u{1b}[31m\nred" must be a duration such as 10s or 1m30s; c: must be set; and more"#
        ))
    );
}

#[test]
fn a_number_says_its_range() {
    let (number, finished) = read("9", |annotations| annotations.number(KEY, 10..=60));
    assert_eq!(number, None);
    let message = format!("{KEY}: \"9\" must be a number from 10 to 60");
    assert_eq!(finished, Err(Error::invalid(message)));
}

#[test]
fn a_label_value_is_short_and_begins_and_ends_plainly() {
    let longest = "a".repeat(63);
    for text in ["a", "0", "CX-22_b.c", longest.as_str()] {
        assert!(is_label_value(text), "{text}");
    }
    let long = "a".repeat(64);
    for text in ["", "-a", "a.", "site/rack", "a b", "größe", long.as_str()] {
        assert!(!is_label_value(text), "{text}");
    }
}
