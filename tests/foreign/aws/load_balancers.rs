//! Network load balancers: made, changed, deleted with nothing left over, and again after each change that failed.

use std::collections::BTreeSet;

use ccm_core::cloud::load_balancer::{Found, Progress};
use ccm_core::cloud_provider::CloudProvider as _;
use serde_json::json;

use super::world::{CLUSTER, World, changes, reading, service};

pub(crate) fn check(world: &mut World) {
    lifecycle(world);
    interrupted(world);
    own_group(world);
}

fn lifecycle(world: &mut World) {
    let provider = world.load(&[]);
    let all = |world: &World| world.instances.iter().cloned().collect::<BTreeSet<_>>();
    let web = service(
        &[(80, 30080), (443, 30443)],
        &[("additional-resource-tags", "team=web")],
    );
    world.moto.requests();
    let host = world.ensure(&provider, &web).unwrap();
    assert!(
        host.ends_with(".elb.amazonaws.com") || host.contains(".elb."),
        "{host}"
    );
    let made = world.moto.requests();
    assert!(made.len() <= 14, "{made:?}");
    assert_eq!(
        world.served(),
        BTreeSet::from([(80, 30080, all(world)), (443, 30443, all(world))])
    );
    let opened = [
        "icmp 3 0.0.0.0/0",
        "tcp 30080 0.0.0.0/0",
        "tcp 30443 0.0.0.0/0",
    ];
    assert_eq!(world.rules(), opened.map(str::to_owned).into());
    let balancer = world
        .moto
        .elb("describe_load_balancers", json!({}), "LoadBalancers")
        .remove(0);
    assert_eq!(
        (&balancer["Type"], &balancer["Scheme"]),
        (&json!("network"), &json!("internet-facing"))
    );
    assert_eq!(
        balancer["LoadBalancerName"],
        "a7a0b4a559d2f4f1f8b1f2a1055aa0001"[..32]
    );
    assert_eq!(balancer["AvailabilityZones"].as_array().unwrap().len(), 2);
    let tags = world.moto.elb(
        "describe_tags",
        json!({"ResourceArns": [balancer["LoadBalancerArn"]]}),
        "TagDescriptions",
    );
    let tags: BTreeSet<String> = tags[0]["Tags"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tag| format!("{}={}", tag["Key"], tag["Value"]).replace('"', ""))
        .collect();
    let expected = [
        format!("{CLUSTER}=owned"),
        "kubernetes.io/service-name=default/web".to_owned(),
        "team=web".to_owned(),
    ];
    assert_eq!(tags, expected.into());

    // There are no further changes: right after it, and by a manager without memory.
    for provider in [&provider, &world.load(&[])] {
        world.moto.requests();
        assert_eq!(world.ensure(provider, &web).unwrap(), host);
        assert_eq!(changes(&world.moto.requests()), [""; 0]);
    }
    // One node joins, another one leaves.
    let new = world.launch(0);
    world.instances.push(new);
    let gone = world.instances.remove(0);
    world.moto.requests();
    world.update(&provider, &web);
    let requests = world.moto.requests();
    assert_eq!(
        changes(&requests),
        ["DeregisterTargets", "RegisterTargets"].repeat(2)
    );
    assert!(requests.len() <= 7, "{requests:?}");
    assert_eq!(
        world.served(),
        BTreeSet::from([(80, 30080, all(world)), (443, 30443, all(world))])
    );
    world
        .moto
        .call("ec2", "terminate_instances", json!({"InstanceIds": [gone]}));

    // Another node port, another port, other health checks, and a source range for clients.
    let mut other = service(
        &[(80, 31080), (8443, 30443)],
        &[
            ("cross-zone-load-balancing-enabled", "true"),
            ("healthcheck-healthy-threshold", "2"),
        ],
    );
    other.source_ranges = vec!["192.0.2.0/24".to_owned()];
    world.ensure(&provider, &other).unwrap();
    assert_eq!(
        world.served(),
        BTreeSet::from([(80, 31080, all(world)), (8443, 30443, all(world))])
    );
    let opened = [
        "icmp 3 192.0.2.0/24",
        "tcp 31080 192.0.2.0/24",
        "tcp 30443 192.0.2.0/24",
        "tcp 31080 10.0.1.0/24",
        "tcp 31080 10.0.2.0/24",
        "tcp 30443 10.0.1.0/24",
        "tcp 30443 10.0.2.0/24",
    ];
    assert_eq!(world.rules(), opened.map(str::to_owned).into());
    assert_eq!(world.left(), (1, 2, 0));
    let attributes = world.moto.elb(
        "describe_load_balancer_attributes",
        json!({"LoadBalancerArn": balancer["LoadBalancerArn"]}),
        "Attributes",
    );
    assert!(
        attributes.contains(&json!({"Key": "load_balancing.cross_zone.enabled", "Value": "true"})),
        "{attributes:?}"
    );

    let found = world
        .runtime
        .block_on(provider.get_load_balancer(&other, reading()))
        .unwrap();
    assert!(matches!(found.found, Found::Present(_)));
    assert_eq!(world.delete(&provider, &other).unwrap(), Progress::Done);
    let found = world
        .runtime
        .block_on(provider.get_load_balancer(&other, reading()))
        .unwrap();
    assert!(
        matches!(found.found, Found::Absent) && found.complete,
        "{found:?}"
    );
    assert_eq!(
        (world.left(), world.rules()),
        ((0, 0, 0), BTreeSet::new()),
        "nothing is left over"
    );
}

/// Each change fails once, as if the manager had died before it. The next call, by one without memory, completes it.
fn interrupted(world: &mut World) {
    let web = service(&[(80, 30080), (443, 30443)], &[]);
    for action in [
        "CreateTargetGroup",
        "RegisterTargets",
        "CreateListener",
        "AuthorizeSecurityGroupIngress",
    ] {
        world
            .moto
            .refuse(action, "500 Internal Server Error", "InternalError");
        assert!(world.ensure(&world.load(&[]), &web).is_err(), "{action}");
        world.ensure(&world.load(&[]), &web).unwrap();
        assert_eq!(
            (world.left(), world.served().len()),
            ((1, 2, 0), 2),
            "{action}"
        );
        world.moto.refuse(
            "DeleteTargetGroup",
            "500 Internal Server Error",
            "InternalError",
        );
        assert!(world.delete(&world.load(&[]), &web).is_err());
        world.delete(&world.load(&[]), &web).unwrap();
        assert_eq!(
            (world.left(), world.rules().len()),
            ((0, 0, 0), 0),
            "{action}"
        );
    }
    // The Service changes while its load balancer is made: the parts for the first spec are deleted with the Service.
    world.moto.refuse(
        "CreateListener",
        "500 Internal Server Error",
        "InternalError",
    );
    assert!(world.ensure(&world.load(&[]), &web).is_err());
    let other = service(&[(80, 31080)], &[]);
    world.ensure(&world.load(&[]), &other).unwrap();
    world.delete(&world.load(&[]), &other).unwrap();
    assert_eq!((world.left(), world.rules().len()), ((0, 0, 0), 0));
}

fn own_group(world: &mut World) {
    let managed = world.load(&[("NLBSecurityGroupMode", "Managed")]);
    let web = service(&[(80, 30080)], &[("internal", "true")]);
    world.ensure(&managed, &web).unwrap();
    assert_eq!(world.left(), (1, 1, 1));
    let balancer = world
        .moto
        .elb("describe_load_balancers", json!({}), "LoadBalancers")
        .remove(0);
    assert_eq!(balancer["Scheme"], "internal");
    let group = json!({"GroupIds": balancer["SecurityGroups"]});
    let answer = world.moto.call("ec2", "describe_security_groups", group);
    let rules: BTreeSet<String> = answer["SecurityGroups"][0]["IpPermissions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["FromPort"].to_string())
        .collect();
    assert_eq!(rules, BTreeSet::from(["3".to_owned(), "80".to_owned()]));
    // AWS counts it as used for some time after its load balancer was deleted; moto does not.
    world.moto.refuse(
        "DeleteSecurityGroup",
        "400 Bad Request",
        "DependencyViolation",
    );
    assert!(matches!(
        world.delete(&managed, &web).unwrap(),
        Progress::Pending(_)
    ));
    assert_eq!(world.left(), (0, 0, 1));
    assert_eq!(world.delete(&managed, &web).unwrap(), Progress::Done);
    assert_eq!((world.left(), world.rules().len()), ((0, 0, 0), 0));
}
