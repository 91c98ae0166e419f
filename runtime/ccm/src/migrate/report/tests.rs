#![allow(clippy::unwrap_used, reason = "tests")]

use ccm_core::node::NodeEffect;
use ccm_core::node::object::NodeRef;
use ccm_core::reconciliation::patch::{NodePatch, NodeStatusPatch};
use ccm_core::safety::plan::ChangePlace;

use super::*;

fn node() -> NodeRef {
    NodeRef {
        name: "worker-1".to_owned(),
        uid: "u".to_owned(),
    }
}

fn planned(effect: &NodeEffect) -> Planned {
    Planned::of_effect(effect).unwrap()
}

fn mark() -> Planned {
    let patch = NodePatch {
        labels: [("wasm-ccm.dev/provider".to_owned(), "hcloud".to_owned())].into(),
        ..NodePatch::default()
    };
    planned(&NodeEffect::Patch(node(), patch))
}

fn report(plan: Plan) -> Report {
    Report {
        plan,
        differences: Vec::new(),
    }
}

#[test]
fn a_plan_of_bookkeeping_alone_is_clean() {
    let mut plan = Plan::default();
    plan.set_whole();
    plan.add(mark());
    let report = report(plan);
    let json = report.to_json();
    assert_eq!(json["verdict"], "clean");
    assert_eq!(json["bookkeeping"][0]["object"], "node/worker-1");
    assert_eq!(json["clusterChanges"], json!([]));
    assert_eq!(
        report.to_string(),
        "Internal records of this program, which no other program reads:\n  \
         node/worker-1  patch node/worker-1 labels(1)\n\n\
         clean: no request that changes a cloud and no visible change would follow\n"
    );
}

#[test]
fn every_kind_of_finding_has_its_own_place() {
    let mut plan = Plan::default();
    plan.set_whole();
    plan.add(mark());
    plan.add(planned(&NodeEffect::PatchStatus(
        node(),
        NodeStatusPatch::default(),
    )));
    plan.add(Planned {
        object: "service/default/web".to_owned(),
        place: ChangePlace::Cloud {
            target: "api".to_owned(),
            method: "POST".to_owned(),
            path: "/load_balancers".to_owned(),
        },
        is_bookkeeping: false,
        ..mark()
    });
    let why = Some("it is refused");
    plan.set_unsure("service/default/odd", "service", "hcloud", why);
    let report = report(plan);
    let json = report.to_json();
    assert_eq!(json["verdict"], "changes");
    assert_eq!(
        json["cloudRequests"][0]["request"]["path"],
        "/load_balancers"
    );
    assert_eq!(json["clusterChanges"][0]["verb"], "patch status");
    assert_eq!(json["undecided"][0]["why"], "it is refused");
    let text = report.to_string();
    assert!(
        text.ends_with(
            "not clean: 1 requests that change a cloud and 1 visible changes would come first\n"
        ),
        "{text}"
    );
}

#[test]
fn what_was_not_looked_at_is_not_clean() {
    let mut plan = Plan::default();
    plan.explain("https://cluster.test refuses the credential (401)".to_owned());
    let report = report(plan);
    assert_eq!(report.to_json()["verdict"], "unknown");
    assert_eq!(
        report.to_string(),
        "not judged: https://cluster.test refuses the credential (401)\n"
    );
}
