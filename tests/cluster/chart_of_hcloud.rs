//! Values for Hetzner's chart, given to ours: the manager must be the same, apart from the differences that are listed
//! here.
//!
//! `chart_of_hcloud.json` records what Hetzner's chart 1.35.0 makes of each set of values, reduced to what a pod
//! notices. With CCM_HCLOUD_CHART=FOLDER that chart itself is rendered and compared with the record; with CCM_BLESS=1
//! the record is written anew.

use std::path::{Path, PathBuf};

use ccm_tests::helm::Helm;
use k8s_openapi::api::core::v1::Toleration;
use serde_json::{Value, json};

use crate::chart::chart;
use crate::world::root;

/// The release name given to both charts: all names are then the same, and a release of one can be upgraded to the
/// other.
pub(crate) const NAME: &str = "hcloud-cloud-controller-manager";

fn record() -> PathBuf {
    root().join("tests/cluster/chart_of_hcloud.json")
}

/// The cases. The first one is of the defaults; the others are recorded as what differs from it.
pub(crate) fn cases() -> Vec<Value> {
    let text = std::fs::read_to_string(record()).unwrap();
    let mut cases: Vec<Value> = serde_json::from_str(&text).unwrap();
    let defaults = cases[0]["theirs"].clone();
    for case in &mut cases[1..] {
        let mut whole = defaults.clone();
        let differing = case["theirs"].as_object().unwrap().clone();
        whole.as_object_mut().unwrap().extend(differing);
        case["theirs"] = whole;
    }
    cases
}

fn write(mut cases: Vec<Value>) {
    let defaults = cases[0]["theirs"].clone();
    for case in &mut cases[1..] {
        let whole = case["theirs"].as_object_mut().unwrap();
        whole.retain(|key, value| defaults[key] != *value);
    }
    let text = serde_json::to_string_pretty(&cases).unwrap();
    std::fs::write(record(), format!("{text}\n")).unwrap();
}

/// The part of a chart's output that its pod, or a scraper of it, notices.
fn noticed(helm: &Helm, chart: &Path, values: &Value) -> Value {
    let file = helm.values("values.json", values).unwrap();
    let more = [
        "--values",
        file.to_str().unwrap(),
        "--set",
        &format!("nameOverride={NAME}"),
        "--api-versions",
        "monitoring.coreos.com/v1/PodMonitor",
    ];
    let objects = helm.template(chart, &more).unwrap();
    let of = |kinds: &[&str]| {
        let mut found = objects
            .iter()
            .filter(|one| kinds.iter().any(|kind| one["kind"] == *kind));
        let first = found.next().cloned().unwrap_or_default();
        assert!(found.all(|one| one["metadata"]["name"] != first["metadata"]["name"]));
        first
    };
    let workload = of(&["Deployment", "DaemonSet"]);
    let template = &workload["spec"]["template"];
    let (pod, container) = (&template["spec"], &template["spec"]["containers"][0]);
    // Hetzner's DaemonSet names the program first; its Deployment leaves that to the image.
    let command = container["command"]
        .as_array()
        .into_iter()
        .flatten()
        .skip(1);
    let arguments: Vec<_> = command
        .chain(container["args"].as_array().into_iter().flatten())
        .collect();
    let monitor = of(&["PodMonitor"]);
    let account = of(&["ServiceAccount"]);
    json!({
        "kind": workload["kind"],
        "name": workload["metadata"]["name"],
        "replicas": workload["spec"]["replicas"],
        "strategy": workload["spec"]["strategy"],
        "selector": workload["spec"]["selector"],
        "labels": template["metadata"]["labels"],
        "annotations": template["metadata"]["annotations"],
        "account": {"name": pod["serviceAccountName"], "annotations": account["metadata"]["annotations"]},
        "arguments": arguments,
        "env": container["env"],
        "image": container["image"],
        "pullSecrets": pod["imagePullSecrets"],
        "ports": container["ports"],
        "resources": container["resources"],
        "podSecurityContext": pod["securityContext"],
        "securityContext": container["securityContext"],
        "hostNetwork": pod["hostNetwork"],
        "dnsPolicy": pod["dnsPolicy"],
        "dnsConfig": pod["dnsConfig"],
        "nodeSelector": pod["nodeSelector"],
        "affinity": pod["affinity"],
        "priorityClassName": pod["priorityClassName"],
        "tolerations": pod["tolerations"],
        "volumes": pod["volumes"],
        "volumeMounts": container["volumeMounts"],
        "podMonitor": {
            "labels": monitor["metadata"]["labels"],
            "annotations": monitor["metadata"]["annotations"],
            "spec": monitor["spec"],
        },
    })
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

/// Removes these named entries from ours; each must exist.
fn remove(ours: &mut Value, expected: &[&str]) {
    let Some(entries) = ours.as_array_mut() else {
        assert!(expected.is_empty(), "{expected:?}");
        return;
    };
    for name in expected {
        let at = entries.iter().position(|one| one["name"] == *name);
        entries.remove(at.unwrap_or_else(|| panic!("{name} is missing: {entries:?}")));
    }
    if entries.is_empty() {
        ours.take();
    }
}

/// Whether everything in `part` is in `whole`.
fn is_within(part: &Value, whole: &Value) -> bool {
    match (part, whole) {
        (Value::Object(part), Value::Object(whole)) => part
            .iter()
            .all(|(key, value)| whole.get(key).is_some_and(|other| is_within(value, other))),
        (part, whole) => part == whole,
    }
}

/// Whether one toleration tolerates all that another one does.
fn is_wider(wide: &Toleration, narrow: &Toleration) -> bool {
    let same_key = wide.key == narrow.key;
    let effect = wide.effect.is_none() || wide.effect == narrow.effect;
    let value = wide.operator.as_deref() == Some("Exists")
        || (narrow.operator == wide.operator && wide.value == narrow.value);
    same_key && effect && value && wide.toleration_seconds.is_none()
}

/// Removes the known differences from our chart's output; the rest must be the same.
fn settle(values: &Value, theirs: &mut Value, ours: &mut Value) {
    let is_host = theirs["hostNetwork"] == true;
    let is_deployment = theirs["kind"] == "Deployment";

    // The binary has commands, and a folder for compiled modules. An election is held for one replica, too: while it is
    // replaced there are two.
    let mut arguments = list(&theirs["arguments"]);
    arguments.retain(|one| *one != "--leader-elect=false");
    arguments.splice(
        0..0,
        [json!("run"), json!("--compiled-cache-dir=/var/cache/ccm")],
    );
    // Hetzner's chart renders `false` and 0 as a flag without a value, which means the opposite or nothing.
    for (name, value) in values["args"].as_object().into_iter().flatten() {
        if *value == json!(false) || *value == json!(0) {
            let bare = json!(format!("--{name}"));
            let at = arguments.iter().position(|one| *one == bare).unwrap();
            arguments[at] = json!(format!("--{name}={value}"));
        }
        // Hetzner's chart writes a large number as a power of ten, which no flag reads.
        if let Some(number) = value.as_u64().filter(|number| *number >= 1_000_000) {
            let start = format!("--{name}=");
            let mut all = arguments.iter_mut();
            let one = all
                .find(|one| one.as_str().unwrap().starts_with(&start))
                .unwrap();
            *one = json!(format!("{start}{number}"));
        }
    }
    theirs["arguments"] = json!(arguments);
    // Go's HTTP client takes the proxy from the variables, and has no flag for that.
    let mut own = list(&ours["arguments"]);
    let at = own
        .iter()
        .position(|one| *one == "--cloud-proxy=environment");
    own.remove(at.unwrap_or_else(|| panic!("{own:?}")));
    ours["arguments"] = json!(own);

    // A variable with a value of its own beside the default's `valueFrom` is refused by every API server.
    for variable in theirs["env"].as_array_mut().into_iter().flatten() {
        if !variable["value"].is_null() {
            variable.as_object_mut().unwrap().remove("valueFrom");
        }
    }

    // A read-only root needs places to write to.
    remove(&mut ours["volumes"], &["cache", "tmp"]);
    remove(&mut ours["volumeMounts"], &["cache", "tmp"]);
    // Two pods of a Deployment on one node would want this port of it, and the old one goes first.
    if is_host && is_deployment {
        remove(&mut ours["ports"], &["secure"]);
        if theirs["strategy"].is_null() {
            let expected = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}});
            assert_eq!(ours["strategy"].take(), expected);
        }
    }
    if theirs["ports"] == json!([]) {
        theirs["ports"].take();
    }

    // Our chart tolerates more; tolerations from the values are the same.
    let tolerations =
        |of: &Value| -> Vec<Toleration> { serde_json::from_value(of.clone()).unwrap() };
    let (wide, narrow) = (
        tolerations(&ours["tolerations"]),
        tolerations(&theirs["tolerations"]),
    );
    for one in &narrow {
        assert!(
            wide.iter()
                .any(|other| is_wider(other, one) || other == one),
            "{one:?}"
        );
    }
    let added = list(&values["additionalTolerations"]);
    assert!(list(&ours["tolerations"]).ends_with(&added));
    assert!(list(&theirs["tolerations"]).ends_with(&added));
    ours["tolerations"].take();
    theirs["tolerations"].take();

    // Our chart's own defaults, which values override: the image, its resources, and the group that may read mounted
    // Secrets.
    for key in ["resources", "podSecurityContext"] {
        for made in [&theirs[key], &ours[key]] {
            assert!(
                values[key].is_null() || is_within(&values[key], made),
                "{key}"
            );
        }
    }
    ours["resources"].take();
    theirs["resources"].take();
    assert!(is_within(
        &theirs["podSecurityContext"].take(),
        &ours["podSecurityContext"].take()
    ));
    if values["image"]["repository"].is_null() || values["image"]["tag"].is_null() {
        assert_ne!(ours["image"].take(), theirs["image"].take());
    }
    // Names of Secrets are a list of objects in a pod; strings, as the comment there has them, are refused by an API
    // server.
    let pull = list(&theirs["pullSecrets"])
        .into_iter()
        .map(|one| match one.is_string() {
            true => json!({"name": one}),
            false => one,
        });
    let pull: Vec<_> = pull.collect();
    if !pull.is_empty() {
        theirs["pullSecrets"] = json!(pull);
    }

    // Hetzner's DaemonSet ignores these values.
    if !is_deployment {
        for key in ["affinity", "dnsConfig", "dnsPolicy", "priorityClassName"] {
            if !values[key].is_null() {
                assert_eq!(ours[key], values[key], "{key}");
                theirs[key] = ours[key].clone();
            }
        }
    }
    // The labels of the managing tool, which all of our objects have.
    let labels = &theirs["podMonitor"]["labels"];
    assert!(labels.is_null() || is_within(labels, &ours["podMonitor"]["labels"]));
    ours["podMonitor"]["labels"].take();
    theirs["podMonitor"]["labels"].take();
}

#[test]
fn values_of_hetzners_chart_make_the_same_manager() {
    let helm = Helm::new().unwrap();
    let mut cases = cases();
    assert!(cases.len() >= 25, "{}", cases.len());
    if let Some(theirs) = std::env::var_os("CCM_HCLOUD_CHART").map(PathBuf::from) {
        let bless = std::env::var_os("CCM_BLESS").is_some();
        for case in &mut cases {
            let now = noticed(&helm, &theirs, &case["values"]);
            let is_recorded = bless || case["theirs"] == now;
            assert!(is_recorded, "{}: the record is not {now}", case["case"]);
            case["theirs"] = now;
        }
        if bless {
            write(cases.clone());
        }
    }
    for case in cases {
        let name = case["case"].as_str().unwrap();
        let mut theirs = case["theirs"].clone();
        let mut ours = noticed(&helm, &chart(), &case["values"]);
        settle(&case["values"], &mut theirs, &mut ours);
        for (key, value) in theirs.as_object().unwrap() {
            // An empty object counts as absent.
            let bare = |value: &Value| match *value == json!({}) {
                true => Value::Null,
                false => value.clone(),
            };
            assert_eq!(bare(&ours[key]), bare(value), "{name}: {key}");
        }
    }
}

/// Every value of Hetzner's chart is used in some case, so that none of them means something else in ours.
#[test]
fn every_value_of_hetzners_chart_is_in_some_case() {
    let cases = cases();
    let values = [
        "additionalTolerations",
        "affinity",
        "args",
        "dnsConfig",
        "dnsPolicy",
        "env",
        "extraVolumeMounts",
        "extraVolumes",
        "image",
        "kind",
        "monitoring",
        "networking",
        "nodeSelector",
        "podAnnotations",
        "podLabels",
        "podSecurityContext",
        "priorityClassName",
        "rbac",
        "replicaCount",
        "resources",
        "robot",
        "securityContext",
        "selectorLabels",
        "serviceAccount",
        "strategy",
    ];
    for value in values {
        assert!(
            cases.iter().any(|case| !case["values"][value].is_null()),
            "{value}"
        );
    }
    let no_rights = cases
        .iter()
        .filter(|case| case["values"]["rbac"]["create"] == false);
    assert_eq!(no_rights.count(), 1);
}
