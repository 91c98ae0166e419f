//! Nodes whose instances do not run yet, or which AWS does not describe at once.

use std::cell::Cell;
use std::rc::Rc;

use ccm_guest::load_balancer::UpdateRequest;

use super::costs::{four, four_registered};
use super::*;
use crate::fixtures::{INSTANCE, INSTANCES, NONE, changes, forms};

/// The answer about a target group without targets.
const NOBODY: &str = "<DescribeTargetHealthResponse><DescribeTargetHealthResult><TargetHealthDescriptions/></DescribeTargetHealthResult></DescribeTargetHealthResponse>";

/// AWS registers running instances alone, and nobody calls again because one runs.
#[test]
fn an_instance_that_does_not_run_yet_is_awaited_after_everything_else() {
    let runs = Rc::new(Cell::new(false));
    let is_running = runs.clone();
    let host = host(move |action, _| match action {
        "DescribeInstances" if !is_running.get() => {
            Some(xml(200, INSTANCES.replace(">running<", ">pending<")))
        }
        "DescribeTargetHealth" => Some(xml(200, NOBODY)),
        _ => None,
    });
    let wanted = service(&[("cross-zone-load-balancing-enabled", "true")]);
    let made = ensure::ensure(
        &settings(&[]),
        &EnsureRequest::new(wanted.clone(), vec![known()]),
    );
    let update = || {
        let request = UpdateRequest::new(wanted.clone(), vec![known()]);
        ensure::update_targets(&settings(&[]), &request)
    };
    for error in [made.unwrap_err().error, update().unwrap_err().error] {
        assert!(
            matches!(&error, Error::Unavailable(why) if why.contains(INSTANCE)),
            "{error:?}"
        );
    }
    let other_work = "ModifyLoadBalancerAttributes";
    assert_eq!(changes(&host), [other_work]);
    runs.set(true);
    update().unwrap();
    assert_eq!(
        changes(&host),
        [other_work, "RegisterTargets", "RegisterTargets"]
    );
}

/// Nobody calls again because AWS describes an instance that it did not describe before.
#[test]
fn an_answer_that_lags_behind_is_asked_for_again() {
    let mut asked = 0;
    let host = host(move |action, _| match action {
        "DescribeInstances" => {
            asked += 1;
            (asked == 1).then(|| xml(200, NONE))
        }
        "DescribeTargetHealth" => Some(xml(200, NOBODY)),
        _ => None,
    });
    let request = UpdateRequest::new(service(&[]), vec![known()]);
    ensure::update_targets(&settings(&[]), &request).unwrap();
    assert_eq!(changes(&host), ["RegisterTargets"; 2]);
}

/// Its security group is not known, so the rules stay in every group.
#[test]
fn an_instance_that_is_missing_twice_loses_nothing_and_the_next_call_looks_it_up() {
    let is_missing = Rc::new(Cell::new(true));
    let missing = is_missing.clone();
    let host = host(move |action, _| {
        (action == "DescribeInstances" && missing.get()).then(|| xml(200, NONE))
    });
    let ensure = || {
        let request = EnsureRequest::new(service(&[]), vec![known()]);
        ensure::ensure(&settings(&[]), &request).unwrap()
    };
    let request = UpdateRequest::new(service(&[]), vec![known()]);
    ensure::update_targets(&settings(&[]), &request).unwrap();
    ensure();
    assert_eq!(changes(&host), [""; 0]);
    is_missing.set(false);
    let before = actions(&host).len();
    ensure();
    let sent = actions(&host).split_off(before);
    assert!(sent.contains(&"DescribeInstances".to_owned()), "{sent:?}");
}

/// As with the Go provider: a cluster may have nodes that are no part of it at AWS.
#[test]
fn an_instance_without_the_clusters_tag_is_no_target() {
    for key in ["kubernetes.io/cluster/other", "owner"] {
        let others = INSTANCES.replace("kubernetes.io/cluster/prod", key);
        let host =
            host(move |action, _| (action == "DescribeInstances").then(|| xml(200, &others)));
        let request = EnsureRequest::new(service(&[]), vec![known()]);
        let reply = ensure::ensure(&settings(&[]), &request).unwrap();
        let [event] = reply.events.as_slice() else {
            panic!("{reply:?}")
        };
        let why = format!("without the tag kubernetes.io/cluster/prod are no targets: {INSTANCE}");
        assert_eq!(event.reason, "InstanceNotTagged");
        assert!(event.message.contains(&why), "{event:?}");
        let expected = [
            "DeregisterTargets",
            "DeregisterTargets",
            "RevokeSecurityGroupIngress",
        ];
        assert_eq!(changes(&host), expected, "{key}");
    }
}

/// AWS takes no more of them in one request.
#[test]
fn nodes_are_registered_a_hundred_at_a_time() {
    let host = host(four_registered);
    let request = UpdateRequest::new(service(&[]), four(150));
    ensure::update_targets(&settings(&[]), &request).unwrap();
    let mut sent = forms(&host);
    sent.retain(|form| form["Action"] == "RegisterTargets");
    let targets = sent
        .iter()
        .map(|form| form.keys().filter(|key| key.ends_with(".Id")).count());
    // In each of two target groups, in which four are registered already.
    assert_eq!(targets.collect::<Vec<_>>(), [100, 46, 100, 46]);
}
