//! The default name of a load balancer.

use super::*;
use crate::testing::service;

#[test]
fn a_load_balancer_is_called_as_the_go_managers_call_it() {
    let table = [
        (
            "0b1f6d5e-7a3c-4c55-9e0a-2f1d3b4c5a69",
            "a0b1f6d5e7a3c4c559e0a2f1d3b4c5a6",
        ),
        ("some-lb-uid", "asomelbuid"),
        ("", "a"),
        ("---", "a"),
    ];
    for (uid, expected) in table {
        let service = Service {
            uid: uid.to_owned(),
            ..service("web", &[])
        };
        assert_eq!(service.default_name(), expected);
    }
}

#[test]
fn the_port_of_the_health_check_counts_with_local_traffic_alone() {
    let table = [
        (None, None),
        (Some(TrafficPolicy::Cluster), None),
        (Some(TrafficPolicy::Local), Some(30_081)),
    ];
    for (external_traffic_policy, expected) in table {
        let service = Service {
            external_traffic_policy,
            health_check_node_port: Some(30_081),
            ..service("web", &[])
        };
        assert_eq!(service.is_local(), expected.is_some());
        assert_eq!(service.local_health_port(), expected);
    }
}
