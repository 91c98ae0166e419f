//! Whether the recorded owner of a load balancer still exists, by what the API server says.

use ccm_core::cloud::Owner;
use ccm_core::service::{OwnerState, ServiceAction, ServiceEffect, ServiceOutcome};
use serde_json::json;

use super::*;

/// Whether the Service with this UID owns a load balancer, by an index that knows no Service and this API server.
async fn owner((cluster, settings): (Arc<Cluster>, Settings), uid: &str) -> OwnerState {
    cluster.service_index().complete();
    let executor = executor(cluster, &settings);
    let effect = ServiceEffect {
        service: ServiceRef {
            namespace: "default".to_owned(),
            name: "web".to_owned(),
            uid: "u1".to_owned(),
        },
        generation: 0,
        action: ServiceAction::FindOwner(Owner::Uid(uid.to_owned())),
    };
    let mut turn = WritePermit::default();
    let found = executor
        .carry_out(&effect, Priority::Known, &mut turn)
        .await;
    match found {
        Performed::Ended(ServiceOutcome::Owner(owner)) => owner,
        other => panic!("{other:?}"),
    }
}

/// Whoever may write a Service may write the times of its managed fields, too, up to the end of the year 9999.
#[tokio::test(start_paused = true)]
async fn a_service_with_a_time_that_cannot_be_represented_hides_no_owner() {
    let item = json!({
        "metadata": {
            "name": "odd", "namespace": "default", "uid": "u3",
            "managedFields": [{ "manager": "m", "operation": "Update", "time": "9999-12-31T23:59:59Z" }]
        }
    });
    let list = json!({ "metadata": { "resourceVersion": "1" }, "items": [item] });
    assert_eq!(owner(answering(&list), "u2").await, OwnerState::Gone);
    let odd = ServiceRef {
        namespace: "default".to_owned(),
        name: "odd".to_owned(),
        uid: "u3".to_owned(),
    };
    assert_eq!(owner(answering(&list), "u3").await, OwnerState::Alive(odd));
}

/// A watch may lag behind, and the load balancer of an owner that is called gone may be taken over.
#[tokio::test(start_paused = true)]
async fn an_owner_is_not_gone_while_the_api_server_does_not_say_so() {
    for code in [403, 404, 500] {
        let refusal = json!({
            "status": "Failure", "message": "m", "reason": "", "code": code
        });
        let found = owner(answering_with(code, &refusal), "u3").await;
        assert_eq!(found, OwnerState::Unsynced, "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_owner_on_a_later_page_is_alive() {
    let page = |uid: &str, next: &str| {
        let item = json!({ "metadata": { "name": uid, "namespace": "default", "uid": uid } });
        let metadata = json!({ "resourceVersion": "1", "continue": next });
        json!({ "metadata": metadata, "items": [item] }).to_string()
    };
    let (first, last) = (page("u3", "more"), page("u4", ""));
    let cluster = answering_by(move |query| match query.contains("continue=more") {
        true => (200, last.clone()),
        false => (200, first.clone()),
    });
    let later = ServiceRef {
        namespace: "default".to_owned(),
        name: "u4".to_owned(),
        uid: "u4".to_owned(),
    };
    assert_eq!(owner(cluster, "u4").await, OwnerState::Alive(later));
}
