//! Classic load balancers: made, changed, and deleted with nothing left over. moto removes no listeners when several
//! are named in one request, so that one port is changed at a time.

use std::collections::BTreeSet;

use ccm_core::cloud::load_balancer::{Found, Progress};
use ccm_core::cloud_provider::CloudProvider as _;
use serde_json::{Value, json};

use super::world::{World, changes, reading, service};

pub(crate) fn check(world: &mut World) {
    let provider = world.load(&[]);
    let web = service(&[(80, 30080), (443, 30443)], &[("type", "")]);
    let host = world.ensure(&provider, &web).unwrap();
    let (balancer, groups) = seen(world);
    assert_eq!(balancer["DNSName"], host);
    assert_eq!(balancer["Scheme"], "internet-facing");
    assert_eq!(balancer["Subnets"].as_array().unwrap().len(), 2);
    assert_eq!(balancer["HealthCheck"]["Target"], "TCP:30080");
    assert_eq!(
        listens(&balancer),
        BTreeSet::from([(80, 30080), (443, 30443)])
    );
    assert_eq!(
        instances(&balancer),
        world.instances.iter().cloned().collect()
    );
    assert_eq!(groups, balancer["SecurityGroups"].as_array().unwrap().len());
    assert_eq!(
        world.left(),
        (0, 0, 1),
        "no network load balancer, and one group"
    );

    // There are no further changes: right after it, and by a manager without memory.
    for provider in [&provider, &world.load(&[])] {
        world.moto.requests();
        assert_eq!(world.ensure(provider, &web).unwrap(), host);
        assert_eq!(changes(&world.moto.requests()), [""; 0]);
    }
    let gone = world.instances.remove(0);
    let new = world.launch(0);
    world.instances.push(new);
    world.update(&provider, &web);
    assert_eq!(
        instances(&seen(world).0),
        world.instances.iter().cloned().collect()
    );
    let terminated = json!({"InstanceIds": [gone]});
    world.moto.call("ec2", "terminate_instances", terminated);

    // Ports one after another, then everything else.
    for ports in [
        &[(80, 30080)][..],
        &[(80, 31080)],
        &[(80, 31080), (8443, 30443)],
    ] {
        let web = service(ports, &[("type", "")]);
        world.ensure(&provider, &web).unwrap();
        let expected: BTreeSet<_> = ports
            .iter()
            .map(|(front, back)| (u64::from(*front), u64::from(*back)))
            .collect();
        assert_eq!(listens(&seen(world).0), expected);
    }
    let mut other = service(
        &[(80, 31080), (8443, 30443)],
        &[
            ("type", ""),
            ("proxy-protocol", "*"),
            ("connection-idle-timeout", "120"),
            ("cross-zone-load-balancing-enabled", "true"),
            ("healthcheck-healthy-threshold", "3"),
        ],
    );
    other.source_ranges = vec!["192.0.2.0/24".to_owned()];
    world.ensure(&provider, &other).unwrap();
    let (balancer, _) = seen(world);
    let backends = balancer["BackendServerDescriptions"].as_array().unwrap();
    assert!(
        backends
            .iter()
            .any(|one| one["PolicyNames"] == json!(["k8s-proxyprotocol-enabled"])),
        "{balancer:#}"
    );
    let health = json!({"Target": "TCP:31080", "Interval": 10, "Timeout": 5, "UnhealthyThreshold": 6, "HealthyThreshold": 3});
    assert_eq!(balancer["HealthCheck"], health);
    let named = json!({"LoadBalancerName": balancer["LoadBalancerName"]});
    let answer = world
        .moto
        .call("elb", "describe_load_balancer_attributes", named);
    let attributes = &answer["LoadBalancerAttributes"];
    assert_eq!(attributes["ConnectionSettings"]["IdleTimeout"], 120);
    assert_eq!(attributes["CrossZoneLoadBalancing"]["Enabled"], true);

    // A manager without memory makes each deletion, and is interrupted once.
    world.moto.refuse(
        "DeleteLoadBalancer",
        "500 Internal Server Error",
        "InternalError",
    );
    assert!(world.delete(&world.load(&[]), &other).is_err());
    assert_eq!(
        world.delete(&world.load(&[]), &other).unwrap(),
        Progress::Done
    );
    let found = world
        .runtime
        .block_on(provider.get_load_balancer(&other, reading()))
        .unwrap();
    assert!(matches!(found.found, Found::Absent) && found.complete);
    let all = world.moto.call("elb", "describe_load_balancers", json!({}));
    assert_eq!(all["LoadBalancerDescriptions"], json!([]));
    assert_eq!((world.left(), world.let_in()), ((0, 0, 0), 0));
}

/// The one load balancer, and the number of groups that the nodes' group lets in.
fn seen(world: &mut World) -> (Value, usize) {
    let mut all = world.moto.call("elb", "describe_load_balancers", json!({}));
    let balancer = all["LoadBalancerDescriptions"][0].take();
    (balancer, world.let_in())
}

fn listens(balancer: &Value) -> BTreeSet<(u64, u64)> {
    let listeners = balancer["ListenerDescriptions"].as_array().unwrap().iter();
    let port = |one: &Value, key: &str| one["Listener"][key].as_u64().unwrap();
    listeners
        .map(|one| (port(one, "LoadBalancerPort"), port(one, "InstancePort")))
        .collect()
}

fn instances(balancer: &Value) -> BTreeSet<String> {
    let all = balancer["Instances"].as_array().unwrap().iter();
    all.map(|one| one["InstanceId"].as_str().unwrap().to_owned())
        .collect()
}
