//! The chart compared with kustomize's output of `deploy/kustomize`: both must deploy the same, apart from the
//! differences that are listed here.

use std::collections::{BTreeMap, BTreeSet};

use ccm_tests::helm::Helm;
use serde_json::{Map, Value, json};

use crate::chart::{OPERATOR, chart, kind_and_name, rendered};
use crate::deploy::{OTHER_CLOUD, built};
use crate::world::root;

/// An object without the labels and annotations of its tool, and with the lists of its pod sorted by name.
fn plain(mut object: Value) -> Value {
    let metadata = object["metadata"].as_object_mut().unwrap();
    metadata.remove("labels");
    if let Some(annotations) = metadata.get_mut("annotations") {
        let annotations = annotations.as_object_mut().unwrap();
        annotations.remove("helm.sh/resource-policy");
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
    if let Some(pod) = object.pointer_mut("/spec/template/spec") {
        for list in [
            "/volumes",
            "/containers/0/volumeMounts",
            "/containers/0/env",
        ] {
            if let Some(list) = pod.pointer_mut(list) {
                let list = list.as_array_mut().unwrap();
                list.sort_by_key(|one| one["name"].as_str().unwrap().to_owned());
            }
        }
        // The command stays first; the order of flags means nothing.
        let flags = pod["containers"][0]["args"].as_array_mut().unwrap();
        flags[1..].sort_by_key(ToString::to_string);
    }
    // The text of a file: its content counts, not its formatting.
    if object["kind"] == "ConfigMap" {
        let text = object["data"]["ccm.yaml"].as_str().unwrap();
        object["data"]["ccm.yaml"] = serde_saphyr::from_str(text).unwrap();
    }
    object
}

/// The places at which two values differ, as JSON pointers.
fn differences(at: &str, one: &Value, other: &Value, found: &mut BTreeSet<String>) {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            // Each key once: looked at from both sides, an object takes twice as long for each level of depth.
            for key in one.keys().chain(other.keys()).collect::<BTreeSet<_>>() {
                let get = |object: &Map<String, Value>| object.get(key).cloned();
                let (one, other) = (get(one).unwrap_or_default(), get(other).unwrap_or_default());
                differences(&format!("{at}/{key}"), &one, &other, found);
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (index, (one, other)) in one.iter().zip(other).enumerate() {
                differences(&format!("{at}/{index}"), one, other, found);
            }
        }
        _ if one == other => {}
        _ => {
            found.insert(at.to_owned());
        }
    }
}

/// The places at which the objects of the chart and of kustomize differ.
fn compare(chart: Vec<Value>, kustomize: Vec<Value>) -> BTreeSet<String> {
    let by_name = |objects: Vec<Value>| -> BTreeMap<_, _> {
        let objects = objects.into_iter();
        objects
            .map(|one| (kind_and_name(&one), plain(one)))
            .collect()
    };
    let (chart, kustomize) = (by_name(chart), by_name(kustomize));
    let mut found = BTreeSet::new();
    for id in chart.keys().chain(kustomize.keys()) {
        let of = |objects: &BTreeMap<_, Value>| objects.get(id).cloned().unwrap_or_default();
        let at = format!("{} {}", id.0, id.1);
        differences(&at, &of(&chart), &of(&kustomize), &mut found);
    }
    found
}

/// Whether an object grants a right, or is an account that has rights.
pub(crate) fn is_right(object: &Value) -> bool {
    let kind = object["kind"].as_str().unwrap();
    kind.contains("Role") || kind == "ServiceAccount"
}

#[test]
fn the_chart_and_kustomizes_base_deploy_the_same() {
    let chart = rendered("kustomize-base-values.yaml", &[]);
    // Rights of two controllers, of which one has a role in kube-system.
    assert_same(chart, "base", 6);
}

#[test]
fn the_chart_and_kustomizes_examples_deploy_the_same() {
    for (example, left_out) in [("deployment", 6), ("identities", 0)] {
        let values = format!("ci/kustomize-{example}-values.yaml");
        let values = chart().join(values);
        let more = ["--values", values.to_str().unwrap()];
        let chart = rendered("kustomize-base-values.yaml", &more);
        assert_same(chart, &format!("examples/{example}"), left_out);
    }
}

/// The chart's objects and kustomize's of this folder differ only where it is explained. The chart leaves out so many
/// rights, of controllers that have nothing to do; all rights are compared below.
fn assert_same(chart: Vec<Value>, folder: &str, left_out: usize) {
    let roles: BTreeSet<_> = chart.iter().map(kind_and_name).collect();
    let mut kustomize = built(folder);
    let all = kustomize.len();
    kustomize.retain(|one| !is_right(one) || roles.contains(&kind_and_name(one)));
    assert_eq!(all - kustomize.len(), left_out, "{folder}");
    let workload = kustomize
        .iter()
        .find(|one| one.pointer("/spec/template").is_some());
    let kind = workload.unwrap()["kind"].as_str().unwrap();
    // Difference, and its reason.
    let kept = "Helm keeps the definition of Provider by its annotation";
    let ports = format!("{kind} ccm/spec/template/spec/containers/0/ports");
    let expected = [
        (
            ports.as_str(),
            "the PodMonitors of Hetzner's chart find this port by its name",
        ),
        ("ValidatingAdmissionPolicy ccm-keep-records", kept),
        ("ValidatingAdmissionPolicyBinding ccm-keep-records", kept),
        (
            "Role ccm:leader-election/rules/1/resourceNames",
            "the chart names the second Lease with the flag of a leader migration alone",
        ),
    ];
    let expected: BTreeSet<String> = expected.map(|(at, _)| at.to_owned()).into();
    assert_eq!(compare(chart, kustomize), expected, "{folder}");
}

/// Flags with which every controller has something to do, and with which both Leases are asked for.
const EVERYTHING: &str = "args.cluster-cidr=10.244.0.0/16,args.allocate-node-cidrs=true,args.enable-leader-migration=true";

#[test]
fn with_all_controllers_the_charts_rights_are_those_of_the_base() {
    for (folder, more) in [
        ("base", ""),
        (
            "examples/identities",
            ",args.use-service-account-credentials=true",
        ),
    ] {
        let set = format!("{EVERYTHING}{more}");
        let mut chart = rendered("kustomize-base-values.yaml", &["--set", &set]);
        let mut kustomize = built(folder);
        chart.retain(is_right);
        kustomize.retain(is_right);
        assert!(chart.len() > 15, "{folder}: {}", chart.len());
        assert_eq!(compare(chart, kustomize), BTreeSet::new(), "{folder}");
    }
}

/// `kubectl apply` deletes nothing. ServiceAccounts stay: kube-controller-manager may use them, too.
#[test]
fn what_only_the_former_folder_has_is_deleted_by_the_documented_commands() {
    const DEPLOYMENT: &str = "deploy/kustomize/examples/deployment/kustomization.yaml";
    let names = |folder: &str| -> BTreeSet<String> {
        let names = built(folder);
        let names = names.iter().map(kind_and_name);
        names
            .filter(|(kind, _)| kind != "ServiceAccount")
            .map(|(kind, name)| format!("{}/{name}", kind.to_lowercase()))
            .collect()
    };
    for (former, folder, pages) in [
        (
            "base",
            "examples/deployment",
            &["deploy/README.md", DEPLOYMENT][..],
        ),
        (
            "examples/deployment",
            "base",
            &["deploy/README.md", DEPLOYMENT],
        ),
        (
            "examples/identities",
            "base",
            &["deploy/docs/operations.md"],
        ),
    ] {
        let (former, names) = (names(former), names(folder));
        let left: Vec<_> = former.difference(&names).map(String::as_str).collect();
        assert!(!left.is_empty(), "{folder}");
        let command = format!("kubectl -n kube-system delete {}\n", left.join(" "));
        for page in pages {
            let text = std::fs::read_to_string(root().join(page)).unwrap();
            assert!(text.contains(&command), "{page}: {command}");
        }
    }
}

/// The rules that are granted, with subject and namespace, whatever the roles are called.
fn rules(objects: &[Value]) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let bindings = objects.iter().filter(|one| one.get("roleRef").is_some());
    for binding in bindings {
        let role = &binding["roleRef"];
        let is_it = |one: &&Value| {
            one["kind"] == role["kind"]
                && one["metadata"]["name"] == role["name"]
                && (role["kind"] == "ClusterRole"
                    || one["metadata"]["namespace"] == binding["metadata"]["namespace"])
        };
        let rules = match objects.iter().find(is_it) {
            Some(role) => role["rules"].as_array().unwrap().clone(),
            None => vec![role["name"].clone()],
        };
        for rule in rules {
            let place = &binding["metadata"]["namespace"];
            all.insert(json!([binding["subjects"], place, rule]).to_string());
        }
    }
    all
}

#[test]
fn the_rights_for_modules_from_elsewhere_are_those_of_the_variants() {
    let helm = Helm::new().unwrap();
    for folder in ["configmap", "configmap-volume", "registry"] {
        let kustomize = built(&format!("variants/{folder}"));
        let mut maps = kustomize.iter().filter(|one| one["kind"] == "ConfigMap");
        let text = maps.next().unwrap()["data"]["ccm.yaml"].as_str().unwrap();
        let file: Value = serde_saphyr::from_str(text).unwrap();
        let values = json!({"config": {"providers": file["providers"]}});
        let values = helm.values("variant.json", &values).unwrap();
        let base = chart().join("ci/kustomize-base-values.yaml");
        let arguments = [
            "--values",
            base.to_str().unwrap(),
            "--values",
            values.to_str().unwrap(),
            "--set",
            EVERYTHING,
        ];
        let chart = helm.template(&chart(), &arguments).unwrap();
        assert_eq!(rules(&chart), rules(&kustomize), "{folder}");
    }
}

#[test]
fn the_rights_for_provider_objects_are_those_of_the_variant() {
    let helm = Helm::new().unwrap();
    let values = json!({
        "config": null,
        "args": {"enable-provider-objects": ""},
        "providerObjects": {"secrets": ["hcloud"]},
    });
    let values = helm.values("objects.json", &values).unwrap();
    let more = ["--values", values.to_str().unwrap(), "--set", EVERYTHING];
    let chart = rendered("kustomize-base-values.yaml", &more);
    assert_eq!(
        rules(&chart),
        rules(&built("variants/provider-objects")),
        "the flag's rights, and the one Secret"
    );
}

#[test]
fn every_secret_that_the_configuration_names_has_a_role_whatever_it_is_for() {
    let mut named = BTreeSet::new();
    for object in rendered("registry-values.yaml", &[]) {
        let namespace = &object["metadata"]["namespace"];
        for rule in object["rules"].as_array().into_iter().flatten() {
            if rule["resources"] == json!(["secrets"]) {
                named.insert(format!("{namespace} {}", rule["resourceNames"]).replace('"', ""));
            }
        }
    }
    let expected = [
        "kube-system [aws]",
        "kube-system [ccm-registry]",
        "kube-system [other-cloud]",
        "kube-system [proxy-login]",
    ];
    assert_eq!(named, expected.map(str::to_owned).into());
}

#[test]
fn the_scrape_of_the_secure_port_is_that_of_the_monitoring_folder() {
    let folder = root().join("deploy/monitoring");
    let mut kustomize = Vec::new();
    for file in ["podmonitor.yaml", "rbac.yaml"] {
        let text = std::fs::read_to_string(folder.join(file)).unwrap();
        let objects: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
        kustomize.extend(objects);
    }
    let names: BTreeSet<_> = kustomize.iter().map(kind_and_name).collect();
    let secure = "monitoring.podMonitor.enabled=true,monitoring.podMonitor.secure=true";
    let more = [OPERATOR, &["--set", secure]].concat();
    let mut chart = rendered("kustomize-base-values.yaml", &more);
    chart.retain(|one| names.contains(&kind_and_name(one)));
    assert_eq!(compare(chart, kustomize), BTreeSet::new());
}

#[test]
fn a_service_monitor_scrapes_what_the_pod_monitor_would_and_as_the_same_user() {
    let of = |values: &str| {
        let more = [OPERATOR, &["--set", values]].concat();
        rendered("kustomize-base-values.yaml", &more)
    };
    let by_pod = of("monitoring.podMonitor.enabled=true,monitoring.podMonitor.secure=true");
    let by_service = of(
        "monitoring.serviceMonitor.enabled=true,monitoring.serviceMonitor.labels.release=prometheus,monitoring.serviceMonitor.spec.sampleLimit=9000",
    );
    let expected = [
        "PodMonitor ccm",
        "Service ccm-metrics",
        "ServiceMonitor ccm",
    ];
    let expected = expected.map(str::to_owned).into();
    assert_eq!(compare(by_pod.clone(), by_service.clone()), expected);
    let one = |objects: &[Value], kind: &str| {
        let found: Vec<_> = objects.iter().filter(|one| one["kind"] == kind).collect();
        assert_eq!(found.len(), 1, "{kind}");
        found[0].clone()
    };
    let pods = one(&by_pod, "PodMonitor");
    let services = one(&by_service, "ServiceMonitor");
    let service = one(&by_service, "Service");
    let (mut pods, services) = (pods["spec"].clone(), services["spec"].clone());
    let mut endpoint = pods["podMetricsEndpoints"][0].take();
    // The rule that puts the port on a pod's address.
    endpoint.as_object_mut().unwrap().remove("relabelings");
    endpoint["port"] = service["spec"]["ports"][0]["name"].clone();
    assert_eq!(services["endpoints"], json!([endpoint]));
    assert_eq!(services["selector"], pods["selector"]);
    assert_eq!(services["jobLabel"], pods["jobLabel"]);
    assert_eq!(services["sampleLimit"], 9000);
    assert_eq!(service["spec"]["ports"][0]["targetPort"], 10258);
    assert_eq!(
        service["spec"]["selector"],
        services["selector"]["matchLabels"]
    );
    let labels = service["metadata"]["labels"].as_object().unwrap();
    for (key, value) in services["selector"]["matchLabels"].as_object().unwrap() {
        assert_eq!(labels.get(key), Some(value), "{key}");
    }
    // Without the kind no object is made.
    let without = rendered(
        "kustomize-base-values.yaml",
        &["--set", "monitoring.serviceMonitor.enabled=true"],
    );
    let plain = rendered("kustomize-base-values.yaml", &[]);
    assert_eq!(compare(without, plain), BTreeSet::new());
}

/// A pod waits for each Secret that it names and that is not optional.
#[test]
fn the_ways_to_run_another_cloud_name_its_secret_and_no_other() {
    let page = std::fs::read_to_string(root().join("deploy/README.md")).unwrap();
    let (_, section) = page.split_once("\n## Another cloud\n").unwrap();
    let (_, values) = section.split_once("```yaml\n").unwrap();
    let values: Value = serde_saphyr::from_str(values.split("```").next().unwrap()).unwrap();
    let helm = Helm::new().unwrap();
    let values = helm.values("another-cloud.json", &values).unwrap();
    let arguments = ["--values", values.to_str().unwrap()];
    let of_chart = helm.template(&chart(), &arguments).unwrap();
    for (way, objects) in [("chart", of_chart), ("kustomize", built(OTHER_CLOUD))] {
        let workload = objects
            .iter()
            .find(|one| one.pointer("/spec/template").is_some());
        let pod = &workload.unwrap()["spec"]["template"]["spec"];
        let mut secrets = BTreeSet::new();
        let variables = pod["containers"][0]["env"].as_array().unwrap();
        for variable in variables {
            let name = variable["name"].as_str().unwrap();
            assert!(!name.starts_with("HCLOUD_TOKEN"), "{way}: {variable}");
            secrets.extend(variable["valueFrom"]["secretKeyRef"]["name"].as_str());
        }
        let volumes = pod["volumes"].as_array().unwrap();
        secrets.extend(
            volumes
                .iter()
                .filter_map(|one| one["secret"]["secretName"].as_str()),
        );
        assert_eq!(secrets, BTreeSet::from(["proxmox"]), "{way}");
        let maps = objects.iter().filter(|one| one["kind"] == "ConfigMap");
        let mut files = maps.filter_map(|one| one["data"]["ccm.yaml"].as_str());
        let file: Value = serde_saphyr::from_str(files.next().unwrap()).unwrap();
        assert_eq!(file["providers"][0]["name"], "proxmox", "{way}");
    }
}
