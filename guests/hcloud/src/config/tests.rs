//! The configuration: defaults, every value, and mistakes.
#![allow(clippy::unwrap_used, reason = "tests")]

use ccm_guest::testing::config;

use super::*;

fn read(values: &[(&str, &str)]) -> Settings {
    Settings::read(&config(values)).unwrap()
}

#[test]
fn without_any_value_the_defaults_are_those_of_the_go_manager() {
    let expected = Settings {
        debug: false,
        network: None,
        family: AddressFamily::Ipv4,
        zones: true,
        lists: true,
        max_age: Duration::from_secs(10),
        robot: None,
    };
    assert_eq!(read(&[]), expected);
    let robot = RobotSettings {
        list_age: Duration::from_secs(300),
        hold: Duration::from_secs(300),
        forward_internal_ips: true,
    };
    let zero = [
        ("ROBOT_ENABLED", "true"),
        ("ROBOT_CACHE_TIMEOUT", "0"),
        ("ROBOT_RATE_LIMIT_WAIT_TIME", "0s"),
    ];
    assert_eq!(read(&zero[..1]).robot, Some(robot.clone()));
    assert_eq!(read(&zero).robot, Some(robot));
}

#[test]
fn every_value_is_read() {
    let settings = read(&[
        ("HCLOUD_DEBUG", "true"),
        ("HCLOUD_NETWORK", "cluster"),
        ("HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK", "true"),
        ("HCLOUD_INSTANCES_ADDRESS_FAMILY", "DualStack"),
        ("HCLOUD_INSTANCES_ZONE_LABEL_ENABLED", "0"),
        ("HCLOUD_SERVER_CACHE_MODE", "one"),
        ("HCLOUD_SERVER_CACHE_MAX_AGE", "1m"),
        ("ROBOT_ENABLED", "1"),
        ("ROBOT_CACHE_TIMEOUT", "1.5m"),
        ("ROBOT_RATE_LIMIT_WAIT_TIME", "1h"),
        ("ROBOT_FORWARD_INTERNAL_IPS", "false"),
    ]);
    let expected = Settings {
        debug: true,
        network: Some("cluster".to_owned()),
        family: AddressFamily::DualStack,
        zones: false,
        lists: false,
        max_age: Duration::from_secs(60),
        robot: Some(RobotSettings {
            list_age: Duration::from_secs(90),
            hold: Duration::from_secs(3600),
            forward_internal_ips: false,
        }),
    };
    assert_eq!(settings, expected);
}

#[test]
fn the_cache_modes_say_whether_lists_are_read_and_answers_kept() {
    let minute = Duration::from_secs(60);
    for (mode, lists, max_age) in [
        ("all", true, minute),
        ("one", false, minute),
        ("off", false, Duration::ZERO),
    ] {
        let settings = read(&[
            ("HCLOUD_SERVER_CACHE_MODE", mode),
            ("HCLOUD_SERVER_CACHE_MAX_AGE", "60s"),
        ]);
        assert_eq!((settings.lists, settings.max_age), (lists, max_age));
    }
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let mut config = config(&[
        ("HCLOUD_DEBUG", "foo"),
        ("HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK", "perhaps"),
        ("HCLOUD_INSTANCES_ADDRESS_FAMILY", "ipv5"),
        ("HCLOUD_INSTANCES_ZONE_LABEL_ENABLED", "sometimes"),
        ("HCLOUD_SERVER_CACHE_MODE", "foobar"),
        ("HCLOUD_SERVER_CACHE_MAX_AGE", "ten"),
        ("ROBOT_ENABLED", "true"),
        ("ROBOT_CACHE_TIMEOUT", "biweekly"),
        ("ROBOT_RATE_LIMIT_WAIT_TIME", "42fortnights"),
        ("ROBOT_FORWARD_INTERNAL_IPS", "y"),
    ]);
    config.targets = Some(vec!["api".to_owned()]);
    let error = Settings::read(&config).unwrap_err();
    assert!(matches!(error, Error::Invalid(_)), "{error:?}");
    for key in [
        "HCLOUD_DEBUG: must be true or false",
        "HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK: must be true or false",
        "HCLOUD_INSTANCES_ADDRESS_FAMILY: must be one of ipv4, ipv6, dualstack",
        "HCLOUD_INSTANCES_ZONE_LABEL_ENABLED: must be true or false",
        "HCLOUD_SERVER_CACHE_MODE: must be one of all, one, off",
        "HCLOUD_SERVER_CACHE_MAX_AGE: must be a duration",
        "ROBOT_ENABLED: the target robot is not granted",
        "ROBOT_CACHE_TIMEOUT: must be a duration",
        "ROBOT_RATE_LIMIT_WAIT_TIME: must be a duration",
        "ROBOT_FORWARD_INTERNAL_IPS: must be true or false",
    ] {
        assert!(
            error.message().contains(key),
            "{key} is missing in {}",
            error.message()
        );
    }
}

#[test]
fn robot_needs_its_target_and_nothing_else_does() {
    for (enabled, granted, accepted) in [
        ("true", "robot", true),
        ("true", "other", false),
        ("false", "robot", true),
        ("false", "other", true),
    ] {
        let mut config = config(&[("ROBOT_ENABLED", enabled)]);
        config.targets = Some(vec!["api".to_owned(), granted.to_owned()]);
        assert_eq!(
            Settings::read(&config).is_ok(),
            accepted,
            "{enabled} {granted}"
        );
    }
}

#[test]
fn the_manifest_declares_exactly_the_keys_that_are_read() {
    let manifest: serde_json::Value =
        serde_json::from_str(include_str!("../../manifest.json")).unwrap();
    let declared = manifest["config"].as_array().unwrap().iter();
    for key in declared.map(|entry| entry["key"].as_str().unwrap()) {
        // A value that nothing can be: neither a truth, nor a word, nor a time. The network may have any name.
        let refused = Settings::read(&config(&[(key, "no such value")])).is_err();
        assert_eq!(refused, key != "HCLOUD_NETWORK", "{key}");
    }
}
