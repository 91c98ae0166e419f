//! Configurations, and the messages about mistakes in them.
#![allow(clippy::unwrap_used, reason = "tests")]

use ccm_guest::testing::{config, granting};

use super::*;

fn read(values: &[(&str, &str)], is_granted: bool) -> Result<Settings, Error> {
    let granted: &[&str] = match is_granted {
        true => &["api", AGENT],
        false => &["api"],
    };
    let config = granting(config(values), granted);
    Settings::read(&config)
}

const REGION: (&str, &str) = ("PROXMOX_REGION", "home");

#[test]
fn a_region_is_enough() {
    let expected = Settings {
        region: "home".to_owned(),
        zone: Zone::Node,
        agent: None,
    };
    assert_eq!(read(&[REGION], false).unwrap(), expected);
    // If the target is granted without a range, no agent is asked.
    assert_eq!(read(&[REGION], true).unwrap(), expected);
}

#[test]
fn everything_is_read() {
    let values = [
        REGION,
        ("PROXMOX_ZONE", "pool"),
        ("PROXMOX_INTERNAL_CIDRS", "10.0.0.0/8, fd00::/8"),
        ("PROXMOX_EXTERNAL_CIDRS", "203.0.113.0/24"),
    ];
    let settings = read(&values, true).unwrap();
    let ranges = settings.agent.unwrap();
    assert_eq!((ranges.internal.len(), ranges.external.len()), (2, 1));
    assert_eq!(settings.zone, Zone::Pool);
}

#[test]
fn all_mistakes_are_told_at_once() {
    let values = [
        ("PROXMOX_REGION", "a/b"),
        ("PROXMOX_ZONE", "rack"),
        ("PROXMOX_INTERNAL_CIDRS", "10.0.0.0/8,10.0.0.1/33"),
    ];
    let Err(Error::Invalid(text)) = read(&values, false) else {
        panic!("taken");
    };
    let parts = [
        "PROXMOX_REGION: must be a label",
        "PROXMOX_ZONE: must be one of node, pool",
        "\"10.0.0.1/33\" is no range",
        "no effect unless the target agent is granted",
    ];
    for part in parts {
        assert!(text.contains(part), "{part}: {text}");
    }
    let unset = read(&[], false);
    assert!(matches!(unset, Err(Error::Invalid(text)) if text == "PROXMOX_REGION: must be set"));
}
