//! The monitors of `deploy/`, taken by a real API server that has the Prometheus Operator's own definitions.

use std::collections::BTreeSet;

use ccm_tests::apiserver::ApiServer;
use ccm_tests::prometheus_operator::monitors;
use serde_json::{Value, json};

use crate::chart::{OPERATOR, kind_and_name, rendered};
use crate::deploy::{apply, define};
use crate::world::root;

#[tokio::test]
async fn the_operators_own_definitions_have_every_field_of_the_monitors() {
    let server = ApiServer::start().await.unwrap();
    let admin = server.client_for("admin").await.unwrap();
    for definition in monitors().unwrap() {
        define(&admin, &definition).await;
    }
    let file = root().join("deploy/monitoring/podmonitor.yaml");
    let text = std::fs::read_to_string(file).unwrap();
    let mut objects: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    for values in [
        "monitoring.podMonitor.enabled=true",
        "monitoring.podMonitor.enabled=true,monitoring.podMonitor.secure=true",
        "monitoring.serviceMonitor.enabled=true,monitoring.serviceMonitor.spec.sampleLimit=9000",
    ] {
        let more = [OPERATOR, &["--set", values]].concat();
        objects.extend(rendered("kustomize-base-values.yaml", &more));
    }
    objects.retain(|one| one["kind"].as_str().unwrap().ends_with("Monitor"));
    assert_eq!(objects.len(), 4, "{objects:#?}");
    let mut kinds = BTreeSet::new();
    for object in objects {
        let (kind, name) = kind_and_name(&object);
        let applied = apply(&admin, &object).await;
        applied.unwrap_or_else(|error| panic!("{kind} {name}: {error}"));
        // A misspelt field is noticed.
        let mut misspelt = object;
        misspelt["spec"]["selectors"] = json!({});
        let refused = apply(&admin, &misspelt).await.unwrap_err().to_string();
        assert!(refused.contains("selectors"), "{kind} {name}: {refused}");
        kinds.insert(kind);
    }
    assert!(
        kinds.iter().eq(["PodMonitor", "ServiceMonitor"]),
        "{kinds:?}"
    );
}
