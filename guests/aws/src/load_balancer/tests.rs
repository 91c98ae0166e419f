use std::collections::BTreeSet;

use ccm_guest::load_balancer::{
    DeleteRequest, EnsureRequest, Ensured, Found, Progress, Service, TrafficPolicy, UpdateRequest,
};
use ccm_guest::{Error, Protocol};

use super::annotations::{ALL, Support};
use super::wanted::{self, Groups, Wanted};
use super::{deletion, ensure, subnets};
use crate::samples::{
    NOT_FOUND, actions, changes, forms, host, known, node, service, settings, xml,
};

const ONE: &str = "i-1234567890abcdef0";

fn read(service: &Service) -> Wanted {
    Wanted::read(&settings(&[]), service).unwrap().0
}

fn mistakes(service: &Service) -> String {
    match Wanted::read(&settings(&[]), service) {
        Err(Error::Invalid(told)) => told,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_table_of_annotations_and_the_readme_agree() {
    assert_eq!(ALL.len(), 30, "as many as the Go provider has");
    let readme = include_str!("../../../README.md");
    for (name, support) in ALL {
        let word = match support {
            Support::Supported => "yes".to_owned(),
            Support::Ignored(why) => format!("ignored, with an Event: {why}"),
            Support::Refused(why) => format!("refused: {why}"),
        };
        let row = format!("| `{name}` | {word} |");
        assert!(readme.contains(&row), "guests/README.md lacks\n{row}");
    }
    let rows = readme.lines().filter(|line| {
        line.ends_with("| yes |")
            || line.contains("| ignored, with an Event: ")
            || line.contains("| refused: ")
    });
    assert_eq!(rows.count(), ALL.len());
}

#[test]
fn annotations_have_the_go_providers_meaning() {
    let wanted = read(&service(&[
        ("internal", "0.0.0.0/0"),
        ("backend-protocol", "ssl"),
        (
            "ssl-negotiation-policy",
            "ELBSecurityPolicy-TLS13-1-2-2021-06",
        ),
        ("cross-zone-load-balancing-enabled", "true"),
        ("access-log-enabled", "true"),
        ("access-log-s3-bucket-name", "logs"),
        ("healthcheck-protocol", "http"),
        ("healthcheck-path", "/ready"),
        ("healthcheck-port", "8080"),
        ("healthcheck-interval", "15"),
        ("healthcheck-healthy-threshold", "4"),
        ("healthcheck-unhealthy-threshold", "5"),
        (
            "target-group-attributes",
            "proxy_protocol_v2.enabled=true, preserve_client_ip.enabled=false",
        ),
        ("additional-resource-tags", "team=web,empty=,alone"),
        ("eip-allocations", "eipalloc-1,eipalloc-2"),
        ("subnets", "subnet-1, front"),
    ]));
    assert!(wanted.internal);
    let [plain, tls] = wanted.ports.as_slice() else {
        panic!()
    };
    assert_eq!(
        (
            plain.front_protocol,
            plain.back_protocol,
            plain.tls.is_none()
        ),
        ("TCP", "TCP", true)
    );
    assert_eq!((tls.front_protocol, tls.back_protocol), ("TLS", "TLS"));
    assert_eq!(
        tls.tls.as_ref().unwrap().policy.as_deref(),
        Some("ELBSecurityPolicy-TLS13-1-2-2021-06")
    );
    let health = &plain.health;
    assert_eq!(
        (
            health.protocol.as_str(),
            health.port.as_str(),
            health.path.as_deref()
        ),
        ("HTTP", "8080", Some("/ready"))
    );
    assert_eq!(
        (health.interval, health.healthy, health.unhealthy),
        (15, 4, 5)
    );
    assert_eq!(wanted.attributes["access_logs.s3.bucket"], "logs");
    assert_eq!(
        wanted.attributes["load_balancing.cross_zone.enabled"],
        "true"
    );
    assert_eq!(
        wanted.group_attributes["preserve_client_ip.enabled"],
        "false"
    );
    let tags: Vec<_> = wanted
        .tags
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    let expected = [
        "alone=",
        "empty=",
        "kubernetes.io/cluster/prod=owned",
        "kubernetes.io/service-name=default/web",
        "team=web",
    ];
    assert_eq!(tags, expected);
    assert_eq!((wanted.subnets.len(), wanted.allocations.len()), (2, 2));
}

#[test]
fn health_checks_fit_the_traffic_policy() {
    let mut local = service(&[]);
    local.external_traffic_policy = Some(TrafficPolicy::Local);
    local.health_check_node_port = Some(32000);
    let health = read(&local).ports[0].health.clone();
    assert_eq!(
        (
            health.protocol.as_str(),
            health.port.as_str(),
            health.interval,
            health.healthy
        ),
        ("HTTP", "32000", 10, 2)
    );
    let shared = settings(&[("ClusterServiceLoadBalancerHealthProbeMode", "Shared")]);
    let health = |service| {
        Wanted::read(&shared, service).unwrap().0.ports[0]
            .health
            .clone()
    };
    assert_eq!(health(&local).port, "32000");
    let of_proxy = health(&service(&[]));
    assert_eq!(
        (
            of_proxy.port.as_str(),
            of_proxy.path.as_deref(),
            of_proxy.protocol.as_str()
        ),
        ("10256", Some("/healthz"), "HTTP")
    );
}

#[test]
fn mistakes_are_told_together_and_what_is_ignored_by_an_event() {
    let mut bad = service(&[
        ("extra-security-groups", "sg-1"),
        ("healthcheck-interval", "often"),
        ("healthcheck-protocol", "udp"),
        ("healthcheck-port", "0"),
        ("cross-zone-load-balancing-enabled", "yes"),
        ("access-log-enabled", "true"),
        ("target-group-attributes", "stickiness.enabled=true"),
    ]);
    bad.ports[0].protocol = Protocol::Udp;
    bad.ports[1].node_port = None;
    bad.requested_ip = Some("192.0.2.1".to_owned());
    bad.session_affinity_seconds = Some(60);
    let told = mistakes(&bad);
    for part in [
        "extra-security-groups",
        "healthcheck-interval",
        "healthcheck-protocol",
        "healthcheck-port",
        "cross-zone",
        "access-log-s3-bucket-name",
        "stickiness",
        "several protocols",
        "no node port",
        "loadBalancerIP",
        "sessionAffinity",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let odd = service(&[
        ("connection-idle-timeout", "60"),
        ("security-groups", "sg-1"),
        ("scheme", "internal"),
    ]);
    let (wanted, events) = Wanted::read(&settings(&[]), &odd).unwrap();
    let said: String = events.iter().map(|event| event.message.as_str()).collect();
    for part in [
        "connection-idle-timeout: it is about classic",
        "scheme: unknown",
        "NLBSecurityGroupMode=Managed",
    ] {
        assert!(said.contains(part), "{said}");
    }
    assert_eq!(wanted.groups, Groups::Unmanaged);
    let managed = settings(&[("NLBSecurityGroupMode", "Managed")]);
    assert_eq!(
        Wanted::read(&managed, &odd).unwrap().0.groups,
        Groups::Named(vec!["sg-1".to_owned()])
    );
}

#[test]
fn services_of_others_are_left_to_them_and_classic_ones_refused() {
    let host = host(|_, _| None);
    let ensure = |service: Service| {
        ensure::ensure(&settings(&[]), &EnsureRequest::new(service, vec![known()])).unwrap_err()
    };
    for kind in ["external", "nlb-ip"] {
        assert_eq!(ensure(service(&[("type", kind)])), Error::Elsewhere);
    }
    let mut classed = service(&[]);
    classed.class = Some("service.k8s.aws/nlb".to_owned());
    assert_eq!(ensure(classed), Error::Elsewhere);
    for kind in ["", "clb"] {
        assert!(
            matches!(ensure(service(&[("type", kind)])), Error::Unsupported(why) if why.contains("nlb"))
        );
    }
    assert_eq!(actions(&host), [""; 0]);
}

/// A change of the Service, and the changes at AWS that have to follow, in this order.
#[test]
fn only_what_differs_is_changed() {
    type Change = fn(&mut Service);
    let cases: &[(&str, Change, &[&str])] = &[
        ("nothing", |_| {}, &[]),
        (
            "certificate",
            |one| set(one, "ssl-cert", "arn:other"),
            &["ModifyListener"],
        ),
        (
            "policy",
            |one| set(one, "ssl-negotiation-policy", "other"),
            &["ModifyListener"],
        ),
        (
            "no TLS any more",
            |one| set(one, "ssl-cert", ""),
            &["ModifyListener"],
        ),
        (
            "threshold",
            |one| set(one, "healthcheck-healthy-threshold", "5"),
            &["ModifyTargetGroup"; 2],
        ),
        (
            "cross zone",
            |one| set(one, "cross-zone-load-balancing-enabled", "true"),
            &["ModifyLoadBalancerAttributes"],
        ),
        (
            "node port",
            |one| one.ports[0].node_port = Some(30081),
            &[
                "CreateTargetGroup",
                "RegisterTargets",
                "ModifyListener",
                "DeleteTargetGroup",
                "AuthorizeSecurityGroupIngress",
                "RevokeSecurityGroupIngress",
            ],
        ),
        (
            "interval",
            |one| {
                set(one, "healthcheck-interval", "10");
                one.ports.truncate(1)
            },
            &[
                "CreateTargetGroup",
                "RegisterTargets",
                "ModifyListener",
                "DeleteTargetGroup",
                "DeleteListener",
                "DeleteTargetGroup",
                "RevokeSecurityGroupIngress",
            ],
        ),
        (
            "a port less",
            |one| one.ports.truncate(1),
            &[
                "DeleteListener",
                "DeleteTargetGroup",
                "RevokeSecurityGroupIngress",
            ],
        ),
        (
            "another port",
            |one| one.ports[0].port = 81,
            &[
                "CreateTargetGroup",
                "RegisterTargets",
                "CreateListener",
                "DeleteListener",
                "DeleteTargetGroup",
            ],
        ),
        (
            "sources",
            |one| one.source_ranges = vec!["10.0.0.0/8".to_owned()],
            &[
                "AuthorizeSecurityGroupIngress",
                "RevokeSecurityGroupIngress",
            ],
        ),
        (
            "scheme, which cannot be changed",
            |one| set(one, "internal", "true"),
            &[],
        ),
    ];
    for (what, change, expected) in cases {
        let host = host(|_, _| None);
        let mut service = service(&[]);
        change(&mut service);
        let reply =
            ensure::ensure(&settings(&[]), &EnsureRequest::new(service, vec![known()])).unwrap();
        assert_eq!(changes(&host), *expected, "{what}");
        assert_eq!(
            reply
                .events
                .iter()
                .any(|event| event.reason == "LoadBalancerNotChanged"),
            what.starts_with("scheme"),
            "{what}"
        );
        let Ensured::Ready(status) = reply.ensured else {
            panic!()
        };
        assert_eq!(
            status.ingress[0].hostname.as_deref(),
            Some("auidofweb-50dc6c495c0c9188.elb.eu-west-1.amazonaws.com")
        );
    }
}

fn set(service: &mut Service, name: &str, value: &str) {
    let key = format!("{}{name}", super::annotations::PREFIX);
    service.annotations.retain(|(known, _)| *known != key);
    service.annotations.push((key, value.to_owned()));
}

#[test]
fn a_new_load_balancer_is_made_with_everything_in_it() {
    let host = host(|action, _| (action == "DescribeLoadBalancers").then(|| xml(400, NOT_FOUND)));
    let wanted = service(&[
        ("additional-resource-tags", "team=web"),
        ("eip-allocations", "eip-1,eip-2"),
    ]);
    ensure::ensure(&settings(&[]), &EnsureRequest::new(wanted, vec![known()])).unwrap();
    let expected = [
        "CreateLoadBalancer",
        "CreateTargetGroup",
        "RegisterTargets",
        "CreateListener",
        "CreateTargetGroup",
        "RegisterTargets",
        "CreateListener",
    ];
    assert_eq!(changes(&host), expected);
    let sent = forms(&host);
    let of = |action: &str| sent.iter().find(|form| form["Action"] == action).unwrap();
    let create = of("CreateLoadBalancer");
    let field = |key: &str| create[key].as_str();
    assert_eq!(
        (field("Name"), field("Type"), field("Scheme")),
        ("auidofweb", "network", "internet-facing")
    );
    // By zone, the one with the role's tag first; none of a local zone, none of another cluster.
    assert_eq!(
        (
            field("SubnetMappings.member.1.SubnetId"),
            field("SubnetMappings.member.2.SubnetId")
        ),
        ("subnet-8360a9e7", "subnet-b7d581c0")
    );
    assert_eq!(field("SubnetMappings.member.2.AllocationId"), "eip-2");
    assert!(create.values().any(|value| value == "default/web"));
    let group = of("CreateTargetGroup");
    assert!(
        group["Name"].starts_with("auidofweb-") && group["Name"].len() <= 32,
        "{}",
        group["Name"]
    );
    assert_eq!(of("RegisterTargets")["Targets.member.1.Id"], ONE);
    assert!(
        of("CreateListener")
            .values()
            .any(|value| value == "kubernetes.io/cluster/prod")
    );
}

#[test]
fn subnets_are_chosen_or_named() {
    let _host = host(|_, _| None);
    let settings = settings(&[]);
    let choose = |more: &[(&str, &str)]| -> Result<Vec<String>, Error> {
        let chosen = subnets::choose(&settings, &read(&service(more)), "vpc-1")?;
        Ok(chosen.into_iter().map(|one| one.subnet_id).collect())
    };
    assert_eq!(
        choose(&[("subnets", "subnet-b7d581c0, front")]).unwrap(),
        ["subnet-b7d581c0", "subnet-8360a9e7"]
    );
    assert_eq!(
        choose(&[("internal", "true")]).unwrap(),
        ["subnet-11111111", "subnet-b7d581c0"]
    );
    for (more, part) in [
        ([("subnets", "nowhere")], "no subnet nowhere"),
        ([("eip-allocations", "one")], "1 for 2 subnets"),
    ] {
        assert!(matches!(choose(&more), Err(Error::Invalid(why)) if why.contains(part)));
    }
}

#[test]
fn nodes_are_compared_and_odd_ones_left_out() {
    let host = host(|action, _| {
        // The fixture's own node is registered, and one more that left long ago.
        let health = "<a><DescribeTargetHealthResult><TargetHealthDescriptions><member><Target><Id>i-old</Id></Target></member></TargetHealthDescriptions></DescribeTargetHealthResult></a>";
        (action == "DescribeTargetHealth").then(|| xml(200, health))
    });
    let nodes = vec![
        known(),
        node("new", None),
        node("odd", Some("aws:///eu-west-1a/vol-1")),
    ];
    let update = |nodes: Vec<_>| {
        ensure::update_targets(&settings(&[]), &UpdateRequest::new(service(&[]), nodes)).unwrap()
    };
    update(nodes);
    assert_eq!(
        changes(&host),
        ["DeregisterTargets", "RegisterTargets"].repeat(2)
    );
    let sent: BTreeSet<String> = forms(&host)
        .into_iter()
        .filter_map(|form| form.get("Targets.member.1.Id").cloned())
        .collect();
    assert_eq!(sent, BTreeSet::from(["i-old".to_owned(), ONE.to_owned()]));
    // Labels choose.
    let labelled = service(&[("target-node-labels", "zone=a,ready")]);
    let mut node = known();
    assert_eq!(
        wanted::targets(&labelled, std::slice::from_ref(&node)).len(),
        0
    );
    node.labels = vec![
        ("ready".to_owned(), "x".to_owned()),
        ("zone".to_owned(), "a".to_owned()),
    ];
    assert_eq!(
        wanted::targets(&labelled, std::slice::from_ref(&node)).len(),
        1
    );
}

#[test]
fn an_update_without_a_load_balancer_asks_for_one() {
    let _host = host(|action, _| (action == "DescribeLoadBalancers").then(|| xml(400, NOT_FOUND)));
    let answer = ensure::update_targets(
        &settings(&[]),
        &UpdateRequest::new(service(&[]), vec![known()]),
    );
    assert!(matches!(answer, Err(Error::Unavailable(_))));
}

/// What each event costs, beside the Go provider's requests for it, counted in its source (version 1.37.1). The same rows
/// stand in the README.
#[test]
fn each_event_costs_what_the_readme_says() {
    let settings = settings(&[]);
    let readme = include_str!("../../../README.md");
    let cost = |event: &str, go: &str, sent: Vec<String>| {
        let row = format!("| {event} | {} | {go} |", sent.len());
        println!("{row} {sent:?}");
        assert!(
            readme.contains(&row),
            "guests/README.md lacks\n{row}\nof {sent:#?}"
        );
    };
    let ensure = |service: Service, nodes: usize| {
        ensure::ensure(&settings, &EnsureRequest::new(service, four(nodes))).unwrap()
    };
    let new = host(|action, _| (action == "DescribeLoadBalancers").then(|| xml(400, NOT_FOUND)));
    ensure(service(&[]), 4);
    // The fixture's group is open already; a new Service's is opened by one request more.
    cost(
        "create",
        "20",
        [
            actions(&new),
            vec!["AuthorizeSecurityGroupIngress".to_owned()],
        ]
        .concat(),
    );
    drop(new);

    let there = host(crate::load_balancer::tests::four_registered);
    ensure(service(&[]), 4);
    cost(
        "the hourly look, when all is as wanted",
        "never",
        actions(&there),
    );
    let mut before = actions(&there).len();
    let mut since = || {
        let all = actions(&there);
        let new = all[before..].to_vec();
        before = all.len();
        new
    };
    let mut annotated = service(&[]);
    annotated
        .annotations
        .push(("example.com/unrelated".to_owned(), "x".to_owned()));
    ensure(annotated, 4);
    cost(
        "another annotation that says nothing about it",
        "12",
        since(),
    );
    ensure::update_targets(&settings, &UpdateRequest::new(service(&[]), four(5))).unwrap();
    cost("node added", "16", since());
    let mut moved = service(&[]);
    moved.ports[0].node_port = Some(30081);
    ensure(moved, 4);
    cost("one node port changed", "19", since());
    let mut replaced = service(&[]);
    replaced.ports[0].port = 81;
    ensure(replaced, 4);
    cost("one port replaced", "16", since());
    drop(there);
    let there = host(|_, _| None);
    deletion::delete(&settings, &DeleteRequest::new(service(&[]))).unwrap();
    let _ = deletion::get(&service(&[]));
    cost("delete, and the proof of it", "11", actions(&there));
}

/// Nodes whose instances are all the fixture's, with other IDs.
fn four(count: usize) -> Vec<ccm_guest::Node> {
    let id = |number: usize| format!("aws:///eu-west-1c/i-{number:017x}");
    (0..count)
        .map(|number| node(&format!("node-{number}"), Some(&id(number))))
        .collect()
}

fn four_registered(
    action: &str,
    form: &crate::samples::Form,
) -> Option<ccm_guest::testing::Answer> {
    let ids = |from: &str| {
        let of = form
            .iter()
            .filter(|(key, _)| key.starts_with(from))
            .map(|(_, id)| id.clone());
        of.collect::<Vec<_>>()
    };
    match action {
        "DescribeInstances" => {
            let (_, rest) = crate::samples::INSTANCES.split_once("<instancesSet>")?;
            let (item, _) = rest.split_once("</instancesSet>")?;
            let items: String = ids("Filter.1.Value")
                .iter()
                .map(|id| item.replace(ONE, id))
                .collect();
            Some(xml(
                200,
                format!(
                    "<a><reservationSet><item><instancesSet>{items}</instancesSet></item></reservationSet></a>"
                ),
            ))
        }
        "DescribeTargetHealth" => {
            let target = |number: usize| {
                format!("<member><Target><Id>i-{number:017x}</Id></Target></member>")
            };
            let targets: String = (0..4).map(target).collect();
            let inner = format!("<TargetHealthDescriptions>{targets}</TargetHealthDescriptions>");
            Some(xml(
                200,
                format!("<a><DescribeTargetHealthResult>{inner}</DescribeTargetHealthResult></a>"),
            ))
        }
        _ => None,
    }
}

#[test]
fn deletion_leaves_nothing_in_the_right_order_and_again_after_a_crash() {
    let settings = settings(&[]);
    let delete = || deletion::delete(&settings, &DeleteRequest::new(service(&[])));
    let whole = host(|_, _| None);
    delete().unwrap();
    let expected = [
        "RevokeSecurityGroupIngress",
        "DeleteLoadBalancer",
        "DeleteTargetGroup",
        "DeleteTargetGroup",
    ];
    assert_eq!(changes(&whole), expected);
    drop(whole);
    // The manager died after the load balancer was deleted: target groups go by their name.
    let groups = include_str!("../../fixtures/target-groups.xml");
    let groups = groups
        .replace("<member>arn:load-balancer</member>", "")
        .replacen("k8s-default-web-00000", "auidofweb-00000", 1);
    let left = host(move |action, _| match action {
        "DescribeLoadBalancers" => Some(xml(400, NOT_FOUND)),
        "DescribeTargetGroups" => Some(xml(200, &groups)),
        _ => None,
    });
    delete().unwrap();
    assert_eq!(
        changes(&left),
        ["RevokeSecurityGroupIngress", "DeleteTargetGroup"],
        "the other group is nobody's here"
    );
    drop(left);
    // A group that AWS still counts as used.
    let used = "<ErrorResponse><Error><Code>ResourceInUse</Code><Message>m</Message></Error></ErrorResponse>";
    let _busy = host(move |action, _| (action == "DeleteTargetGroup").then(|| xml(400, used)));
    assert!(matches!(delete().unwrap().progress, Progress::Pending(_)));
}

#[test]
fn an_own_security_group_is_made_kept_and_deleted() {
    let managed = settings(&[("NLBSecurityGroupMode", "Managed")]);
    let name = wanted::own_group(&managed, &service(&[]));
    let new = host(|action, _| match action {
        "DescribeLoadBalancers" => Some(xml(400, NOT_FOUND)),
        "CreateSecurityGroup" => Some(xml(200, "<a><groupId>sg-new</groupId></a>")),
        _ => None,
    });
    ensure::ensure(&managed, &EnsureRequest::new(service(&[]), vec![known()])).unwrap();
    assert_eq!(
        changes(&new)[..3],
        [
            "CreateSecurityGroup",
            "CreateLoadBalancer",
            "AuthorizeSecurityGroupIngress"
        ]
    );
    let sent = forms(&new);
    let create = sent
        .iter()
        .find(|form| form["Action"] == "CreateLoadBalancer")
        .unwrap();
    assert_eq!(create["SecurityGroups.member.1"], "sg-new");
    drop(new);

    let groups =
        include_str!("../../fixtures/security-groups.xml").replace("SecurityGroup1", &name);
    let violation = "<Response><Errors><Error><Code>DependencyViolation</Code><Message>m</Message></Error></Errors></Response>";
    let mut tries = 0;
    let host = host(move |action, _| match action {
        "DescribeSecurityGroups" => Some(xml(200, &groups)),
        "DeleteSecurityGroup" => {
            tries += 1;
            (tries == 1).then(|| xml(400, violation))
        }
        _ => None,
    });
    let delete = || {
        deletion::delete(&managed, &DeleteRequest::new(service(&[])))
            .unwrap()
            .progress
    };
    assert!(
        matches!(delete(), Progress::Pending(_)),
        "its load balancer is still leaving"
    );
    assert_eq!(delete(), Progress::Done);
    assert_eq!(
        changes(&host)
            .iter()
            .filter(|one| *one == "DeleteSecurityGroup")
            .count(),
        2
    );
}

#[test]
fn absence_is_proven_by_answers_without_an_error() {
    let host = host(|action, form| {
        let nothing = match form["Version"].as_str() {
            "2012-06-01" => {
                "<a><DescribeLoadBalancersResult><LoadBalancerDescriptions><member><LoadBalancerName>auidofweb</LoadBalancerName></member></LoadBalancerDescriptions></DescribeLoadBalancersResult></a>"
            }
            _ => {
                "<a><DescribeLoadBalancersResult><LoadBalancers/></DescribeLoadBalancersResult></a>"
            }
        };
        (action == "DescribeLoadBalancers").then(|| xml(200, nothing))
    });
    assert_eq!(deletion::get(&service(&[])).unwrap(), Found::Absent);
    assert_eq!(actions(&host).len(), 1);
    // A classic one of the Go provider is seen, and not deleted.
    let classic = service(&[("type", "")]);
    assert!(matches!(
        deletion::get(&classic).unwrap(),
        Found::Present(_)
    ));
    let refused = deletion::delete(&settings(&[]), &DeleteRequest::new(classic));
    assert!(matches!(refused, Err(Error::Unsupported(why)) if why.contains("auidofweb")));
    assert_eq!(changes(&host), [""; 0]);
}
