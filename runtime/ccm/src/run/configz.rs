//! The configuration that `/configz` shows, in the form of upstream's `CloudControllerManagerConfiguration` v1alpha1
//! (PROC-010), for tools that read it from the Go binary. It cannot be loaded, as upstream's cannot. The values in force
//! are shown.

use ccm_core::go_text::duration_text;
use clap::ArgMatches;
use serde_json::{Value, json};

use crate::flags::{self, RunFlags};
use crate::leader_migration::{Migration, canonical};

/// What client-go takes for no limit of requests per second.
const UNLIMITED: i64 = -1;

/// The object, under its group, from the values of all flags. Files are read as the controllers read them, which report
/// the mistakes in them.
pub(super) fn of(run: &RunFlags) -> Value {
    let matches = &run.matches;
    let (qps, burst) = match run.client_limit {
        Some(limit) => (rate(limit.per_second()), limit.burst()),
        None => (json!(UNLIMITED), 0),
    };
    let text = |name: &str| {
        let value = matches.get_one::<String>(name);
        value.cloned().unwrap_or_default()
    };
    let flag = |name: &str| matches.get_one(name) == Some(&true);
    let list = |name: &str| flags::list(matches, name);
    let duration = |name: &str| {
        json!(duration_text(
            matches.get_one(name).copied().unwrap_or_default()
        ))
    };
    let controllers = list("controllers");
    let controllers: Vec<String> = controllers.iter().map(|entry| resolved(entry)).collect();
    json!({"cloudcontrollermanager.config.k8s.io": {
        "kind": "CloudControllerManagerConfiguration",
        "apiVersion": "cloudcontrollermanager.config.k8s.io/v1alpha1",
        "Generic": {
            // What the Go managers show whatever their flags say, which set other fields.
            "Port": 0,
            "Address": "0.0.0.0",
            "MinResyncPeriod": duration("min-resync-period"),
            "ClientConnection": {
                "kubeconfig": text("kubeconfig"),
                "acceptContentTypes": "",
                "contentType": text("kube-api-content-type"),
                "qps": qps,
                "burst": burst,
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
            "Controllers": controllers,
            "Debugging": {
                "enableProfiling": flag("profiling"),
                "enableContentionProfiling": flag("contention-profiling"),
            },
            "LeaderMigrationEnabled": flag("enable-leader-migration"),
            "LeaderMigration": leader_migration(matches),
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
            "ConcurrentNodeSyncs": run.node.concurrent_syncs,
            "ConcurrentNodeStatusUpdates": run.node.status_updates(),
        },
        "ServiceController": {
            "ConcurrentServiceSyncs": run.service.concurrent_syncs,
        },
        "NodeStatusUpdateFrequency": duration("node-status-update-frequency"),
        "Webhook": {"Webhooks": list("webhooks")},
    }})
}

/// An entry of `--controllers` with the controller's canonical name.
fn resolved(entry: &str) -> String {
    match entry.strip_prefix('-') {
        Some(off) => format!("-{}", canonical(off)),
        None => canonical(entry).to_owned(),
    }
}

/// A number, without a fraction where it has none, as Go writes it.
fn rate(number: f32) -> Value {
    // Parsed from its text: 0.1 is another number in 64 bits.
    let number: f64 = number.to_string().parse().unwrap_or_default();
    match number.fract() == 0.0 && number.abs() < 1e9 {
        true => json!(number as i64),
        false => json!(number),
    }
}

/// The leader migration that the flags configure; upstream's empty one if there is none.
fn leader_migration(matches: &ArgMatches) -> Value {
    let migration = match matches.get_one("enable-leader-migration") {
        Some(&true) => enabled_migration(matches),
        _ => None,
    };
    migration.map_or_else(
        || json!({"leaderName": "", "resourceLock": "", "controllerLeaders": null}),
        |migration| json!(migration),
    )
}

fn enabled_migration(matches: &ArgMatches) -> Option<Migration> {
    let file = matches.get_one::<String>("leader-migration-config");
    match file.filter(|file| !file.is_empty()) {
        None => Some(Migration::built_in()),
        Some(file) => Migration::read(&std::fs::read_to_string(file).ok()?).ok(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use std::collections::BTreeMap;

    use super::*;
    use crate::flags::{FLAGS, FlagKind, go_duration, run_command};

    /// The object with these flags, and the defaults of all others.
    fn given(flags: &[(&str, &str)]) -> Value {
        let command = run_command().no_binary_name(true);
        let words = [("cloud-provider", "sim")]
            .iter()
            .chain(flags)
            .map(|(name, value)| format!("--{name}={value}"));
        let matches = command.try_get_matches_from(words).unwrap();
        of(&RunFlags::from_matches(&matches).unwrap())
    }

    #[test]
    fn proc_010_test_default_flags_shows_every_value_in_force() {
        let all = given(&[]);
        let shown = &all["cloudcontrollermanager.config.k8s.io"];
        for (pointer, expected) in [
            ("/kind", json!("CloudControllerManagerConfiguration")),
            ("/Generic/Port", json!(0)),
            ("/Generic/Address", json!("0.0.0.0")),
            ("/Generic/MinResyncPeriod", json!("12h0m0s")),
            (
                "/Generic/ClientConnection/contentType",
                json!("application/vnd.kubernetes.protobuf"),
            ),
            ("/Generic/ClientConnection/qps", json!(-1)),
            ("/Generic/ClientConnection/burst", json!(0)),
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
            ("/NodeController/ConcurrentNodeSyncs", json!(16)),
            ("/NodeController/ConcurrentNodeStatusUpdates", json!(16)),
            ("/ServiceController/ConcurrentServiceSyncs", json!(16)),
            ("/NodeStatusUpdateFrequency", json!("5m0s")),
        ] {
            assert_eq!(shown.pointer(pointer), Some(&expected), "{pointer}");
        }
    }

    fn with(flags: &[(&str, &str)]) -> Value {
        given(flags)["cloudcontrollermanager.config.k8s.io"].clone()
    }

    #[test]
    fn proc_010_a_value_is_shown_whatever_its_spelling() {
        for (name, value, pointer, expected) in [
            (
                "leader-elect",
                "T",
                "/Generic/LeaderElection/leaderElect",
                json!(true),
            ),
            (
                "leader-elect",
                "1",
                "/Generic/LeaderElection/leaderElect",
                json!(true),
            ),
            (
                "leader-elect",
                "F",
                "/Generic/LeaderElection/leaderElect",
                json!(false),
            ),
            (
                "profiling",
                "TRUE",
                "/Generic/Debugging/enableProfiling",
                json!(true),
            ),
            // As with the Go managers, no flag sets these two.
            ("secure-port", "0x1f90", "/Generic/Port", json!(0)),
            (
                "bind-address",
                "127.0.0.1",
                "/Generic/Address",
                json!("0.0.0.0"),
            ),
            (
                "kube-api-burst",
                "0b11",
                "/Generic/ClientConnection/burst",
                json!(3),
            ),
            (
                "concurrent-node-syncs",
                "3",
                "/NodeController/ConcurrentNodeStatusUpdates",
                json!(3),
            ),
            (
                "concurrent-node-status-updates",
                "2",
                "/NodeController/ConcurrentNodeStatusUpdates",
                json!(2),
            ),
            (
                "concurrent-node-syncs",
                "+010",
                "/NodeController/ConcurrentNodeSyncs",
                json!(8),
            ),
            (
                "kube-api-qps",
                "0.1",
                "/Generic/ClientConnection/qps",
                json!(0.1),
            ),
            (
                "kube-api-burst",
                "7",
                "/Generic/ClientConnection/qps",
                json!(20),
            ),
            (
                "concurrent-service-syncs",
                "1",
                "/ServiceController/ConcurrentServiceSyncs",
                json!(1),
            ),
            (
                "kube-api-qps",
                "5e1",
                "/Generic/ClientConnection/qps",
                json!(50),
            ),
            (
                "kube-api-burst",
                "0x10",
                "/Generic/ClientConnection/burst",
                json!(16),
            ),
            (
                "node-monitor-period",
                "90s",
                "/KubeCloudShared/NodeMonitorPeriod",
                json!("1m30s"),
            ),
            (
                "controllers",
                "-service,,*",
                "/Generic/Controllers",
                json!(["-service-lb-controller", "*"]),
            ),
        ] {
            let shown = with(&[(name, value)]);
            assert_eq!(shown.pointer(pointer), Some(&expected), "--{name}={value}");
        }
    }

    #[test]
    fn proc_011_the_leader_migration_is_the_one_that_the_flags_configure() {
        let off = json!({"leaderName": "", "resourceLock": "", "controllerLeaders": null});
        assert_eq!(with(&[])["Generic"]["LeaderMigration"], off);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("migration.yaml");
        let file = path.display().to_string();
        let leaders = json!([{"name": "service", "component": "*"}]);
        let document = json!({
            "kind": "LeaderMigrationConfiguration",
            "apiVersion": "controllermanager.config.k8s.io/v1",
            "leaderName": "moving",
            "controllerLeaders": leaders,
        });
        std::fs::write(&path, document.to_string()).unwrap();
        let on = ("enable-leader-migration", "t");
        let config = ("leader-migration-config", file.as_str());
        assert_eq!(with(&[config])["Generic"]["LeaderMigration"], off);
        let shown = with(&[on, config]);
        let expected = json!({
            "leaderName": "moving", "resourceLock": "leases", "controllerLeaders": leaders,
        });
        assert_eq!(shown["Generic"]["LeaderMigrationEnabled"], true);
        assert_eq!(shown["Generic"]["LeaderMigration"], expected);
        // Without a file, the configuration that runs is shown.
        let mut shown = with(&[on])["Generic"]["LeaderMigration"].clone();
        shown["kind"] = document["kind"].clone();
        // The version whose fields are shown: v1 has no lock.
        shown["apiVersion"] = json!("controllermanager.config.k8s.io/v1beta1");
        let read = Migration::read(&shown.to_string()).unwrap();
        assert_eq!(read, Migration::built_in());
    }

    /// The values in force survive the JSON in which upstream puts its defaults into a ConfigMap. The parsed object has no
    /// type of its own, so each value is read as its flag is.
    #[test]
    fn upstream_defaults_survive_the_json_of_a_config_map() {
        let case = "TestCloudControllerManagerDefaultsRoundTrip/01";
        let written = given(&[]);
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
            ("leaderelect", "leader-elect"),
            ("resourcelock", "leader-elect-resource-lock"),
            ("resourcename", "leader-elect-resource-name"),
            ("resourcenamespace", "leader-elect-resource-namespace"),
            ("clustername", "cluster-name"),
            ("configurecloudroutes", "configure-cloud-routes"),
            ("qps", "kube-api-qps"),
            ("concurrentnodesyncs", "concurrent-node-syncs"),
            ("concurrentservicesyncs", "concurrent-service-syncs"),
        ] {
            let found = fields.iter().find(|(name, _)| name == key);
            let (_, found) = found.unwrap_or_else(|| panic!("{key} is not written"));
            let flag = FLAGS.iter().find(|one| one.name == flag).unwrap();
            let is_same = match flag.kind {
                FlagKind::Duration => go_duration(found) == go_duration(flag.default),
                _ => found == flag.default,
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
}
