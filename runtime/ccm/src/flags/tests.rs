#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod controllers;

use ccm_core::well_known::{
    NODE_CONTROLLER, NODE_LIFECYCLE_CONTROLLER, ROUTE_CONTROLLER, SERVICE_CONTROLLER,
};

use super::*;

pub(super) fn run(arguments: &str) -> Result<RunFlags, String> {
    let words = std::iter::once("run").chain(arguments.split_whitespace());
    let matches = run_command()
        .try_get_matches_from(words.map(|word| dashed(word.into())))
        .map_err(|error| error.to_string())?;
    RunFlags::from_matches(&matches).map_err(|error| error.to_string())
}

#[test]
fn a_manifest_written_for_the_go_binary_starts() {
    let flags = run(
        "--allow-untagged-cloud --cloud-provider=hcloud --route-reconciliation-period=30s \
         --webhook-secure-port=0 --leader-elect=false --allocate-node-cidrs=true --cluster-cidr=10.244.0.0/16 \
         --controllers=*,-service-lb-controller -v 4 --kube-api-qps 100 --use_service_account_credentials",
    )
    .unwrap();
    assert_eq!(flags.cloud_provider.as_deref(), Some("hcloud"));
    assert_eq!(flags.cluster_cidrs, ["10.244.0.0/16"]);
    assert_eq!(flags.logs.verbosity, 4);
    assert!(flags.controllers.contains(&NODE_CONTROLLER));
    assert!(flags.leadership.election.is_none());
    assert_eq!(flags.pod_network.route.resync, Duration::from_secs(30));
    assert!(flags.pod_network.ipam.is_some());
    assert!(flags.identity_per_controller);
}

#[test]
fn a_wish_that_is_fulfilled_warns_nobody() {
    for flags in [
        "--leader-elect=true --kube-api-qps=20.0 --min-resync-period=12h --controller-start-interval=0",
        // The arguments of Go managers' containers.
        "--allow-untagged-cloud --webhook-secure-port=0 --route-reconciliation-period=30s",
        "--allow-untagged-cloud=false --webhook-secure-port=10260 --node-sync-period=10s",
        "--feature-gates=CloudControllerManagerWatchBasedRoutesReconciliation=true",
        "--min-resync-period=0 --kube-api-content-type=application/json --log-flush-frequency=1s",
        "--external-cloud-volume-plugin=x --webhooks= --log-text-split-stream=false --vmodule=node*=4",
    ] {
        let read = run(&format!("--cloud-provider=hcloud {flags}")).unwrap();
        assert_eq!(read.warnings, Vec::<String>::new(), "{flags}");
    }
}

#[test]
fn a_wish_that_is_not_fulfilled_is_told_with_the_reason() {
    for (flag, reason) in [
        ("--webhook-secure-port=10300", "webhooks are not served"),
        (
            "--controller-start-interval=5s",
            "all controllers start at once",
        ),
        (
            "--min-resync-period=1h",
            "the watch cache is never resynchronised on a timer",
        ),
        (
            "--kube-api-content-type=application/cbor",
            "nodes are read as protobuf, and everything else is JSON",
        ),
        (
            "--log-json-split-stream",
            "the whole log goes to standard error",
        ),
        (
            "--tags=a=b",
            "instances are not tagged, and those without the cluster's tag are no targets of load balancers",
        ),
        (
            "--dualstack",
            "pod CIDRs are chosen out of --cluster-cidr, and not by AWS",
        ),
    ] {
        let read = run(&format!("--cloud-provider=hcloud {flag}")).unwrap();
        let name = flag.split('=').next().unwrap();
        assert_eq!(read.warnings, [format!("{name} has no effect: {reason}")]);
    }
}

#[test]
fn the_log_is_as_the_flags_say() {
    let logs = run("--cloud-provider=x").unwrap().logs;
    assert_eq!((logs.format, logs.verbosity), (None, 0));
    assert!(logs.modules.is_empty());
    let flags = run(
        "--cloud-provider=x --logging-format=json --v 2 --vmodule=node*=4, --vmodule=run=0,x=+1",
    )
    .err();
    assert!(flags.unwrap().contains("parsing verbosity in \"x=+1\""));
    let flags = "--cloud-provider=x --logging-format=json --v 2 --vmodule=node*=4, --vmodule=run=0";
    let logs = run(flags).unwrap().logs;
    assert_eq!((logs.format, logs.verbosity), (Some(LogFormat::Json), 2));
    let modules: Vec<_> = logs
        .modules
        .iter()
        .map(|one| (one.pattern.as_str(), one.verbosity))
        .collect();
    assert_eq!(modules, [("node*", 4), ("run", 0)]);
    for (flags, mistake) in [
        ("--vmodule=a", "\"a\" does not have the pattern=N format"),
        (
            "--vmodule=\u{1b}",
            r#""\x1b" does not have the pattern=N format"#,
        ),
        ("--vmodule==1", "\"=1\" does not have the pattern=N format"),
        (
            "--vmodule=a=1=2",
            "\"a=1=2\" does not have the pattern=N format",
        ),
        ("--vmodule=a=x", "parsing verbosity in \"a=x\""),
        (
            "--vmodule=a=2147483648",
            "parsing verbosity in \"a=2147483648\"",
        ),
        (
            "--log-flush-frequency=0s",
            "--log-flush-frequency must be greater than zero",
        ),
    ] {
        let text = run(&format!("--cloud-provider=x {flags}")).err().unwrap();
        assert!(text.contains(mistake), "{flags}: {text}");
    }
}

#[test]
fn proc_032_clients_are_limited_only_if_a_flag_says_so() {
    for (arguments, limit) in [
        ("", None),
        ("--kube-api-qps=20", RateLimit::new(20.0, 30)),
        ("--kube-api-burst=7", RateLimit::new(20.0, 7)),
        (
            "--kube-api-qps=2.5 --kube-api-burst=50",
            RateLimit::new(2.5, 50),
        ),
        ("--kube-api-qps=-1", None),
    ] {
        let flags = run(&format!("--cloud-provider=hcloud {arguments}")).unwrap();
        assert_eq!(flags.client_limit, limit, "{arguments}");
    }
}

#[test]
fn proc_003_all_mistakes_are_reported_at_once() {
    let text = run("--controllers=nonsense --logging-format=xml")
        .err()
        .unwrap();
    assert!(text.contains("--cloud-provider cannot be empty"), "{text}");
    assert!(
        text.contains(
            "\"nonsense\" is not in the list of known controllers: cloud-node-controller, "
        ),
        "{text}"
    );
    assert!(text.contains("expected text or json"), "{text}");
}

#[test]
fn proc_004_workers_that_cannot_work_are_refused() {
    for (case, syncs, updates, is_allowed) in [
        ("TestNodeControllerValidation/01", None, None, true),
        ("TestNodeControllerValidation/02", Some("-5"), None, false),
        ("TestNodeControllerValidation/03", Some("0"), None, false),
        (
            "TestNodeControllerValidation/04",
            Some("5"),
            Some("0"),
            true,
        ),
        (
            "TestNodeControllerValidation/05",
            Some("5"),
            Some("5"),
            true,
        ),
        (
            "TestNodeControllerValidation/06",
            Some("5"),
            Some("-1"),
            false,
        ),
    ] {
        let mut words = "--cloud-provider=x".to_owned();
        if let Some(syncs) = syncs {
            words.push_str(&format!(" --concurrent-node-syncs={syncs}"));
        }
        if let Some(updates) = updates {
            words.push_str(&format!(" --concurrent-node-status-updates={updates}"));
        }
        let reported = run(&words).err();
        assert_eq!(reported.is_none(), is_allowed, "{case}: {reported:?}");
    }
    let text = run("--cloud-provider=x --concurrent-node-syncs=0").err();
    let text = text.unwrap();
    assert!(
        text.contains("concurrent-node-syncs must be a positive number"),
        "{text}"
    );
}

#[test]
fn upstream_add_flags_its_command_line_is_read() {
    let case = "TestAddFlags/01";
    // Upstream's own, except for the controllers, which do not exist.
    let flags = run(
        "--allocate-node-cidrs=true --authorization-always-allow-paths= --bind-address=192.168.4.21 --cert-dir=/a/b/c \
         --cloud-config=/cloud-config --cloud-provider=gce --cluster-cidr=1.2.3.4/24 --cluster-name=k8s \
         --configure-cloud-routes=false --contention-profiling=true --controller-start-interval=2m \
         --controllers=route,service --http2-max-streams-per-connection=47 --kube-api-burst=100 \
         --kube-api-content-type=application/vnd.kubernetes.protobuf --kube-api-qps=50.0 --kubeconfig=/kubeconfig \
         --leader-elect=false --leader-elect-lease-duration=30s --leader-elect-renew-deadline=15s \
         --leader-elect-resource-lock=leases --leader-elect-retry-period=5s --master=192.168.4.20 \
         --min-resync-period=100m --node-status-update-frequency=10m --profiling=false \
         --route-reconciliation-period=30s --secure-port=10001 --use-service-account-credentials=false \
         --concurrent-node-syncs=5 --webhooks=foo,bar,-baz --webhook-disable-http2-serving=true \
         --webhook-tls-cipher-suites=TLS_RSA_WITH_AES_128_CBC_SHA,TLS_RSA_WITH_AES_256_CBC_SHA \
         --webhook-tls-min-version=VersionTLS13 --webhook-tls-sni-cert-key=example.crt,example.key:example.com",
    );
    let flags = flags.unwrap_or_else(|error| panic!("{case}: {error}"));
    assert_eq!(flags.cloud_provider.as_deref(), Some("gce"));
    assert_eq!(flags.config, Some(PathBuf::from("/cloud-config")));
    assert!(flags.is_cloud_config);
    assert_eq!(flags.kubeconfig, Some(PathBuf::from("/kubeconfig")));
    assert_eq!(flags.master.as_deref(), Some("192.168.4.20"));
    assert_eq!(flags.cluster_name, "k8s");
    assert_eq!(flags.cluster_cidrs, ["1.2.3.4/24"]);
    assert_eq!(flags.node.concurrent_syncs.get(), 5);
    assert_eq!(flags.node.status_update_frequency, Duration::from_secs(600));
    assert!(flags.leadership.election.is_none());
    assert_eq!(flags.controllers, [SERVICE_CONTROLLER, ROUTE_CONTROLLER]);
}

#[test]
fn upstream_create_config_workers_for_the_status_are_as_many_as_for_nodes_unless_given() {
    for (case, flag, expected) in [
        ("TestCreateConfig/01", "", None),
        (
            "TestCreateConfigWithoutWebHooks/01",
            "--concurrent-node-status-updates=2",
            NonZeroUsize::new(2),
        ),
    ] {
        let flags = run(&format!(
            "--cloud-provider=aws --concurrent-node-syncs=1 {flag}"
        ))
        .unwrap();
        assert_eq!(flags.node.concurrent_syncs.get(), 1, "{case}");
        // `None` is the same number (`--concurrent-node-syncs`).
        assert_eq!(flags.node.concurrent_status_updates, expected, "{case}");
    }
}

#[test]
fn proc_005_the_pods_ranges_are_checked_with_the_flags() {
    let text = run("--cloud-provider=x --cluster-cidr=10.244.0.0/33").err();
    assert!(text.unwrap().contains("10.244.0.0/33"));
}

#[test]
fn looks_without_a_pause_are_refused() {
    for flag in [
        "node-status-update-frequency",
        "node-monitor-period",
        "route-reconciliation-period",
    ] {
        let text = run(&format!("--cloud-provider=x --{flag}=0s")).err();
        let expected = format!("--{flag} must be longer than nothing");
        assert!(text.clone().unwrap().contains(&expected), "{text:?}");
    }
}

#[test]
fn without_flags_every_wait_before_a_removal_is_the_one_of_core() {
    let flags = run("--cloud-provider=x").unwrap();
    assert_eq!(flags.lifecycle, LifecycleSettings::default());
    let service = ccm_core::settings::ServiceRules::default();
    assert_eq!(flags.confirm_removal, service.confirm_removal);
    assert_eq!(flags.service, ServiceSettings::default());
    assert_eq!(flags.node, NodeSettings::default());
}

#[test]
fn each_flag_about_removals_sets_its_own_wait() {
    let flags = run(
        "--cloud-provider=x --node-monitor-period=7s --node-deletion-not-ready=31s --node-deletion-min-age=301s \
         --node-deletion-confirm-after=11s --node-deletion-mass-hold=901s --node-deletion-wanted-selector=pool=spot \
         --delete-last-node --node-change-confirm-after=13s --load-balancer-removal-confirm-after=37s",
    )
    .unwrap();
    let lifecycle = LifecycleSettings {
        monitor_period: Duration::from_secs(7),
        rules: LifecycleRules {
            not_ready: Duration::from_secs(31),
            min_age: Duration::from_secs(301),
            confirm_after: Duration::from_secs(11),
            mass_hold: Duration::from_secs(901),
            wanted: Some(Selector::parse("pool=spot").unwrap()),
            delete_last_node: true,
        },
    };
    assert_eq!(flags.lifecycle, lifecycle);
    assert_eq!(flags.node.rules.confirm_after, Duration::from_secs(13));
    assert_eq!(flags.confirm_removal, Duration::from_secs(37));
}

#[test]
fn the_help_marks_every_flag_that_does_nothing() {
    let command = run_command();
    for flag in FLAGS {
        let argument = command
            .get_arguments()
            .find(|one| one.get_id() == flag.name);
        let help = argument.unwrap().get_help().unwrap().to_string();
        let is_marked = help.contains("; no effect: ");
        assert_eq!(
            is_marked,
            flag.state != State::Works,
            "{}: {help}",
            flag.name
        );
    }
}

#[test]
fn durations_are_gos() {
    for (text, millis) in [
        ("5m0s", 300_000),
        ("1h30m", 5_400_000),
        ("500ms", 500),
        ("0", 0),
        ("10s", 10_000),
        ("1.5h30m", 7_200_000),
        ("1h0.5m", 3_630_000),
        (".5s", 500),
        ("5.s", 5_000),
        ("+5m", 300_000),
        ("1000µs", 1),
        ("1000μs", 1),
        ("1h1h", 7_200_000),
        ("-0", 0),
        ("-0s", 0),
    ] {
        assert_eq!(
            go_duration(text),
            Ok(Duration::from_millis(millis)),
            "{text}"
        );
    }
    for text in [
        "",
        "5",
        "-5s",
        "--5s",
        "1s0",
        "1s-1s",
        "9999999999999999999h",
        "x",
        "5 parsecs",
        "5 minutes",
        "PT5M",
        "1h 30m",
        "5m,3s",
        "1_0s",
        ".s",
        "1.2.3s",
        "+",
        "+-1s",
        "00",
        "1d",
        "1H",
        "1e3s",
        "2562048h",
        "1ħ",
    ] {
        assert!(go_duration(text).is_err(), "{text}");
    }
}

#[test]
fn the_table_names_each_flag_once() {
    let mut names: Vec<_> = FLAGS.iter().map(|flag| flag.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), FLAGS.len());
    // Upstream has 86 with --help and --version, which clap adds; all others are ours. The node IPAM controller's are
    // in an extra set of kube's own sample (IPAM-002), and AWS's in extra sets of its manager.
    let ours = ["wasm", "node-ipam-controller", "AWS"];
    let theirs = FLAGS.iter().filter(|flag| !ours.contains(&flag.section));
    let theirs = theirs.count();
    assert_eq!(theirs, 86 - 2);
}

#[test]
fn proc_040_the_lock_and_its_times_are_upstreams() {
    let election = run("--cloud-provider=x")
        .unwrap()
        .leadership
        .election
        .unwrap();
    let seconds = |seconds| Duration::from_secs(seconds);
    assert_eq!(election.timing.lease_duration, seconds(15));
    assert_eq!(election.timing.renew_deadline, seconds(10));
    assert_eq!(election.timing.retry_period, seconds(2));
    assert_eq!(election.name, "cloud-controller-manager");
    assert_eq!(election.namespace, "kube-system");
    assert!(election.migration.is_none());
    let flags = run("--cloud-provider=x --leader-elect-resource-name=other --enable-leader-migration --leader-migration-config=/etc/m.yaml").unwrap();
    let election = flags.leadership.election.unwrap();
    assert_eq!(election.name, "other");
    let migration = election.migration.unwrap();
    assert_eq!(migration.config, Some(PathBuf::from("/etc/m.yaml")));
}

#[test]
fn proc_041_an_election_that_cannot_work_is_refused_with_all_its_mistakes() {
    let text = run(
        "--leader-elect-lease-duration=5s --leader-elect-renew-deadline=5s --leader-elect-retry-period=5s --leader-elect-resource-lock=endpoints --leader-elect-resource-name=",
    )
    .err()
    .unwrap();
    for word in [
        "--cloud-provider cannot be empty",
        "leaseDuration must be greater than renewDeadline",
        "renewDeadline must be greater than retryPeriod*JitterFactor",
        "resourceLock value must be \"leases\"",
        "--leader-elect-resource-name cannot be empty",
    ] {
        assert!(text.contains(word), "{word}: {text}");
    }
}

#[test]
fn proc_046_without_an_election_its_flags_are_not_looked_at() {
    let flags =
        run("--cloud-provider=x --leader-elect=false --leader-elect-lease-duration=1s").unwrap();
    assert!(flags.leadership.election.is_none());
}

#[test]
fn edge_090_ten_seconds_are_left_for_what_is_on_the_wire() {
    let flags = run("--cloud-provider=x").unwrap();
    assert_eq!(flags.leadership.drain, Duration::from_secs(10));
    let flags = run("--cloud-provider=x --shutdown-drain=3s").unwrap();
    assert_eq!(flags.leadership.drain, Duration::from_secs(3));
}

#[test]
fn of_a_flag_that_is_given_twice_the_last_one_counts_and_lists_grow() {
    let flags = run("--cloud-provider=x --leader-elect-lease-duration=3s --leader-elect-lease-duration=30s --leader-elect --leader-elect=true --controllers=-cloud-node --controllers=*").unwrap();
    let timing = flags.leadership.election.unwrap().timing;
    assert_eq!(timing.lease_duration, Duration::from_secs(30));
    assert!(!flags.controllers.contains(&NODE_CONTROLLER));
    assert!(flags.controllers.contains(&NODE_LIFECYCLE_CONTROLLER));
}

#[test]
fn a_migration_that_does_not_take_place_is_said() {
    for (flags, warning) in [
        (
            "--leader-migration-config=/m.yaml",
            "--leader-migration-config has no effect",
        ),
        (
            "--leader-elect=false --enable-leader-migration",
            "--enable-leader-migration has no effect",
        ),
    ] {
        let flags = run(&format!("--cloud-provider=x {flags}")).unwrap();
        assert_eq!(flags.warnings.len(), 1, "{:?}", flags.warnings);
        assert!(
            flags.warnings[0].starts_with(warning),
            "{:?}",
            flags.warnings
        );
    }
}
