//! The shipped guest in the real sandbox between two simulated clouds: Hetzner Cloud, and Robot with its log-in, its
//! limits and its lock-out. What a scripted host cannot show: which credential goes where, what the host keeps, and
//! which answers it calls complete.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use ccm_core::cloud::{CloudNode, CloudProvider as _, FindReply, Lookup};
use ccm_core::permit::Permit;
use ccm_host::grant::{Credential, Grants, Secret, TargetGrant};
use ccm_host::{Compiler, GuestConfig, Host, HostOptions, LoadError, Module, Provider};
use ccm_sim::hetzner::{self, Hetzner};
use ccm_sim::robot::{self, Fault, OperatingStatus, Robot, Trouble};
use http::Method;
use libtest_mimic::{Arguments, Trial};

/// The argument that makes this program the host's compile child.
const COMPILE: &str = "__compile";
const TOKEN: &str = "a-token-that-no-guest-sees";
const USER: &str = "#ws+user";
const PASSWORD: &str = "a-password-that-no-guest-sees";
const ON: &[(&str, &str)] = &[("ROBOT_ENABLED", "true")];

type Test = (&'static str, fn(&Stage));

const TESTS: &[Test] = &[
    (
        "nodes_of_both_clouds_are_found_in_one_call",
        nodes_of_both_clouds_are_found_in_one_call,
    ),
    (
        "a_vanished_dedicated_server_is_gone_by_complete_answers",
        a_vanished_dedicated_server_is_gone_by_complete_answers,
    ),
    (
        "half_a_list_of_robot_deletes_nothing",
        half_a_list_of_robot_deletes_nothing,
    ),
    (
        "a_limit_at_robot_costs_one_request_and_no_node_of_the_cloud",
        a_limit_at_robot_costs_one_request_and_no_node_of_the_cloud,
    ),
    (
        "a_wrong_password_is_tried_once",
        a_wrong_password_is_tried_once,
    ),
    (
        "a_lone_node_is_told_whether_its_server_is_on",
        a_lone_node_is_told_whether_its_server_is_on,
    ),
    (
        "robot_is_optional_until_it_is_enabled",
        robot_is_optional_until_it_is_enabled,
    ),
];

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some(COMPILE) {
        return ccm_host::compile_child();
    }
    let cache = Arc::new(tempfile::TempDir::new().unwrap());
    let trials = TESTS.iter().map(|(name, test)| {
        let cache = cache.clone();
        Trial::test(*name, move || {
            test(&Stage::new(cache.path()));
            Ok(())
        })
    });
    let trials = trials.collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// Both clouds, with the guest between them and the tests.
struct Stage {
    runtime: tokio::runtime::Runtime,
    host: Host,
    cloud: Hetzner,
    robot: Robot,
}

impl Stage {
    fn new(cache: &std::path::Path) -> Stage {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let (cloud, robot) = runtime.block_on(async {
            let cloud = Hetzner::start(hetzner::Options::new(TOKEN)).await.unwrap();
            let robot = Robot::start(robot::Options::new(USER, PASSWORD)).await;
            (cloud, robot.unwrap())
        });
        let compiler = Compiler {
            program: std::env::current_exe().unwrap(),
            arguments: vec![COMPILE.into()],
        };
        let host = Host::new(HostOptions {
            compiler,
            cache_dir: Some(cache.to_owned()),
        });
        Stage {
            runtime,
            host: host.unwrap(),
            cloud,
            robot,
        }
    }

    /// Everything that the guest asks for, with Robot or without.
    fn grants(&self, password: Option<&str>) -> Grants {
        let inspection = ccm_host::inspect("hcloud", embedded_guests::HCLOUD).unwrap();
        let grant = |target: &ccm_host::manifest::Target| -> Option<TargetGrant> {
            let (endpoint, credential) = match (target.name.as_str(), password) {
                ("api", _) => {
                    let token = Secret::new(TOKEN.to_owned());
                    (self.cloud.endpoint(), Credential::Bearer(token))
                }
                ("robot", Some(password)) => {
                    let user = USER.to_owned();
                    let password = Secret::new(password.to_owned());
                    (self.robot.endpoint(), Credential::Basic { user, password })
                }
                _ => return None,
            };
            Some(TargetGrant {
                endpoint: endpoint.parse().unwrap(),
                credential,
                ..target.as_grant()
            })
        };
        Grants {
            targets: inspection
                .manifest
                .targets
                .iter()
                .filter_map(grant)
                .collect(),
            annotation_prefixes: Vec::new(),
        }
    }

    fn load(&self, password: Option<&str>, values: &[(&str, &str)]) -> Result<Provider, LoadError> {
        let module = Module {
            source: "embedded:hcloud".to_owned(),
            wasm: embedded_guests::HCLOUD.to_vec(),
        };
        let values = values
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let config = GuestConfig {
            cluster_name: "kubernetes".to_owned(),
            cluster_cidrs: Vec::new(),
            values: values.collect(),
        };
        let load = self.host.load(module, self.grants(password), config);
        self.runtime.block_on(load)
    }

    fn find(&self, provider: &Provider, nodes: &[CloudNode]) -> FindReply {
        self.runtime
            .block_on(provider.find(nodes, permit()))
            .unwrap()
    }

    fn find_fresh(&self, provider: &Provider, nodes: &[CloudNode]) -> FindReply {
        self.runtime
            .block_on(provider.find_fresh(nodes, permit()))
            .unwrap()
    }

    fn lists(&self) -> usize {
        self.robot.count(&Method::GET, "/server")
    }
}

fn permit() -> Arc<Permit> {
    let end = ccm_host::egress::now().after(Duration::from_secs(60));
    Arc::new(Permit::read_only(end))
}

fn node(name: &str, provider_id: Option<String>) -> CloudNode {
    CloudNode {
        name: name.to_owned(),
        uid: format!("uid-of-{name}"),
        provider_id,
        labels: Default::default(),
        annotations: Default::default(),
        addresses: Vec::new(),
        pod_cidrs: Vec::new(),
        system_uuid: None,
        created: 0,
    }
}

fn brief(reply: &FindReply) -> Vec<String> {
    let show = |lookup: &Lookup| match lookup {
        Lookup::Found(instance) => instance.provider_id.clone(),
        Lookup::Gone => "gone".to_owned(),
        Lookup::NotMine => "not mine".to_owned(),
        Lookup::Unknown(_) => "unknown".to_owned(),
    };
    reply.lookups.iter().map(show).collect()
}

fn nodes_of_both_clouds_are_found_in_one_call(stage: &Stage) {
    let id = stage
        .cloud
        .add_server(hetzner::ServerSpec::named("cloud-1"));
    let first = stage.robot.add_server(robot::ServerSpec::named("bare-1"));
    let second = stage.robot.add_server(robot::ServerSpec::named("bare-2"));
    let legacy = format!("hcloud://bm-{second}");
    let nodes = [
        node("cloud-1", Some(format!("hcloud://{id}"))),
        node("bare-1", None),
        node("bare-2", Some(legacy.clone())),
        node("laptop", None),
    ];
    let provider = stage.load(Some(PASSWORD), ON).unwrap();
    stage
        .runtime
        .block_on(provider.self_check(permit()))
        .unwrap();
    for _ in 0..3 {
        let reply = stage.find(&provider, &nodes);
        let expected = [
            format!("hcloud://{id}"),
            format!("hrobot://{first}"),
            legacy.clone(),
            "not mine".to_owned(),
        ];
        assert_eq!(brief(&reply), expected);
        let Lookup::Found(instance) = &reply.lookups[1] else {
            panic!("{reply:?}");
        };
        assert_eq!(instance.instance_type.as_deref(), Some("AX41-NVMe"));
        assert_eq!(instance.zone.as_deref(), Some("fsn1-dc14"));
        assert_eq!(instance.addresses.len(), 2);
    }
    assert_eq!(stage.lists(), 1, "the list is kept, from the self-check on");
    assert_eq!(stage.robot.requests().len(), 1);
}

fn a_vanished_dedicated_server_is_gone_by_complete_answers(stage: &Stage) {
    let stays = stage.robot.add_server(robot::ServerSpec::named("bare-1"));
    let goes = stage.robot.add_server(robot::ServerSpec::named("bare-2"));
    let nodes = [
        node("bare-1", Some(format!("hrobot://{stays}"))),
        node("bare-2", Some(format!("hrobot://{goes}"))),
    ];
    let provider = stage.load(Some(PASSWORD), ON).unwrap();
    assert!(stage.find(&provider, &nodes).complete);
    stage.robot.remove_server(goes);
    for _ in 0..2 {
        let reply = stage.find_fresh(&provider, &nodes);
        assert_eq!(
            brief(&reply),
            [format!("hrobot://{stays}"), "gone".to_owned()]
        );
        assert!(reply.complete);
        assert!(reply.events.is_empty());
    }
    stage.robot.rename(stays, "of-another-cluster");
    let reply = stage.find_fresh(&provider, &nodes[..1]);
    assert_eq!(brief(&reply), ["gone"]);
    let [(0, event)] = reply.events.as_slice() else {
        panic!("{:?}", reply.events);
    };
    assert_eq!(event.reason, "PossibleNodeDeletion");
}

fn half_a_list_of_robot_deletes_nothing(stage: &Stage) {
    let names: Vec<String> = (1..=6).map(|number| format!("bare-{number}")).collect();
    let nodes: Vec<CloudNode> = names
        .iter()
        .map(|name| {
            let number = stage.robot.add_server(robot::ServerSpec::named(name));
            node(name, Some(format!("hrobot://{number}")))
        })
        .collect();
    let provider = stage.load(Some(PASSWORD), ON).unwrap();
    for trouble in [
        Trouble::PartialList,
        Trouble::EmptyList,
        Trouble::Truncated,
        Trouble::Cut,
        Trouble::ResetAfter,
        Trouble::Foreign {
            status: 200,
            content_type: "text/html".to_owned(),
            body: b"<html>please log in</html>".to_vec(),
        },
        Trouble::Foreign {
            status: 404,
            content_type: "text/html".to_owned(),
            body: b"<html>nothing here</html>".to_vec(),
        },
    ] {
        stage.robot.inject(Fault::new(trouble.clone()));
        let reply = stage.find_fresh(&provider, &nodes);
        assert!(
            !reply.lookups.contains(&Lookup::Gone),
            "{trouble:?}: {reply:?}"
        );
        stage.robot.clear_faults();
        let reply = stage.find_fresh(&provider, &nodes);
        assert!(
            brief(&reply).iter().all(|one| one.starts_with("hrobot://")),
            "{trouble:?}"
        );
    }
}

fn a_limit_at_robot_costs_one_request_and_no_node_of_the_cloud(stage: &Stage) {
    let id = stage
        .cloud
        .add_server(hetzner::ServerSpec::named("cloud-1"));
    let number = stage.robot.add_server(robot::ServerSpec::named("bare-1"));
    let nodes = [
        node("cloud-1", Some(format!("hcloud://{id}"))),
        node("bare-1", Some(format!("hrobot://{number}"))),
    ];
    let provider = stage.load(Some(PASSWORD), ON).unwrap();
    stage.robot.inject(Fault::new(Trouble::RateLimited));
    for _ in 0..3 {
        let reply = stage.find(&provider, &nodes);
        assert_eq!(
            brief(&reply),
            [format!("hcloud://{id}"), "unknown".to_owned()]
        );
    }
    assert_eq!(stage.robot.requests().len(), 1);
}

fn a_wrong_password_is_tried_once(stage: &Stage) {
    let number = stage.robot.add_server(robot::ServerSpec::named("bare-1"));
    let nodes = [node("bare-1", Some(format!("hrobot://{number}")))];
    let provider = stage.load(Some("wrong"), ON).unwrap();
    let error = stage
        .runtime
        .block_on(provider.self_check(permit()))
        .unwrap_err();
    assert_eq!(error.reason(), "denied", "{error}");
    assert!(!error.to_string().contains(PASSWORD), "{error}");
    for _ in 0..3 {
        assert_eq!(brief(&stage.find(&provider, &nodes)), ["unknown"]);
    }
    assert_eq!(stage.robot.requests().len(), 1, "three would lock us out");
}

fn a_lone_node_is_told_whether_its_server_is_on(stage: &Stage) {
    for (status, expected) in [
        (OperatingStatus::Running, Some(false)),
        (OperatingStatus::ShutOff, Some(true)),
        (OperatingStatus::NotSupported, None),
    ] {
        let number = stage.robot.add_server(robot::ServerSpec::named("bare"));
        stage.robot.set_operating_status(number, status);
        let nodes = [node("bare", Some(format!("hrobot://{number}")))];
        let provider = stage.load(Some(PASSWORD), ON).unwrap();
        let reply = stage.find(&provider, &nodes);
        let [Lookup::Found(instance)] = reply.lookups.as_slice() else {
            panic!("{reply:?}");
        };
        assert_eq!(instance.shutdown, expected, "{status:?}");
    }
}

fn robot_is_optional_until_it_is_enabled(stage: &Stage) {
    let provider = stage.load(None, &[]).unwrap();
    assert_eq!(provider.warnings(), [] as [&str; 0]);
    let reply = stage.find(&provider, &[node("bare-1", Some("hrobot://1".to_owned()))]);
    assert_eq!(brief(&reply), ["not mine"]);

    let error = stage.load(None, ON).unwrap_err();
    let LoadError::Init { reason, .. } = &error else {
        panic!("{error}");
    };
    let text = reason.to_string();
    assert!(
        text.contains("ROBOT_ENABLED: the target robot is not granted"),
        "{text}"
    );
    assert!(stage.robot.requests().is_empty());
}
