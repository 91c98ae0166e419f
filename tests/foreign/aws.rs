//! The shipped AWS guest in the real sandbox before moto, a simulator of others, unmodified; boto3, AWS' own client,
//! makes the network and the instances, and reads the state. The host signs; moto does not check signatures, but finds
//! service and region in them.
//!
//! Differences of moto from AWS: a route to a terminated instance stays `active`, security groups can be deleted at
//! once, load balancers are `active` at once, and DescribeInstanceTopology does not exist.

use std::path::Path;
use std::sync::Arc;

use ccm_core::cloud::route::{CreateRouteRequest, DeleteRouteRequest, RouteTarget};
use ccm_core::cloud::{CloudNode, Lookup, ProviderError};
use ccm_core::cloud_provider::CloudProvider as _;
use ccm_tests::compiled_modules;
use ccm_tests::conformance::{At, Tested, configuration, conforms};
use serde_json::{Value, json};
use tempfile::TempDir;

#[path = "aws/classic.rs"]
mod classic;
#[path = "aws/load_balancers.rs"]
mod load_balancers;
#[path = "aws/moto.rs"]
mod moto;
#[path = "aws/world.rs"]
mod world;

use world::{CLUSTER, NLB, REGION, World, brief, changes, known, reading, writing};

#[test]
fn aws_is_served_by_a_simulator_of_others_and_driven_by_its_own_client() {
    let mut world = World::new();
    nodes(&mut world);
    own_instance(&mut world);
    load_balancers::check(&mut world);
    classic::check(&mut world);
    routes(&mut world);
}

#[test]
fn aws_keeps_every_law_with_network_load_balancers() {
    keeps_every_law("nlb");
}

#[test]
fn aws_keeps_every_law_with_classic_load_balancers() {
    keeps_every_law("");
}

/// The report of `ccm provider test`, run as a third party runs it.
fn keeps_every_law(kind: &str) {
    let mut world = World::new();
    let folder = TempDir::new().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let (id, secret) = (
        file("id", "AKIDEXAMPLE"),
        file("secret", "no-guest-sees-it"),
    );
    let at = [("ec2", "ec2"), ("elb", "elasticloadbalancing")].map(|(target, service)| {
        let keys = json!({"accessKeyId": {"file": id}, "secretAccessKey": {"file": secret}});
        let signed = json!({"region": REGION, "service": service, "source": {"keys": keys}});
        At {
            target,
            endpoint: &world.moto.url,
            credential: json!({ "awsSigV4": signed }),
        }
    });
    let module = "embedded:aws";
    let values = [("Region", REGION), ("KubernetesClusterID", "prod")];
    let config = configuration(Path::new(super::CCM), module, &at, &values).unwrap();
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "web", "annotations": {format!("{NLB}type"): kind}},
        "spec": {"type": "LoadBalancer", "ports": [{"name": "http", "port": 80}, {"name": "https", "port": 443}]},
    });
    let service = file("service.json", &service.to_string());
    let [one, two, ..] = world.instances.as_slice() else {
        panic!()
    };
    let zone = format!("{REGION}a");
    let arguments = [
        format!("--node=worker-1=aws:///{zone}/{one}"),
        format!("--node=worker-2=aws:///{zone}/{two}"),
        format!("--gone=aws:///{zone}/i-00000000000000000"),
        format!("--service={}", service.display()),
        "--cluster-cidr=10.244.0.0/16".to_owned(),
        "--allow-changes".to_owned(),
        "--timeout=60s".to_owned(),
        compiled_modules::argument(env!("CARGO_TARGET_TMPDIR")),
    ];
    let tested = Tested {
        program: Path::new(super::CCM),
        module,
        config: &config,
        arguments: &arguments.each_ref().map(String::as_str),
    };
    let applicable = [
        "contract/self-check",
        "instances/gone",
        "instances/not-gone-by-failing",
        "load-balancer/answers-lost",
        "load-balancer/throttled",
        "routes/answers-lost",
        "contract/cleaned-up",
    ];
    let report = conforms(&tested, &applicable).unwrap();
    let left = (world.left(), world.rules().len(), world.let_in());
    assert_eq!(left, ((0, 0, 0), 0, 0), "{report:#}");
}

fn nodes(world: &mut World) {
    let provider = world.load(&[]);
    world.moto.requests();
    let described = json!({"InstanceIds": [world.instances[0]]});
    let answer = world.moto.call("ec2", "describe_instances", described);
    let instance = &answer["Reservations"][0]["Instances"][0];
    let name = instance["PrivateDnsName"].as_str().unwrap();
    let mut nodes = world.nodes();
    let new = CloudNode {
        initialized: false,
        ..super::node(name, None)
    };
    nodes.extend([new, super::node("stranger", None)]);
    let reply = world.find(&provider, &nodes);
    assert_eq!(
        brief(&reply),
        ["found", "found", "found", "found", "found", "not mine"]
    );
    assert!(reply.complete);
    let Lookup::Found(by_name) = &reply.lookups[4] else {
        panic!()
    };
    assert_eq!(
        by_name.provider_id,
        format!("aws:///{REGION}a/{}", world.instances[0])
    );
    assert_eq!(
        (by_name.instance_type.as_deref(), by_name.zone.as_deref()),
        (Some("t3.large"), Some("eu-west-1a"))
    );
    assert_eq!(
        by_name.addresses[0].address,
        instance["PrivateIpAddress"].as_str().unwrap()
    );
    assert!(
        by_name
            .labels
            .contains(&("topology.k8s.aws/zone-id".to_owned(), "euw1-az3".to_owned()))
    );
    // IDs, names, zones.
    assert_eq!(world.moto.requests().len(), 3);

    let (stopped, terminated) = (world.launch(0), world.launch(1));
    world
        .moto
        .call("ec2", "stop_instances", json!({"InstanceIds": [stopped]}));
    world.moto.call(
        "ec2",
        "terminate_instances",
        json!({"InstanceIds": [terminated]}),
    );
    let nodes = [
        known("s", &stopped),
        known("t", &terminated),
        known("never", "i-00000000000000000"),
        world.nodes().remove(0),
    ];
    for _ in 0..2 {
        let reply = world.find(&provider, &nodes);
        assert_eq!(brief(&reply), ["found", "gone", "gone", "found"]);
        assert!(reply.complete, "absence is proven");
        let Lookup::Found(instance) = &reply.lookups[0] else {
            panic!()
        };
        assert_eq!(instance.shutdown, Some(true));
    }
    // AWS's answer to too many requests.
    world.moto.refuse(
        "DescribeInstances",
        "503 Service Unavailable",
        "RequestLimitExceeded",
    );
    let refused = world
        .runtime
        .block_on(provider.find_fresh(&nodes, reading()));
    assert!(
        matches!(refused, Err(ProviderError::Throttled { .. })),
        "{refused:?}"
    );
    world.moto.call(
        "ec2",
        "terminate_instances",
        json!({"InstanceIds": [stopped]}),
    );
}

/// No setting names the cluster: the tags of the manager's own instance do.
fn own_instance(world: &mut World) {
    let own = world.launch(0);
    let load = |world: &World| world.load_with(&[("Region", REGION), ("InstanceID", &own)]);
    let checked = |world: &World, provider: &ccm_host::Provider| {
        world.runtime.block_on(provider.self_check(reading()))
    };
    let provider = load(world);
    world.moto.requests();
    checked(world, &provider).unwrap();
    let read = ["DescribeAvailabilityZones", "DescribeInstances"];
    assert_eq!(world.moto.requests(), read);
    // The tags are known, and the node's instance has the cluster's.
    let described = json!({"InstanceIds": [own]});
    let answer = world.moto.call("ec2", "describe_instances", described);
    let name = &answer["Reservations"][0]["Instances"][0]["PrivateDnsName"];
    let node = super::node(name.as_str().unwrap(), None);
    let reply = world.runtime.block_on(provider.find(&[node], reading()));
    assert_eq!(brief(&reply.unwrap()), ["found"]);
    assert_eq!(world.moto.requests(), ["DescribeInstances"]);

    let tag = |world: &mut World, method: &str, key: &str| {
        let tag = match method {
            "create_tags" => json!({"Key": key, "Value": "shared"}),
            _ => json!({"Key": key}),
        };
        let tags = json!({"Resources": [own], "Tags": [tag]});
        world.moto.call("ec2", method, tags);
    };
    for (method, key, expected) in [
        (
            "create_tags",
            "kubernetes.io/cluster/test",
            "name several clusters, prod, test",
        ),
        ("delete_tags", "kubernetes.io/cluster/test", ""),
        (
            "delete_tags",
            CLUSTER,
            "has no tag kubernetes.io/cluster/ID",
        ),
    ] {
        tag(world, method, key);
        let reported = match checked(world, &load(world)) {
            Ok(()) => String::new(),
            Err(ProviderError::Invalid(reported)) => reported,
            Err(other) => panic!("{other:?}"),
        };
        assert_eq!(reported.is_empty(), expected.is_empty(), "{reported}");
        assert!(reported.contains(expected), "{reported}");
    }
    let ended = json!({"InstanceIds": [own]});
    world.moto.call("ec2", "terminate_instances", ended);
    world.moto.requests();
}

fn routes(world: &mut World) {
    let provider = world.load(&[]);
    let nodes = world.nodes();
    let list = |world: &World| {
        let reply = world
            .runtime
            .block_on(provider.list_routes(&nodes, reading()))
            .unwrap();
        assert!(reply.complete);
        reply.routes
    };
    assert_eq!(list(world), []);
    world.moto.requests();
    let create = |world: &World, node: &CloudNode, cidr: &str| {
        let request = CreateRouteRequest {
            node: Arc::new(node.clone()),
            destination_cidr: cidr.to_owned(),
            hint: None,
        };
        world
            .runtime
            .block_on(provider.create_route(&request, writing()))
    };
    create(world, &nodes[0], "10.244.1.0/24").unwrap();
    assert_eq!(
        world.moto.requests(),
        [
            "DescribeInstances",
            "DescribeRouteTables",
            "ModifyInstanceAttribute",
            "CreateRoute"
        ]
    );
    create(world, &nodes[0], "10.244.1.0/24").unwrap();
    assert_eq!(
        changes(&world.moto.requests()),
        [""; 0],
        "it is there, and passes on traffic"
    );
    assert!(
        create(world, &nodes[1], "10.244.1.0/24").is_err(),
        "it leads elsewhere"
    );
    create(world, &nodes[1], "10.244.2.0/24").unwrap();
    let listed = list(world);
    let reported: Vec<_> = listed
        .iter()
        .map(|one| (one.destination_cidr.as_str(), one.target.clone()))
        .collect();
    let node = |number: usize| RouteTarget::Node(nodes[number].name.clone());
    assert_eq!(
        reported,
        [("10.244.1.0/24", node(0)), ("10.244.2.0/24", node(1))]
    );
    for route in &listed {
        let request = DeleteRouteRequest {
            route: Arc::new(route.clone()),
            hint: None,
        };
        for _ in 0..2 {
            world
                .runtime
                .block_on(provider.delete_route(&request, writing()))
                .unwrap();
        }
    }
    assert_eq!(list(world), []);
    let attribute = json!({"InstanceId": world.instances[0], "Attribute": "sourceDestCheck"});
    let answer: Value = world
        .moto
        .call("ec2", "describe_instance_attribute", attribute);
    assert_eq!(answer["SourceDestCheck"]["Value"], false);
}
