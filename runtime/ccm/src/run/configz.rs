//! The configuration that `/configz` shows, in the form of upstream's `CloudControllerManagerConfiguration` v1alpha1
//! (PROC-010): what tools read from the Go binary they read here. It cannot be loaded, as upstream's cannot.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::flags::go_duration;

/// The object, under its group, from the values of all flags.
pub(super) fn of(values: &BTreeMap<String, String>) -> Value {
    let text = |name: &str| values.get(name).cloned().unwrap_or_default();
    let flag = |name: &str| text(name) == "true";
    let number = |name: &str| text(name).parse::<f64>().map_or(json!(0), whole);
    let list = |name: &str| -> Vec<String> {
        let text = text(name);
        let entries = text.split(',').filter(|entry| !entry.is_empty());
        entries.map(str::to_owned).collect()
    };
    let duration = |name: &str| json!(shown(go_duration(&text(name)).unwrap_or_default()));
    json!({"cloudcontrollermanager.config.k8s.io": {
        "kind": "CloudControllerManagerConfiguration",
        "apiVersion": "cloudcontrollermanager.config.k8s.io/v1alpha1",
        "Generic": {
            "Port": number("secure-port"),
            "Address": text("bind-address"),
            "MinResyncPeriod": duration("min-resync-period"),
            "ClientConnection": {
                "kubeconfig": text("kubeconfig"),
                "acceptContentTypes": "",
                "contentType": text("kube-api-content-type"),
                "qps": number("kube-api-qps"),
                "burst": number("kube-api-burst"),
            },
            "ControllerStartInterval": duration("controller-start-interval"),
            "LeaderElection": {
                "leaderElect": flag("leader-elect"),
                "leaseDuration": duration("leader-elect-lease-duration"),
                "renewDeadline": duration("leader-elect-renew-deadline"),
                "retryPeriod": duration("leader-elect-retry-period"),
                "resourceLock": text("leader-elect-resource-lock"),
                "resourceName": text("leader-elect-resource-name"),
                "resourceNamespace": text("leader-elect-resource-namespace"),
            },
            "Controllers": list("controllers"),
            "Debugging": {
                "enableProfiling": flag("profiling"),
                "enableContentionProfiling": flag("contention-profiling"),
            },
            "LeaderMigrationEnabled": flag("enable-leader-migration"),
            "LeaderMigration": {"leaderName": "", "resourceLock": "", "controllerLeaders": null},
        },
        "KubeCloudShared": {
            "CloudProvider": {
                "Name": text("cloud-provider"),
                "CloudConfigFile": text("cloud-config"),
            },
            "ExternalCloudVolumePlugin": text("external-cloud-volume-plugin"),
            "UseServiceAccountCredentials": flag("use-service-account-credentials"),
            "AllowUntaggedCloud": flag("allow-untagged-cloud"),
            "RouteReconciliationPeriod": duration("route-reconciliation-period"),
            "NodeMonitorPeriod": duration("node-monitor-period"),
            "ClusterName": text("cluster-name"),
            "ClusterCIDR": text("cluster-cidr"),
            "AllocateNodeCIDRs": flag("allocate-node-cidrs"),
            "CIDRAllocatorType": text("cidr-allocator-type"),
            "ConfigureCloudRoutes": flag("configure-cloud-routes"),
            "NodeSyncPeriod": duration("node-sync-period"),
        },
        "NodeController": {
            "ConcurrentNodeSyncs": number("concurrent-node-syncs"),
            "ConcurrentNodeStatusUpdates": number("concurrent-node-status-updates"),
        },
        "ServiceController": {
            "ConcurrentServiceSyncs": number("concurrent-service-syncs"),
        },
        "NodeStatusUpdateFrequency": duration("node-status-update-frequency"),
        "Webhook": {"Webhooks": list("webhooks")},
    }})
}

/// A number without a fraction where it has none, as Go writes it.
fn whole(number: f64) -> Value {
    match number.fract() == 0.0 && number.abs() < 1e9 {
        true => json!(number as i64),
        false => json!(number),
    }
}

/// Go's text of a duration: `12h0m0s`, `1m30s`, `1.5s`, `500ms`, `0s`.
fn shown(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let rest = duration.subsec_millis();
    if seconds == 0 && rest > 0 {
        return format!("{rest}ms");
    }
    let fraction = match rest {
        0 => String::new(),
        _ => format!(".{rest:03}").trim_end_matches('0').to_owned(),
    };
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    let second = format!("{}{fraction}s", seconds % 60);
    match (hours, minutes) {
        (0, 0) => second,
        (0, _) => format!("{minutes}m{second}"),
        _ => format!("{hours}h{minutes}m{second}"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use super::*;
    use crate::flags::{FLAGS, Kind};

    fn defaults() -> BTreeMap<String, String> {
        let flags = FLAGS.iter();
        flags
            .map(|flag| (flag.name.to_owned(), flag.default.to_owned()))
            .collect()
    }

    #[test]
    fn proc_010_test_default_flags_shows_every_default() {
        let all = of(&defaults());
        let shown = &all["cloudcontrollermanager.config.k8s.io"];
        for (pointer, expected) in [
            ("/kind", json!("CloudControllerManagerConfiguration")),
            ("/Generic/Port", json!(10258)),
            ("/Generic/Address", json!("0.0.0.0")),
            ("/Generic/MinResyncPeriod", json!("12h0m0s")),
            (
                "/Generic/ClientConnection/contentType",
                json!("application/vnd.kubernetes.protobuf"),
            ),
            ("/Generic/ClientConnection/qps", json!(20)),
            ("/Generic/ClientConnection/burst", json!(30)),
            ("/Generic/ControllerStartInterval", json!("0s")),
            ("/Generic/LeaderElection/leaderElect", json!(true)),
            ("/Generic/LeaderElection/leaseDuration", json!("15s")),
            (
                "/Generic/LeaderElection/resourceName",
                json!("cloud-controller-manager"),
            ),
            ("/Generic/Controllers", json!(["*"])),
            ("/KubeCloudShared/ClusterName", json!("kubernetes")),
            (
                "/KubeCloudShared/CIDRAllocatorType",
                json!("RangeAllocator"),
            ),
            ("/KubeCloudShared/ConfigureCloudRoutes", json!(true)),
            ("/KubeCloudShared/NodeMonitorPeriod", json!("5s")),
            ("/NodeController/ConcurrentNodeSyncs", json!(1)),
            ("/NodeStatusUpdateFrequency", json!("5m0s")),
        ] {
            assert_eq!(shown.pointer(pointer), Some(&expected), "{pointer}");
        }
    }

    /// The defaults survive the JSON in which upstream puts them into a ConfigMap. What is read back here has no type of
    /// its own, so each value is read as its flag is.
    #[test]
    fn upstream_defaults_survive_the_json_of_a_config_map() {
        let case = "TestCloudControllerManagerDefaultsRoundTrip/01";
        let written = of(&defaults());
        let data = BTreeMap::from([("CloudControllerManagerConfiguration", written.to_string())]);
        let map = json!({"kind": "ConfigMap", "data": data}).to_string();
        let map: Value = serde_json::from_str(&map).unwrap();
        let text = map["data"]["CloudControllerManagerConfiguration"].as_str();
        let read: Value = serde_json::from_str(text.unwrap()).unwrap();
        assert_eq!(read, written, "{case}");
        let read = &read["cloudcontrollermanager.config.k8s.io"];
        let mut fields = Vec::new();
        leaves("", read, &mut fields);
        for (key, flag) in [
            ("minresyncperiod", "min-resync-period"),
            ("controllerstartinterval", "controller-start-interval"),
            ("leaseduration", "leader-elect-lease-duration"),
            ("renewdeadline", "leader-elect-renew-deadline"),
            ("retryperiod", "leader-elect-retry-period"),
            ("routereconciliationperiod", "route-reconciliation-period"),
            ("nodemonitorperiod", "node-monitor-period"),
            ("nodesyncperiod", "node-sync-period"),
            ("nodestatusupdatefrequency", "node-status-update-frequency"),
            ("port", "secure-port"),
            ("address", "bind-address"),
            ("qps", "kube-api-qps"),
            ("burst", "kube-api-burst"),
            ("leaderelect", "leader-elect"),
            ("resourcelock", "leader-elect-resource-lock"),
            ("resourcename", "leader-elect-resource-name"),
            ("resourcenamespace", "leader-elect-resource-namespace"),
            ("clustername", "cluster-name"),
            ("configurecloudroutes", "configure-cloud-routes"),
            ("concurrentnodesyncs", "concurrent-node-syncs"),
            ("concurrentservicesyncs", "concurrent-service-syncs"),
        ] {
            let found = fields.iter().find(|(name, _)| name == key);
            let (_, found) = found.unwrap_or_else(|| panic!("{key} is not written"));
            let flag = FLAGS.iter().find(|one| one.name == flag).unwrap();
            let is_same = match flag.kind {
                Kind::Duration => go_duration(found) == go_duration(flag.default),
                _ => found == flag.default || found.parse::<f64>() == flag.default.parse::<f64>(),
            };
            assert!(is_same, "{case}: {}: {found}", flag.name);
        }
    }

    /// Every value with its key in lower case, the first of each key first.
    fn leaves(key: &str, value: &Value, into: &mut Vec<(String, String)>) {
        match value {
            Value::Object(fields) => {
                for (key, value) in fields {
                    leaves(key, value, into);
                }
            }
            Value::String(text) => into.push((key.to_lowercase(), text.clone())),
            other => into.push((key.to_lowercase(), other.to_string())),
        }
    }

    #[test]
    fn durations_are_written_as_in_go() {
        for flag in FLAGS.iter().filter(|flag| flag.kind == Kind::Duration) {
            let written = go_duration(flag.default).map(shown);
            assert_eq!(written.as_deref(), Ok(flag.default), "{}", flag.name);
        }
        for (text, expected) in [
            ("90s", "1m30s"),
            ("1.5s", "1.5s"),
            ("500ms", "500ms"),
            ("60m", "1h0m0s"),
        ] {
            assert_eq!(go_duration(text).map(shown).as_deref(), Ok(expected));
        }
    }
}
