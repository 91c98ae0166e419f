#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use super::*;

fn parsed(text: &str) -> Selector {
    Selector::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn labels(text: &str) -> StringMap {
    let pairs = text
        .split_whitespace()
        .map(|pair| pair.split_once('=').unwrap());
    pairs.collect()
}

#[test]
fn every_requirement_of_kubernetes_text_matches_as_kubectl_does() {
    for (selector, matching, others) in [
        ("", &["", "a=b"][..], &[][..]),
        ("a=b", &["a=b", "a=b c=d"], &["", "a=c", "b=a"]),
        ("a==b", &["a=b"], &["a=c"]),
        ("a=", &["a="], &["", "a=b"]),
        ("a!=b", &["", "a=c"], &["a=b"]),
        ("a in (x, y)", &["a=x", "a=y"], &["", "a=z"]),
        ("a in(x)", &["a=x"], &["a=y"]),
        ("a in (,x)", &["a=", "a=x"], &["", "a=y"]),
        ("a notin (x,y)", &["", "a=z"], &["a=x", "a=y"]),
        ("a", &["a=", "a=b"], &["", "b=a"]),
        ("!a", &["", "b=a"], &["a=", "a=b"]),
        ("in", &["in=x"], &["a=x"]),
        ("notin in (in)", &["notin=in"], &["notin=x"]),
        (
            " example.com/pool = a , !b , c notin (d) ",
            &["example.com/pool=a", "example.com/pool=a c=e"],
            &["example.com/pool=a b=", "example.com/pool=a c=d"],
        ),
    ] {
        let selector = parsed(selector);
        for one in matching {
            assert!(selector.matches(&labels(one)), "{selector} and {one}");
        }
        for one in others {
            assert!(!selector.matches(&labels(one)), "{selector} and {one}");
        }
    }
}

#[test]
fn what_is_no_selector_is_said_in_words() {
    for (text, reported) in [
        ("a=b,", "a requirement is missing"),
        (",a", "a requirement is missing"),
        ("a=b,,c", "a requirement is missing"),
        ("a>1", "not understood here"),
        ("a in b", "in parentheses"),
        ("a in ()", "in parentheses"),
        ("a in (b", "in parentheses"),
        ("a in ((b))", "in parentheses"),
        ("a is b", "is no requirement"),
        ("a b", "is no requirement"),
        ("=b", "is no label name"),
        ("!", "is no label name"),
        ("a/b/c=d", "is no label name"),
        ("/a=d", "is no label name"),
        ("A.com/a=d", "is no label name"),
        ("-a=d", "is no label name"),
        ("ä=d", "is no label name"),
        ("a=b c", "is no label value"),
        ("a=-b", "is no label value"),
        ("a=b=c", "is no label value"),
        ("a in (b,c!)", "is no label value"),
    ] {
        let error = Selector::parse(text).err().unwrap().to_string();
        assert!(error.contains(reported), "{text}: {error}");
    }
    let long = "a".repeat(64);
    assert!(matches!(Selector::parse(&long), Err(SelectorError::Key(_))));
    let value = format!("a={long}");
    assert!(matches!(
        Selector::parse(&value),
        Err(SelectorError::Value(_))
    ));
    let endless = "a,".repeat(10_000);
    assert_eq!(Selector::parse(&endless), Err(SelectorError::TooLong));
}

#[test]
fn only_a_label_that_would_be_two_things_at_once_proves_that_selectors_are_disjoint() {
    for (left, right, may_overlap) in [
        ("", "", true),
        ("", "a=b", true),
        ("a=b", "c=d", true),
        ("a=b", "a=b", true),
        ("a=b", "a=c", false),
        ("a=b", "a!=b", false),
        ("a=b", "a!=c", true),
        ("a=b", "!a", false),
        ("a", "!a", false),
        ("a", "a!=b", true),
        ("!a", "a!=b", true),
        ("!a", "a notin (b)", true),
        ("a in (x,y)", "a in (y,z)", true),
        ("a in (x,y)", "a in (z)", false),
        ("a in (x,y)", "a notin (x,y)", false),
        ("a in (x,y)", "a notin (x)", true),
        ("a in (x,y),a!=y", "a=y", false),
        ("a in (x,y),b=1", "a in (y,z),b=2", false),
        ("a!=x", "a!=y", true),
        ("a,b=1", "a,b", true),
    ] {
        let (left, right) = (parsed(left), parsed(right));
        assert_eq!(left.may_overlap(&right), may_overlap, "{left} and {right}");
        assert_eq!(right.may_overlap(&left), may_overlap, "{right} and {left}");
    }
}

/// For every pair of selectors over two labels with two values: selectors that are said not to overlap never match the
/// same labels, and the others do for some labels.
#[test]
fn what_is_said_about_overlaps_is_true_of_all_labels() {
    let requirements = |key: &str| {
        [
            "",
            "K=x",
            "K!=x",
            "K in (x,y)",
            "K notin (x,y)",
            "K",
            "!K",
            "K=y",
        ]
        .map(|text| text.replace('K', key))
    };
    let mut selectors = Vec::new();
    for one in requirements("a") {
        for other in requirements("b") {
            let parts: Vec<&str> = [&*one, &*other]
                .into_iter()
                .filter(|part| !part.is_empty())
                .collect();
            selectors.push(parsed(&parts.join(",")));
        }
    }
    // `z` is a value that no selector names.
    let values = [None, Some("x"), Some("y"), Some("z")];
    let mut worlds = Vec::new();
    for a in values {
        for b in values {
            let pairs = [("a", a), ("b", b)];
            let labels = pairs
                .into_iter()
                .filter_map(|(key, value)| Some((key, value?)));
            worlds.push(labels.collect::<StringMap>());
        }
    }
    for left in &selectors {
        for right in &selectors {
            let both = worlds
                .iter()
                .any(|labels| left.matches(labels) && right.matches(labels));
            assert_eq!(left.may_overlap(right), both, "{left} and {right}");
        }
    }
}

#[test]
fn the_text_of_a_selector_is_read_back_as_the_same() {
    for text in [
        "",
        "a=b",
        "a!=b",
        "a in (x,y)",
        "a notin (x,y)",
        "a",
        "!a",
        "a=b,!c,d in (e,f)",
    ] {
        let selector = parsed(text);
        assert_eq!(selector.to_string(), text);
        assert_eq!(parsed(&selector.to_string()), selector);
    }
}
