//! `ccm provider test`: the shipped guests keep every law of the contract, and the report names the laws that a guest
//! breaks.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::http::{Method, StatusCode, Uri};
use ccm_fixtures::TOKEN;

use ccm_sim::digitalocean::{self, DigitalOcean};
use ccm_sim::hetzner::{Hetzner, Location, Options, ServerSpec};
use ccm_tests::conformance::{At, Tested, configuration, conforms, laws, report};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;

use crate::COMPILED;

fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_ccm"))
}

/// A simulated Hetzner Cloud with two servers in a network, whose actions take time.
async fn cloud() -> (Hetzner, [u64; 2]) {
    let cloud = Hetzner::start(Options {
        rate_limit: None,
        action_duration: Duration::from_millis(50),
        ..Options::new(TOKEN)
    });
    let cloud = cloud.await.unwrap();
    let (all, part) = (
        "10.0.0.0/8".parse().unwrap(),
        "10.0.0.0/24".parse().unwrap(),
    );
    let network = cloud.add_network_with_subnet("cluster", all, part, Location::Fsn1);
    let servers = ["worker-1", "worker-2"].map(|name| {
        let server = cloud.add_server(ServerSpec::named(name));
        cloud.attach(server, network, None).unwrap();
        server
    });
    (cloud, servers)
}

#[test]
fn hcloud_keeps_every_law() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (cloud, [one, two]) = runtime.block_on(cloud());
    let folder = TempDir::new().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, TOKEN).unwrap();
    let api = At {
        target: "api",
        endpoint: &cloud.endpoint(),
        credential: json!({ "bearer": { "file": token } }),
    };
    let values = [
        ("HCLOUD_LOAD_BALANCERS_LOCATION", "fsn1"),
        ("HCLOUD_NETWORK", "cluster"),
        ("HCLOUD_NETWORK_ROUTES_ENABLED", "true"),
    ];
    let module = "embedded:hcloud";
    let config = configuration(program(), module, &[api], &values).unwrap();
    let nodes = [
        format!("--node=worker-1=hcloud://{one}"),
        format!("--node=worker-2=hcloud://{two}"),
    ];
    let arguments = [
        nodes[0].as_str(),
        &nodes[1],
        "--gone=hcloud://4711",
        "--cluster-cidr=10.244.0.0/16",
        "--allow-changes",
        "--timeout=60s",
        &COMPILED,
    ];
    let tested = Tested {
        program: program(),
        module,
        config: &config,
        arguments: &arguments,
    };
    let applicable = [
        "contract/self-check",
        "instances/gone",
        "instances/not-gone-by-failing",
        "load-balancer/answers-lost",
        "load-balancer/hints-dropped",
        "routes/answers-lost",
        "contract/cleaned-up",
    ];
    let report = conforms(&tested, &applicable).unwrap();
    assert!(cloud.load_balancers().is_empty(), "{report:#}");
}

#[test]
fn digitalocean_keeps_every_law() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let cloud = runtime.block_on(async {
        let options = digitalocean::Options {
            rate_limit: None,
            ..digitalocean::Options::new(TOKEN)
        };
        DigitalOcean::start(options).await.unwrap()
    });
    // The guest looks a new load balancer up again after half a minute.
    cloud.set_prompt_creation(true);
    let [one, two] = ["worker-1", "worker-2"].map(|name| {
        let spec = digitalocean::DropletSpec::named(name);
        format!("--node={name}=digitalocean://{}", cloud.add_droplet(spec))
    });
    let folder = TempDir::new().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, TOKEN).unwrap();
    let api = At {
        target: "api",
        endpoint: &cloud.endpoint(),
        credential: json!({ "bearer": { "file": token } }),
    };
    let module = "embedded:digitalocean";
    // Load balancers of the other type need nodes with public addresses, which those of this test do not report.
    let values = [("REGION", "fra1"), ("DEFAULT_LB_TYPE", "REGIONAL")];
    let config = configuration(program(), module, &[api], &values).unwrap();
    let arguments = [
        one.as_str(),
        &two,
        "--gone=digitalocean://4711",
        "--allow-changes",
        "--timeout=60s",
        &COMPILED,
    ];
    let tested = Tested {
        program: program(),
        module,
        config: &config,
        arguments: &arguments,
    };
    let applicable = [
        "contract/self-check",
        "instances/gone",
        "instances/not-gone-by-failing",
        "load-balancer/answers-lost",
        "contract/cleaned-up",
    ];
    let report = conforms(&tested, &applicable).unwrap();
    assert!(cloud.load_balancers().is_empty(), "{report:#}");
}

/// A cloud with two machines, in which the last request for a load balancer that does not exist creates it.
pub(crate) fn plain_cloud(
    runtime: &tokio::runtime::Runtime,
    world: &Arc<Mutex<World>>,
) -> SocketAddr {
    let world = world.clone();
    let router = Router::new().fallback(move |method: Method, uri: Uri| {
        let status = world.lock().unwrap().answer(&method, uri.path());
        async move { (status, "{}") }
    });
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    runtime.spawn(async move { axum::serve(listener, router).await });
    address
}

#[derive(Default)]
pub(crate) struct World {
    /// With the number of times that each was looked at.
    balancers: BTreeMap<String, u32>,
    missed: Option<String>,
    /// Whether the second look at each load balancer fails.
    second_fails: bool,
    /// Whether it keeps no load balancer that is made, as if each were on a page that is not read.
    forgets: bool,
    /// How many load balancers were made.
    pub(crate) posts: usize,
}

impl World {
    /// A cloud in which no load balancer that was made is found again.
    pub(crate) fn forgetful() -> Arc<Mutex<World>> {
        Arc::new(Mutex::new(World {
            forgets: true,
            ..World::default()
        }))
    }

    fn answer(&mut self, method: &Method, path: &str) -> StatusCode {
        if let Some(name) = path.strip_prefix("/v1/machines/") {
            return match name.starts_with("worker-") {
                true => StatusCode::OK,
                false => StatusCode::NOT_FOUND,
            };
        }
        let uid = path
            .trim_start_matches("/v1/balancers")
            .trim_start_matches('/');
        let is_there = self.balancers.contains_key(uid);
        match *method {
            Method::POST => {
                self.posts += 1;
                let made = self.missed.take().filter(|_| !self.forgets);
                let made = made.map(|uid| (uid, 0));
                self.balancers.extend(made);
            }
            _ if !is_there => {
                self.missed = Some(uid.to_owned());
                return StatusCode::NOT_FOUND;
            }
            Method::DELETE => {
                self.balancers.remove(uid);
            }
            Method::GET => {
                let looks = self.balancers.entry(uid.to_owned()).or_default();
                *looks += 1;
                if self.second_fails && *looks == 2 {
                    return StatusCode::INTERNAL_SERVER_ERROR;
                }
            }
            _ => {}
        }
        StatusCode::OK
    }
}

/// A guest's behaviour, and the law that it breaks.
const BREAKING: [(&str, &str, &str); 11] = [
    ("http-in-init", "", "contract/init-silent"),
    ("other-path", "", "contract/granted"),
    ("panic", "", "contract/no-trap"),
    ("too-few-lookups", "", "instances/order"),
    ("changed-provider-id", "", "instances/found"),
    ("gone-after-failure", "", "instances/not-gone-by-failing"),
    (
        "gone-after-failure-if-not-ready",
        "",
        "instances/not-gone-by-failing",
    ),
    ("honest-requests", "panic", "load-balancer/planned"),
    // It sends the targets again and again, and changes nothing else; otherwise it is honest.
    ("honest-requests", "honest", "load-balancer/targets"),
    // It sends no request about load balancers, and answers that all is done.
    ("honest-requests", "markup-events", "load-balancer/changed"),
    ("honest-requests", "markup-events", "load-balancer/apart"),
];

/// The report on the misbehaving guest with these words, before a cloud of its own.
fn misbehaving(words: &[(&str, &str)], arguments: &[&str]) -> Value {
    misbehaving_before(&Arc::default(), words, arguments)
}

fn misbehaving_before(
    world: &Arc<Mutex<World>>,
    words: &[(&str, &str)],
    arguments: &[&str],
) -> Value {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let folder = TempDir::new().unwrap();
    let (module, token) = (
        folder.path().join("guest.wasm"),
        folder.path().join("token"),
    );
    std::fs::write(&module, test_guests::MISBEHAVING).unwrap();
    std::fs::write(&token, TOKEN).unwrap();
    let module = module.to_str().unwrap();
    let api = At {
        target: "api",
        endpoint: &format!("http://{}/v1", plain_cloud(&runtime, world)),
        credential: json!({ "bearer": { "file": token } }),
    };
    let config = configuration(program(), module, &[api], words).unwrap();
    let compiled: &str = &COMPILED;
    let arguments = [arguments, &[compiled]].concat();
    let tested = Tested {
        program: program(),
        module,
        config: &config,
        arguments: &arguments,
    };
    report(&tested).unwrap()
}

#[test]
fn a_guest_that_breaks_a_law_is_told_which() {
    let broken = |behaviour: &str, balancing: &str| {
        let words = [("behaviour", behaviour), ("balancing", balancing)];
        let arguments = [
            "--node=worker-1=misbehaving://worker-1",
            "--node=worker-2=misbehaving://worker-2",
            "--allow-changes",
            "--timeout=20s",
            match balancing {
                "" => "--suite=instances",
                _ => "--suite=load-balancer",
            },
        ];
        let words = &words[..if balancing.is_empty() { 1 } else { 2 }];
        let report = misbehaving(words, &arguments);
        let broken = laws(&report, "fail").map(|law| law["law"].as_str().unwrap().to_owned());
        broken.collect::<Vec<_>>()
    };
    std::thread::scope(|scope| {
        let broken = &broken;
        let trials = BREAKING.map(|(behaviour, balancing, law)| {
            let trial = scope.spawn(move || broken(behaviour, balancing));
            (behaviour, balancing, law, trial)
        });
        for (behaviour, balancing, law, trial) in trials {
            let broken = trial.join().unwrap();
            let is_among = broken.iter().any(|one| one == law);
            assert!(is_among, "{behaviour} {balancing}: {broken:?}");
            if balancing == "honest" {
                for kept in [
                    "made",
                    "idempotent",
                    "apart",
                    "hints-dropped",
                    "answers-lost",
                ] {
                    let kept = format!("load-balancer/{kept}");
                    assert!(!broken.contains(&kept), "{kept}: {broken:?}");
                }
            }
        }
    });
}

#[test]
fn a_load_balancer_that_cannot_be_looked_at_again_is_removed_all_the_same() {
    let world = Arc::new(Mutex::new(World {
        second_fails: true,
        ..World::default()
    }));
    let words = [("behaviour", "honest-requests"), ("balancing", "honest")];
    let arguments = [
        "--node=worker-1=misbehaving://worker-1",
        "--suite=load-balancer",
        "--allow-changes",
        "--timeout=20s",
    ];
    let report = misbehaving_before(&world, &words, &arguments);
    for law in ["made", "hints-dropped", "answers-lost"] {
        let law = format!("load-balancer/{law}");
        let is_broken = laws(&report, "fail").any(|one| one["law"] == law.as_str());
        assert!(is_broken, "{law}: {report:#}");
    }
    let left = &world.lock().unwrap().balancers;
    assert!(left.is_empty(), "{left:?}: {report:#}");
}

#[test]
fn a_guest_that_makes_load_balancers_without_end_is_stopped() {
    let world = World::forgetful();
    let words = [("behaviour", "honest-requests"), ("balancing", "honest")];
    let arguments = [
        "--node=worker-1=misbehaving://worker-1",
        "--suite=load-balancer",
        "--allow-changes",
        "--timeout=60s",
    ];
    let report = misbehaving_before(&world, &words, &arguments);
    let mut broken = laws(&report, "fail");
    let made = broken.find(|law| law["law"] == "load-balancer/made");
    // Eight, one for each of the two ports, and one for each port and node are within the limit.
    let why = "ensure: POST /balancers (write) succeeded in 13 calls, and it is not done";
    assert_eq!(made.unwrap()["why"], why);
    assert_eq!(world.lock().unwrap().posts, 13);
}

#[test]
fn a_machine_is_proven_gone_beside_another_one() {
    let alone = ["--suite=instances", "--gone=misbehaving://nobody"];
    let beside = [&alone[..], &["--node=worker-1=misbehaving://worker-1"]].concat();
    for (arguments, result, why) in [
        (&alone[..], "not-applicable", "it needs a machine beside it"),
        (&beside[..], "pass", "beside 1 node(s)"),
    ] {
        let report = misbehaving(&[("behaviour", "honest-requests")], arguments);
        let mut judged = laws(&report, result).filter(|law| law["law"] == "instances/gone");
        let given = judged.next().map(|law| law["why"].as_str().unwrap());
        assert!(
            given.is_some_and(|given| given.starts_with(why)),
            "{report:#}"
        );
    }
}

#[test]
fn a_module_need_not_take_a_machine_for_gone_that_it_is_asked_about_alone() {
    let arguments = [
        "--suite=instances",
        "--node=worker-1=misbehaving://worker-1",
        "--gone=misbehaving://nobody",
    ];
    let report = misbehaving(&[("behaviour", "gone-beside-others")], &arguments);
    for law in ["instances/batch", "instances/gone"] {
        let is_kept = laws(&report, "pass").any(|one| one["law"] == law);
        assert!(is_kept, "{law}: {report:#}");
    }
}

#[test]
fn a_route_that_is_there_before_the_test_is_left_alone() {
    // It lists a route to each network of each node, and makes and removes none.
    let words = [("behaviour", "honest"), ("routing", "echo")];
    let arguments = [
        "--suite=routes",
        "--node=worker-1=misbehaving://worker-1",
        "--cluster-cidr=10.244.0.0/16",
        "--allow-changes",
    ];
    let report = misbehaving(&words, &arguments);
    let is_about_routes = |law: &&Value| law["suite"] == "routes";
    assert_eq!(laws(&report, "fail").find(is_about_routes), None);
    assert_eq!(laws(&report, "pass").find(is_about_routes), None);
    let skipped: Vec<_> = laws(&report, "not-applicable")
        .filter(is_about_routes)
        .map(|law| law["why"].as_str().unwrap())
        .collect();
    assert!(!skipped.is_empty());
    for why in skipped {
        assert_eq!(
            why,
            "there is a route to 10.244.0.0/24 already: remove it, or name another --cluster-cidr"
        );
    }
}

#[test]
fn a_report_is_text_a_document_and_something_to_publish() {
    let folder = TempDir::new().unwrap();
    let module = folder.path().join("guest.wasm");
    std::fs::write(&module, test_guests::MISBEHAVING).unwrap();
    let module = module.to_str().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, TOKEN).unwrap();
    let api = At {
        target: "api",
        endpoint: "http://127.0.0.1:9/v1",
        credential: json!({ "bearer": { "file": token } }),
    };
    let values = [("behaviour", "honest")];
    let config = configuration(program(), module, &[api], &values).unwrap();
    let path = folder.path().join("ccm.yaml");
    std::fs::write(&path, config).unwrap();
    let run = |form: &str| {
        let arguments = ["provider", "test", "--config"];
        let output = Command::new(program())
            .args(arguments)
            .arg(&path)
            .args([&COMPILED, "--node=a=misbehaving://a", "-o", form, module])
            .output()
            .unwrap();
        let [out, err] =
            [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        // Each step, in place of a spinner.
        let begin = match form {
            "json" => "",
            _ => "compiling and starting\ntesting contract/steady-init\n",
        };
        assert!(err.starts_with(begin), "{form}: {err}");
        assert_eq!(err.is_empty(), begin.is_empty(), "{form}: {err}");
        (output.status.code(), out)
    };
    // It answers without a request, for other clouds' nodes, too.
    let (code, text) = run("text");
    assert_eq!(code, Some(2), "{text}");
    for part in [
        "FAIL",
        "instances/not-mine is broken",
        "pass",
        "not applicable",
        "no: ",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let (code, text) = run("markdown");
    assert_eq!(code, Some(2), "{text}");
    for part in [
        "# Conformance of misbehaving",
        "| `instances/order` |",
        "`sha256:",
        "**fail**",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let (code, text) = run("json");
    assert_eq!(code, Some(2), "{text}");
    let json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["conforms"], false);
    assert_eq!(json["contract"], "ccm:provider@0.2.0");
    assert_eq!(json["ccm"], env!("CARGO_PKG_VERSION"));
}
