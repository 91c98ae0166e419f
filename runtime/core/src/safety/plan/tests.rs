#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::node::NodeEffect;
use crate::node::object::NodeRef;
use crate::node_lifecycle::{LifecycleEffect, NodeDeletion};
use crate::reconciliation::patch::{NodePatch, NodeStatusPatch};
use crate::safety::audit::{Author, Subject};
use crate::safety::brake::Brake;
use crate::safety::permit::{Access, Refusal};
use crate::well_known::{NODE_LIFECYCLE_CONTROLLER, OWNER_LABEL};

fn node(name: &str) -> NodeRef {
    NodeRef {
        name: name.to_owned(),
        uid: "u".to_owned(),
    }
}

fn deletes(name: &str) -> LifecycleEffect {
    let deletion = NodeDeletion {
        resource_version: "7".to_owned(),
        brake: Some(Brake::NodeDeletion),
        reason: String::new(),
    };
    LifecycleEffect::Delete(node(name), deletion)
}

fn deletion(name: &str) -> Planned {
    Planned::of_effect(&deletes(name)).unwrap()
}

fn refused(subject: &Subject, log_line: Option<&str>) -> Planned {
    let request = CloudRequest {
        author: Author {
            provider: "hcloud".to_owned(),
            digest: "sha256:0".to_owned(),
        },
        target: "api".to_owned(),
        host: "api.example.com".to_owned(),
        method: "DELETE".to_owned(),
        path: "/load_balancers/7".to_owned(),
        template: "/load_balancers/{id}".to_owned(),
        rule: "DELETE /load_balancers/{id} (write)".to_owned(),
        sha256: String::new(),
        access: Access::Write,
    };
    Planned::of_request(&Refused {
        subject,
        request: &request,
        refusal: Refusal::Mode("plan"),
        log_line,
    })
}

#[test]
fn only_effects_that_change_an_object_of_the_cluster_are_planned() {
    let status = NodeStatusPatch {
        uid: "u".to_owned(),
        addresses: Vec::new(),
    };
    let status = NodeEffect::PatchStatus(node("a"), status);
    assert_eq!(Planned::of_effect(&status).unwrap().verb, "patch status");
    assert_eq!(deletion("a").verb, "delete");
    assert_eq!(deletion("a").what, deletes("a").to_string());
    assert_eq!(Planned::of_effect(&NodeEffect::Read(node("a"))), None);
}

#[test]
fn the_first_change_of_each_object_counts() {
    let mut plan = Plan::default();
    assert!(plan.add(deletion("b")));
    assert!(plan.add(deletion("a")));
    let later = Planned {
        verb: "patch".to_owned(),
        ..deletion("a")
    };
    assert!(!plan.add(later));
    let objects: Vec<_> = plan
        .changes()
        .map(|one| (one.object.as_str(), one.verb.as_str()))
        .collect();
    assert_eq!(objects, [("node/a", "delete"), ("node/b", "delete")]);
    assert_eq!(plan.counts().into_iter().collect::<Vec<_>>(), [("node", 2)]);
}

#[test]
fn what_somebody_else_has_changed_is_not_in_the_plan_any_more() {
    let mut plan = Plan::default();
    plan.add(deletion("a"));
    assert!(!plan.settled("node/b", NODE_LIFECYCLE_CONTROLLER, "hcloud"));
    assert!(plan.settled("node/a", NODE_LIFECYCLE_CONTROLLER, "hcloud"));
    assert_eq!(plan.changes().count(), 0);
}

#[test]
fn one_controller_that_has_nothing_to_do_does_not_speak_for_another() {
    let mut plan = Plan::default();
    plan.add(deletion("a"));
    assert!(!plan.settled("node/a", "another", "hcloud"));
    assert_eq!(plan.verdict(), PlanVerdict::Changes);
    assert!(plan.gone("node/a"));
    assert_eq!(plan.changes().count(), 0);
}

#[test]
fn what_one_controller_would_change_hides_nothing_that_another_one_would() {
    let mut plan = Plan::default();
    assert!(plan.add(deletion("a")));
    let another = Planned {
        by: "another",
        verb: "patch".to_owned(),
        ..deletion("a")
    };
    assert!(plan.add(another));
    assert_eq!(plan.counts().into_iter().collect::<Vec<_>>(), [("node", 1)]);
    assert!(plan.settled("node/a", NODE_LIFECYCLE_CONTROLLER, "hcloud"));
    let left: Vec<_> = plan.changes().map(|one| one.verb.as_str()).collect();
    assert_eq!(left, ["patch"]);
}

#[test]
fn a_write_to_the_cluster_hides_no_request_to_the_cloud() {
    let mut plan = Plan::default();
    let service = Subject {
        kind: Some(ObjectKind::Service),
        namespace: Some("default".to_owned()),
        name: "web".to_owned(),
        ..Subject::default()
    };
    let mark = Planned {
        verb: "patch".to_owned(),
        place: ChangePlace::Cluster,
        ..refused(&service, None)
    };
    assert!(plan.add(refused(&service, None)));
    assert!(plan.add(mark));
    assert!(!plan.add(refused(&service, None)));
    let verbs: Vec<_> = plan.changes().map(|one| one.verb.as_str()).collect();
    assert_eq!(verbs, ["patch", "DELETE /load_balancers/{id}"]);
    assert_eq!(
        plan.to_string(),
        "the plan has changes of 1 objects: 1 service; requests to a cloud: 1; not everything was looked at yet"
    );
    assert_eq!(
        plan.to_json()["changes"][1]["request"],
        json!({ "target": "api", "method": "DELETE", "path": "/load_balancers/7" })
    );
    assert!(plan.settled("service/default/web", SERVICE_CONTROLLER, "hcloud"));
    assert_eq!(plan.changes().count(), 0);
}

#[test]
fn a_refused_request_is_planned_for_its_object_with_the_providers_own_words() {
    let service = Subject {
        kind: Some(ObjectKind::Service),
        namespace: Some("default".to_owned()),
        name: "web".to_owned(),
        ..Subject::default()
    };
    let planned = refused(&service, Some("removing the load balancer of web"));
    assert_eq!(
        (planned.kind, planned.object.as_str()),
        (ObjectKind::Service, "service/default/web")
    );
    assert_eq!(planned.verb, "DELETE /load_balancers/{id}");
    assert_eq!(
        planned.to_string(),
        "DELETE /load_balancers/7 on target api, which is a change by the rule DELETE /load_balancers/{id} (write) \
         (the provider: removing the load balancer of web)"
    );
    let nobodys = refused(&Subject::default(), None);
    assert_eq!(nobodys.object, "cloud/hcloud/api/load_balancers/{id}");
}

#[test]
fn it_is_printed_as_a_table_as_json_and_as_one_line() {
    let mut plan = Plan::default();
    assert_eq!(plan.table(), "no plan: not everything was looked at yet\n");
    plan.set_whole();
    assert_eq!(
        plan.table(),
        "the plan is empty: nothing would be changed\n"
    );
    plan.add(deletion("worker-1"));
    plan.add(refused(&Subject::default(), None));
    let table = plan.table();
    let lines: Vec<_> = table.lines().collect();
    assert_eq!(lines.len(), 3);
    assert_eq!(
        lines[2],
        "the plan has changes of 2 objects: 1 cloud, 1 node; requests to a cloud: 1"
    );
    let columns = |line: &str, text: &str| line.find(text).unwrap();
    assert_eq!(
        columns(lines[0], "DELETE /load_balancers/{id} "),
        columns(lines[1], "delete ")
    );
    let value = plan.to_json();
    assert_eq!(value["counts"], json!({ "cloud": 1, "node": 1 }));
    assert_eq!(value["changes"][1]["object"], "node/worker-1");
    assert_eq!(value["empty"], false);
}

#[test]
fn an_empty_plan_is_only_a_promise_when_everything_was_looked_at_and_nothing_is_open() {
    let mut plan = Plan::default();
    assert_eq!(plan.verdict(), PlanVerdict::Unknown);
    plan.set_unsure("node/a", "node", "sim", Some("throttled"));
    plan.set_unsure("node/a", "lifecycle", "sim", Some("held"));
    plan.set_whole();
    assert_eq!(plan.verdict(), PlanVerdict::Unknown);
    assert_eq!(
        plan.table(),
        "node/a  ?  held (lifecycle)\nnode/a  ?  throttled (node)\n\
         no change is known; changes that cannot be judged yet: 2\n"
    );
    assert_eq!(plan.to_json()["unsure"][0]["why"], "held");
    assert_eq!(plan.to_json()["empty"], false);
    plan.set_unsure("node/a", "node", "sim", None);
    assert!(!plan.is_sure());
    plan.gone("node/a");
    assert_eq!(plan.verdict(), PlanVerdict::Empty);
}

#[test]
fn what_a_provider_that_has_left_would_change_or_could_not_judge_is_not_in_the_plan() {
    let mut plan = Plan::default();
    let of = |provider: &str, name: &str| Planned {
        provider: provider.to_owned(),
        ..deletion(name)
    };
    for (provider, name) in [("east", "a"), ("east", "b"), ("west", "b")] {
        plan.add(of(provider, name));
    }
    plan.set_unsure("node/c", "node", "east", Some("throttled"));
    plan.set_unsure("node/d", "node", "west", Some("held"));
    assert!(plan.left("east"));
    let objects: Vec<_> = plan.changes().map(|one| one.object.as_str()).collect();
    assert_eq!(objects, ["node/b"], "west would change it, too");
    assert_eq!(plan.unsure().collect::<Vec<_>>(), [("node/d", "held")]);
    assert!(!plan.left("east"));
}

#[test]
fn a_provider_that_has_listed_its_routes_does_not_speak_for_another() {
    let mut plan = Plan::default();
    let of_each = ["route/10.1.0.0/24", "routes"];
    for object in ["node/a", of_each[0], of_each[1]] {
        plan.set_unsure(object, "route", "east", Some("throttled"));
        plan.set_unsure(object, "route", "west", None);
    }
    assert_eq!(
        plan.unsure().collect::<Vec<_>>(),
        of_each.map(|object| (object, "throttled"))
    );
    for object in of_each {
        plan.set_unsure(object, "route", "east", None);
    }
    assert_eq!(plan.unsure().count(), 0);
}

#[test]
fn a_plan_that_could_not_be_made_says_why_and_is_not_empty() {
    let mut plan = Plan::default();
    plan.explain("https://cluster.test cannot be reached (connection refused)".to_owned());
    assert_eq!(
        plan.table(),
        "no plan: https://cluster.test cannot be reached (connection refused)\n"
    );
    assert_eq!(plan.to_json()["empty"], false);
    plan.set_whole();
    plan.explain("too late".to_owned());
    assert_eq!(plan.to_json()["why"], Value::Null);
}

#[test]
fn a_provider_that_would_change_everything_fills_no_memory() {
    let mut plan = Plan::default();
    for index in 0..MOST_CHANGES + 5 {
        plan.add(deletion(&index.to_string()));
    }
    assert_eq!(plan.changes().count(), MOST_CHANGES);
    assert!(
        plan.to_string().ends_with("; 5 more were not kept"),
        "{plan}"
    );
}

#[test]
fn bookkeeping_is_listed_counts_as_no_change_and_hides_none() {
    let mut plan = Plan::default();
    plan.set_whole();
    let patch = NodePatch {
        labels: [(OWNER_LABEL.to_owned(), "hcloud".to_owned())].into(),
        ..NodePatch::default()
    };
    let mark = LifecycleEffect::Patch(node("a"), patch);
    assert!(plan.add(Planned::of_effect(&mark).unwrap()));
    assert_eq!(plan.verdict(), PlanVerdict::Empty);
    assert_eq!((plan.changes().count(), plan.bookkeeping().count()), (0, 1));
    assert!(plan.counts().is_empty());
    assert_eq!(
        plan.table(),
        "node/a  patch  patch node/a labels(1) (bookkeeping)\n\
         the plan is empty: nothing would be changed; bookkeeping of this manager: 1\n"
    );
    assert_eq!(plan.to_json()["bookkeeping"][0]["object"], "node/a");
    assert!(plan.add(deletion("a")));
    assert_eq!(plan.verdict(), PlanVerdict::Changes);
    assert!(plan.settled("node/a", NODE_LIFECYCLE_CONTROLLER, "hcloud"));
    assert_eq!(plan.bookkeeping().count(), 0);
}
