//! A hybrid cluster: servers of Hetzner Cloud, instances of EC2, machines of an operator's own Proxmox cluster, bare
//! metal, and a laptop that no provider owns. Each node and each Service has exactly one owner, from the first look-up
//! through restarts and swaps of modules to the end of a machine, and no provider touches another's.
//!
//! fakepve stands in for Proxmox and moto for AWS; others make them (`tests/foreign`). The test needs Python 3.11 with
//! pip.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use ccm_fixtures::kubernetes::{node, service};
use ccm_sim::hetzner::ServerSpec;
use ccm_tests::controllers::create;
use ccm_tests::grants;
use ccm_tests::process::Process;
use ccm_tests::versions::numbered;
use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};

use crate::delivered::{Delivered, RIGHTS};
use crate::kubelet::{addresses, is_tainted};
use crate::lifecycle::YOUNG;
use crate::moto::Moto;
use crate::pve::{self, Pve, SECRET, machine};
use crate::python::Client;
use crate::services::{Services, load_balancer};
use crate::world::{Setup, World, root, until};

const OWNER: &str = "wasm-ccm.dev/provider";
/// The provider of each node, apart from those of AWS, whose names AWS chooses.
const FIRST: &[(&str, &str)] = &[
    ("cloud-1", "hcloud"),
    ("floor-1", "proxmox"),
    ("metal-1", "static"),
];
const SECOND: &[(&str, &str)] = &[
    ("cloud-2", "hcloud"),
    ("floor-2", "proxmox"),
    ("metal-2", "static"),
];
/// The Service class of the provider for AWS; it makes network load balancers.
const CLASS: &str = "example.com/aws";
const REGION: &str = "eu-west-1";
/// The node that no provider owns.
const LAPTOP: &str = "laptop";

fn uuid(name: &str) -> String {
    let number = name.bytes().map(u64::from).sum::<u64>();
    format!("0b1ad2a0-55b9-4f0e-a6a2-{number:012}")
}

/// The operator's list of bare-metal machines.
fn metal(retired: &[&str]) -> Value {
    let document = json!({
        "rules": [{
            "names": ["metal-*"],
            "selector": {"matchLabels": {"rack": "a"}},
            "providerID": "metal://rack-a/{name}",
            "zone": "rack-a",
            "region": "floor",
            "instanceType": "r640",
            "addresses": {"metal-1": [{"type": "InternalIP", "address": "10.7.0.11"}]},
        }],
        "retired": retired,
    });
    json!(document.to_string())
}

/// AWS: two instances in moto's own VPC.
struct Aws {
    moto: Moto,
    /// The instances' IDs, and the node names that their kubelets use.
    instances: [(String, String); 2],
}

impl Aws {
    fn serve() -> Aws {
        let mut moto = Moto::serve();
        let default = json!({"Filters": [{"Name": "is-default", "Values": ["true"]}]});
        let vpc = moto.ec2("describe_vpcs", default, "/Vpcs/0/VpcId");
        moto.lead_out(&vpc);
        let group = json!({"GroupName": "nodes", "Description": "nodes", "VpcId": vpc});
        let group = moto.ec2("create_security_group", group, "/GroupId");
        let instances = [(); 2].map(|()| {
            let tags = json!([{"Key": "kubernetes.io/cluster/prod", "Value": "owned"}]);
            let image = json!({
                "ImageId": "ami-12c6146b", "MinCount": 1, "MaxCount": 1, "InstanceType": "t3.large", "SecurityGroupIds": [group],
                "TagSpecifications": [{"ResourceType": "instance", "Tags": tags}],
            });
            let run = moto.call("ec2", "run_instances", image);
            let part = |name: &str| run["Instances"][0][name].as_str().unwrap().to_owned();
            (part("InstanceId"), part("PrivateDnsName"))
        });
        Aws { moto, instances }
    }

    fn load_balancers(&mut self) -> usize {
        self.moto
            .elb("describe_load_balancers", json!({}), "LoadBalancers")
            .len()
    }
}

/// The four providers, each from a file, none with a selector: each looks up every new node.
struct Entries<'a> {
    world: &'a World,
    hcloud: Value,
    aws: Value,
    proxmox: Value,
    metal: Value,
}

impl Entries<'_> {
    fn of<'a>(world: &'a World, delivered: &Delivered<'_>, moto: &Moto, pve: &Pve) -> Entries<'a> {
        let source = |name: &str, wasm: &[u8]| {
            let file = world.file(&format!("{name}.wasm"), wasm);
            format!("file://{}", file.display())
        };
        let hcloud = source("hcloud", embedded_guests::HCLOUD);
        let mut hcloud = delivered.entry("hcloud", &hcloud);
        hcloud["defaultLoadBalancer"] = json!(true);
        let manifest = std::fs::read(root().join("guests/aws/manifest.json")).unwrap();
        let manifest: Value = serde_json::from_slice(&manifest).unwrap();
        let targets = [("ec2", "ec2"), ("elb", "elasticloadbalancing")];
        let targets = targets
            .into_iter()
            .zip(manifest["targets"].as_array().unwrap());
        let targets = targets.map(|((name, service), target)| {
            let keys = json!({"accessKeyId": {"env": "AWS_ID"}, "secretAccessKey": {"env": "AWS_KEY"}});
            json!({
                "name": name, "endpoint": moto.url, "addresses": ["127.0.0.1"], "rules": grants::rules(target),
                "credential": {"awsSigV4": {"region": REGION, "service": service, "source": {"keys": keys}}},
            })
        });
        let aws = json!({
            "name": "aws",
            "source": source("aws", embedded_guests::AWS),
            "config": {"Region": REGION, "KubernetesClusterID": "prod"},
            "rollout": hcloud["rollout"],
            "loadBalancerClasses": [CLASS],
            "grants": {"targets": targets.collect::<Vec<_>>()},
        });
        let inspection = ccm_host::inspect("proxmox", embedded_guests::PROXMOX).unwrap();
        let target = &inspection.manifest.targets[0];
        let proxmox = json!({
            "name": "proxmox",
            "source": source("proxmox", embedded_guests::PROXMOX),
            "config": {"PROXMOX_REGION": "floor"},
            "rollout": hcloud["rollout"],
            "grants": {"targets": [{
                "name": target.name,
                "endpoint": format!("{}/api2/json", pve.url),
                "certificateFingerprints": [pve.fingerprint.to_string()],
                "credential": {"header": {"name": "Authorization", "value": {"env": "PVE_TOKEN"}}},
                "rules": pve::rules(),
            }]},
        });
        let metal = json!({
            "name": "static",
            "source": source("static", embedded_guests::STATIC),
            "config": {"STATIC_NODES": metal(&[])},
            "rollout": hcloud["rollout"],
            "nodes": {"schemes": ["metal"]},
            "grants": {},
        });
        Entries {
            world,
            hcloud,
            aws,
            proxmox,
            metal,
        }
    }

    fn configure(&self, delivered: &Delivered<'_>) {
        delivered.configure(&[
            self.hcloud.clone(),
            self.aws.clone(),
            self.proxmox.clone(),
            self.metal.clone(),
        ]);
    }

    /// Replaces a provider's active module file by a rename.
    fn swap(&self, name: &str, wasm: &[u8]) {
        let new = self.world.file(&format!("{name}.wasm.new"), wasm);
        std::fs::rename(&new, new.with_file_name(format!("{name}.wasm"))).unwrap();
    }
}

/// A node joins; its kubelet reports the UUID of its machine.
async fn joins(world: &World, name: &str) {
    let info = json!({
        "systemUUID": uuid(name), "architecture": "amd64", "bootID": "", "containerRuntimeVersion": "",
        "kernelVersion": "", "kubeProxyVersion": "", "kubeletVersion": "", "machineID": "",
        "operatingSystem": "linux", "osImage": "",
    });
    let node = node(name).label("rack", "a").address("Hostname", name);
    // Neither cloud knows their addresses.
    let ip = match name {
        "metal-2" => Some("10.7.0.12"),
        "floor-1" => Some("10.7.0.21"),
        "floor-2" => Some("10.7.0.22"),
        _ => None,
    };
    let node = ip.into_iter().fold(node, |node, ip| {
        node.annotation("alpha.kubernetes.io/provided-node-ip", ip)
            .address("InternalIP", ip)
    });
    let node = node.with(|node| node["status"]["nodeInfo"] = info);
    create(&world.nodes, node.uninitialized()).await;
    world.report(name, "True").await;
}

/// The owner and the provider ID of each node.
async fn owned(world: &World) -> BTreeMap<String, (Option<String>, Option<String>)> {
    let nodes = world.nodes.list(&Default::default()).await.unwrap();
    let owned = nodes.into_iter().map(|node| {
        let labels = node.metadata.labels.unwrap_or_default();
        let provider_id = node.spec.and_then(|spec| spec.provider_id);
        (
            node.metadata.name.unwrap(),
            (labels.get(OWNER).cloned(), provider_id),
        )
    });
    owned.collect()
}

/// The owner that is recorded on each Service.
async fn owners(services: &Services<'_>) -> BTreeMap<String, Option<String>> {
    let all = services.api.list(&Default::default()).await.unwrap();
    let owners = all.into_iter().map(|service| {
        let annotations = service.metadata.annotations.unwrap_or_default();
        let name = service.metadata.name.unwrap();
        (name, annotations.get(OWNER).cloned())
    });
    owners.collect()
}

/// Both Services get another port, and their load balancers follow.
async fn are_edited(services: &Services<'_>, ccm: &mut Process, moto: &mut Moto) {
    let ports = load_balancer(&[8080])["ports"].take();
    for name in ["web", "inside"] {
        let patch = json!({"spec": {"ports": ports}});
        services.change(name, patch).await;
    }
    until(ccm, "web on another port", async || {
        let web = services.balancer("web").await?;
        (web["services"][0]["listen_port"] == 8080).then_some(())
    })
    .await;
    let listed = moto.elb("describe_load_balancers", json!({}), "LoadBalancers");
    let arn = &listed[0]["LoadBalancerArn"];
    let moto = RefCell::new(moto);
    until(ccm, "inside on another port", async || {
        let of_it = json!({"LoadBalancerArn": arn});
        let listeners = moto
            .borrow_mut()
            .elb("describe_listeners", of_it, "Listeners");
        let [listener] = listeners.as_slice() else {
            return None;
        };
        (listener["Port"] == 8080).then_some(())
    })
    .await;
}

fn with_aws<'a>(owners: &[(&'a str, &'a str)], name: &'a str) -> Vec<(&'a str, &'a str)> {
    [owners, &[(name, "aws")]].concat()
}

fn aws_zone(moto: &mut Moto, instance: &str) -> String {
    moto.ec2(
        "describe_instances",
        json!({"InstanceIds": [instance]}),
        "/Reservations/0/Instances/0/Placement/AvailabilityZone",
    )
}

async fn are_initialised(world: &World, ccm: &mut Process, names: &[(&str, &str)]) {
    for (name, owner) in names {
        let node = world.initialised(ccm, name).await;
        let labels = node.metadata.labels.unwrap();
        assert_eq!(
            labels.get(OWNER).map(String::as_str),
            Some(*owner),
            "{name}"
        );
    }
}

#[tokio::test]
async fn every_node_of_a_hybrid_cluster_has_one_owner_and_nobody_touches_anothers() {
    let world = World::start(Setup {
        rights: RIGHTS,
        server_flags: vec!["--feature-gates=WatchList=false".to_owned()],
        ..Setup::default()
    })
    .await;
    let client = Client::install("proxmox");
    let mut pve = Pve::serve(&client);
    let mut aws = Aws::serve();
    world.cloud.add_server(ServerSpec::named("cloud-1"));
    let second_server = world.cloud.add_server(ServerSpec::named("cloud-2"));
    pve.calls(
        &client,
        json!([
            machine("pve1", 101, "floor-1", &uuid("floor-1"), json!({})),
            machine("pve1", 102, "floor-2", &uuid("floor-2"), json!({})),
            // A machine that is no node, with the name of another provider's node.
            machine("pve1", 103, "metal-1", &uuid("another"), json!({})),
        ]),
    );
    let delivered = Delivered::of(&world).await;
    let services = Services::of(&world).await;
    let mut entries = Entries::of(&world, &delivered, &aws.moto, &pve);
    entries.configure(&delivered);
    let authorization = Pve::authorization(SECRET);
    let variables = [
        ("PVE_TOKEN", authorization.as_str()),
        ("AWS_ID", "AKIDEXAMPLE"),
        ("AWS_KEY", "a-key-that-no-guest-sees"),
    ];
    // One machine of each provider goes, which is one more than the usual brake allows.
    let flags = YOUNG.iter().chain(&["--brake=node-deletion=4:10:20"]);
    let flags: Vec<String> = flags.map(|flag| (*flag).to_owned()).collect();
    let start = || delivered.ccm_with(&flags, &variables);

    // The first node of each provider, and the laptop.
    let mut ccm = start();
    let [(id_1, aws_1), (id_2, aws_2)] = aws.instances.clone();
    let (aws_1, aws_2) = (aws_1.as_str(), aws_2.as_str());
    let (first, second) = (with_aws(FIRST, aws_1), with_aws(SECOND, aws_2));
    joins(&world, LAPTOP).await;
    for (name, _) in &first {
        joins(&world, name).await;
    }
    are_initialised(&world, &mut ccm, &first).await;
    services.create("web", load_balancer(&[80])).await;
    services.has_address(&mut ccm, "web").await;
    let of_aws = service("inside")
        .annotation("service.beta.kubernetes.io/aws-load-balancer-type", "nlb")
        .with(|service| service["spec"]["loadBalancerClass"] = json!(CLASS))
        .port(80);
    // AWS throttles a request in the middle.
    aws.moto.refuse(
        "CreateTargetGroup",
        "503 Service Unavailable",
        "RequestLimitExceeded",
    );
    create(&services.api, of_aws).await;
    until(&mut ccm, "a host name for inside", async || {
        let inside = services.api.get("inside").await.unwrap();
        let ingress = inside.status?.load_balancer?.ingress?;
        ingress.first()?.hostname.clone()
    })
    .await;
    assert_eq!(aws.load_balancers(), 1);
    let mut of_another = load_balancer(&[80]);
    of_another["loadBalancerClass"] = json!("example.com/nobody");
    services.create("nobodys", of_another).await;
    let node = world.nodes.get("metal-1").await.unwrap();
    let expected = json!([
        {"type": "Hostname", "address": "metal-1"},
        {"type": "InternalIP", "address": "10.7.0.11"},
    ]);
    assert_eq!(addresses(&node), expected);
    let before = owned(&world).await;
    let owners_of_services = [
        ("inside", Some("aws")),
        ("kubernetes", None),
        ("nobodys", None),
        ("web", Some("hcloud")),
    ]
    .map(|(name, owner)| (name.to_owned(), owner.map(str::to_owned)));
    let owners_of_services = BTreeMap::from(owners_of_services);
    assert_eq!(owners(&services).await, owners_of_services);

    // After a restart in the middle the other nodes join.
    world.stop(ccm).await;
    for (name, _) in &second {
        joins(&world, name).await;
    }
    let mut ccm = start();
    are_initialised(&world, &mut ccm, &second).await;

    // All four modules are swapped while they serve.
    let modules = [
        ("hcloud", numbered(embedded_guests::HCLOUD, "0.1.1")),
        ("aws", numbered(embedded_guests::AWS, "0.1.1")),
        ("proxmox", numbered(embedded_guests::PROXMOX, "0.1.1")),
        ("static", numbered(embedded_guests::STATIC, "0.1.1")),
    ];
    for (name, wasm) in &modules {
        entries.swap(name, wasm);
    }
    for (name, wasm) in &modules {
        delivered.serves(&mut ccm, name, wasm).await;
    }
    let now = owned(&world).await;
    for (name, owner) in &before {
        assert_eq!(now.get(name), Some(owner), "{name}");
    }
    let mut id = |instance: &str| {
        let described = aws_zone(&mut aws.moto, instance);
        format!("aws:///{described}/{instance}")
    };
    let (aws_id_1, aws_id_2) = (id(&id_1), id(&id_2));
    let ids = [
        (aws_1, aws_id_1.as_str()),
        (aws_2, aws_id_2.as_str()),
        ("floor-1", "proxmox://floor/101"),
        ("floor-2", "proxmox://floor/102"),
        ("metal-2", "metal://rack-a/metal-2"),
    ];
    for (name, id) in ids {
        assert_eq!(now[name].1.as_deref(), Some(id));
    }
    assert_eq!(now[LAPTOP], (None, None));
    assert_eq!(owners(&services).await, owners_of_services);
    are_edited(&services, &mut ccm, &mut aws.moto).await;
    assert_eq!(owners(&services).await, owners_of_services);

    // The second machine of each provider ends in its own way, and the laptop stops reporting, too.
    pve.calls(
        &client,
        json!([
            ["post", "nodes/pve1/qemu/102/status/stop", {}],
            ["delete", "nodes/pve1/qemu/102", {}],
        ]),
    );
    world.cloud.remove_server(second_server);
    aws.moto
        .call("ec2", "terminate_instances", json!({"InstanceIds": [id_2]}));
    entries.metal["config"]["STATIC_NODES"] = metal(&["metal-2"]);
    entries.configure(&delivered);
    for name in second.iter().map(|(name, _)| *name).chain([LAPTOP]) {
        world.report(name, "Unknown").await;
    }
    let is_over =
        |nodes: &BTreeMap<String, Node>| second.iter().all(|(name, _)| !nodes.contains_key(*name));
    let left = world
        .nodes_until(&mut ccm, "four nodes to go", is_over)
        .await;
    services.delete("web").await;
    services.is_gone(&mut ccm, "web").await;
    services.delete("inside").await;
    services.is_gone(&mut ccm, "inside").await;
    world.stop(ccm).await;

    // The other nodes are unchanged; the laptop was never written to, and exactly four nodes were deleted.
    assert!(is_tainted(&left[LAPTOP]));
    assert_eq!(world.writes_to(LAPTOP), []);
    let mut deleted: Vec<String> = world.deletions().into_iter().map(|one| one.name).collect();
    deleted.sort();
    let mut gone = second.iter().map(|(name, _)| *name).collect::<Vec<_>>();
    gone.sort_unstable();
    assert_eq!(deleted, gone);
    let now = owned(&world).await;
    assert_eq!(now, before);
    let nobodys = services.api.get("nobodys").await.unwrap();
    assert_eq!(nobodys.metadata.finalizers, None);
    let nobody_owns = ["kubernetes", "nobodys"].map(|name| (name.to_owned(), None));
    assert_eq!(owners(&services).await, nobody_owns.into());
    // Proxmox was read and never written to.
    let requests = pve.requests();
    assert!(!requests.is_empty());
    assert!(
        requests.iter().all(|one| one.starts_with("GET ")),
        "{requests:?}"
    );
    assert_eq!(world.cloud.load_balancers(), Vec::<Value>::new());
    // AWS has made one load balancer with its parts, has moved its port, has removed its security group rule again, and
    // has changed nothing else.
    let changes: BTreeSet<String> = aws
        .moto
        .requests()
        .into_iter()
        // A terminated instance may be deregistered already.
        .filter(|action| !action.starts_with("Describe") && action != "DeregisterTargets")
        .collect();
    let expected = [
        "AuthorizeSecurityGroupIngress",
        "CreateListener",
        "CreateLoadBalancer",
        "CreateTargetGroup",
        "DeleteListener",
        "DeleteLoadBalancer",
        "DeleteTargetGroup",
        "RegisterTargets",
        "RevokeSecurityGroupIngress",
    ];
    assert_eq!(changes, expected.map(str::to_owned).into());
    assert_eq!(aws.load_balancers(), 0);
}
