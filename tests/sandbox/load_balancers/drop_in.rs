//! Documented uses of Hetzner's own manager: the import of a load balancer by its name, as long as it has no other
//! owner (F22), and Robot without credentials.

use std::collections::BTreeMap;
use std::time::Duration;

use ccm_core::settings::Adoption;
use ccm_fixtures::kubernetes::node;
use ccm_sim::hetzner::{LoadBalancerSpec, Target};
use ccm_tests::controllers::create;
use ccm_tests::harness::trial;
use libtest_mimic::{Failed, Trial};
use serde_json::{Value, json};

use crate::load_balancers::inventory::{OWNER, PREFIX};
use crate::load_balancers::world::{Setup, World, in_world};

const FAILED: &str = "SyncLoadBalancerFailed";
const FOREIGN_UID: &str = "11111111-2222-4333-8444-555555555555";

pub(crate) fn trials() -> Vec<Trial> {
    let import = Setup {
        adoption: Adoption::Unowned,
        pace: 60,
        drift_check: Duration::from_secs(86_400),
        ..Setup::default()
    };
    let robot = Setup {
        has_network: true,
        pace: 60,
        values: vec![
            ("ROBOT_ENABLED", "true"),
            ("HCLOUD_NETWORK_ROUTES_ENABLED", "false"),
        ],
        ..Setup::default()
    };
    vec![
        trial("drop_in::f22_only_what_nobody_has_is_imported", move || {
            in_world(import.clone(), only_what_nobody_has_is_imported)
        }),
        trial("drop_in::robot_without_credentials", move || {
            in_world(robot.clone(), robot_without_credentials)
        }),
    ]
}

fn annotated(name: &str, value: &str) -> Value {
    json!({ format!("{PREFIX}/{name}"): value })
}

async fn only_what_nobody_has_is_imported(world: &World) -> Result<(), Failed> {
    let add = |name: &str, owner: Option<&str>, targets: Vec<Target>| {
        let labels = owner.map(|owner| (OWNER.to_owned(), owner.to_owned()));
        world.cloud.add_load_balancer(LoadBalancerSpec {
            labels: BTreeMap::from_iter(labels),
            targets,
            ..LoadBalancerSpec::named(name)
        })
    };
    let selected = Target::LabelSelector {
        selector: "role=control-plane".to_owned(),
        use_private_ip: false,
    };
    let free = add("free", None, Vec::new());
    add("foreign", Some(FOREIGN_UID), Vec::new());
    add("api-server", None, vec![selected]);
    let server = world.join("worker-1").await;
    let manager = world.manage().await?;

    let service = world
        .create("first", &[80], annotated("name", "free"))
        .await;
    world
        .event("first", "LoadBalancerAdopted", "no owner")
        .await?;
    world.event("first", "EnsuredLoadBalancer", "").await?;
    let found = world.cloud.load_balancer(free).unwrap_or_default();
    assert_eq!(found["labels"][OWNER], json!(service.metadata.uid));
    assert_eq!(found["services"][0]["listen_port"], 80);
    assert_eq!(found["targets"][0]["server"]["id"], server);
    let ip = found["public_net"]["ipv4"]["ip"].clone();
    let stored = world.service("first").await;
    assert_eq!(stored["status"]["loadBalancer"]["ingress"][0]["ip"], ip);

    let before = world.cloud.load_balancers();
    for (service, name, words) in [
        ("second", "free", "another Service of this cluster"),
        ("third", "foreign", "adoptLoadBalancers"),
        ("fourth", "api-server", "targets that are no nodes"),
    ] {
        world.create(service, &[81], annotated("name", name)).await;
        world.event(service, FAILED, words).await?;
        world.delete(service).await;
        let is_gone = async || world.service(service).await.is_null();
        world.until("the end of the Service", is_gone).await?;
        assert_eq!(world.cloud.load_balancers(), before, "{name} is untouched");
    }

    world.delete("first").await;
    let is_gone = async || world.cloud.load_balancer(free).is_none();
    world.until("the end of what was imported", is_gone).await?;
    assert_eq!(world.cloud.load_balancers().len(), 2);
    manager.stop().await
}

async fn robot_without_credentials(world: &World) -> Result<(), Failed> {
    world.join("worker-1").await;
    let network = world.network.unwrap_or_default();
    let range = "172.20.250.0/24".parse()?;
    assert!(world.cloud.add_vswitch_subnet(network, range, 4321));
    let node = node("bare-1")
        .label("wasm-ccm.dev/provider", "hcloud")
        .provider_id("hrobot://321")
        .address("InternalIP", "172.20.250.7")
        .ready();
    create(&world.nodes, node).await;
    let manager = world.manage().await?;
    for (name, use_private_ip, expected) in [("private", "true", 2), ("public", "false", 1)] {
        let annotations = annotated("use-private-ip", use_private_ip);
        let service = world.create(name, &[80], annotations).await;
        world.event(name, "EnsuredLoadBalancer", "").await?;
        let all = world.cloud.load_balancers();
        let is_its = |one: &&Value| one["labels"][OWNER] == json!(service.metadata.uid);
        let found = all.iter().find(is_its).cloned().unwrap_or_default();
        let targets = found["targets"].as_array().cloned().unwrap_or_default();
        assert_eq!(targets.len(), expected, "{name}: {found}");
        let is_dedicated = |one: &Value| one["ip"]["ip"] == "172.20.250.7";
        assert_eq!(targets.iter().any(is_dedicated), expected == 2, "{name}");
    }
    let words = "use-private-ip is not true: bare-1";
    world.event("public", "ServerNotFound", words).await?;
    manager.stop().await
}
