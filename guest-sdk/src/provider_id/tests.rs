//! Which provider IDs are ours, and which numbers are canonical.

use super::*;
use crate::testing::node;

#[test]
fn a_provider_id_is_ours_by_its_whole_scheme() {
    let table = [
        (None, MachineId::Unset),
        (Some(""), MachineId::Unset),
        (Some("acme://7"), MachineId::Own("7")),
        (Some("acme:///north/7"), MachineId::Own("/north/7")),
        (Some("acme://"), MachineId::Own("")),
        (Some("acme:/7"), MachineId::Foreign),
        (Some("acme7"), MachineId::Foreign),
        (Some("ACME://7"), MachineId::Foreign),
        (Some("acmex://7"), MachineId::Foreign),
        (Some("x-acme://7"), MachineId::Foreign),
    ];
    for (provider_id, expected) in table {
        let node = node("a", provider_id);
        let id = node.machine_id("acme");
        assert_eq!(id, expected, "{provider_id:?}");
        assert_eq!(
            id.own().map(MachineId::Own),
            Some(id).filter(|id| matches!(id, MachineId::Own(_)))
        );
    }
}

#[test]
fn a_number_has_one_spelling() {
    for (text, expected) in [("1", 1), ("42", 42), ("18446744073709551615", u64::MAX)] {
        assert_eq!(number(text), Some(expected));
    }
    let table = [
        "",
        "0",
        "042",
        "+42",
        "-1",
        "42 ",
        "42/",
        "18446744073709551616",
        "x",
        "٤٢",
    ];
    for text in table {
        assert_eq!(number(text), None, "{text:?}");
    }
}
