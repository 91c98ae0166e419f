//! Listeners and instances of classic load balancers.

use super::*;
use crate::fixtures::INSTANCE;

#[test]
fn another_protocol_to_the_nodes_makes_the_listener_anew() {
    let there = there();
    ensure(web(&[("backend-protocol", "ssl")])).unwrap();
    let expected = [
        "DeleteLoadBalancerListeners",
        "CreateLoadBalancerListeners",
        "ConfigureHealthCheck",
    ];
    assert_eq!(changes(&there), expected);
    let mut sent = forms(&there).into_iter();
    let made = sent.find(|form| form["Action"] == expected[1]).unwrap();
    assert_eq!(made["Listeners.member.1.LoadBalancerPort"], "443");
    assert_eq!(made["Listeners.member.1.InstanceProtocol"], "SSL");
}

/// A set that is replaced as a whole is never empty in between.
#[test]
fn instances_come_before_others_leave() {
    let replaced = CLASSIC.replace(INSTANCE, "i-old");
    let there = host(
        move |action, form| match (action, form["Version"].as_str()) {
            ("DescribeLoadBalancers", "2012-06-01") => Some(xml(200, &replaced)),
            _ => existing(action, form),
        },
    );
    ensure(web(&[])).unwrap();
    let expected = [
        "RegisterInstancesWithLoadBalancer",
        "DeregisterInstancesFromLoadBalancer",
    ];
    assert_eq!(changes(&there), expected);
}
