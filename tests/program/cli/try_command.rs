//! `ccm provider try` and `ccm provider check --online`: the calls of a module, the writes that the manager would make,
//! and refusals; nothing is changed unless that is allowed.

use std::path::{Path, PathBuf};

use ccm_fixtures::TOKEN;
use ccm_sim::hetzner::{Hetzner, LoadBalancerSpec, Options, ServerSpec};
use ccm_tests::conformance::{At, configuration};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::{ccm, file, text};
use crate::COMPILED;

const SERVICE: &str = "\
apiVersion: v1
kind: Service
metadata: { name: web }
spec: { type: LoadBalancer, ports: [{ port: 80 }] }
";

/// A simulated cloud with one server, and the configuration for it.
struct World {
    cloud: Hetzner,
    server: u64,
    folder: TempDir,
    config: PathBuf,
    // Dropped last: the cloud runs on it.
    _runtime: Runtime,
}

impl World {
    fn new() -> World {
        let runtime = Runtime::new().unwrap();
        let options = Options {
            rate_limit: None,
            ..Options::new(TOKEN)
        };
        let cloud = runtime.block_on(Hetzner::start(options)).unwrap();
        let server = cloud.add_server(ServerSpec::named("worker-1"));
        let folder = TempDir::new().unwrap();
        let token = file(&folder, "token", TOKEN.as_bytes());
        let api = At {
            target: "api",
            endpoint: &cloud.endpoint(),
            credential: json!({ "bearer": { "file": token } }),
        };
        let values = [("HCLOUD_LOAD_BALANCERS_LOCATION", "fsn1")];
        let program = Path::new(env!("CARGO_BIN_EXE_ccm"));
        let config = configuration(program, "embedded:hcloud", &[api], &values).unwrap();
        let config = file(&folder, "ccm.yaml", config.as_bytes());
        World {
            cloud,
            server,
            folder,
            config,
            _runtime: runtime,
        }
    }

    fn run(&self, command: &str, more: &[&str]) -> super::ProgramOutput {
        let config = [&COMPILED, "--config", text(&self.config)];
        ccm(&[
            &["provider", command][..],
            &config,
            more,
            &["embedded:hcloud"],
        ]
        .concat())
    }
}

#[test]
fn a_module_is_asked_without_a_cluster_and_changes_nothing() {
    let world = World::new();
    let service = file(&world.folder, "web.yaml", SERVICE.as_bytes());
    let subject = ["--node=worker-1", "--service", text(&service)];
    let output = world.run("try", &subject);
    assert_eq!(output.code, 0, "{}{}", output.out, output.err);
    let id = format!("providerID hcloud://{}", world.server);
    for part in [
        "instances.find",
        "of CPU",
        "KiB",
        "GET    api /servers  200",
        &id,
        "-taint(uninitialized)",
        "Synced: Node synced successfully",
        "+finalizer",
        "refused POST api /load_balancers: changes are not made in plan mode",
        "service/default/web: a change that was withheld",
        "yes: 2 object(s)",
    ] {
        assert!(output.out.contains(part), "{part}: {}", output.out);
    }
    assert!(!output.out.contains(TOKEN), "{}", output.out);
    assert!(world.cloud.load_balancers().is_empty(), "{}", output.out);

    let output = world.run("try", &[&subject[..], &["-o", "json"]].concat());
    let json: Value = serde_json::from_str(&output.out).unwrap();
    assert_eq!(json["mode"], "plan");
    assert_eq!(json["served"], true);
    let call = &json["asked"][0]["calls"][0];
    assert_eq!(call["function"], "instances.find");
    assert_eq!(call["requests"][0]["status"], 200);
    assert!(call["memoryKiB"].as_u64() > Some(0), "{call}");

    let output = world.run("try", &[&subject[..], &["-o", "yaml"]].concat());
    assert!(output.out.contains("mode: plan"), "{}", output.out);
}

#[test]
fn with_changes_allowed_the_service_gets_its_status() {
    let world = World::new();
    let service = file(&world.folder, "web.yaml", SERVICE.as_bytes());
    let more = [
        "--node=worker-1",
        "--service",
        text(&service),
        "--allow-changes",
    ];
    let output = world.run("try", &more);
    assert_eq!(output.code, 0, "{}{}", output.out, output.err);
    for part in [
        "POST   api /load_balancers  201",
        "ingress {",
        "EnsuredLoadBalancer",
    ] {
        assert!(output.out.contains(part), "{part}: {}", output.out);
    }
    assert_eq!(world.cloud.load_balancers().len(), 1);
}

#[test]
fn what_the_entry_says_about_load_balancers_counts_as_for_run() {
    let world = World::new();
    let add = |name: &str, owner: Option<&str>| {
        let labels = owner.map(|owner| ("hcloud-ccm/service-uid".to_owned(), owner.to_owned()));
        world.cloud.add_load_balancer(LoadBalancerSpec {
            labels: labels.into_iter().collect(),
            ..LoadBalancerSpec::named(name)
        })
    };
    let there = [
        add("free", None),
        add("foreign", Some("11111111-2222-3333-4444-555555555555")),
    ];
    let stored = || there.map(|id| world.cloud.load_balancer(id));
    let before = stored();
    let config = std::fs::read_to_string(&world.config).unwrap();
    let adopts = json!({"adoptLoadBalancers": true});
    let elsewhere = json!({"ingressCIDRs": ["203.0.113.0/24"]});
    let (plan, enforce): (&[&str], &[&str]) = (&[], &["--allow-changes"]);
    for (settings, name, more, code, part) in [
        (&json!({}), "free", plan, 2, "adoptUnownedLoadBalancers"),
        (&adopts, "free", plan, 0, "a change that was withheld"),
        (&adopts, "foreign", plan, 0, "a change that was withheld"),
        // Without a cluster nobody knows whether its owner exists.
        (&adopts, "foreign", enforce, 2, "initial Service list"),
        (&elsewhere, "new", enforce, 2, "outside of ingressCIDRs"),
    ] {
        let mut config: Value = serde_json::from_str(&config).unwrap();
        let entry = config["providers"][0].as_object_mut().unwrap();
        entry.extend(settings.as_object().unwrap().clone());
        std::fs::write(&world.config, config.to_string()).unwrap();
        let service = SERVICE.replace(
            "name: web",
            &format!("name: web, annotations: {{ load-balancer.hetzner.cloud/name: {name} }}"),
        );
        let service = file(&world.folder, "web.yaml", service.as_bytes());
        let subject = ["--node=worker-1", "--service", text(&service)];
        let output = world.run("try", &[&subject[..], more].concat());
        let shown = format!("{settings} {name}: {}{}", output.out, output.err);
        assert_eq!(output.code, code, "{shown}");
        assert!(output.out.contains(part), "{shown}");
    }
    assert_eq!(stored(), before);
}

#[test]
fn an_object_that_would_not_be_served_is_a_no() {
    let world = World::new();
    for (argument, why) in [
        ("--node=worker-1=hcloud://4711", "gone"),
        ("--node=nobody", "not mine"),
        ("--node=worker-1=other://1", "has the scheme \"other\""),
    ] {
        let output = world.run("try", &[argument]);
        assert_eq!(output.code, 2, "{argument}: {}{}", output.out, output.err);
        for part in [why, "waits", "no: 1 object(s)"] {
            assert!(
                output.out.contains(part),
                "{argument}: {part}: {}",
                output.out
            );
        }
    }
}

#[test]
fn a_node_has_no_address_but_that_of_its_kubelet() {
    let folder = TempDir::new().unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_ccm"));
    let values = [("STATIC_NODES", "rules: [{ names: [metal-1] }]")];
    let config = configuration(program, "embedded:static", &[], &values).unwrap();
    let config = file(&folder, "ccm.yaml", config.as_bytes());
    for (node, code, parts) in [
        (
            "--node=metal-1",
            2,
            ["has no IP address", "no: 1 object(s)"],
        ),
        (
            "--node=metal-1,192.0.2.7",
            0,
            ["-taint(uninitialized)", "yes: 1 object(s)"],
        ),
    ] {
        let output = ccm(&[
            "provider",
            "try",
            &COMPILED,
            "--config",
            text(&config),
            node,
            "embedded:static",
        ]);
        assert_eq!(output.code, code, "{node}: {}{}", output.out, output.err);
        for part in parts {
            assert!(output.out.contains(part), "{node}: {part}: {}", output.out);
        }
    }
}

#[test]
fn what_cannot_be_asked_is_said_before_anything_is() {
    let world = World::new();
    let pod = file(
        &world.folder,
        "pod.yaml",
        b"{apiVersion: v1, kind: Pod, metadata: {name: a}}",
    );
    let inner = file(
        &world.folder,
        "inner.yaml",
        b"{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {type: ClusterIP}}",
    );
    for (more, why) in [
        (&[][..], "nothing to ask about"),
        (&["--service", "/nowhere.yaml"], "/nowhere.yaml"),
        (&["--service", text(&pod)], "is no Service"),
        (&["--service", text(&inner)], "not of type LoadBalancer"),
        (&["--node=="], "NAME=PROVIDER_ID"),
        (&["--node=a,b"], "\"b\" is no IP address"),
    ] {
        let output = world.run("try", more);
        assert_eq!(output.code, 1, "{more:?}: {}{}", output.out, output.err);
        assert!(output.err.contains(why), "{more:?}: {}", output.err);
    }
    assert!(world.cloud.requests().is_empty());
}

#[test]
fn check_says_what_it_asked() {
    let world = World::new();
    let output = world.run("check", &[]);
    assert_eq!(output.code, 0, "{}{}", output.out, output.err);
    for part in [
        "exports   instances, load-balancer, routes, self-check",
        "trust     named by its digest in the configuration",
        "asked     init alone, which sends nothing",
    ] {
        assert!(output.out.contains(part), "{part}: {}", output.out);
    }
    assert!(world.cloud.requests().is_empty());

    let output = world.run("check", &["--online"]);
    assert_eq!(output.code, 0, "{}{}", output.out, output.err);
    for part in ["self-check, which succeeded", "GET /locations", ": 200"] {
        assert!(output.out.contains(part), "{part}: {}", output.out);
    }
    assert_eq!(world.cloud.requests().len(), 1);
}

#[test]
fn check_refuses_what_run_would_not_trust() {
    let world = World::new();
    let config = std::fs::read_to_string(&world.config).unwrap();
    let (before, after) = config.split_once("sha256:").unwrap();
    let other = format!("{before}sha256:{}{}", "0".repeat(64), &after[64..]);
    std::fs::write(&world.config, other).unwrap();
    for command in [
        &["check"][..],
        &["check", "--online"],
        &["try", "--node=worker-1"],
    ] {
        let output = world.run(command[0], &command[1..]);
        assert_eq!(output.code, 2, "{command:?}: {}{}", output.out, output.err);
        assert!(output.out.contains("does not trust it"), "{}", output.out);
    }
    assert!(world.cloud.requests().is_empty());
}

#[test]
fn without_a_self_check_a_look_up_is_asked_and_a_closed_port_is_no_yes() {
    let folder = TempDir::new().unwrap();
    let module = file(&folder, "guest.wasm", test_guests::MISBEHAVING);
    let token = file(&folder, "token", TOKEN.as_bytes());
    let program = Path::new(env!("CARGO_BIN_EXE_ccm"));
    let check = |behaviour: &str| {
        let api = At {
            target: "api",
            // Port 9 (discard) is closed.
            endpoint: "http://127.0.0.1:9/v1",
            credential: json!({ "bearer": { "file": token } }),
        };
        let values = [("behaviour", behaviour)];
        let config = configuration(program, text(&module), &[api], &values).unwrap();
        let config = file(&folder, "ccm.yaml", config.as_bytes());
        let check = ["provider", "check", "--online", &COMPILED];
        let config = [&check[..], &["--config", text(&config)]].concat();
        ccm(&[&config[..], &[text(&module)]].concat())
    };
    let output = check("honest-requests");
    assert_eq!(output.code, 2, "{}{}", output.out, output.err);
    assert!(output.out.contains("refuses connections"), "{}", output.out);
    let output = check("honest");
    assert_eq!(output.code, 0, "{}{}", output.out, output.err);
    for part in ["no self-check", "no request was sent: this says nothing"] {
        assert!(output.out.contains(part), "{part}: {}", output.out);
    }
}

#[test]
fn a_self_check_that_proves_nothing_is_found() {
    let world = World::new();
    let module = file(&world.folder, "guest.wasm", test_guests::WITNESS);
    let program = Path::new(env!("CARGO_BIN_EXE_ccm"));
    let endpoint = world.cloud.endpoint();
    let check = |targets: &[&str]| {
        // The requests have no token.
        let granted = targets.iter().map(|&target| At {
            target,
            endpoint: &endpoint,
            credential: Value::Null,
        });
        let granted: Vec<_> = granted.collect();
        let config = configuration(program, text(&module), &granted, &[]).unwrap();
        let config = file(&world.folder, "witness.yaml", config.as_bytes());
        let more = ["--config", text(&config), text(&module), &COMPILED];
        let test = ["provider", "test", "--suite=contract"];
        let tested = ccm(&[&test[..], &more].concat());
        assert_eq!(tested.code, 2, "{}{}", tested.out, tested.err);
        let checked = ccm(&[&["provider", "check", "--online"][..], &more].concat());
        (tested.out, checked)
    };
    let (tested, checked) = check(&["api"]);
    assert!(tested.contains("it sends no request"), "{tested}");
    assert_eq!(checked.code, 0, "{}{}", checked.out, checked.err);

    // Where `more` is granted, the guest asks there, and believes any answer.
    let (tested, checked) = check(&["api", "more"]);
    let why = "it succeeds although the cloud answers 401";
    assert!(tested.contains(why), "{tested}");
    assert_eq!(checked.code, 2, "{}{}", checked.out, checked.err);
    for part in [
        "the self-check succeeded although the cloud answered 401",
        "GET / on target more",
    ] {
        assert!(checked.out.contains(part), "{part}: {}", checked.out);
    }
}
