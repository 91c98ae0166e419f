//! A network load balancer's own security group.

use ccm_guest::load_balancer::{DeleteRequest, Progress};

use super::*;
use crate::fixtures::{NOT_FOUND, changes, forms};
use crate::load_balancer::{deletion, wanted};

const GROUPS: &str = include_str!("../../../fixtures/security-groups.xml");
pub(super) const IN_USE: &str = "<Response><Errors><Error><Code>DependencyViolation</Code><Message>m</Message></Error></Errors></Response>";

#[test]
fn an_own_security_group_is_made_kept_and_deleted() {
    let managed = settings(&[("NLBSecurityGroupMode", "Managed")]);
    let name = wanted::own_group(&managed, &service(&[]));
    let new = host(|action, _| match action {
        "DescribeLoadBalancers" => Some(xml(400, NOT_FOUND)),
        "CreateSecurityGroup" => Some(xml(
            200,
            "<CreateSecurityGroupResponse><groupId>sg-new</groupId></CreateSecurityGroupResponse>",
        )),
        _ => None,
    });
    ensure::ensure(&managed, &EnsureRequest::new(service(&[]), vec![known()])).unwrap();
    assert_eq!(
        changes(&new)[..3],
        [
            "CreateSecurityGroup",
            "CreateLoadBalancer",
            "AuthorizeSecurityGroupIngress"
        ]
    );
    let sent = forms(&new);
    let create = sent
        .iter()
        .find(|form| form["Action"] == "CreateLoadBalancer")
        .unwrap();
    assert_eq!(create["SecurityGroups.member.1"], "sg-new");
    drop(new);

    let groups = GROUPS.replace("SecurityGroup1", &name);
    let mut tries = 0;
    let host = host(move |action, _| match action {
        "DescribeSecurityGroups" => Some(xml(200, &groups)),
        "DeleteSecurityGroup" => {
            tries += 1;
            (tries == 1).then(|| xml(400, IN_USE))
        }
        _ => None,
    });
    let delete = || {
        deletion::delete(&managed, &DeleteRequest::new(service(&[])))
            .unwrap()
            .progress
    };
    assert!(
        matches!(delete(), Progress::Pending(_)),
        "its load balancer is still leaving"
    );
    assert_eq!(delete(), Progress::Done);
    assert_eq!(
        changes(&host)
            .iter()
            .filter(|one| *one == "DeleteSecurityGroup")
            .count(),
        2
    );
}

/// Others may use it as well, such as by a rule of another group.
#[test]
fn a_security_group_that_stays_in_use_is_named() {
    let managed = settings(&[("NLBSecurityGroupMode", "Managed")]);
    let name = wanted::own_group(&managed, &service(&[]));
    let groups = GROUPS.replace("SecurityGroup1", &name);
    let _host = host(move |action, _| match action {
        "DescribeSecurityGroups" => Some(xml(200, &groups)),
        "DeleteSecurityGroup" => Some(xml(400, IN_USE)),
        _ => None,
    });
    let mut request = DeleteRequest::new(service(&[]));
    let error = (0..100).find_map(|_| match deletion::delete(&managed, &request) {
        Ok(reply) => {
            let Progress::Pending(pending) = reply.progress else {
                panic!("done")
            };
            request.hint = pending.hint;
            None
        }
        Err(error) => Some(error),
    });
    let error = error.unwrap();
    let why = error.message();
    assert!(why.contains("sg-e4076980 is in use"), "{why}");
    assert!(why.contains("DependencyViolation: m"), "{why}");
}

/// AWS adds none to it later.
#[test]
fn a_load_balancer_that_was_made_without_security_groups_gets_none() {
    let host = host(|_, _| None);
    let managed = settings(&[("NLBSecurityGroupMode", "Managed")]);
    for wanted in [service(&[]), service(&[("security-groups", "sg-1")])] {
        let request = EnsureRequest::new(wanted, vec![known()]);
        ensure::ensure(&managed, &request).unwrap();
    }
    assert_eq!(changes(&host), [""; 0]);
}
