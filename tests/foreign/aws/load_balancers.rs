//! Network load balancers: made, changed, deleted with nothing left over, and again after each change that failed.

use std::collections::BTreeSet;

use ccm_core::cloud::CloudProvider as _;
use ccm_core::load_balancer::{Found, Progress};
use serde_json::json;

use super::stage::{CLUSTER, Stage, changes, reading, service};

pub(crate) fn check(stage: &mut Stage) {
    life(stage);
    interrupted(stage);
    own_group(stage);
}

fn life(stage: &mut Stage) {
    let provider = stage.load(&[]);
    let all = |stage: &Stage| stage.instances.iter().cloned().collect::<BTreeSet<_>>();
    let web = service(
        &[(80, 30080), (443, 30443)],
        &[("additional-resource-tags", "team=web")],
    );
    stage.moto.requests();
    let host = stage.ensure(&provider, &web).unwrap();
    assert!(
        host.ends_with(".elb.amazonaws.com") || host.contains(".elb."),
        "{host}"
    );
    let made = stage.moto.requests();
    assert!(made.len() <= 14, "{made:?}");
    assert_eq!(
        stage.served(),
        BTreeSet::from([(80, 30080, all(stage)), (443, 30443, all(stage))])
    );
    let opened = [
        "icmp 3 0.0.0.0/0",
        "tcp 30080 0.0.0.0/0",
        "tcp 30443 0.0.0.0/0",
    ];
    assert_eq!(stage.rules(), opened.map(str::to_owned).into());
    let balancer = stage
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
    let tags = stage.moto.elb(
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

    // Nothing more is changed: right after it, and by a manager that knows nothing.
    for provider in [&provider, &stage.load(&[])] {
        stage.moto.requests();
        assert_eq!(stage.ensure(provider, &web).unwrap(), host);
        assert_eq!(changes(&stage.moto.requests()), [""; 0]);
    }
    // A node comes, another goes.
    let new = stage.launch(0);
    stage.instances.push(new);
    let gone = stage.instances.remove(0);
    stage.moto.requests();
    stage.update(&provider, &web);
    let requests = stage.moto.requests();
    assert_eq!(
        changes(&requests),
        ["DeregisterTargets", "RegisterTargets"].repeat(2)
    );
    assert!(requests.len() <= 7, "{requests:?}");
    assert_eq!(
        stage.served(),
        BTreeSet::from([(80, 30080, all(stage)), (443, 30443, all(stage))])
    );
    stage
        .moto
        .call("ec2", "terminate_instances", json!({"InstanceIds": [gone]}));

    // Another node port, another port, other health checks, and clients from somewhere.
    let mut other = service(
        &[(80, 31080), (8443, 30443)],
        &[
            ("cross-zone-load-balancing-enabled", "true"),
            ("healthcheck-healthy-threshold", "2"),
        ],
    );
    other.source_ranges = vec!["192.0.2.0/24".to_owned()];
    stage.ensure(&provider, &other).unwrap();
    assert_eq!(
        stage.served(),
        BTreeSet::from([(80, 31080, all(stage)), (8443, 30443, all(stage))])
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
    assert_eq!(stage.rules(), opened.map(str::to_owned).into());
    assert_eq!(stage.left(), (1, 2, 0));
    let attributes = stage.moto.elb(
        "describe_load_balancer_attributes",
        json!({"LoadBalancerArn": balancer["LoadBalancerArn"]}),
        "Attributes",
    );
    assert!(
        attributes.contains(&json!({"Key": "load_balancing.cross_zone.enabled", "Value": "true"})),
        "{attributes:?}"
    );

    let found = stage
        .runtime
        .block_on(provider.get_load_balancer(&other, reading()))
        .unwrap();
    assert!(matches!(found.found, Found::Present(_)));
    assert_eq!(stage.delete(&provider, &other).unwrap(), Progress::Done);
    let found = stage
        .runtime
        .block_on(provider.get_load_balancer(&other, reading()))
        .unwrap();
    assert!(
        matches!(found.found, Found::Absent) && found.complete,
        "{found:?}"
    );
    assert_eq!(
        (stage.left(), stage.rules()),
        ((0, 0, 0), BTreeSet::new()),
        "nothing is left over"
    );
}

/// Each change fails once, as if the manager had died before it. The next call, by one that knows nothing, ends it.
fn interrupted(stage: &mut Stage) {
    let web = service(&[(80, 30080), (443, 30443)], &[]);
    for action in [
        "CreateTargetGroup",
        "RegisterTargets",
        "CreateListener",
        "AuthorizeSecurityGroupIngress",
    ] {
        stage
            .moto
            .refuse(action, "500 Internal Server Error", "InternalError");
        assert!(stage.ensure(&stage.load(&[]), &web).is_err(), "{action}");
        stage.ensure(&stage.load(&[]), &web).unwrap();
        assert_eq!(
            (stage.left(), stage.served().len()),
            ((1, 2, 0), 2),
            "{action}"
        );
        stage.moto.refuse(
            "DeleteTargetGroup",
            "500 Internal Server Error",
            "InternalError",
        );
        assert!(stage.delete(&stage.load(&[]), &web).is_err());
        stage.delete(&stage.load(&[]), &web).unwrap();
        assert_eq!(
            (stage.left(), stage.rules().len()),
            ((0, 0, 0), 0),
            "{action}"
        );
    }
    // An order that was changed in the middle of making it: what is left of the first goes with the Service.
    stage.moto.refuse(
        "CreateListener",
        "500 Internal Server Error",
        "InternalError",
    );
    assert!(stage.ensure(&stage.load(&[]), &web).is_err());
    let other = service(&[(80, 31080)], &[]);
    stage.ensure(&stage.load(&[]), &other).unwrap();
    stage.delete(&stage.load(&[]), &other).unwrap();
    assert_eq!((stage.left(), stage.rules().len()), ((0, 0, 0), 0));
}

fn own_group(stage: &mut Stage) {
    let managed = stage.load(&[("NLBSecurityGroupMode", "Managed")]);
    let web = service(&[(80, 30080)], &[("internal", "true")]);
    stage.ensure(&managed, &web).unwrap();
    assert_eq!(stage.left(), (1, 1, 1));
    let balancer = stage
        .moto
        .elb("describe_load_balancers", json!({}), "LoadBalancers")
        .remove(0);
    assert_eq!(balancer["Scheme"], "internal");
    let group = json!({"GroupIds": balancer["SecurityGroups"]});
    let answer = stage.moto.call("ec2", "describe_security_groups", group);
    let rules: BTreeSet<String> = answer["SecurityGroups"][0]["IpPermissions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["FromPort"].to_string())
        .collect();
    assert_eq!(rules, BTreeSet::from(["3".to_owned(), "80".to_owned()]));
    // AWS counts it as used for some time after its load balancer has gone; moto does not.
    stage.moto.refuse(
        "DeleteSecurityGroup",
        "400 Bad Request",
        "DependencyViolation",
    );
    assert!(matches!(
        stage.delete(&managed, &web).unwrap(),
        Progress::Pending(_)
    ));
    assert_eq!(stage.left(), (0, 0, 1));
    assert_eq!(stage.delete(&managed, &web).unwrap(), Progress::Done);
    assert_eq!((stage.left(), stage.rules().len()), ((0, 0, 0), 0));
}
