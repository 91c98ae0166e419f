//! Which interfaces are enabled with which configuration.
#![allow(clippy::unwrap_used, reason = "tests")]

use ccm_guest::testing::config;

use super::*;

#[test]
fn load_balancers_can_be_switched_off() {
    let exported = [Capability::Instances, Capability::LoadBalancer];
    let table = [(None, 2), (Some("true"), 2), (Some("false"), 1)];
    for (value, expected) in table {
        let values: Vec<(&str, &str)> = value
            .map(|value| ("HCLOUD_LOAD_BALANCERS_ENABLED", value))
            .into_iter()
            .collect();
        let provider = Hetzner::init(&config(&values)).unwrap();
        let enabled = provider.enabled(&exported);
        assert_eq!(enabled, exported[..expected], "{value:?}");
    }
}

#[test]
fn routes_need_a_network_and_can_be_switched_off() {
    let exported = [Capability::Instances, Capability::Routes];
    let network = ("HCLOUD_NETWORK", "cluster");
    let switch = |value| ("HCLOUD_NETWORK_ROUTES_ENABLED", value);
    let robot = ("ROBOT_ENABLED", "true");
    let table = [
        (vec![], 1),
        (vec![switch("true")], 1),
        (vec![network], 2),
        (vec![network, switch("true")], 2),
        (vec![network, switch("false")], 1),
        // The Go manager refuses to start with both.
        (vec![network, switch("true"), robot], 2),
    ];
    for (values, expected) in table {
        let provider = Hetzner::init(&config(&values)).unwrap();
        let enabled = provider.enabled(&exported);
        assert_eq!(enabled, exported[..expected], "{values:?}");
    }
}
