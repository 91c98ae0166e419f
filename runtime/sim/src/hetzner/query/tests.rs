//! The label selector alone; paging and sorting are tested through the API.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::collections::BTreeMap;

use super::LabelSelector;

#[test]
fn selectors_choose_by_all_their_conditions() {
    let labels: BTreeMap<String, String> = [("role", "worker"), ("pool", "a")]
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    let cases = [
        ("", true),
        ("role", true),
        ("!role", false),
        ("!gone", true),
        ("role=worker", true),
        ("role==worker,pool=a", true),
        ("role=worker,pool=b", false),
        ("role!=worker", false),
        ("gone!=worker", true),
        ("pool in (a, b)", true),
        ("pool in (a,b),role=worker", true),
        ("role=worker, pool in (c,b)", false),
        ("pool notin (a,b)", false),
        ("gone notin (a)", true),
    ];
    for (text, expected) in cases {
        let selector = LabelSelector::parse(text).unwrap_or_else(|| panic!("{text} is readable"));
        assert_eq!(selector.matches(&labels), expected, "{text}");
    }
}

#[test]
fn unreadable_selectors_are_refused() {
    for text in [
        "=a",
        "a in b)",
        "pool in (a",
        "pool of (a)",
        "a b",
        ",",
        "pool in (a) role",
        "pool>1",
    ] {
        assert_eq!(LabelSelector::parse(text), None, "{text}");
    }
}
