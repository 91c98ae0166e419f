//! Nodes whose instances do not run yet.

use std::cell::Cell;
use std::rc::Rc;

use ccm_guest::load_balancer::UpdateRequest;

use super::*;
use crate::fixtures::{INSTANCE, INSTANCES, changes};

/// AWS registers running instances alone, and nobody calls again because one runs.
#[test]
fn an_instance_that_does_not_run_yet_is_awaited_after_everything_else() {
    let runs = Rc::new(Cell::new(false));
    let is_running = runs.clone();
    let host = host(move |action, _| match action {
        "DescribeInstances" if !is_running.get() => {
            Some(xml(200, INSTANCES.replace(">running<", ">pending<")))
        }
        "DescribeTargetHealth" => Some(xml(
            200,
            "<DescribeTargetHealthResponse><DescribeTargetHealthResult><TargetHealthDescriptions/></DescribeTargetHealthResult></DescribeTargetHealthResponse>",
        )),
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
