//! Policies of classic load balancers.

use super::*;

/// Such as by a call whose answer was lost.
#[test]
fn a_policy_that_was_made_meanwhile_is_set() {
    const IS_THERE: &str = "<ErrorResponse><Error><Code>DuplicatePolicyName</Code><Message>m</Message></Error></ErrorResponse>";
    let there = host(|action, form| match action {
        "CreateLoadBalancerPolicy" => Some(xml(400, IS_THERE)),
        _ => existing(action, form),
    });
    let policy = "ELBSecurityPolicy-TLS-1-2-2017-01";
    ensure(web(&[("ssl-negotiation-policy", policy)])).unwrap();
    let expected = [
        "CreateLoadBalancerPolicy",
        "SetLoadBalancerPoliciesOfListener",
    ];
    assert_eq!(changes(&there), expected);
}
