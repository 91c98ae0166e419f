//! The manifests of Go's managers: those of the Kubernetes documentation, and those of hcloud-cloud-controller-manager.
//!
//! The vendor's files are not in this repository. Its objects are made here, and each [`Deployed`] has the digest of
//! the vendor's, so that they are the same, field by field. With `CCM_HCLOUD_SOURCE`, a checkout of that version, its
//! files are read, its chart is rendered by helm, and those objects are applied.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::world::root;

/// Version of hcloud's manager, its files and its chart.
const VERSION: &str = "1.35.0";
/// The name of all of hcloud's objects.
pub(crate) const HCLOUD: &str = "hcloud-cloud-controller-manager";

/// Where the vendor's objects come from.
enum Source {
    /// A file of the vendor's repository, by its path there.
    File(&'static str),
    /// The vendor's chart, with these values as JSON.
    Chart(&'static str),
}

/// A way to deploy hcloud's manager.
pub(crate) struct Deployed {
    source: Source,
    /// Digest of all objects of the source: see [`digest`].
    digest: &'static str,
    kind: &'static str,
    labels: &'static [(&'static str, &'static str)],
    with_network: bool,
    /// Whether the token is in a file instead of a variable, as the values of `Chart` say.
    token_file: bool,
}

pub(crate) const MANIFEST: Deployed = Deployed {
    source: Source::File("deploy/ccm.yaml"),
    digest: "83ab409b54ec4e2166db8870da5187db5ca147e65ec68cb96c346e5cfab4d6b7",
    kind: "Deployment",
    labels: &[("app", HCLOUD)],
    with_network: false,
    token_file: false,
};

pub(crate) const MANIFEST_WITH_NETWORKS: Deployed = Deployed {
    source: Source::File("deploy/ccm-networks.yaml"),
    digest: "6814f5068c8035fdbfbef2611fcceb732b49dd9431d151baf68eda9cef15a147",
    kind: "Deployment",
    labels: &[("app", HCLOUD)],
    with_network: true,
    token_file: false,
};

pub(crate) const CHART: Deployed = Deployed {
    source: Source::Chart("{}"),
    digest: "34d67cf76f8d9c74e9812e4bd79245124cbbbd471c746e7da5db68d4b90b6d29",
    kind: "Deployment",
    labels: CHART_LABELS,
    with_network: false,
    token_file: false,
};

/// All values of the chart that change how the process runs.
pub(crate) const CHART_OF_A_DAEMON_SET: Deployed = Deployed {
    source: Source::Chart(
        r#"{
            "kind": "DaemonSet",
            "networking": {"enabled": true},
            "nodeSelector": {"node-role.kubernetes.io/control-plane": ""},
            "env": {"HCLOUD_TOKEN": null, "HCLOUD_TOKEN_FILE": {"value": "/etc/hetzner/token"}},
            "extraVolumeMounts": [{"name": "hetzner", "mountPath": "/etc/hetzner", "readOnly": true}],
            "extraVolumes": [{"name": "hetzner", "secret": {"secretName": "hcloud"}}]
        }"#,
    ),
    digest: "d2582f1a778fe6ba4ba924600a77b7da6d5591a8872fb9ee316144731689044f",
    kind: "DaemonSet",
    labels: CHART_LABELS,
    with_network: true,
    token_file: true,
};

const DEPLOYED: [&Deployed; 4] = [
    &MANIFEST,
    &MANIFEST_WITH_NETWORKS,
    &CHART,
    &CHART_OF_A_DAEMON_SET,
];

const RELEASE: &str = "hccm";
const CHART_LABELS: &[(&str, &str)] = &[
    ("app.kubernetes.io/instance", RELEASE),
    ("app.kubernetes.io/name", HCLOUD),
];

impl Deployed {
    /// The objects: the vendor's own if a checkout is given.
    pub(crate) fn objects(&self) -> Vec<Value> {
        let objects = match std::env::var_os("CCM_HCLOUD_SOURCE") {
            Some(checkout) => self.read(Path::new(&checkout)),
            None => self.make(),
        };
        assert_eq!(digest(&objects), self.digest, "{}", self.name());
        objects
    }

    fn name(&self) -> String {
        match &self.source {
            Source::File(file) => (*file).to_owned(),
            Source::Chart(values) => format!("chart with {values}"),
        }
    }

    fn read(&self, checkout: &Path) -> Vec<Value> {
        let text = match &self.source {
            Source::File(file) => std::fs::read_to_string(checkout.join(file)).unwrap(),
            Source::Chart(values) => rendered(&checkout.join("chart"), values),
        };
        serde_saphyr::from_multiple(&text).unwrap()
    }

    fn make(&self) -> Vec<Value> {
        let role = format!("system:{HCLOUD}");
        let labels: Map<String, Value> = self
            .labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), json!(value)))
            .collect();
        let mut spec = json!({
            "revisionHistoryLimit": 2,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": self.pod()},
        });
        if self.kind == "Deployment" {
            spec["replicas"] = json!(1);
        }
        let place = json!({"name": HCLOUD, "namespace": "kube-system"});
        let rbac = "rbac.authorization.k8s.io";
        let rules: Vec<Value> = RULES
            .iter()
            .map(|(group, resource, verbs)| json!({"apiGroups": [group], "resources": [resource], "verbs": verbs}))
            .collect();
        vec![
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": place}),
            json!({
                "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRole",
                "metadata": {"name": role}, "rules": rules,
            }),
            json!({
                "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding",
                "metadata": {"name": format!("{role}:restricted")},
                "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": role},
                "subjects": [{"kind": "ServiceAccount", "name": HCLOUD, "namespace": "kube-system"}],
            }),
            json!({"apiVersion": "apps/v1", "kind": self.kind, "metadata": place, "spec": spec}),
        ]
    }

    fn pod(&self) -> Value {
        let mut words = vec![
            "--allow-untagged-cloud",
            "--cloud-provider=hcloud",
            "--feature-gates=CloudControllerManagerWatchBasedRoutesReconciliation=true",
            "--route-reconciliation-period=30s",
            "--webhook-secure-port=0",
        ];
        if self.with_network {
            words.extend(["--allocate-node-cidrs=true", "--cluster-cidr=10.244.0.0/16"]);
        }
        let secret = |key: &str| json!({"secretKeyRef": {"name": "hcloud", "key": key}});
        let mut variables = Vec::new();
        match self.token_file {
            false => variables.push(json!({"name": "HCLOUD_TOKEN", "valueFrom": secret("token")})),
            true => {
                variables.push(json!({"name": "HCLOUD_TOKEN_FILE", "value": "/etc/hetzner/token"}))
            }
        }
        for (name, key) in [
            ("ROBOT_PASSWORD", "robot-password"),
            ("ROBOT_USER", "robot-user"),
        ] {
            let mut from = secret(key);
            from["secretKeyRef"]["optional"] = json!(true);
            variables.push(json!({"name": name, "valueFrom": from}));
        }
        if self.with_network {
            variables.push(json!({"name": "HCLOUD_NETWORK", "valueFrom": secret("network")}));
        }
        let mut container = json!({
            "name": HCLOUD,
            "image": format!("docker.io/hetznercloud/{HCLOUD}:v{VERSION}"),
            "env": variables,
            "ports": [{"name": "metrics", "containerPort": 8233}],
            "resources": {"requests": {"cpu": "100m", "memory": "50Mi"}},
            "securityContext": {
                "allowPrivilegeEscalation": false,
                "capabilities": {"drop": ["ALL"]},
                "readOnlyRootFilesystem": true,
            },
        });
        if self.kind == "DaemonSet" {
            let program = format!("/bin/{HCLOUD}");
            words.insert(0, &program);
            container["command"] = json!(words);
        } else {
            words.push("--leader-elect=false");
            container["args"] = json!(words);
        }
        let role = |name: &str| json!({"key": format!("node-role.kubernetes.io/{name}"), "operator": "Exists", "effect": "NoSchedule"});
        let mut pod = json!({
            "serviceAccountName": HCLOUD,
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "dnsPolicy": "Default",
            "priorityClassName": "system-cluster-critical",
            "tolerations": [
                {"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"},
                {"key": "CriticalAddonsOnly", "operator": "Exists"},
                role("master"),
                role("control-plane"),
                {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"},
            ],
        });
        if self.with_network {
            pod["hostNetwork"] = json!(true);
        }
        if self.token_file {
            pod["nodeSelector"] = json!({"node-role.kubernetes.io/control-plane": ""});
            pod["volumes"] = json!([{"name": "hetzner", "secret": {"secretName": "hcloud"}}]);
            container["volumeMounts"] =
                json!([{"name": "hetzner", "mountPath": "/etc/hetzner", "readOnly": true}]);
        }
        pod["containers"] = json!([container]);
        pod
    }
}

/// The rules of its ClusterRole: API group, resource, verbs.
const RULES: &[(&str, &str, &[&str])] = &[
    ("", "configmaps", &["get", "list", "watch"]),
    ("", "events", &["create", "patch", "update"]),
    ("", "nodes", &["*"]),
    ("", "nodes/status", &["patch"]),
    ("", "services", &["list", "watch"]),
    ("", "services/status", &["patch", "update"]),
    ("", "serviceaccounts", &["create"]),
    (
        "coordination.k8s.io",
        "leases",
        &["create", "get", "list", "watch", "update"],
    ),
];

/// The objects of the Kubernetes documentation.
pub(crate) fn documented() -> Vec<Value> {
    serde_saphyr::from_multiple(include_str!("go_managers/documentation.yaml")).unwrap()
}

/// A chart as helm renders it.
fn rendered(chart: &Path, values: &str) -> String {
    let folder = tempfile::TempDir::new().unwrap();
    let file: PathBuf = folder.path().join("values.json");
    std::fs::write(&file, values).unwrap();
    let output = Command::new("go")
        .args(["tool", "helm", "template", RELEASE])
        .arg(chart)
        .args(["--namespace", "kube-system", "--values"])
        .arg(&file)
        .current_dir(root().join("tests/cluster/helm"))
        .output()
        .unwrap();
    let reported = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{reported}");
    String::from_utf8(output.stdout).unwrap()
}

/// The digest of objects: in order of kind and name, each with its keys in order.
fn digest(objects: &[Value]) -> String {
    let mut texts: Vec<String> = objects.iter().map(|one| ordered(one).to_string()).collect();
    texts.sort();
    let digest = Sha256::digest(texts.join("\n"));
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn ordered(value: &Value) -> Value {
    match value {
        Value::Object(object) => {
            let mut keys: Vec<&String> = object.keys().collect();
            keys.sort();
            let one = |key: &String| (key.clone(), ordered(&object[key]));
            Value::Object(keys.into_iter().map(one).collect())
        }
        Value::Array(all) => all.iter().map(ordered).collect(),
        other => other.clone(),
    }
}

/// Without a checkout, the objects made here have the digests recorded from the vendor's.
#[test]
fn what_is_deployed_is_what_the_vendors_files_hold() {
    for deployed in DEPLOYED {
        assert_eq!(
            digest(&deployed.make()),
            deployed.digest,
            "{}",
            deployed.name()
        );
        deployed.objects();
    }
}
