//! Target groups that an interrupted call has left, and those that AWS does not delete at once.

use std::time::Duration;

use ccm_guest::load_balancer::{DeleteRequest, EnsureRequest};
use ccm_guest::state;
use ccm_guest::testing::TestHost;

use super::*;
use crate::fixtures::{NO_LISTENERS, changes, forms};
use crate::load_balancer::deletion;

const IN_USE: &str =
    "<ErrorResponse><Error><Code>ResourceInUse</Code><Message>m</Message></Error></ErrorResponse>";

/// Its name says nothing of thresholds, ports and paths.
#[test]
fn a_target_group_that_was_left_behind_is_checked_as_wanted_now() {
    let host = host(|action, _| {
        let duplicate = "<ErrorResponse><Error><Code>DuplicateTargetGroupName</Code><Message>x</Message></Error></ErrorResponse>";
        match action {
            "DescribeListeners" => Some(xml(200, NO_LISTENERS)),
            "CreateTargetGroup" => Some(xml(400, duplicate)),
            _ => None,
        }
    });
    let mut one = service(&[("healthcheck-healthy-threshold", "5")]);
    one.ports.truncate(1);
    ensure::ensure(&settings(&[]), &EnsureRequest::new(one, vec![known()])).unwrap();
    let sent = changes(&host);
    assert!(sent.contains(&"ModifyTargetGroup".to_owned()), "{sent:?}");
}

/// AWS answers a request that is repeated with the same settings with the group that is there, which may have nodes that
/// have left since.
#[test]
fn a_target_group_that_was_left_behind_keeps_no_former_node() {
    let host = host(|action, _| {
        let health = "<DescribeTargetHealthResponse><DescribeTargetHealthResult><TargetHealthDescriptions><member><Target><Id>i-old</Id></Target></member><member><Target><Id>i-1234567890abcdef0</Id></Target></member></TargetHealthDescriptions></DescribeTargetHealthResult></DescribeTargetHealthResponse>";
        match action {
            "DescribeListeners" => Some(xml(200, NO_LISTENERS)),
            "DescribeTargetHealth" => Some(xml(200, health)),
            _ => None,
        }
    });
    let mut one = service(&[]);
    one.ports.truncate(1);
    ensure::ensure(&settings(&[]), &EnsureRequest::new(one, vec![known()])).unwrap();
    let mut sent = forms(&host).into_iter();
    let leaving = sent.find(|form| form["Action"] == "DeregisterTargets");
    assert_eq!(leaving.unwrap()["Targets.member.1.Id"], "i-old");
}

/// A host on which AWS still counts the first target group as used when it is deleted first. Once a listener was changed,
/// no group names the load balancer any more.
fn busy_once() -> TestHost {
    let groups = include_str!("../../../fixtures/target-groups.xml");
    let detached = groups.replace("<member>arn:load-balancer</member>", "");
    let (mut is_changed, mut is_refused) = (false, false);
    host(move |action, _| match action {
        "ModifyListener" => {
            is_changed = true;
            None
        }
        "DescribeTargetGroups" if is_changed => Some(xml(200, &detached)),
        "DeleteTargetGroup" if !is_refused => {
            is_refused = true;
            Some(xml(400, IN_USE))
        }
        _ => None,
    })
}

fn deleted(host: &TestHost) -> Vec<String> {
    let sent = forms(host).into_iter();
    let deleted = sent.filter(|form| form["Action"] == "DeleteTargetGroup");
    deleted.map(|form| form["TargetGroupArn"].clone()).collect()
}

/// Nothing at AWS says that it was the load balancer's.
#[test]
fn a_former_target_group_that_counts_as_used_goes_with_a_later_call() {
    let host = busy_once();
    let mut other = service(&[]);
    other.ports.truncate(1);
    other.ports[0].node_port = Some(30081);
    let request = EnsureRequest::new(other, vec![known()]);
    let ensure = || ensure::ensure(&settings(&[]), &request);
    let error = ensure().unwrap_err().error;
    assert!(
        matches!(&error, Error::Unavailable(why) if why.contains("ResourceInUse")),
        "{error:?}"
    );
    let both = ["arn:group-30080", "arn:group-30443"];
    assert_eq!(deleted(&host), both);
    let before = changes(&host).len();
    ensure().unwrap();
    ensure().unwrap();
    assert_eq!(changes(&host)[before..], ["DeleteTargetGroup"; 2]);
    assert_eq!(deleted(&host), both.repeat(2));
}

#[test]
fn a_former_target_group_that_counts_as_used_goes_with_its_service() {
    let host = busy_once();
    let mut other = service(&[]);
    other.ports[0].node_port = Some(30081);
    let request = EnsureRequest::new(other.clone(), vec![known()]);
    assert!(ensure::ensure(&settings(&[]), &request).is_err());
    deletion::delete(&settings(&[]), &DeleteRequest::new(other)).unwrap();
    let twice = ["arn:group-30080", "arn:group-30080", "arn:group-30443"];
    assert_eq!(deleted(&host), twice);
}

#[test]
fn a_former_target_group_goes_though_the_store_has_no_room_for_its_name() {
    let host = host(|_, _| None);
    let all = vec![0_u8; (256 << 10) - "all".len()];
    assert!(state::set("all", &all, Duration::from_secs(3600)));
    let mut other = service(&[]);
    other.ports[0].node_port = Some(30081);
    let request = EnsureRequest::new(other, vec![known()]);
    ensure::ensure(&settings(&[]), &request).unwrap();
    assert_eq!(deleted(&host), ["arn:group-30080"]);
}

/// AWS cannot change these fields in a target group.
#[test]
fn another_protocol_needs_another_target_group() {
    for (name, value, count) in [
        // Of the port with TLS alone.
        ("backend-protocol", "ssl", 1),
        ("healthcheck-protocol", "https", 2),
    ] {
        let host = host(|_, _| None);
        let request = EnsureRequest::new(service(&[(name, value)]), vec![known()]);
        ensure::ensure(&settings(&[]), &request).unwrap();
        let moved = ["CreateTargetGroup", "RegisterTargets", "ModifyListener"].repeat(count);
        let expected = [moved, vec!["DeleteTargetGroup"; count]].concat();
        assert_eq!(changes(&host), expected, "{name}");
    }
}

#[test]
fn each_threshold_is_changed_in_the_target_groups() {
    for (name, field) in [
        ("healthcheck-healthy-threshold", "HealthyThresholdCount"),
        ("healthcheck-unhealthy-threshold", "UnhealthyThresholdCount"),
    ] {
        let host = host(|_, _| None);
        let request = EnsureRequest::new(service(&[(name, "5")]), vec![known()]);
        ensure::ensure(&settings(&[]), &request).unwrap();
        assert_eq!(changes(&host), ["ModifyTargetGroup"; 2], "{name}");
        let mut sent = forms(&host);
        sent.retain(|form| form["Action"] == "ModifyTargetGroup");
        assert!(sent.iter().all(|form| form[field] == "5"), "{sent:?}");
    }
}
