//! The variables of the Go hcloud-cloud-controller-manager 1.35.0, and the arguments and variables of its manifests and
//! its chart, unchanged: `internal/config/config.go`, `internal/config/load_balancer_envs.go`, `deploy/*.yaml`,
//! `chart/` and `docs/guides/robot/lb-only-without-credentials.md` there. Also the rights of its ClusterRole.

use std::collections::BTreeSet;

use ccm_core::well_known::{NODE_CONTROLLER, NODE_LIFECYCLE_CONTROLLER, SERVICE_CONTROLLER};
use serde::Deserialize;

use super::*;
use crate::flags::{RunFlags, dashed, run_command};

/// Every variable that the Go manager reads.
const VARIABLES: &[&str] = &[
    "HCLOUD_DEBUG",
    "HCLOUD_ENDPOINT",
    "HCLOUD_INSTANCES_ADDRESS_FAMILY",
    "HCLOUD_INSTANCES_ZONE_LABEL_ENABLED",
    "HCLOUD_LOAD_BALANCERS_ALGORITHM_TYPE",
    "HCLOUD_LOAD_BALANCERS_DISABLE_IPV6",
    "HCLOUD_LOAD_BALANCERS_DISABLE_PRIVATE_INGRESS",
    "HCLOUD_LOAD_BALANCERS_DISABLE_PUBLIC_NETWORK",
    "HCLOUD_LOAD_BALANCERS_ENABLED",
    "HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_INTERVAL",
    "HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_RETRIES",
    "HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_TIMEOUT",
    "HCLOUD_LOAD_BALANCERS_LOCATION",
    "HCLOUD_LOAD_BALANCERS_NETWORK_ZONE",
    "HCLOUD_LOAD_BALANCERS_PRIVATE_SUBNET_IP_RANGE",
    "HCLOUD_LOAD_BALANCERS_TYPE",
    "HCLOUD_LOAD_BALANCERS_USES_PROXYPROTOCOL",
    "HCLOUD_LOAD_BALANCERS_USE_PRIVATE_IP",
    "HCLOUD_METRICS_ADDRESS",
    "HCLOUD_METRICS_ENABLED",
    "HCLOUD_NETWORK",
    "HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK",
    "HCLOUD_NETWORK_ROUTES_ENABLED",
    "HCLOUD_SERVER_CACHE_MAX_AGE",
    "HCLOUD_SERVER_CACHE_MODE",
    "HCLOUD_TOKEN",
    "HCLOUD_TOKEN_FILE",
    "ROBOT_CACHE_TIMEOUT",
    "ROBOT_ENABLED",
    "ROBOT_FORWARD_INTERNAL_IPS",
    "ROBOT_PASSWORD",
    "ROBOT_PASSWORD_FILE",
    "ROBOT_RATE_LIMIT_WAIT_TIME",
    "ROBOT_USER",
    "ROBOT_USER_FILE",
];

/// Variables that only this program reads.
const OURS: &[&str] = &["HCLOUD_LOAD_BALANCERS_KEEP_FOREIGN_PORTS", "ROBOT_ENDPOINT"];

fn names(of: &[&str]) -> BTreeSet<String> {
    of.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn every_variable_of_the_go_manager_is_known_and_documented() {
    let manifest = manifest();
    let known = names(&[VARIABLES, OURS].concat());
    assert_eq!(unknown("hcloud", &manifest, &known), None);
    let page = include_str!("../../../../../deploy/docs/hcloud.md");
    for name in &known {
        assert!(page.contains(&format!("`{name}`")), "{name} is missing");
    }
    let keys = manifest.config.iter().map(|key| key.key.as_str());
    for key in keys {
        assert!(known.contains(key), "{key} is in neither list");
    }
}

#[test]
fn names_that_nothing_reads_are_warned_about() {
    let table: [(&[&str], Option<&str>); 6] = [
        (&["PATH", "HCLOUDY", "XHCLOUD_TOKEN"], None),
        (
            &["HCLOUD_NETWROK", "ROBOT_ENABLE"],
            Some(": HCLOUD_NETWROK, ROBOT_ENABLE"),
        ),
        (&["HCLOUD_DEBUG_FILE"], Some(": HCLOUD_DEBUG_FILE")),
        (&["HCLOUD_SERVER_CACHE_TTL"], None),
        // The variables that Kubernetes sets for a Service hcloud-csi.
        (
            &[
                "HCLOUD_CSI_SERVICE_HOST",
                "HCLOUD_CSI_SERVICE_PORT",
                "HCLOUD_CSI_SERVICE_PORT_METRICS",
                "HCLOUD_CSI_PORT",
                "HCLOUD_CSI_PORT_9189_TCP",
                "HCLOUD_CSI_PORT_9189_TCP_ADDR",
                "HCLOUD_CSI_PORT_9189_TCP_PROTO",
            ],
            None,
        ),
        (
            &[
                "HCLOUD_CSI_SERVICE_HOST",
                "HCLOUD_CSI_POTR",
                "HCLOUD_LB_PORT",
            ],
            Some(": HCLOUD_CSI_POTR, HCLOUD_LB_PORT"),
        ),
    ];
    for (set, expected) in table {
        let reported = unknown("hcloud", &manifest(), &names(set));
        match (&reported, expected) {
            (Some(reported), Some(end)) => assert!(reported.ends_with(end), "{reported}"),
            (reported, expected) => assert_eq!(reported.as_deref(), expected, "{set:?}"),
        }
    }
    let many: Vec<String> = (0..30).map(|n| format!("HCLOUD_{n:02}")).collect();
    let reported = unknown("hcloud", &manifest(), &many.into_iter().collect()).unwrap();
    assert!(reported.ends_with("HCLOUD_09 and 20 more"), "{reported}");
    assert_eq!(unknown("other", &manifest(), &names(&["HCLOUD_X"])), None);
}

#[test]
fn of_a_variable_and_its_file_the_variable_counts_with_one_warning() {
    let both = read(&[("HCLOUD_TOKEN", TOKEN), ("HCLOUD_TOKEN_FILE", "/nowhere")]);
    assert_eq!(targets(&both), [API]);
    assert_eq!(both.mistakes, [] as [&str; 0]);
    assert_eq!(both.warnings.len(), 1, "{:?}", both.warnings);
    let expected = "HCLOUD_TOKEN and HCLOUD_TOKEN_FILE are both set: HCLOUD_TOKEN counts";
    assert!(
        both.warnings[0].starts_with(expected),
        "{:?}",
        both.warnings
    );
    let expected = Credential::Bearer(Secret::new(TOKEN.to_owned()));
    assert!(both.grants.targets[0].credential == expected);

    let robot = read(&[
        ("HCLOUD_TOKEN", TOKEN),
        ("ROBOT_ENABLED", "true"),
        ("ROBOT_USER", "user"),
        ("ROBOT_USER_FILE", "/nowhere"),
        ("ROBOT_PASSWORD", "password"),
        ("ROBOT_PASSWORD_FILE", "/nowhere"),
    ]);
    assert_eq!(robot.mistakes, [] as [&str; 0]);
    assert_eq!(robot.warnings.len(), 2, "{:?}", robot.warnings);
}

#[test]
fn a_file_that_does_not_count_is_no_secret_whose_rotation_matters() {
    let config = ProviderConfig::unwritten("hcloud");
    for (token, expected) in [(None, 1), (Some(TOKEN), 0)] {
        let context = ConfigContext {
            absent: None,
            variable: &|name| match name {
                "HCLOUD_TOKEN" => token.map(str::to_owned),
                "HCLOUD_TOKEN_FILE" => Some("/secret".to_owned()),
                _ => None,
            },
            file: &|_| Ok(TOKEN.to_owned()),
            secret: &|_| Err("no cluster".to_owned()),
        };
        assert_eq!(ambient(&config, &context).len(), expected);
    }
}

#[test]
fn robot_without_credentials_starts_and_half_of_them_is_a_mistake() {
    let enabled = ("ROBOT_ENABLED", "true");
    let neither = read(&[("HCLOUD_TOKEN", TOKEN), enabled]);
    assert_eq!(targets(&neither), [API]);
    assert_eq!(neither.mistakes, [] as [&str; 0]);
    assert_eq!(neither.warnings, [] as [&str; 0]);
    assert_eq!(neither.notes.len(), 1);
    assert!(manifest().narrow(neither.grants).is_ok());
    for (set, missing) in [
        ("ROBOT_USER", "ROBOT_PASSWORD"),
        ("ROBOT_PASSWORD", "ROBOT_USER"),
    ] {
        let half = read(&[("HCLOUD_TOKEN", TOKEN), enabled, (set, "one")]);
        let expected = format!("neither {missing} nor {missing}_FILE is set");
        assert_eq!(half.mistakes, [expected]);
    }
}

#[test]
fn metrics_are_where_the_go_manager_serves_them() {
    let address = |variables: &[(&str, &str)]| {
        let context = ConfigContext {
            absent: None,
            variable: &|name| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            },
            file: &|_| Err("no such file".to_owned()),
            secret: &|_| Err("no cluster".to_owned()),
        };
        metrics_address("hcloud", &context)
            .map(|address| address.map(|address| address.to_string()))
            .map_err(|mistake| matches!(mistake, MetricsMistake::Switch(_)))
    };
    const ENABLED: &str = "HCLOUD_METRICS_ENABLED";
    const ADDRESS: &str = "HCLOUD_METRICS_ADDRESS";
    let all = Ok(Some("[::]:8233".to_owned()));
    assert_eq!(address(&[]), all);
    for (value, expected) in [
        ("true", all),
        ("false", Ok(None)),
        ("0", Ok(None)),
        ("on", Err(true)),
    ] {
        assert_eq!(address(&[(ENABLED, value)]), expected, "{value}");
    }
    for (value, expected) in [
        (":9000", Ok("[::]:9000")),
        ("[::]:9000", Ok("[::]:9000")),
        ("0.0.0.0:9000", Ok("0.0.0.0:9000")),
        ("127.0.0.1:9000", Ok("127.0.0.1:9000")),
        ("localhost:9000", Ok("127.0.0.1:9000")),
        ("[fd00::1]:9000", Ok("[fd00::1]:9000")),
        ("9000", Err(false)),
        ("fd00::1:9000", Err(false)),
        ("[127.0.0.1]:9000", Err(false)),
        ("example.com:9000", Err(false)),
        (":http", Err(false)),
        (":99999", Err(false)),
        (":", Err(false)),
    ] {
        let expected = expected.map(|text| Some(text.to_owned()));
        assert_eq!(address(&[(ADDRESS, value)]), expected, "{value}");
    }
    assert_eq!(
        address(&[(ENABLED, "false"), (ADDRESS, "nonsense")]),
        Ok(None)
    );

    // As in the Go manager, an invalid switch is a mistake, and an invalid address is none.
    let switch = read(&[("HCLOUD_TOKEN", TOKEN), (ENABLED, "on")]);
    assert_eq!((switch.mistakes.len(), switch.warnings.len()), (1, 0));
    let place = read(&[("HCLOUD_TOKEN", TOKEN), (ADDRESS, "nonsense")]);
    assert_eq!((place.mistakes.len(), place.warnings.len()), (0, 1));
}

/// A way in which the Go manager is deployed.
struct Deployed {
    name: &'static str,
    arguments: &'static [&'static str],
    /// Variables besides the token. Values of Secrets are made up.
    variables: &'static [(&'static str, &'static str)],
    /// Names of the targets that are granted.
    targets: &'static [&'static str],
    /// Whether a controller of nodes runs.
    nodes: bool,
}

/// The arguments that all of its manifests have.
const COMMON: [&str; 5] = [
    "--allow-untagged-cloud",
    "--cloud-provider=hcloud",
    "--feature-gates=CloudControllerManagerWatchBasedRoutesReconciliation=true",
    "--route-reconciliation-period=30s",
    "--webhook-secure-port=0",
];

const DEPLOYED: &[Deployed] = &[
    Deployed {
        name: "deploy/ccm.yaml; the chart with its default values",
        arguments: &["--leader-elect=false"],
        variables: &[],
        targets: &["api"],
        nodes: true,
    },
    Deployed {
        name: "deploy/ccm-networks.yaml; the chart with networking.enabled=true",
        arguments: &[
            "--allocate-node-cidrs=true",
            "--cluster-cidr=10.244.0.0/16",
            "--leader-elect=false",
        ],
        variables: &[("HCLOUD_NETWORK", "4711")],
        targets: &["api"],
        nodes: true,
    },
    Deployed {
        name: "the chart with kind=DaemonSet, or with replicaCount=2",
        arguments: &[],
        variables: &[],
        targets: &["api"],
        nodes: true,
    },
    Deployed {
        name: "the chart with monitoring.enabled=false",
        arguments: &["--leader-elect=false"],
        variables: &[("HCLOUD_METRICS_ENABLED", "false")],
        targets: &["api"],
        nodes: true,
    },
    Deployed {
        name: "the chart with robot.enabled=true",
        arguments: &["--leader-elect=false"],
        variables: &[
            ("ROBOT_ENABLED", "true"),
            ("ROBOT_USER", "user"),
            ("ROBOT_PASSWORD", "password"),
        ],
        targets: &["api", "robot"],
        nodes: true,
    },
    Deployed {
        name: "docs/guides/robot/lb-only-without-credentials.md",
        arguments: &[
            "--controllers=*,-cloud-node,-cloud-node-lifecycle",
            "--leader-elect=false",
        ],
        variables: &[
            ("ROBOT_ENABLED", "true"),
            ("HCLOUD_NETWORK", "4711"),
            ("HCLOUD_NETWORK_ROUTES_ENABLED", "false"),
        ],
        targets: &["api"],
        nodes: false,
    },
];

#[test]
fn its_manifests_start_with_nothing_changed_but_the_image() {
    for deployed in DEPLOYED {
        let name = deployed.name;
        let token = [("HCLOUD_TOKEN", TOKEN)];
        let read = read(&[&token[..], deployed.variables].concat());
        let granted: Vec<&str> = targets(&read).into_iter().map(|(name, ..)| name).collect();
        assert_eq!(granted, deployed.targets, "{name}");
        assert_eq!(read.mistakes, [] as [&str; 0], "{name}");
        assert_eq!(read.warnings, [] as [&str; 0], "{name}");
        let set: Vec<&str> = deployed.variables.iter().map(|(name, _)| *name).collect();
        assert_eq!(unknown("hcloud", &manifest(), &names(&set)), None, "{name}");

        let words = ["run"].iter().chain(&COMMON).chain(deployed.arguments);
        let matches = run_command()
            .try_get_matches_from(words.map(|word| dashed(word.into())))
            .expect(name);
        let flags = RunFlags::from_matches(&matches).expect(name);
        assert_eq!(flags.cloud_provider.as_deref(), Some("hcloud"), "{name}");
        let runs = |controller| flags.controllers.contains(&controller);
        let nodes = runs(NODE_CONTROLLER) || runs(NODE_LIFECYCLE_CONTROLLER);
        assert_eq!(nodes, deployed.nodes, "{name}");
        assert!(runs(SERVICE_CONTROLLER), "{name}");
        assert_eq!(flags.warnings, Vec::<String>::new(), "{name}");
    }
}

/// The rights of its ClusterRole: resources and verbs.
const RIGHTS: &[(&str, &[&str])] = &[
    ("configmaps", &["get", "list", "watch"]),
    ("events", &["create", "patch", "update"]),
    ("nodes", &["*"]),
    ("nodes/status", &["patch"]),
    ("services", &["list", "watch"]),
    ("services/status", &["patch", "update"]),
    ("serviceaccounts", &["create"]),
    ("leases", &["create", "get", "list", "watch", "update"]),
];

#[derive(Deserialize)]
struct Role {
    #[serde(default)]
    rules: Vec<Rule>,
}

#[derive(Deserialize)]
struct Rule {
    /// Empty in a rule about paths.
    #[serde(default)]
    resources: Vec<String>,
    verbs: Vec<String>,
}

/// `deploy/kustomize/base/rbac.yaml` has exactly what the controllers use: a test on a real API server holds that.
#[test]
fn what_its_cluster_role_lacks_is_documented() {
    let ours = include_str!("../../../../../deploy/kustomize/base/rbac.yaml");
    let roles: Vec<Role> = serde_saphyr::from_multiple(ours).unwrap();
    let mut lacks = BTreeSet::new();
    for rule in roles.iter().flat_map(|role| &role.rules) {
        for resource in &rule.resources {
            let mut rights = RIGHTS.iter();
            let (_, allowed) = rights
                .find(|(known, _)| known == resource)
                .unwrap_or(&("", &[]));
            let is_lacking = |verb: &&String| !allowed.iter().any(|one| one == verb || *one == "*");
            let verbs = rule.verbs.iter().filter(is_lacking);
            lacks.extend(verbs.map(|verb| format!("`{verb}` on `{resource}`")));
        }
    }
    let expected = [
        "`create` on `providers`",
        "`get` on `namespaces`",
        "`get` on `providers`",
        "`list` on `pods`",
        "`patch` on `providers/status`",
    ];
    assert_eq!(lacks.iter().collect::<Vec<_>>(), expected);
    let page = include_str!("../../../../../deploy/docs/hcloud.md");
    for right in expected {
        assert!(page.contains(right), "{right}");
    }
}
