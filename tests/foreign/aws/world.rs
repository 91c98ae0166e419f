//! A network at moto with four nodes, and the shipped guest before it. Asserts nothing about the guest's answers.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ccm_core::cloud::load_balancer::{
    CloudService, DeleteRequest, EnsureRequest, Ensured, Progress, UpdateRequest,
};
use ccm_core::cloud::{CloudNode, FindReply, Lookup, ProviderError};
use ccm_core::cloud_provider::CloudProvider as _;
use ccm_core::safety::permit::{Mode, Permit};
use ccm_fixtures::objects::cloud_service;
use ccm_fixtures::permits;
use ccm_host::grant::{AwsKeys, AwsSigV4, AwsSource, Credential, Grants, Secret, TargetGrant};
use ccm_host::{GuestConfig, Module, Provider};
use serde_json::json;
use tokio::runtime::Runtime;

use super::super::{host, node};
use super::moto::Moto;

pub(crate) const REGION: &str = "eu-west-1";
pub(crate) const CLUSTER: &str = "kubernetes.io/cluster/prod";
pub(crate) const NLB: &str = "service.beta.kubernetes.io/aws-load-balancer-";
/// The UID of the Service, which is part of its load balancer's name.
pub(crate) const UID: &str = "7a0b4a55-9d2f-4f1f-8b1f-2a1055aa0001";

/// A VPC with two public subnets, a security group of the nodes and four of them.
pub(crate) struct World {
    pub(crate) moto: Moto,
    pub(crate) runtime: Runtime,
    pub(crate) vpc: String,
    pub(crate) group: String,
    pub(crate) subnets: Vec<String>,
    pub(crate) instances: Vec<String>,
}

impl World {
    pub(crate) fn new() -> World {
        let mut moto = Moto::serve();
        let tagged = |kind: &str| json!([{"ResourceType": kind, "Tags": [{"Key": CLUSTER, "Value": "owned"}]}]);
        let vpc = moto.ec2(
            "create_vpc",
            json!({"CidrBlock": "10.0.0.0/16"}),
            "/Vpc/VpcId",
        );
        let table = moto.lead_out(&vpc);
        moto.call(
            "ec2",
            "create_tags",
            json!({"Resources": [table], "Tags": [{"Key": CLUSTER, "Value": "owned"}]}),
        );
        let group = moto.ec2(
            "create_security_group",
            json!({"GroupName": "nodes", "Description": "nodes", "VpcId": vpc, "TagSpecifications": tagged("security-group")}),
            "/GroupId",
        );
        let subnets: Vec<String> = [("a", "10.0.1.0/24"), ("b", "10.0.2.0/24")]
            .iter()
            .map(|(zone, range)| {
                let zone = format!("{REGION}{zone}");
                let subnet = json!({"VpcId": vpc, "CidrBlock": range, "AvailabilityZone": zone, "TagSpecifications": tagged("subnet")});
                moto.ec2("create_subnet", subnet, "/Subnet/SubnetId")
            })
            .collect();
        let mut world = World {
            moto,
            runtime: Runtime::new().unwrap(),
            vpc,
            group,
            subnets,
            instances: Vec::new(),
        };
        for number in 0..4 {
            let instance = world.launch(number % 2);
            world.instances.push(instance);
        }
        world
    }

    pub(crate) fn launch(&mut self, subnet: usize) -> String {
        let instance = json!({
            "ImageId": "ami-12c6146b", "MinCount": 1, "MaxCount": 1, "InstanceType": "t3.large",
            "SubnetId": self.subnets[subnet], "SecurityGroupIds": [self.group],
            "TagSpecifications": [{"ResourceType": "instance", "Tags": [{"Key": CLUSTER, "Value": "owned"}]}],
        });
        self.moto
            .ec2("run_instances", instance, "/Instances/0/InstanceId")
    }

    /// Loads the guest with an operator's grants; its self-check has to succeed.
    pub(crate) fn load(&self, more: &[(&str, &str)]) -> Provider {
        let values = [("Region", REGION), ("KubernetesClusterID", "prod")];
        let provider = self.load_with(&[&values, more].concat());
        self.runtime
            .block_on(provider.self_check(reading()))
            .unwrap();
        provider
    }

    /// Loads the guest with these values; the host signs with these keys, which the guest never sees.
    pub(crate) fn load_with(&self, values: &[(&str, &str)]) -> Provider {
        let inspection = ccm_host::inspect("aws", embedded_guests::AWS).unwrap();
        let grant = |target: &ccm_host::manifest::Target| {
            let service = if target.name == "ec2" {
                "ec2"
            } else {
                "elasticloadbalancing"
            };
            let keys = AwsKeys {
                access_key_id: "AKIDEXAMPLE".to_owned(),
                secret_access_key: Secret::new("a-key-that-no-guest-sees".to_owned()),
                session_token: None,
            };
            TargetGrant {
                endpoint: self.moto.url.parse().unwrap(),
                credential: Credential::AwsSigV4(AwsSigV4 {
                    region: REGION.to_owned(),
                    service: service.to_owned(),
                    source: AwsSource::Keys(keys),
                }),
                ..target.as_grant()
            }
        };
        let grants = Grants {
            targets: inspection.manifest.targets.iter().map(grant).collect(),
            annotation_prefixes: Vec::new(),
        };
        let module = Module {
            source: "embedded:aws".to_owned(),
            wasm: Bytes::from_static(embedded_guests::AWS),
        };
        let values = values.iter();
        let config = GuestConfig {
            schemes: Vec::new(),
            cluster_name: "kubernetes".to_owned(),
            cluster_cidrs: vec!["10.244.0.0/16".to_owned()],
            values: values
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
        };
        self.runtime
            .block_on(host().load(module, grants, config))
            .unwrap()
    }

    pub(crate) fn nodes(&self) -> Vec<CloudNode> {
        let nodes = self.instances.iter().enumerate();
        nodes
            .map(|(number, id)| known(&format!("node-{number}"), id))
            .collect()
    }

    /// Every rule of the nodes' group, such as `tcp 30080 0.0.0.0/0`.
    pub(crate) fn rules(&mut self) -> BTreeSet<String> {
        let group = json!({"GroupIds": [self.group]});
        let answer = self.moto.call("ec2", "describe_security_groups", group);
        let rules = answer["SecurityGroups"][0]["IpPermissions"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|one| {
                let what = format!(
                    "{} {}",
                    one["IpProtocol"].as_str().unwrap(),
                    one["FromPort"]
                );
                let ranges = one["IpRanges"].as_array().unwrap().iter();
                ranges
                    .map(move |range| format!("{what} {}", range["CidrIp"].as_str().unwrap()))
                    .collect::<Vec<_>>()
            });
        rules.collect()
    }

    /// The number of other groups that the nodes' group lets in.
    pub(crate) fn let_in(&mut self) -> usize {
        let group = json!({"GroupIds": [self.group]});
        let answer = self.moto.call("ec2", "describe_security_groups", group);
        let rules = answer["SecurityGroups"][0]["IpPermissions"]
            .as_array()
            .unwrap();
        let pairs = rules
            .iter()
            .map(|one| one["UserIdGroupPairs"].as_array().unwrap().len());
        pairs.sum()
    }

    /// The number of load balancers, target groups, and security groups other than the nodes' and the default one.
    pub(crate) fn left(&mut self) -> (usize, usize, usize) {
        let balancers = self
            .moto
            .elb("describe_load_balancers", json!({}), "LoadBalancers")
            .len();
        let groups = self
            .moto
            .elb("describe_target_groups", json!({}), "TargetGroups")
            .len();
        let filter = json!({"Filters": [{"Name": "vpc-id", "Values": [self.vpc]}]});
        let answer = self.moto.call("ec2", "describe_security_groups", filter);
        (
            balancers,
            groups,
            answer["SecurityGroups"].as_array().unwrap().len() - 2,
        )
    }

    /// Listening ports with the node ports behind them, and the instances registered there.
    pub(crate) fn served(&mut self) -> BTreeSet<(u64, u64, BTreeSet<String>)> {
        let mut served = BTreeSet::new();
        for balancer in self
            .moto
            .elb("describe_load_balancers", json!({}), "LoadBalancers")
        {
            let arn = json!({"LoadBalancerArn": balancer["LoadBalancerArn"]});
            for listener in self.moto.elb("describe_listeners", arn, "Listeners") {
                let group = &listener["DefaultActions"][0]["TargetGroupArn"];
                let health = self.moto.elb(
                    "describe_target_health",
                    json!({"TargetGroupArn": group}),
                    "TargetHealthDescriptions",
                );
                let ids = health
                    .iter()
                    .map(|one| one["Target"]["Id"].as_str().unwrap().to_owned())
                    .collect();
                let port = self.moto.elb(
                    "describe_target_groups",
                    json!({"TargetGroupArns": [group]}),
                    "TargetGroups",
                )[0]["Port"]
                    .as_u64();
                served.insert((listener["Port"].as_u64().unwrap(), port.unwrap(), ids));
            }
        }
        served
    }

    pub(crate) fn find(&self, provider: &Provider, nodes: &[CloudNode]) -> FindReply {
        self.runtime
            .block_on(provider.find_fresh(nodes, reading()))
            .unwrap()
    }

    pub(crate) fn ensure(
        &self,
        provider: &Provider,
        service: &CloudService,
    ) -> Result<String, ProviderError> {
        let request = EnsureRequest {
            service: Arc::new(service.clone()),
            targets: self.nodes().into_iter().map(Arc::new).collect(),
            adopt: None,
            hint: None,
        };
        let reply = self
            .runtime
            .block_on(provider.ensure_load_balancer(&request, writing()))?;
        let Ensured::Ready(status) = reply.ensured else {
            panic!("{reply:?}")
        };
        Ok(status.ingress[0].hostname.clone().unwrap())
    }

    pub(crate) fn update(&self, provider: &Provider, service: &CloudService) {
        let request = UpdateRequest {
            service: Arc::new(service.clone()),
            targets: self.nodes().into_iter().map(Arc::new).collect(),
            hint: None,
        };
        let reply = self
            .runtime
            .block_on(provider.update_targets(&request, writing()))
            .unwrap();
        assert_eq!(reply.progress, Progress::Done);
    }

    pub(crate) fn delete(
        &self,
        provider: &Provider,
        service: &CloudService,
    ) -> Result<Progress, ProviderError> {
        let request = DeleteRequest {
            service: Arc::new(service.clone()),
            hint: None,
        };
        let reply = self
            .runtime
            .block_on(provider.delete_load_balancer(&request, writing()))?;
        Ok(reply.progress)
    }
}

pub(crate) fn until() -> ccm_core::moment::Moment {
    ccm_host::egress::now().after(Duration::from_secs(60))
}

pub(crate) fn reading() -> Arc<Permit> {
    Arc::new(Permit::read_only(until()))
}

pub(crate) fn writing() -> Arc<Permit> {
    permits::permit(until(), Mode::Enforce, 50)
}

pub(crate) fn known(name: &str, instance: &str) -> CloudNode {
    node(name, Some(&format!("aws:///{REGION}a/{instance}")))
}

pub(crate) fn service(ports: &[(u16, u16)], more: &[(&str, &str)]) -> CloudService {
    let annotations = [("type", "nlb")];
    let annotations = annotations.iter().chain(more);
    CloudService {
        annotations: annotations
            .map(|(name, value)| (format!("{NLB}{name}"), (*value).to_owned()))
            .collect(),
        ..cloud_service("web", UID, ports)
    }
}

pub(crate) fn brief(reply: &FindReply) -> Vec<&str> {
    let show = |lookup| match lookup {
        &Lookup::Found(_) => "found",
        Lookup::Gone => "gone",
        Lookup::NotMine => "not mine",
        Lookup::Unknown(why) => why.as_str(),
    };
    reply.lookups.iter().map(show).collect()
}

pub(crate) fn changes(requests: &[String]) -> Vec<&str> {
    requests
        .iter()
        .map(String::as_str)
        .filter(|action| !action.starts_with("Describe"))
        .collect()
}
