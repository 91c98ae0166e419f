//! The part of a pod template that tells how a manager is started. Kubernetes' own type of a pod brings some hundred and fifty
//! others, each of which would be compiled for the one object that is read here.

use anyhow::Context as _;
use k8s_openapi::api::core::v1::{
    ConfigMapVolumeSource, EnvFromSource, EnvVar, SecretVolumeSource, VolumeMount,
};
use kube::api::DynamicObject;
use serde::Deserialize;

/// `PodSpec` of core/v1, in part.
#[derive(Deserialize)]
pub(super) struct PodSpec {
    pub(super) containers: Vec<Container>,
    pub(super) volumes: Option<Vec<Volume>>,
}

/// `Container` of core/v1, in part.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Container {
    pub(super) name: String,
    pub(super) command: Option<Vec<String>>,
    pub(super) args: Option<Vec<String>>,
    pub(super) env: Option<Vec<EnvVar>>,
    pub(super) env_from: Option<Vec<EnvFromSource>>,
    pub(super) volume_mounts: Option<Vec<VolumeMount>>,
}

/// `Volume` of core/v1 with the sources that a manager's files come from.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Volume {
    pub(super) name: String,
    pub(super) secret: Option<SecretVolumeSource>,
    pub(super) config_map: Option<ConfigMapVolumeSource>,
}

/// The pod template of a DaemonSet or Deployment.
///
/// # Errors
/// `workload` has none.
pub(super) fn of(workload: &DynamicObject) -> anyhow::Result<PodSpec> {
    let template = &workload.data["spec"]["template"]["spec"];
    PodSpec::deserialize(template).context("its pod template is not readable")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;

    use super::*;

    #[test]
    fn what_kubernetes_may_leave_out_is_left_out_and_a_workload_without_a_template_is_an_error() {
        let workload = |spec: serde_json::Value| -> DynamicObject {
            serde_json::from_value(json!({ "metadata": { "name": "a" }, "spec": spec })).unwrap()
        };
        let least =
            workload(json!({ "template": { "spec": { "containers": [{ "name": "x" }] } } }));
        let pod = of(&least).unwrap();
        assert_eq!(pod.containers.len(), 1);
        assert!(pod.containers[0].args.is_none() && pod.volumes.is_none());
        assert!(of(&workload(json!({}))).is_err());
    }
}
