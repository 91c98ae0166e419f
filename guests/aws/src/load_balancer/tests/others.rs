//! What belongs to others at AWS is neither changed nor deleted.

use ccm_guest::load_balancer::{DeleteRequest, Found, UpdateRequest};

use super::*;
use crate::fixtures::{NOT_FOUND, changes, is_of_classic};
use crate::load_balancer::deletion;

const CLASSIC: &str = include_str!("../../../fixtures/classic.xml");
const LOAD_BALANCERS: &str = include_str!("../../../fixtures/load-balancers.xml");

#[test]
fn a_load_balancer_of_another_type_is_a_conflict() {
    let other = LOAD_BALANCERS.replace("<Type>network", "<Type>application");
    let host = host(move |action, form| {
        (action == "DescribeLoadBalancers" && !is_of_classic(form)).then(|| xml(200, &other))
    });
    let settings = settings(&[]);
    let request = EnsureRequest::new(service(&[]), vec![known()]);
    for error in [
        ensure::ensure(&settings, &request).unwrap_err().error,
        deletion::delete(&settings, &DeleteRequest::new(service(&[]))).unwrap_err(),
        deletion::get(&service(&[])).unwrap_err(),
    ] {
        assert!(matches!(error, Error::Conflict(_)), "{error:?}");
    }
    assert_eq!(changes(&host), [""; 0]);
}

#[test]
fn a_load_balancer_of_another_name_is_not_the_services() {
    let other = LOAD_BALANCERS.replace(">auidofweb<", ">aother<");
    let network = host(move |action, form| {
        (action == "DescribeLoadBalancers" && !is_of_classic(form)).then(|| xml(200, &other))
    });
    assert_eq!(deletion::get(&service(&[])), Ok(Found::Absent));
    deletion::delete(&settings(&[]), &DeleteRequest::new(service(&[]))).unwrap();
    assert_eq!(changes(&network), ["RevokeSecurityGroupIngress"]);
    drop(network);
    // The fixture has an instance, which would be deregistered.
    let other = CLASSIC.replace(">auidofweb<", ">aother<");
    let classic = host(move |_, form| match is_of_classic(form) {
        true => Some(xml(200, &other)),
        false => Some(xml(400, NOT_FOUND)),
    });
    let nobody = UpdateRequest::new(service(&[("type", "")]), Vec::new());
    let answer = ensure::update_targets(&settings(&[]), &nobody).unwrap_err();
    assert!(matches!(answer.error, Error::Unavailable(_)), "{answer:?}");
    assert_eq!(changes(&classic), [""; 0]);
}

/// It has the cluster's tag, too.
#[test]
fn the_own_security_group_of_another_load_balancer_stays() {
    const GROUPS: &str = include_str!("../../../fixtures/security-groups.xml");
    const OTHER: &str = "<securityGroupInfo><item><groupId>sg-b</groupId><groupName>k8s-default-other-0123456789</groupName><ipPermissions/><tagSet><item><key>kubernetes.io/cluster/prod</key><value>owned</value></item></tagSet></item>";
    let groups = GROUPS.replace("<securityGroupInfo>", OTHER);
    let host =
        host(move |action, _| (action == "DescribeSecurityGroups").then(|| xml(200, &groups)));
    let managed = settings(&[("NLBSecurityGroupMode", "Managed")]);
    deletion::delete(&managed, &DeleteRequest::new(service(&[]))).unwrap();
    let sent = changes(&host);
    assert!(
        !sent.contains(&"DeleteSecurityGroup".to_owned()),
        "{sent:?}"
    );
}

#[test]
fn in_a_vpc_of_other_clusters_the_configured_subnet_alone_is_chosen() {
    const SUBNETS: &str = include_str!("../../../fixtures/subnets.xml");
    const OTHERS: &str =
        "<item><key>kubernetes.io/cluster/other</key><value>owned</value></item></tagSet>";
    let others = SUBNETS.replace("cluster/prod", "cluster/other");
    let others = others.replace("</tagSet>", OTHERS);
    let _host = host(move |action, _| (action == "DescribeSubnets").then(|| xml(200, &others)));
    let choose = |more: &[(&str, &str)]| -> Option<Vec<String>> {
        let internal = read(&service(&[("internal", "true")]));
        let chosen = subnets::choose(&settings(more), &internal, "vpc-1").ok()?;
        Some(chosen.into_iter().map(|one| one.subnet_id).collect())
    };
    assert_eq!(choose(&[]), None);
    let configured = "subnet-11111111";
    assert_eq!(
        choose(&[("SubnetID", configured)]),
        Some(vec![configured.to_owned()])
    );
}
