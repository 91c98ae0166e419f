//! The configuration: defaults, and mistakes.
#![allow(clippy::unwrap_used, reason = "tests")]

use ccm_guest::testing::config;

use super::*;

#[test]
fn without_any_value_the_defaults_are_those_of_the_go_manager() {
    let settings = Settings::read(&config(&[])).unwrap();
    let expected = Settings {
        network: None,
        family: AddressFamily::Ipv4,
        zones: true,
        max_age: Duration::from_secs(10),
    };
    assert_eq!(settings, expected);
}

#[test]
fn every_value_is_read() {
    let settings = Settings::read(&config(&[
        ("HCLOUD_NETWORK", "cluster"),
        ("HCLOUD_INSTANCES_ADDRESS_FAMILY", "DualStack"),
        ("HCLOUD_INSTANCES_ZONE_LABEL_ENABLED", "0"),
        ("HCLOUD_SERVER_CACHE_MAX_AGE", "1m"),
    ]));
    let expected = Settings {
        network: Some("cluster".to_owned()),
        family: AddressFamily::DualStack,
        zones: false,
        max_age: Duration::from_secs(60),
    };
    assert_eq!(settings, Ok(expected));
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let error = Settings::read(&config(&[
        ("HCLOUD_INSTANCES_ADDRESS_FAMILY", "ipv5"),
        ("HCLOUD_INSTANCES_ZONE_LABEL_ENABLED", "sometimes"),
        ("HCLOUD_SERVER_CACHE_MAX_AGE", "ten"),
    ]))
    .unwrap_err();
    assert!(matches!(error, Error::Invalid(_)), "{error:?}");
    for key in [
        "HCLOUD_INSTANCES_ADDRESS_FAMILY: must be one of ipv4, ipv6, dualstack",
        "HCLOUD_INSTANCES_ZONE_LABEL_ENABLED: must be true or false",
        "HCLOUD_SERVER_CACHE_MAX_AGE: must be a duration",
    ] {
        assert!(
            error.message().contains(key),
            "{key} is missing in {}",
            error.message()
        );
    }
}
