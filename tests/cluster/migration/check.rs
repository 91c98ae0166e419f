//! `ccm migrate check`, run by a user who may only read, and the requests that it made.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, Output};

use ccm_tests::apiserver::AuditEntry;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use super::estate::Variant;
use crate::world::World;

/// The service account of the user who runs the check.
const NAME: &str = "somebody-who-reads";
/// The Go manager's Deployment and Secret.
const GO: &str = "hcloud-cloud-controller-manager";

/// The user who runs the check.
pub(super) struct Checker {
    kubeconfig: PathBuf,
}

/// The result of a check.
pub(super) struct Checked {
    pub(super) code: Option<i32>,
    pub(super) report: Value,
}

impl Checked {
    /// The objects of this list of the report.
    pub(super) fn objects(&self, of: &str) -> Vec<String> {
        let all = self.report[of].as_array().unwrap().iter();
        all.map(|one| one["object"].as_str().unwrap().to_owned())
            .collect()
    }

    /// The settings, and the Services with settings, that mean something else here.
    pub(super) fn differences(&self) -> BTreeSet<&str> {
        let all = self.report["differences"].as_array().unwrap().iter();
        all.map(|one| one["about"].as_str().unwrap()).collect()
    }

    /// The requests, as method and path.
    pub(super) fn requests(&self) -> Vec<String> {
        let all = self.report["cloudRequests"].as_array().unwrap().iter();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        all.map(|one| &one["request"])
            .map(|one| format!("{} {}", text(&one["method"]), text(&one["path"])))
            .collect()
    }
}

impl Checker {
    /// Creates the account, with the rights that the help text names.
    pub(super) async fn of(world: &World) -> Checker {
        let admin = world.api.client_for("admin").await.unwrap();
        let params = PostParams::default();
        let accounts: Api<ServiceAccount> = Api::namespaced(admin.clone(), "default");
        let account = serde_json::from_value(json!({"metadata": {"name": NAME}})).unwrap();
        accounts.create(&params, &account).await.unwrap();
        let read = ["get", "list", "watch"];
        let role = json!({"metadata": {"name": NAME}, "rules": [
            {"apiGroups": [""], "resources": ["nodes", "services", "pods", "namespaces", "secrets", "configmaps"], "verbs": read},
            {"apiGroups": ["apps"], "resources": ["daemonsets", "deployments"], "verbs": read},
            {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": read},
        ]});
        let role: ClusterRole = serde_json::from_value(role).unwrap();
        Api::all(admin.clone())
            .create(&params, &role)
            .await
            .unwrap();
        let binding = json!({
            "metadata": {"name": NAME},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": NAME},
            "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": "default"}],
        });
        let binding: ClusterRoleBinding = serde_json::from_value(binding).unwrap();
        Api::all(admin).create(&params, &binding).await.unwrap();
        let request = TokenRequest::default();
        let token = accounts.create_token_request(NAME, &params, &request).await;
        let token = token.unwrap().status.unwrap().token;
        Checker {
            kubeconfig: world.api.kubeconfig_with_token(NAME, &token).unwrap(),
        }
    }

    /// Runs the check with these arguments and variables, and asserts that nothing was written meanwhile.
    async fn ask(
        &self,
        world: &World,
        arguments: Vec<String>,
        variables: Vec<(String, String)>,
    ) -> Output {
        let requests = world.cloud.requests().len();
        let mut command = Command::new(env!("CARGO_BIN_EXE_ccm"));
        command
            .args(["migrate", "check", "-o", "json", "--timeout=90s"])
            .arg(format!("--kubeconfig={}", self.kubeconfig.display()))
            .args(arguments)
            .env_clear()
            .envs(variables);
        let output = tokio::task::spawn_blocking(move || command.output());
        let output = output.await.unwrap().unwrap();
        let asked = asked(world);
        assert!(!asked.is_empty(), "{output:?}");
        for entry in &asked {
            let is_read = ["get", "list", "watch"].contains(&entry.verb.as_str());
            assert!(is_read, "{entry:?}");
        }
        let theirs = world.cloud.requests().split_off(requests);
        let written: Vec<_> = theirs.iter().filter(|one| one.write).collect();
        assert!(written.is_empty(), "{written:?}");
        output
    }

    async fn run(
        &self,
        world: &World,
        arguments: Vec<String>,
        variables: Vec<(String, String)>,
    ) -> Checked {
        let output = self.ask(world, arguments, variables).await;
        let reported = String::from_utf8_lossy(&output.stderr);
        let report = serde_json::from_slice(&output.stdout);
        Checked {
            code: output.status.code(),
            report: report.unwrap_or_else(|error| panic!("{error}: {reported}")),
        }
    }

    /// Checks with the Go manager's arguments and variables.
    pub(super) async fn with_arguments(&self, world: &World, variant: Variant) -> Checked {
        let mut arguments = vec!["--".to_owned()];
        arguments.extend(variant.arguments().iter().map(|one| (*one).to_owned()));
        self.run(world, arguments, all_variables(world, variant))
            .await
    }

    /// Checks from the Go manager's Deployment, whose token is a variable from a Secret.
    pub(super) async fn of_the_deployment(&self, world: &World, variant: Variant) -> Checked {
        let env = json!([
            {"name": "HCLOUD_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hcloud", "key": "token"}}},
            {
                "name": "ROBOT_USER",
                "valueFrom": {"secretKeyRef": {"name": "hcloud", "key": "user", "optional": true}},
            },
        ]);
        let container = json!({
            "command": ["/bin/hcloud-cloud-controller-manager"], "args": variant.arguments(),
        });
        let template = template(world, variant, &env, container, &json!([]));
        let deployment: Deployment = serde_json::from_value(workload(&template)).unwrap();
        let admin = world.api.client_for("admin").await.unwrap();
        let deployments = Api::namespaced(admin, "kube-system");
        let params = PostParams::default();
        deployments.create(&params, &deployment).await.unwrap();
        self.from(world, "deployment").await
    }

    /// Checks from its DaemonSet, whose token is a file of a mounted Secret.
    pub(super) async fn of_the_daemon_set(&self, world: &World, variant: Variant) -> Checked {
        let env = json!([
            {"name": "FOLDER", "value": "/etc/hetzner"},
            {"name": "HCLOUD_TOKEN_FILE", "value": "$(FOLDER)/token"},
        ]);
        let container = json!({
            "args": variant.arguments(),
            "volumeMounts": [{"name": "credentials", "mountPath": "/etc/hetzner"}],
        });
        let volumes = json!([{"name": "credentials", "secret": {"secretName": "hcloud"}}]);
        let template = template(world, variant, &env, container, &volumes);
        let daemon_set: DaemonSet = serde_json::from_value(workload(&template)).unwrap();
        let admin = world.api.client_for("admin").await.unwrap();
        let daemon_sets = Api::namespaced(admin, "kube-system");
        let params = PostParams::default();
        daemon_sets.create(&params, &daemon_set).await.unwrap();
        self.from(world, "daemonset").await
    }

    async fn from(&self, world: &World, kind: &str) -> Checked {
        let from = format!("--from={kind}/kube-system/{GO}");
        // The Secret that it refers to does not exist yet.
        let refused = self.ask(world, vec![from.clone()], Vec::new()).await;
        assert_eq!(refused.status.code(), Some(1));
        let reported = String::from_utf8_lossy(&refused.stderr);
        assert!(
            reported.contains("there is no Secret kube-system/hcloud"),
            "{reported}"
        );
        let secret =
            json!({"metadata": {"name": "hcloud"}, "stringData": {"token": world.token()}});
        let secret: Secret = serde_json::from_value(secret).unwrap();
        let admin = world.api.client_for("admin").await.unwrap();
        let secrets = Api::namespaced(admin, "kube-system");
        secrets
            .create(&PostParams::default(), &secret)
            .await
            .unwrap();
        self.run(world, vec![from], Vec::new()).await
    }
}

/// A pod that runs the Go manager beside another container.
fn template(
    world: &World,
    variant: Variant,
    more: &Value,
    mut container: Value,
    volumes: &Value,
) -> Value {
    let plain = all_variables(world, variant).into_iter();
    let mut env: Vec<Value> = plain
        .filter(|(name, _)| name != "HCLOUD_TOKEN")
        .map(|(name, value)| json!({"name": name, "value": value}))
        .collect();
    env.extend(more.as_array().unwrap().iter().cloned());
    container["name"] = json!("manager");
    container["image"] = json!("example.com/manager:1");
    container["env"] = json!(env);
    let beside = json!({"name": "beside", "image": "example.com/beside:1"});
    json!({"containers": [beside, container], "volumes": volumes})
}

fn workload(pod: &Value) -> Value {
    let labels = json!({"app": GO});
    json!({
        "metadata": {"name": GO},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    })
}

/// The variables: token, endpoint, and those of the variant.
pub(super) fn all_variables(world: &World, variant: Variant) -> Vec<(String, String)> {
    let mut variables = variant.variables();
    let endpoint = world.cloud.endpoint();
    variables.extend([
        ("HCLOUD_TOKEN", world.token()),
        ("HCLOUD_ENDPOINT", &endpoint),
    ]);
    let owned = variables.into_iter();
    owned
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

fn asked(world: &World) -> Vec<AuditEntry> {
    let mut log = world.api.audit_log().unwrap();
    log.retain(|entry| entry.user.ends_with(NAME));
    log
}
