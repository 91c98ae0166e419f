//! The rights of `deploy/`, applied unchanged, and a token of the service account that has them.

use std::fmt::Debug;

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::api::PostParams;
use kube::{Api, Client};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::world::root;

/// The validity of tokens in seconds, longer than any run.
const A_DAY: i64 = 24 * 60 * 60;

pub(crate) async fn deploy(admin: &Client) -> String {
    for manifest in manifests("rbac.yaml") {
        let cluster = admin.clone();
        match manifest["kind"].as_str() {
            Some("ClusterRole") => create(&Api::<ClusterRole>::all(cluster), manifest).await,
            Some("ClusterRoleBinding") => {
                create(&Api::<ClusterRoleBinding>::all(cluster), manifest).await;
            }
            Some("Role") => create(&namespaced::<Role>(&cluster, &manifest), manifest).await,
            Some("RoleBinding") => {
                create(&namespaced::<RoleBinding>(&cluster, &manifest), manifest).await;
            }
            other => panic!("rbac.yaml holds {other:?}"),
        }
    }
    let accounts: Api<ServiceAccount> = Api::namespaced(admin.clone(), "kube-system");
    create(&accounts, manifests("serviceaccount.yaml").remove(0)).await;
    let request = TokenRequest {
        spec: TokenRequestSpec {
            audiences: vec!["https://kubernetes.default.svc".to_owned()],
            expiration_seconds: Some(A_DAY),
            ..TokenRequestSpec::default()
        },
        ..TokenRequest::default()
    };
    let token = accounts
        .create_token_request("ccm", &PostParams::default(), &request)
        .await
        .unwrap();
    token.status.unwrap().token
}

fn namespaced<K>(client: &Client, manifest: &Value) -> Api<K>
where
    K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
{
    let namespace = manifest["metadata"]["namespace"].as_str();
    Api::namespaced(client.clone(), namespace.unwrap_or("kube-system"))
}

async fn create<K>(api: &Api<K>, manifest: Value)
where
    K: Clone + Debug + DeserializeOwned + Serialize,
{
    let object: K = serde_json::from_value(manifest).unwrap();
    api.create(&PostParams::default(), &object).await.unwrap();
}

fn manifests(file: &str) -> Vec<Value> {
    let path = root().join("deploy/kustomize/base").join(file);
    serde_saphyr::from_multiple(&std::fs::read_to_string(path).unwrap()).unwrap()
}
