//! `deploy/chart` as users install it: rendered by helm itself, with rights that follow from flags, and accepted by a
//! real API server, field by field.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ccm_tests::apiserver::ApiServer;
use ccm_tests::helm::Helm;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::deploy::apply;
use crate::world::root;

/// Tells helm that the Prometheus Operator's kinds exist.
pub(crate) const OPERATOR: &[&str] = &[
    "--api-versions",
    "monitoring.coreos.com/v1/PodMonitor,monitoring.coreos.com/v1/ServiceMonitor",
];

pub(crate) fn chart() -> PathBuf {
    root().join("deploy/chart")
}

/// The chart's own files of values, and the defaults.
fn all_values() -> Vec<Option<PathBuf>> {
    let folder = std::fs::read_dir(chart().join("ci")).unwrap();
    let files = folder.map(|entry| entry.unwrap().path());
    let mut all: Vec<_> = files.map(Some).chain([None]).collect();
    all.sort();
    assert!(all.len() >= 5, "{all:?}");
    all
}

fn with(values: Option<&Path>) -> Vec<String> {
    let values = values.map(|path| path.to_str().unwrap().to_owned());
    let values = values.map(|path| ["--values".to_owned(), path]);
    values.into_iter().flatten().collect()
}

/// The objects that the chart makes of one of its files of values and further settings.
pub(crate) fn rendered(file: &str, more: &[&str]) -> Vec<Value> {
    let file = chart().join("ci").join(file);
    let mut arguments = vec!["--values", file.to_str().unwrap()];
    arguments.extend(more);
    Helm::new().unwrap().template(&chart(), &arguments).unwrap()
}

pub(crate) fn kind_and_name(object: &Value) -> (String, String) {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    (text(&object["kind"]), text(&object["metadata"]["name"]))
}

#[test]
fn what_the_pod_needs_follows_from_several_values() {
    let digest = format!("sha256:{}", "0f".repeat(32));
    let image = format!("image.digest={digest}");
    let (liveness, ports) = ("/containers/0/livenessProbe/httpGet", "/containers/0/ports");
    let probe = |port: u16| json!({"path": "/livez", "port": port, "scheme": "HTTPS"});
    let metrics = json!({"name": "metrics", "containerPort": 8233});
    let secure = json!({"name": "secure", "containerPort": 10258});
    let mut elsewhere = probe(10258);
    elsewhere["host"] = json!("127.0.0.1");
    let unrouted = json!({"key": "node.kubernetes.io/network-unavailable", "operator": "Exists"});
    let last = "/tolerations/6";
    let helm = Helm::new().unwrap();
    for (set, at, expected) in [
        (
            image.as_str(),
            "/containers/0/image",
            json!(format!("ccm@{digest}")),
        ),
        ("image.tag=7", "/containers/0/image", json!("ccm:7")),
        ("networking.enabled=true", "/hostNetwork", json!(true)),
        (
            "networking.enabled=true,hostNetwork=false",
            "/hostNetwork",
            Value::Null,
        ),
        ("hostNetwork=true", "/hostNetwork", json!(true)),
        ("args.secure-port=10300", liveness, probe(10300)),
        // The kubelet reaches that address only where the pod has the node's network.
        ("args.bind-address=10.0.0.9", liveness, probe(10258)),
        (
            "args.bind-address=127.0.0.1,hostNetwork=true",
            liveness,
            elsewhere,
        ),
        (
            "args.bind-address=0.0.0.0,hostNetwork=true",
            liveness,
            probe(10258),
        ),
        ("kind=Deployment", ports, json!([metrics])),
        ("hostNetwork=true", ports, json!([metrics, secure])),
        ("hostNetwork=true,kind=DaemonSet", ports, json!([metrics])),
        ("kind=Deployment", last, Value::Null),
        ("hostNetwork=true", last, unrouted),
        ("hostNetwork=true,kind=DaemonSet", last, Value::Null),
        ("monitoring.enabled=false", ports, Value::Null),
        (
            "args.compiled-cache-dir=/elsewhere",
            "/volumes/1",
            Value::Null,
        ),
        (
            "dnsPolicy=ClusterFirst,kind=DaemonSet",
            "/dnsPolicy",
            json!("ClusterFirst"),
        ),
        (
            "terminationGracePeriodSeconds=90",
            "/terminationGracePeriodSeconds",
            json!(90),
        ),
    ] {
        let objects = helm.template(&chart(), &["--set", set]).unwrap();
        let mut pods = objects
            .iter()
            .filter_map(|one| one.pointer("/spec/template/spec"));
        let found = pods.next().unwrap().pointer(at).cloned();
        assert_eq!(found.unwrap_or_default(), expected, "{set}: {at}");
    }
}

#[test]
fn a_tag_of_digits_is_no_power_of_ten_and_without_a_tag_it_is_the_version() {
    let helm = Helm::new().unwrap();
    let image = |values: Value| {
        let file = helm.values("tag.json", &values).unwrap();
        let more = ["--values", file.to_str().unwrap()];
        let objects = helm.template(&chart(), &more).unwrap();
        let mut pods = objects
            .iter()
            .filter_map(|one| one.pointer("/spec/template/spec"));
        pods.next().unwrap()["containers"][0]["image"].clone()
    };
    let digits = json!({"image": {"tag": 20240101}});
    assert_eq!(image(digits), "ccm:20240101");
    let default = image(json!({}));
    for none in [json!(""), Value::Null] {
        assert_eq!(image(json!({"image": {"tag": none}})), default);
    }
}

/// A network plugin may allocate the pods' addresses itself.
#[test]
fn pod_cidrs_can_be_switched_off_in_a_private_network() {
    let helm = Helm::new().unwrap();
    for (set, expected) in [
        ("networking.enabled=false", &[][..]),
        ("networking.enabled=true", &["--allocate-node-cidrs=true"]),
        (
            "networking.enabled=true,args.allocate-node-cidrs=false",
            &["--allocate-node-cidrs=false"],
        ),
    ] {
        let objects = helm.template(&chart(), &["--set", set]).unwrap();
        let mut pods = objects
            .iter()
            .filter_map(|one| one.pointer("/spec/template/spec"));
        let arguments = pods.next().unwrap()["containers"][0]["args"].as_array();
        let arguments = arguments.unwrap().iter().filter_map(Value::as_str);
        let found: Vec<&str> = arguments
            .filter(|one| one.starts_with("--allocate-node-cidrs"))
            .collect();
        assert_eq!(found, expected, "{set}");
    }
}

#[test]
fn without_an_election_the_old_pod_ends_before_the_new_one_begins() {
    let helm = Helm::new().unwrap();
    for (set, expected) in [
        ("args.leader-elect=true", Value::Null),
        ("args.leader-elect=false", json!("Recreate")),
        (
            "args.leader-elect=false,hostNetwork=true",
            json!("Recreate"),
        ),
        (
            "args.leader-elect=false,strategy.type=Recreate",
            json!("Recreate"),
        ),
        (
            "args.leader-elect=true,hostNetwork=true",
            json!("RollingUpdate"),
        ),
    ] {
        let objects = helm.template(&chart(), &["--set", set]).unwrap();
        let mut deployments = objects.iter().filter(|one| one["kind"] == "Deployment");
        let strategy = &deployments.next().unwrap()["spec"]["strategy"];
        assert_eq!(strategy["type"], expected, "{set}");
    }
}

#[test]
fn the_notes_ask_for_the_status_where_the_secure_port_listens() {
    let helm = Helm::new().unwrap();
    let chart = chart();
    for (set, expected) in [
        ("replicaCount=1", "/ccm status\n"),
        ("args.bind-address=0.0.0.0", "/ccm status\n"),
        (
            "args.secure-port=10300",
            "/ccm status --server=https://127.0.0.1:10300\n",
        ),
        (
            "args.bind-address=::1,hostNetwork=true",
            "/ccm status --server=https://[::1]:10258\n",
        ),
        (
            "args.bind-address=10.0.0.9,hostNetwork=true",
            "/ccm status --server=https://10.0.0.9:10258 --ca-file=FILE\n",
        ),
    ] {
        let chart = chart.to_str().unwrap();
        let install = ["install", "ccm", chart, "--dry-run=client", "--set", set];
        let reported = helm.run(&install).unwrap();
        assert!(reported.contains(expected), "{set}: {reported}");
    }
}

/// `helm show values` prints the defaults of Hetzner's chart, which include a template of it.
#[test]
fn labels_of_hetzners_defaults_have_the_name_that_they_have_there() {
    let name = r#"{{ include "hcloud-cloud-controller-manager.name" $ }}"#;
    let values = json!({"selectorLabels": {"app.kubernetes.io/name": name}});
    let helm = Helm::new().unwrap();
    let file = helm.values("shown.json", &values).unwrap();
    for (set, expected) in [("replicaCount=1", "ccm"), ("nameOverride=theirs", "theirs")] {
        let more = ["--values", file.to_str().unwrap(), "--set", set];
        let objects = helm.template(&chart(), &more).unwrap();
        let mut selectors = objects
            .iter()
            .filter_map(|one| one.pointer("/spec/selector/matchLabels"));
        let labels = selectors.next().unwrap();
        assert_eq!(labels["app.kubernetes.io/name"], expected, "{set}");
    }
}

#[test]
fn the_job_of_a_monitor_is_ccm_whatever_the_release_is_called() {
    let helm = Helm::new().unwrap();
    for monitor in [
        "podMonitor.secure=true,monitoring.podMonitor",
        "serviceMonitor",
    ] {
        for (set, is_named) in [
            ("kind=Deployment", false),
            ("nameOverride=hcloud-cloud-controller-manager", true),
            ("selectorLabels.app\\.kubernetes\\.io/name=null", true),
        ] {
            let set = format!("{set},monitoring.{monitor}.enabled=true");
            let more = [OPERATOR, &["--set", &set]].concat();
            let objects = helm.template(&chart(), &more).unwrap();
            let found = objects
                .iter()
                .find(|one| one["kind"].as_str().unwrap().ends_with("Monitor"));
            let spec = &found.unwrap()["spec"];
            // The value of this label is the job's name, unless a rule sets another one.
            assert_eq!(spec["jobLabel"], "app.kubernetes.io/name", "{set}");
            let labels = &spec["selector"]["matchLabels"];
            assert_eq!(labels["app.kubernetes.io/name"] != "ccm", is_named, "{set}");
            let endpoints = spec.get("podMetricsEndpoints").or(spec.get("endpoints"));
            let rules = endpoints.unwrap()[0]["relabelings"].as_array().cloned();
            let rule = json!({"targetLabel": "job", "replacement": "ccm"});
            let has_rule = rules.unwrap_or_default().contains(&rule);
            assert_eq!(has_rule, is_named, "{set}");
        }
    }
}

#[test]
fn an_annotation_of_a_monitor_is_a_string_whatever_its_value_is() {
    let helm = Helm::new().unwrap();
    for monitor in ["podMonitor", "serviceMonitor"] {
        let of = format!("monitoring.{monitor}");
        let set = format!(
            "{of}.enabled=true,{of}.labels=null,{of}.annotations.on=true,{of}.annotations.count=1000000"
        );
        let more = [OPERATOR, &["--set", &set]].concat();
        let objects = helm.template(&chart(), &more).unwrap();
        let found = objects
            .iter()
            .find(|one| one["kind"].as_str().unwrap().ends_with("Monitor"));
        let annotations = &found.unwrap()["metadata"]["annotations"];
        let expected = json!({"on": "true", "count": "1000000"});
        assert_eq!(*annotations, expected, "{monitor}");
    }
}

/// A module from a file may be replaced, and the object `Provider` records which version serves.
#[test]
fn a_module_of_the_flag_has_the_rights_for_its_record_unless_it_is_inside_the_binary() {
    let helm = Helm::new().unwrap();
    for (module, expected) in [
        ("file:///etc/ccm/provider.wasm", true),
        ("embedded:hcloud", false),
    ] {
        let set = format!("args.provider-module={module}");
        let objects = helm.template(&chart(), &["--set", &set]).unwrap();
        let mut names = objects.iter().map(kind_and_name);
        let is_there =
            names.any(|(kind, name)| kind == "ClusterRole" && name.ends_with("provider-rollout"));
        assert_eq!(is_there, expected, "{module}");
    }
}

/// Unlike other names, that of a Service is a label of DNS.
#[test]
fn the_name_of_the_service_for_metrics_is_not_too_long() {
    let set = format!(
        "monitoring.serviceMonitor.enabled=true,nameOverride={}",
        "a".repeat(80)
    );
    let more = [OPERATOR, &["--set", &set]].concat();
    let objects = Helm::new().unwrap().template(&chart(), &more).unwrap();
    let mut names = objects.iter().map(kind_and_name);
    let (_, name) = names.find(|(kind, _)| kind == "Service").unwrap();
    assert_eq!(name.len(), 63, "{name}");
}

/// Kubernetes allows such names, and YAML reads them as numbers unless they are quoted.
#[test]
fn names_of_digits_are_text_wherever_they_stand() {
    let names = "nameOverride=11111,priorityClassName=11111,image.pullSecrets={11111},\
                 args.leader-elect-resource-namespace=11111";
    let more = [OPERATOR, &["--namespace", "11111", "--set-string", names]].concat();
    let text = json!(rendered("two-replicas-values.yaml", &more)).to_string();
    assert!(text.contains(":\"11111\""), "{text}");
    assert!(!text.contains(":11111"), "{text}");
}

#[test]
fn a_budget_and_a_network_policy_stand_around_the_pods() {
    let two = rendered("two-replicas-values.yaml", &[]);
    let of =
        |objects: &[Value], kind: &str| objects.iter().find(|one| one["kind"] == kind).cloned();
    let policy = of(&two, "NetworkPolicy").unwrap();
    let pod = of(&two, "Deployment").unwrap()["spec"]["template"]["metadata"]["labels"].take();
    assert_eq!(policy["spec"]["podSelector"]["matchLabels"], pod);
    assert_eq!(policy["spec"]["policyTypes"], json!(["Ingress", "Egress"]));
    let ports = |rule: &Value| -> Vec<Value> {
        rule["ports"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["port"].clone())
            .collect()
    };
    assert_eq!(ports(&policy["spec"]["ingress"][0]), [10258, 8233]);
    let from = &policy["spec"]["ingress"][0]["from"][0]["namespaceSelector"]["matchLabels"];
    assert_eq!(from["kubernetes.io/metadata.name"], "monitoring");
    assert_eq!(ports(&policy["spec"]["egress"][0]), [53, 53, 443, 6443]);
    let budget = of(&two, "PodDisruptionBudget").unwrap();
    assert_eq!(budget["spec"]["maxUnavailable"], 1);
    let evicted = &budget["spec"]["unhealthyPodEvictionPolicy"];
    assert_eq!(evicted, "AlwaysAllow", "pods that are not ready");
    assert_eq!(budget["spec"]["selector"]["matchLabels"], pod);
    for set in [
        "replicaCount=1",
        "kind=DaemonSet",
        "podDisruptionBudget.create=false",
    ] {
        let other = rendered("two-replicas-values.yaml", &["--set", set]);
        assert_eq!(of(&other, "PodDisruptionBudget"), None, "{set}");
    }
}

#[test]
fn lint_finds_nothing_and_no_rule_has_a_wildcard() {
    let helm = Helm::new().unwrap();
    for values in all_values() {
        let more = with(values.as_deref());
        let mut lint = vec!["lint".to_owned(), "--strict".to_owned()];
        lint.push(chart().to_str().unwrap().to_owned());
        lint.extend_from_slice(&more);
        let reported = helm.run(&lint).unwrap();
        assert!(
            reported.contains("1 chart(s) linted, 0 chart(s) failed"),
            "{reported}"
        );
        let more: Vec<_> = more
            .iter()
            .map(String::as_str)
            .chain(OPERATOR.iter().copied())
            .collect();
        let objects = helm.template(&chart(), &more).unwrap();
        for rule in objects
            .iter()
            .filter_map(|one| one["rules"].as_array())
            .flatten()
        {
            assert!(!rule.to_string().contains('*'), "{values:?}: {rule}");
            let resources = rule["resources"].as_array().cloned().unwrap_or_default();
            if resources.contains(&json!("secrets")) || resources.contains(&json!("configmaps")) {
                assert_eq!(rule["resourceNames"].as_array().unwrap().len(), 1, "{rule}");
            }
        }
    }
}

#[tokio::test]
async fn a_real_api_server_takes_everything_and_the_pod_is_restricted_without_the_hosts_network() {
    let server = ApiServer::start().await.unwrap();
    let admin = server.client_for("admin").await.unwrap();
    let namespace = json!({
        "metadata": {"name": "strict", "labels": {
            "pod-security.kubernetes.io/enforce": "restricted",
            "pod-security.kubernetes.io/enforce-version": "latest",
        }},
    });
    let namespace: Namespace = serde_json::from_value(namespace).unwrap();
    let namespaces: Api<Namespace> = Api::all(admin.clone());
    namespaces
        .create(&PostParams::default(), &namespace)
        .await
        .unwrap();
    let pods: Api<Pod> = Api::namespaced(admin.clone(), "strict");
    let helm = Helm::new().unwrap();
    let mut kinds = BTreeSet::new();
    let mut restricted = 0;
    for values in all_values() {
        let more = with(values.as_deref());
        let more: Vec<_> = more.iter().map(String::as_str).collect();
        for object in helm.template(&chart(), &more).unwrap() {
            let (kind, name) = kind_and_name(&object);
            let applied = apply(&admin, &object).await;
            applied.unwrap_or_else(|error| panic!("{values:?}: {kind} {name}: {error}"));
            let Some(spec) = object.pointer("/spec/template/spec") else {
                kinds.insert(kind);
                continue;
            };
            let mut pod = json!({"metadata": {"name": "ccm"}, "spec": spec});
            // The priority class exists in kube-system alone.
            pod["spec"]["priorityClassName"].take();
            let pod: Pod = serde_json::from_value(pod).unwrap();
            let dry = PostParams {
                dry_run: true,
                ..PostParams::default()
            };
            let created = pods.create(&dry, &pod).await;
            match spec["hostNetwork"] == true {
                true => {
                    let refusal = created.unwrap_err().to_string();
                    assert!(
                        refusal.contains("host namespaces (hostNetwork=true)"),
                        "{refusal}"
                    );
                    assert!(!refusal.contains("must set"), "{refusal}");
                }
                false => {
                    created.unwrap();
                    restricted += 1;
                }
            }
            kinds.insert(kind);
        }
    }
    assert!(restricted >= 2, "{restricted}");
    for kind in [
        "DaemonSet",
        "Deployment",
        "NetworkPolicy",
        "PodDisruptionBudget",
        "CustomResourceDefinition",
    ] {
        assert!(kinds.contains(kind), "{kind}: {kinds:?}");
    }
}
