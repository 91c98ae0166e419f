//! The configuration: defaults, every value, and mistakes.
#![allow(clippy::unwrap_used, reason = "tests")]

use ccm_guest::testing::config;

use super::*;
use crate::load_balancer::wanted::{Algorithm, Place};

fn read(values: &[(&str, &str)]) -> Settings {
    Settings::read(&config(values)).unwrap()
}

/// The settings of load balancers without any configuration.
fn ordinary() -> LoadBalancerSettings {
    LoadBalancerSettings {
        enabled: true,
        place: None,
        type_name: None,
        algorithm: None,
        public_interface: None,
        private_subnet_ip_range: None,
        private_ingress: true,
        use_private_ip: false,
        ipv6: true,
        proxy_protocol: None,
        health_check_interval: None,
        health_check_timeout: None,
        health_check_retries: None,
        keep_foreign_ports: false,
    }
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
        robot: Robot::Disabled,
        load_balancers: ordinary(),
        routes: None,
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
    assert_eq!(read(&zero[..1]).robot, Robot::Granted(robot.clone()));
    assert_eq!(read(&zero).robot, Robot::Granted(robot));
}

#[test]
fn every_value_is_read() {
    let settings = read(&[
        ("HCLOUD_DEBUG", "true"),
        ("HCLOUD_NETWORK", "cluster"),
        ("HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK", "true"),
        ("HCLOUD_NETWORK_ROUTES_ENABLED", "1"),
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
        robot: Robot::Granted(RobotSettings {
            list_age: Duration::from_secs(90),
            hold: Duration::from_secs(3600),
            forward_internal_ips: false,
        }),
        load_balancers: ordinary(),
        routes: Some(RouteSettings {
            network: "cluster".to_owned(),
            cluster: None,
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
fn routes_are_ours_wholly_inside_of_the_cluster_cidrs() {
    let table: &[(&[&str], &str, bool)] = &[
        (&[], "0.0.0.0/0", true),
        (&["10.244.0.0/16"], "10.244.7.0/24", true),
        (&["10.244.0.0/16"], "10.244.0.0/16", true),
        (&["10.244.0.0/16"], "10.245.7.0/24", false),
        (&["10.244.0.0/16"], "10.0.0.0/8", false),
        (&["10.244.0.0/16"], "0.0.0.0/0", false),
        (&["fd00::/48", " 10.244.0.0/16"], "10.244.7.0/24", true),
        (&["fd00::/48"], "10.244.7.0/24", false),
    ];
    for (cidrs, destination, expected) in table {
        let mut config = config(&[("HCLOUD_NETWORK", "cluster")]);
        config.cluster_cidrs = cidrs.iter().map(|cidr| (*cidr).to_owned()).collect();
        let routes = Settings::read(&config).unwrap().routes.unwrap();
        let destination = address_range::read(destination).unwrap();
        assert_eq!(
            routes.is_ours(destination),
            *expected,
            "{cidrs:?} {destination}"
        );
    }
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let config = config(&[
        ("HCLOUD_DEBUG", "foo"),
        ("HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK", "perhaps"),
        ("HCLOUD_NETWORK_ROUTES_ENABLED", "maybe"),
        ("HCLOUD_INSTANCES_ADDRESS_FAMILY", "ipv5"),
        ("HCLOUD_INSTANCES_ZONE_LABEL_ENABLED", "sometimes"),
        ("HCLOUD_SERVER_CACHE_MODE", "foobar"),
        ("HCLOUD_SERVER_CACHE_MAX_AGE", "ten"),
        ("ROBOT_ENABLED", "perhaps"),
        ("ROBOT_CACHE_TIMEOUT", "biweekly"),
        ("ROBOT_RATE_LIMIT_WAIT_TIME", "42fortnights"),
        ("ROBOT_FORWARD_INTERNAL_IPS", "y"),
    ]);
    let error = Settings::read(&config).unwrap_err();
    assert!(matches!(error, Error::Invalid(_)), "{error:?}");
    for key in [
        "HCLOUD_DEBUG: must be true or false",
        "HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK: must be true or false",
        "HCLOUD_NETWORK_ROUTES_ENABLED: must be true or false",
        "HCLOUD_INSTANCES_ADDRESS_FAMILY: must be one of ipv4, ipv6, dualstack",
        "HCLOUD_INSTANCES_ZONE_LABEL_ENABLED: must be true or false",
        "HCLOUD_SERVER_CACHE_MODE: must be one of all, one, off",
        "HCLOUD_SERVER_CACHE_MAX_AGE: must be a duration",
        "ROBOT_ENABLED: must be true or false",
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
fn every_value_about_load_balancers_is_read() {
    let settings = read(&[
        ("HCLOUD_LOAD_BALANCERS_ENABLED", "false"),
        ("HCLOUD_LOAD_BALANCERS_LOCATION", "nbg1"),
        ("HCLOUD_LOAD_BALANCERS_TYPE", "lb21"),
        (
            "HCLOUD_LOAD_BALANCERS_ALGORITHM_TYPE",
            " Least_Connections ",
        ),
        ("HCLOUD_LOAD_BALANCERS_DISABLE_PUBLIC_NETWORK", "true"),
        (
            "HCLOUD_LOAD_BALANCERS_PRIVATE_SUBNET_IP_RANGE",
            "10.1.0.0/24",
        ),
        ("HCLOUD_LOAD_BALANCERS_DISABLE_PRIVATE_INGRESS", "true"),
        ("HCLOUD_LOAD_BALANCERS_USE_PRIVATE_IP", "true"),
        ("HCLOUD_LOAD_BALANCERS_DISABLE_IPV6", "true"),
        ("HCLOUD_LOAD_BALANCERS_USES_PROXYPROTOCOL", "true"),
        ("HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_INTERVAL", "30s"),
        ("HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_TIMEOUT", "5s"),
        ("HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_RETRIES", "5"),
        ("HCLOUD_LOAD_BALANCERS_KEEP_FOREIGN_PORTS", "true"),
    ]);
    let expected = LoadBalancerSettings {
        enabled: false,
        place: Some(Place::Location("nbg1".to_owned())),
        type_name: Some("lb21".to_owned()),
        algorithm: Some(Algorithm::LeastConnections),
        public_interface: Some(false),
        private_subnet_ip_range: Some("10.1.0.0/24".to_owned()),
        private_ingress: false,
        use_private_ip: true,
        ipv6: false,
        proxy_protocol: Some(true),
        health_check_interval: Some(30),
        health_check_timeout: Some(5),
        health_check_retries: Some(5),
        keep_foreign_ports: true,
    };
    assert_eq!(settings.load_balancers, expected);
    let zone = read(&[("HCLOUD_LOAD_BALANCERS_NETWORK_ZONE", "eu-central")]);
    assert_eq!(
        zone.load_balancers.place,
        Some(Place::NetworkZone("eu-central".to_owned()))
    );
}

#[test]
fn zero_in_a_health_check_is_the_clouds_default() {
    let settings = read(&[
        ("HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_INTERVAL", "0s"),
        ("HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_TIMEOUT", "0"),
        ("HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_RETRIES", "0"),
    ]);
    assert_eq!(settings.load_balancers, ordinary());
}

#[test]
fn mistakes_about_load_balancers_are_reported_at_once_too() {
    let table = [
        (
            "LOCATION",
            "nbg1",
            "excludes HCLOUD_LOAD_BALANCERS_NETWORK_ZONE",
        ),
        ("NETWORK_ZONE", "eu-central", ""),
        ("ENABLED", "yes", "must be true or false"),
        ("DISABLE_PUBLIC_NETWORK", "yes", "must be true or false"),
        ("DISABLE_PRIVATE_INGRESS", "yes", "must be true or false"),
        ("USE_PRIVATE_IP", "yes", "must be true or false"),
        ("DISABLE_IPV6", "yes", "must be true or false"),
        ("USES_PROXYPROTOCOL", "yes", "must be true or false"),
        ("KEEP_FOREIGN_PORTS", "yes", "must be true or false"),
        (
            "ALGORITHM_TYPE",
            "invalid",
            "must be one of round_robin, least_connections",
        ),
        (
            "PRIVATE_SUBNET_IP_RANGE",
            "10.0.0.0/33",
            "must be an IPv4 range",
        ),
        ("HEALTH_CHECK_INTERVAL", "30", "must be a duration"),
        (
            "HEALTH_CHECK_TIMEOUT",
            "500ms",
            "must be at least one second",
        ),
        ("HEALTH_CHECK_RETRIES", "-1", "must be a number"),
    ]
    .map(|(key, value, what)| (format!("HCLOUD_LOAD_BALANCERS_{key}"), value, what));
    let values: Vec<(&str, &str)> = table
        .iter()
        .map(|(key, value, _)| (key.as_str(), *value))
        .collect();
    let error = Settings::read(&config(&values)).unwrap_err();
    assert!(matches!(error, Error::Invalid(_)), "{error:?}");
    for (key, _, what) in table.iter().filter(|(_, _, what)| !what.is_empty()) {
        let mistake = format!("{key}: {what}");
        assert!(error.message().contains(&mistake), "{mistake}: {error:?}");
    }
}

#[test]
fn robot_is_asked_only_where_it_is_granted() {
    for (enabled, granted, is_enabled, is_granted) in [
        ("true", "robot", true, true),
        ("true", "other", true, false),
        ("false", "robot", false, false),
        ("false", "other", false, false),
    ] {
        let mut config = config(&[("ROBOT_ENABLED", enabled)]);
        config = ccm_guest::testing::granting(config, &["api", granted]);
        let robot = Settings::read(&config).unwrap().robot;
        let read = (robot.is_enabled(), robot.granted().is_some());
        assert_eq!(read, (is_enabled, is_granted), "{enabled} {granted}");
    }
}

#[test]
fn every_key_that_the_manifest_declares_is_read() {
    let manifest: serde_json::Value =
        serde_json::from_str(include_str!("../../manifest.json")).unwrap();
    let declared = manifest["config"].as_array().unwrap().iter();
    for key in declared.map(|entry| entry["key"].as_str().unwrap()) {
        // A value that is no boolean, no keyword and no duration. Keys that hold names of the cloud accept any value.
        let names = [
            "HCLOUD_NETWORK",
            "HCLOUD_LOAD_BALANCERS_LOCATION",
            "HCLOUD_LOAD_BALANCERS_NETWORK_ZONE",
            "HCLOUD_LOAD_BALANCERS_TYPE",
        ];
        let read = Settings::read(&config(&[(key, "no such value")]));
        let is_name = names.contains(&key);
        assert_eq!(read.is_ok(), is_name, "{key}");
        assert_ne!(
            read.ok(),
            Some(Settings::read(&config(&[])).unwrap()),
            "{key}"
        );
    }
}
