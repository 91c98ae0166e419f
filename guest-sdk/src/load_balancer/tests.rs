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
