//! The object of a provider that is no longer configured.

use ccm_sim::cluster::Cluster;
use kube::Api;
use kube::api::DynamicObject;
use kube::core::{ApiResource, GroupVersionKind};
use tokio::sync::watch;

use super::full;
use crate::record::{
    ClusterRecordStore, MemoryRecordStore, RecordStore as _, RefusalReason, Report, SpecRefusal,
    Specification,
};

#[tokio::test]
async fn an_object_without_a_provider_is_not_ready_and_is_not_made() {
    let cluster = Cluster::new();
    cluster.define_providers(true);
    let leader = watch::Sender::new(Some(cluster.client()));
    let store = || {
        let memory = MemoryRecordStore::new();
        ClusterRecordStore::new("hcloud", cluster.client(), leader.subscribe(), memory)
    };
    let kind = GroupVersionKind::gvk("wasm-ccm.dev", "v1alpha1", "Provider");
    let kind = ApiResource::from_gvk_with_plural(&kind, "providers");
    let api: Api<DynamicObject> = Api::all_with(cluster.client(), &kind);
    let ready = async || {
        let object = api.get("hcloud").await.unwrap();
        let conditions = object.data["status"]["conditions"].as_array().unwrap();
        let ready = conditions.iter().find(|it| it["type"] == "Ready").unwrap();
        format!("{}: {}", ready["status"], ready["message"])
    };
    let why = "it is no longer configured";
    let departed = Specification {
        refusal: Some(SpecRefusal {
            reason: RefusalReason::NotApplied,
            message: why.to_owned(),
        }),
        ..Specification::default()
    };

    store().refuse(&departed).await.unwrap();
    assert!(api.get_opt("hcloud").await.unwrap().is_none());

    let report = Report {
        record: full(),
        is_serving: true,
        ..Report::default()
    };
    store().write(&report).await.unwrap();
    assert!(ready().await.starts_with("\"True\""));
    store().refuse(&departed).await.unwrap();
    assert_eq!(ready().await, format!("\"False\": {why:?}"));
}
