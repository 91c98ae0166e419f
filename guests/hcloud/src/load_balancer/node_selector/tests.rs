//! The selectors of Kubernetes' own tests, and of the Go manager's tests.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;

fn labels(text: &str) -> Vec<(String, String)> {
    let pairs = text.split(' ').filter_map(|pair| pair.split_once('='));
    let owned = pairs.map(|(key, value)| (key.to_owned(), value.to_owned()));
    owned.collect()
}

#[test]
fn a_selector_matches_what_kubernetes_says_it_matches() {
    let table = [
        // Selector, labels, whether it matches.
        ("", "x=y", true),
        (" \t\r\n", "x=y", true),
        ("x=y", "x=y", true),
        ("x==y", "x=y", true),
        ("x=y,z=w", "x=y z=w", true),
        ("x!=y,z!=w", "x=z z=a", true),
        ("notin=in", "notin=in", true),
        ("in in (in,notin)", "in=notin", true),
        ("x", "x=z", true),
        ("!x", "y=z", true),
        ("x>1", "x=2", true),
        ("x<1", "x=0", true),
        ("x=z", "", false),
        ("x=y", "x=z", false),
        ("x=y,z=w", "x=w z=w", false),
        ("x!=y,z!=w", "x=z z=w", false),
        ("x", "y=z", false),
        ("!x", "x=z", false),
        ("x>1", "x=0", false),
        ("x>1", "x=1", false),
        ("x>1", "x=two", false),
        ("x>1", "y=2", false),
        ("x<1", "x=2", false),
        ("x<1", "y=0", false),
        ("foo=bar", "foo=bar baz=blah", true),
        ("foo=bar,baz=blah", "foo=bar baz=blah", true),
        ("foo=blah", "foo=bar baz=blah", false),
        ("foo=bar,foobar=bar,baz=blah", "foo=bar baz=blah", false),
        ("x in (abc,def)", "x=def", true),
        ("x in (abc,def)", "x=ghi", false),
        ("x in (abc,def)", "", false),
        ("x notin (abc,def)", "x=ghi", true),
        ("x notin (abc,def)", "x=abc", false),
        ("x notin (abc,def)", "", true),
        ("x!=a", "", true),
        ("x=", "x=", true),
        ("x=", "x=a", false),
        ("x=,z= ", "x= z=", true),
        ("x in ()", "x=", true),
        ("x in ()", "x=a", false),
        ("x notin ( )", "x=", false),
        ("x notin (, a)", "x=a", false),
        ("x notin (, a)", "x=", false),
        ("x in (a,)", "x=", true),
        ("x in (a,,b)", "x=", true),
        ("x in (a,b)", "x=", false),
        ("a in (x,y,notin, z,in)", "a=notin", true),
        ("x notin (abc,,def),bar,z in (),w", "bar=1 z= w=1", true),
        (
            "x notin (abc,,def),bar,z in (),w",
            "bar=1 z= w=1 x=def",
            false,
        ),
        (
            "this-is-a-dns.domain.com/key-with-dash",
            "this-is-a-dns.domain.com/key-with-dash=",
            true,
        ),
        (
            "0.1.2.domain/99 notin (10.10.100.1, tick.tack.clock)",
            "0.1.2.domain/99=10.10.100.1",
            false,
        ),
        ("\rfoo  in\t\n(abc)", "foo=abc", true),
        ("environment=production", "environment=production", true),
        ("environment=production", "environment=staging", false),
        (
            "environment=production,zone=nue",
            "environment=production zone=fsn",
            false,
        ),
        (
            "environment=production,zone=nue",
            "environment=production zone=nue",
            true,
        ),
    ];
    for (text, node, expected) in table {
        let selector = NodeSelector::parse(text).unwrap();
        assert_eq!(
            selector.matches(&labels(node)),
            expected,
            "{text:?} {node:?}"
        );
    }
}

#[test]
fn what_kubernetes_refuses_is_refused() {
    let long = "a".repeat(64);
    let table = [
        "x=a||y=b",
        "x==a==b",
        "x===a",
        "!x=a",
        "!!x",
        "!x in (a)",
        "x<a",
        "x>",
        "x>1.5",
        "x>99999999999999999999",
        "x,,y",
        ",x,y",
        "x,",
        "x=a,",
        "x=(",
        "x=!a",
        "x nott in (y)",
        "x in",
        "x in a",
        "x in (a",
        "x in (a,",
        "x in (a))",
        "a in (xyz),",
        "a in (xyz)b notin ()",
        "a in (xyz abc)",
        "a in (!x)",
        "a notin(",
        "a (",
        "(",
        ")",
        "=",
        "!",
        "x y",
        "-x",
        "x-",
        "x=-a",
        "x=a-",
        "x=ü",
        "ü",
        "x\0",
        "/x",
        "x/",
        "a/b/c",
        "Upper.domain/x",
        "under_score/x",
        "a..b/x",
        "a-.b/x",
        &long,
        &format!("x={long}"),
        &format!("{}/x", "a".repeat(254)),
    ];
    for text in table {
        assert!(NodeSelector::parse(text).is_err(), "{text:?}");
    }
}

#[test]
fn what_is_wrong_is_said() {
    let table = [
        ("x y", r#"expected =, ==, !=, >, <, in or notin, found "y""#),
        ("x,", "expected the key of a label, found the end"),
        ("x=a)", "expected a comma or the end, found )"),
        ("x in a", r#"expected (, found "a""#),
        ("x in (a b)", r#"expected a comma or ), found "b""#),
        ("x>a", r#""a" is not a number to compare with"#),
        ("ü", r#""ü" cannot be the key of a label"#),
        ("x=ü", r#""ü" cannot be the value of a label"#),
    ];
    for (text, expected) in table {
        assert_eq!(NodeSelector::parse(text).unwrap_err(), expected);
    }
}

#[test]
fn the_longest_that_kubernetes_takes_is_taken() {
    let name = "a".repeat(63);
    let domain = "b".repeat(253);
    for text in [
        name.clone(),
        format!("{domain}/{name}"),
        format!("x={name}"),
        "A_b-c.9=A_b-c.9".to_owned(),
    ] {
        assert!(NodeSelector::parse(&text).is_ok(), "{text}");
    }
}

/// Every text of up to four of these parts: accepted texts must follow the grammar, and none may panic.
#[test]
fn every_short_text_is_read_without_panic_and_only_whole_requirements_are_accepted() {
    let parts = ["a", "1", "in", " ", ",", "=", "!", "(", ")", ">", "ü"];
    let mut texts = vec![String::new()];
    let mut accepted = 0;
    for _ in 0..4 {
        texts = texts
            .iter()
            .flat_map(|text| parts.map(|part| format!("{text}{part}")))
            .collect();
        for text in &texts {
            if NodeSelector::parse(text).is_ok() {
                accepted += 1;
                let opened = text.matches('(').count();
                assert_eq!(opened, text.matches(')').count(), "{text}");
                assert!(!text.trim_end().ends_with('!'), "{text}");
                assert!(!text.contains('ü'), "{text}");
                assert!(
                    !text.trim_start().starts_with([',', '=', '>', '(']),
                    "{text}"
                );
            }
        }
    }
    assert!(accepted > 300, "{accepted}");
}
