//! Target groups that an interrupted call has left.

use ccm_guest::load_balancer::EnsureRequest;

use super::*;
use crate::fixtures::{NO_LISTENERS, changes, forms};

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
