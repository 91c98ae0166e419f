//! What is enabled with which configuration.
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
