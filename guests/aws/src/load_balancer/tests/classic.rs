//! Classic load balancers: which requests are sent for a Service, and which are not.

#![allow(clippy::unwrap_used, reason = "tests")]

use ccm_guest::Error;
use ccm_guest::load_balancer::{
    DeleteRequest, EnsureRequest, Ensured, Found, Progress, Service, TrafficPolicy, UpdateRequest,
};
use ccm_guest::testing::{Answer, TestHost};

use super::requests::set;
use crate::fixtures::{
    Form, INSTANCES, NONE, NOT_FOUND, actions, changes, form, forms, host, known, service,
    settings, xml,
};
use crate::load_balancer::wanted::{Groups, Wanted};
use crate::load_balancer::{deletion, ensure};

mod costs;
mod groups;
mod listeners;
mod policies;
mod subnets;

const CLASSIC: &str = include_str!("../../../fixtures/classic.xml");
const ATTRIBUTES: &str = include_str!("../../../fixtures/classic-attributes.xml");
const MADE: &str = "<CreateLoadBalancerResponse><CreateLoadBalancerResult><DNSName>Web-1.eu-west-1.elb.amazonaws.com</DNSName></CreateLoadBalancerResult></CreateLoadBalancerResponse>";
const MADE_GROUP: &str =
    "<CreateSecurityGroupResponse><groupId>sg-new</groupId></CreateSecurityGroupResponse>";
const GROUPS: &str = include_str!("../../../fixtures/security-groups.xml");

fn web(more: &[(&str, &str)]) -> Service {
    service(&[&[("type", "")], more].concat())
}

/// The fixture's load balancer, its own group, and the nodes' group, which lets it in.
fn groups() -> String {
    let own = "<item><groupId>sg-own</groupId><groupName>k8s-elb-auidofweb</groupName><ipPermissions><item><ipProtocol>tcp</ipProtocol><fromPort>80</fromPort><toPort>80</toPort><ipRanges><item><cidrIp>0.0.0.0/0</cidrIp></item></ipRanges></item><item><ipProtocol>tcp</ipProtocol><fromPort>443</fromPort><toPort>443</toPort><ipRanges><item><cidrIp>0.0.0.0/0</cidrIp></item></ipRanges></item><item><ipProtocol>icmp</ipProtocol><fromPort>3</fromPort><toPort>4</toPort><ipRanges><item><cidrIp>0.0.0.0/0</cidrIp></item></ipRanges></item></ipPermissions><tagSet><item><key>kubernetes.io/cluster/prod</key><value>owned</value></item></tagSet></item></securityGroupInfo>";
    let lets_in = "<groups><item><userId>1</userId><groupId>sg-own</groupId></item><item>";
    GROUPS
        .replace("</securityGroupInfo>", own)
        .replace("<groups><item>", lets_in)
}

fn there() -> TestHost {
    host(until_deleted(existing))
}

/// The answers of `script`, without the own security group once that is deleted.
fn until_deleted(
    mut script: impl FnMut(&str, &Form) -> Option<Answer>,
) -> impl FnMut(&str, &Form) -> Option<Answer> {
    let mut is_there = true;
    move |action, form| {
        is_there &= action != "DeleteSecurityGroup";
        match action {
            "DescribeSecurityGroups" if !is_there => Some(xml(200, GROUPS)),
            _ => script(action, form),
        }
    }
}

fn existing(action: &str, form: &Form) -> Option<Answer> {
    match (action, form["Version"].as_str()) {
        ("DescribeLoadBalancers", "2012-06-01") => Some(xml(200, CLASSIC)),
        ("DescribeLoadBalancers", _) => Some(xml(400, NOT_FOUND)),
        ("DescribeTargetGroups", _) => Some(xml(
            200,
            "<DescribeTargetGroupsResponse><DescribeTargetGroupsResult><TargetGroups/></DescribeTargetGroupsResult></DescribeTargetGroupsResponse>",
        )),
        ("DescribeLoadBalancerAttributes", _) => Some(xml(200, ATTRIBUTES)),
        ("DescribeSecurityGroups", _) => Some(xml(200, groups())),
        _ => None,
    }
}

fn ensure(service: Service) -> Result<Option<String>, Error> {
    let request = EnsureRequest::new(service, vec![known()]);
    let reply = ensure::ensure(&settings(&[]), &request).map_err(|failure| failure.error)?;
    let Ensured::Ready(status) = reply.ensured else {
        panic!()
    };
    Ok(status.ingress[0].hostname.clone())
}

#[test]
fn a_new_one_is_made_with_its_ports_and_a_group_of_its_own() {
    let new = host(move |action, _| match action {
        "DescribeLoadBalancers" => Some(xml(400, NOT_FOUND)),
        "CreateLoadBalancer" => Some(xml(200, MADE)),
        "CreateSecurityGroup" => Some(xml(200, MADE_GROUP)),
        _ => None,
    });
    let name = ensure(web(&[
        ("proxy-protocol", "*"),
        ("connection-idle-timeout", "120"),
    ]))
    .unwrap();
    assert_eq!(name.as_deref(), Some("web-1.eu-west-1.elb.amazonaws.com"));
    let expected = [
        "CreateSecurityGroup",
        "CreateLoadBalancer",
        "AuthorizeSecurityGroupIngress",
        "CreateLoadBalancerPolicy",
        "SetLoadBalancerPoliciesForBackendServer",
        "SetLoadBalancerPoliciesForBackendServer",
        "ModifyLoadBalancerAttributes",
        "ConfigureHealthCheck",
        "AuthorizeSecurityGroupIngress",
        "RegisterInstancesWithLoadBalancer",
    ];
    assert_eq!(changes(&new), expected);
    let sent: Vec<_> = new.seen().iter().map(|seen| form(&seen.body)).collect();
    let create = sent
        .iter()
        .find(|form| form["Action"] == "CreateLoadBalancer")
        .unwrap();
    for (key, value) in [
        ("LoadBalancerName", "auidofweb"),
        ("Version", "2012-06-01"),
        ("Subnets.member.1", "subnet-8360a9e7"),
        ("SecurityGroups.member.1", "sg-new"),
        ("Listeners.member.1.Protocol", "TCP"),
        ("Listeners.member.2.Protocol", "SSL"),
        ("Listeners.member.2.InstanceProtocol", "TCP"),
        ("Listeners.member.2.InstancePort", "30443"),
        ("Listeners.member.2.SSLCertificateId", "arn:certificate"),
    ] {
        assert_eq!(create[key], value, "{key}");
    }
    let open = sent
        .iter()
        .rfind(|form| form["Action"] == "AuthorizeSecurityGroupIngress");
    let open = open.unwrap();
    assert_eq!(open["IpPermissions.1.Groups.1.GroupId"], "sg-new");
    assert!(!open.contains_key("IpPermissions.1.FromPort"));
    let health = sent
        .iter()
        .find(|form| form["Action"] == "ConfigureHealthCheck")
        .unwrap();
    assert_eq!(health["HealthCheck.Target"], "TCP:30080");
}

#[test]
fn only_what_differs_is_changed() {
    type Change = fn(&mut Service);
    let cases: &[(&str, Change, &[&str])] = &[
        ("nothing", |_| {}, &[]),
        (
            "case of the certificate's ARN",
            |one| set(one, "ssl-cert", "ARN:certificate"),
            &[],
        ),
        (
            "node port",
            |one| one.ports[1].node_port = Some(31443),
            &["DeleteLoadBalancerListeners", "CreateLoadBalancerListeners"],
        ),
        (
            "a port less",
            |one| one.ports.truncate(1),
            &["RevokeSecurityGroupIngress", "DeleteLoadBalancerListeners"],
        ),
        (
            "local traffic",
            |one| {
                one.external_traffic_policy = Some(TrafficPolicy::Local);
                one.health_check_node_port = Some(32000);
            },
            &["ConfigureHealthCheck"],
        ),
        (
            "cross zone",
            |one| set(one, "cross-zone-load-balancing-enabled", "true"),
            &["ModifyLoadBalancerAttributes"],
        ),
        (
            "policy",
            |one| {
                set(
                    one,
                    "ssl-negotiation-policy",
                    "ELBSecurityPolicy-TLS-1-2-2017-01",
                )
            },
            &[
                "CreateLoadBalancerPolicy",
                "SetLoadBalancerPoliciesOfListener",
            ],
        ),
        (
            "a group of somebody else",
            |one| set(one, "security-groups", "sg-theirs"),
            &[
                "ApplySecurityGroupsToLoadBalancer",
                "RevokeSecurityGroupIngress",
                "DeleteSecurityGroup",
                "AuthorizeSecurityGroupIngress",
            ],
        ),
        (
            "internal, which cannot be changed",
            |one| set(one, "internal", "true"),
            &[],
        ),
    ];
    for (what, change, expected) in cases {
        let there = there();
        let mut service = web(&[]);
        change(&mut service);
        ensure(service.clone()).unwrap();
        assert_eq!(changes(&there), *expected, "{what}");
        let before = actions(&there).len();
        ensure(service).unwrap();
        assert_eq!(
            actions(&there)[before..],
            ["DescribeLoadBalancers"],
            "{what}"
        );
    }
}

#[test]
fn attributes_without_an_annotation_go_back_to_the_defaults_of_aws() {
    let service = web(&[
        ("connection-draining-enabled", "true"),
        ("access-log-enabled", "true"),
        ("access-log-s3-bucket-name", "logs"),
    ]);
    let wanted = Wanted::read(&settings(&[]), &service, &mut Vec::new()).unwrap();
    for (field, value) in [
        ("ConnectionDraining.Timeout", "300"),
        ("AccessLog.EmitInterval", "60"),
        ("AccessLog.S3BucketPrefix", ""),
    ] {
        assert_eq!(wanted.attributes[field], value, "{field}");
    }
}

/// AWS cannot change a listener's ports or certificate: it is made anew, and then has AWS' default policy.
#[test]
fn a_listener_that_is_made_anew_gets_its_policy_again() {
    const POLICY: &str = "ELBSecurityPolicy-TLS-1-2-2017-01";
    let name = format!("k8s-SSLNegotiationPolicy-{POLICY}");
    let has_policy = CLASSIC.replace("ELBSecurityPolicy-2016-08", &name);
    let there = host(
        move |action, form| match (action, form["Version"].as_str()) {
            ("DescribeLoadBalancers", "2012-06-01") => Some(xml(200, &has_policy)),
            _ => existing(action, form),
        },
    );
    let mut service = web(&[("ssl-negotiation-policy", POLICY)]);
    ensure(service.clone()).unwrap();
    assert_eq!(changes(&there), [""; 0], "it has the policy");
    set(&mut service, "ssl-cert", "arn:other");
    ensure(service).unwrap();
    let expected = [
        "DeleteLoadBalancerListeners",
        "CreateLoadBalancerListeners",
        "SetLoadBalancerPoliciesOfListener",
    ];
    assert_eq!(changes(&there), expected);
    let mut sent = forms(&there).into_iter();
    let policy = sent.find(|form| form["Action"] == expected[2]).unwrap();
    assert_eq!(
        (
            policy["LoadBalancerPort"].as_str(),
            &policy["PolicyNames.member.1"]
        ),
        ("443", &name)
    );
}

#[test]
fn nodes_come_and_go() {
    let there = there();
    let request = UpdateRequest::new(web(&[]), Vec::new());
    ensure::update_targets(&settings(&[]), &request).unwrap();
    let gone = [
        "RevokeSecurityGroupIngress",
        "DeregisterInstancesFromLoadBalancer",
    ];
    assert_eq!(changes(&there), gone);
    let request = UpdateRequest::new(web(&[]), vec![known()]);
    ensure::update_targets(&settings(&[]), &request).unwrap();
    assert_eq!(changes(&there), gone, "it is as it should be");
}

#[test]
fn deletion_leaves_nothing_and_a_changed_type_hides_nothing() {
    let whole = there();
    let delete = |service| deletion::delete(&settings(&[]), &DeleteRequest::new(service)).unwrap();
    assert_eq!(delete(web(&[])).progress, Progress::Done);
    let expected = [
        "RevokeSecurityGroupIngress",
        "DeleteLoadBalancer",
        "DeleteSecurityGroup",
        // The rules that one of the other kind would have.
        "RevokeSecurityGroupIngress",
    ];
    assert_eq!(changes(&whole), expected);
    let revoke = forms(&whole)
        .into_iter()
        .find(|form| form["Action"] == expected[0])
        .unwrap();
    assert_eq!(revoke["IpPermissions.1.Groups.1.GroupId"], "sg-own");
    assert!(matches!(
        deletion::get(&web(&[])).unwrap(),
        Found::Present(_)
    ));
    drop(whole);
    // The annotation was set after the load balancer was made.
    let there = there();
    let mut changed = service(&[]);
    let Found::Present(status) = deletion::get(&web(&[])).unwrap() else {
        panic!()
    };
    changed.status = status;
    assert!(matches!(ensure(changed.clone()), Err(Error::Invalid(why)) if why.contains("type")));
    delete(changed);
    let sent = changes(&there);
    assert!(sent.contains(&"DeleteSecurityGroup".to_owned()), "{sent:?}");
}

#[test]
fn annotations_have_the_go_providers_meaning() {
    let read = |more: &[(&str, &str)]| Wanted::read(&settings(&[]), &web(more), &mut Vec::new());
    let wanted = read(&[
        ("backend-protocol", "http"),
        ("connection-draining-enabled", "true"),
        ("connection-draining-timeout", "30"),
        ("access-log-enabled", "true"),
        ("access-log-s3-bucket-name", "logs"),
        ("access-log-emit-interval", "5"),
        ("extra-security-groups", "sg-1, sg-2"),
        ("healthcheck-path", "/ready"),
        ("healthcheck-protocol", "http"),
        ("healthcheck-timeout", "3"),
    ]);
    let wanted = wanted.unwrap();
    let protocols = wanted
        .ports
        .iter()
        .map(|port| (port.front_protocol, port.back_protocol));
    assert_eq!(
        protocols.collect::<Vec<_>>(),
        [("HTTP", "HTTP"), ("HTTPS", "HTTP")]
    );
    assert_eq!(wanted.attributes["ConnectionDraining.Timeout"], "30");
    assert_eq!(wanted.attributes["AccessLog.EmitInterval"], "5");
    assert_eq!(wanted.extra_groups, ["sg-1", "sg-2"]);
    assert_eq!(wanted.groups, Groups::Own("k8s-elb-auidofweb".to_owned()));
    let health = &wanted.ports[0].health;
    assert_eq!(
        (
            health.protocol.as_str(),
            health.path.as_deref(),
            health.timeout,
            health.unhealthy
        ),
        ("HTTP", Some("/ready"), 3, 6)
    );
    let shared = settings(&[("ElbSecurityGroup", "sg-all")]);
    let wanted = Wanted::read(&shared, &web(&[]), &mut Vec::new()).unwrap();
    assert_eq!(wanted.groups, Groups::Named(vec!["sg-all".to_owned()]));
    for (name, value, part) in [
        ("proxy-protocol", "yes", "must be *"),
        ("backend-protocol", "quic", "must be http"),
        ("connection-idle-timeout", "long", "must be a number"),
        (
            "healthcheck-protocol",
            "udp",
            "must be one of tcp, ssl, http, https",
        ),
        (
            "target-group-attributes",
            "preserve_client_ip.enabled=true",
            "no target groups",
        ),
    ] {
        let refused = read(&[(name, value)]);
        assert!(
            matches!(&refused, Err(Error::Invalid(why)) if why.contains(part)),
            "{refused:?}"
        );
    }
}

/// A creation that was interrupted left no address in the Service, and the annotation was set after it.
#[test]
fn what_was_begun_of_the_other_kind_is_found() {
    type Begun = fn() -> TestHost;
    for (begun, service, deletion) in [
        (there as Begun, service(&[]), "DeleteLoadBalancer"),
        (|| host(|_, _| None), web(&[]), "DeleteTargetGroup"),
    ] {
        let begun = begun();
        let refused = ensure(service.clone());
        assert!(
            matches!(&refused, Err(Error::Invalid(why)) if why.contains("type")),
            "{refused:?}"
        );
        deletion::delete(&settings(&[]), &DeleteRequest::new(service)).unwrap();
        let sent = changes(&begun);
        assert!(sent.contains(&deletion.to_owned()), "{sent:?}");
    }
}

/// A load balancer whose Service now wants the other kind still has the Service's traffic, until the Service is made
/// anew.
#[test]
fn nodes_leave_a_load_balancer_of_the_other_kind_too() {
    type There = fn() -> TestHost;
    for (there, service, expected) in [
        (
            there as There,
            service(&[]),
            &["DeregisterInstancesFromLoadBalancer"][..],
        ),
        (
            || host(|_, _| None),
            web(&[]),
            &["DeregisterTargets", "DeregisterTargets"],
        ),
    ] {
        let there = there();
        assert!(ensure(service.clone()).is_err());
        let request = UpdateRequest::new(service, Vec::new());
        ensure::update_targets(&settings(&[]), &request).unwrap();
        assert_eq!(changes(&there), expected);
    }
}

/// AWS registers running instances alone, and nobody calls again because one runs.
#[test]
fn an_instance_that_does_not_run_yet_is_awaited() {
    const REGISTERED: &str = "<member><InstanceId>i-1234567890abcdef0</InstanceId></member>";
    let (mut looks, nobody) = (0, CLASSIC.replace(REGISTERED, ""));
    let there = host(
        move |action, form| match (action, form["Version"].as_str()) {
            ("DescribeLoadBalancers", "2012-06-01") => Some(xml(200, &nobody)),
            ("DescribeInstances", _) => {
                looks += 1;
                (looks <= 2).then(|| xml(200, INSTANCES.replace(">running<", ">pending<")))
            }
            _ => existing(action, form),
        },
    );
    let refused = ensure(web(&[]));
    assert!(
        matches!(&refused, Err(Error::Unavailable(why)) if why.contains("does not run yet")),
        "{refused:?}"
    );
    let request = UpdateRequest::new(web(&[]), vec![known()]);
    let update = || ensure::update_targets(&settings(&[]), &request);
    assert!(update().is_err());
    assert_eq!(changes(&there), [""; 0]);
    update().unwrap();
    assert_eq!(changes(&there), ["RegisterInstancesWithLoadBalancer"]);
}

/// Its security group is not known, so the rules stay in every group.
#[test]
fn an_instance_that_is_missing_twice_loses_nothing() {
    let there = host(|action, form| match action {
        "DescribeInstances" => Some(xml(200, NONE)),
        _ => existing(action, form),
    });
    ensure(web(&[])).unwrap();
    let request = UpdateRequest::new(web(&[]), vec![known()]);
    ensure::update_targets(&settings(&[]), &request).unwrap();
    assert_eq!(changes(&there), [""; 0]);
}

/// As with the Go provider: the check that Services share asks kube-proxy.
#[test]
fn the_shared_check_of_a_classic_one_does_not_ask_the_application() {
    let shared = settings(&[("ClusterServiceLoadBalancerHealthProbeMode", "Shared")]);
    let annotated = [
        ("healthcheck-port", "8080"),
        ("healthcheck-path", "/x"),
        ("healthcheck-protocol", "https"),
    ];
    for (annotations, expected) in [
        (
            &[("healthcheck-port", "traffic-port")][..],
            "HTTP 10256 /healthz",
        ),
        (&annotated, "HTTPS 8080 /x"),
    ] {
        let wanted = Wanted::read(&shared, &web(annotations), &mut Vec::new()).unwrap();
        let health = &wanted.ports[0].health;
        let path = health.path.as_deref().unwrap();
        let shown = format!("{} {} {path}", health.protocol, health.port);
        assert_eq!(shown, expected, "{annotations:?}");
    }
}
