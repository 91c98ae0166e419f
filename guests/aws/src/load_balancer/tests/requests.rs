//! Which requests are sent to AWS for a Service, and which are not.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;

use ccm_guest::Error;
use ccm_guest::load_balancer::{
    DeleteRequest, EnsureRequest, Ensured, Found, Progress, Service, UpdateRequest,
};

use crate::fixtures::{
    INSTANCE, NO_LISTENERS, NOT_FOUND, actions, changes, forms, host, is_of_classic, known, node,
    service, settings, xml,
};
use crate::load_balancer::{annotations, deletion, ensure, wanted};

/// Changes of the Service, each with the changes at AWS that have to follow, in this order.
#[test]
fn only_what_differs_is_changed() {
    type Change = fn(&mut Service);
    let cases: &[(&str, Change, &[&str])] = &[
        ("nothing", |_| {}, &[]),
        ("case", |one| set(one, "ssl-cert", "ARN:certificate"), &[]),
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
                "AuthorizeSecurityGroupIngress",
                "RevokeSecurityGroupIngress",
                "DeleteTargetGroup",
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
                "DeleteListener",
                "RevokeSecurityGroupIngress",
                "DeleteTargetGroup",
                "DeleteTargetGroup",
            ],
        ),
        (
            "a port less",
            |one| one.ports.truncate(1),
            &[
                "DeleteListener",
                "RevokeSecurityGroupIngress",
                "DeleteTargetGroup",
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
        (
            "a subnet less, which cannot be changed",
            |one| set(one, "subnets", "subnet-8360a9e7"),
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
            what.ends_with("which cannot be changed"),
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

/// Otherwise a Service whose load balancer is at a quota would keep its former ports and ranges for ever.
#[test]
fn at_a_quota_what_goes_makes_room_for_what_comes() {
    let mut gone = BTreeSet::new();
    let host = host(move |action, _| {
        let (goes, code) = match action {
            "CreateListener" => ("DeleteListener", "TooManyListeners"),
            "AuthorizeSecurityGroupIngress" => (
                "RevokeSecurityGroupIngress",
                "RulesPerSecurityGroupLimitExceeded",
            ),
            other => {
                gone.insert(other.to_owned());
                return None;
            }
        };
        let body = format!(
            "<ErrorResponse><Error><Code>{code}</Code><Message>m</Message></Error></ErrorResponse>"
        );
        (!gone.contains(goes)).then(|| xml(400, body))
    });
    let mut other = service(&[]);
    other.ports[0].port = 81;
    other.source_ranges = vec!["10.0.0.0/8".to_owned()];
    ensure::ensure(&settings(&[]), &EnsureRequest::new(other, vec![known()])).unwrap();
    let expected = [
        "CreateTargetGroup",
        "RegisterTargets",
        "CreateListener",
        "DeleteListener",
        "CreateListener",
        "AuthorizeSecurityGroupIngress",
        "RevokeSecurityGroupIngress",
        "AuthorizeSecurityGroupIngress",
        "DeleteTargetGroup",
    ];
    assert_eq!(changes(&host), expected);
}

pub(super) fn set(service: &mut Service, name: &str, value: &str) {
    let key = format!("{}{name}", annotations::PREFIX);
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
    assert_eq!(of("RegisterTargets")["Targets.member.1.Id"], INSTANCE);
    assert!(
        of("CreateListener")
            .values()
            .any(|value| value == "kubernetes.io/cluster/prod")
    );
}

/// Its nodes may come later.
#[test]
fn a_new_load_balancer_without_nodes_is_made_where_the_clusters_subnets_are() {
    let ensure = || {
        let request = EnsureRequest::new(service(&[]), Vec::new());
        ensure::ensure(&settings(&[]), &request)
    };
    let new = host(|action, _| (action == "DescribeLoadBalancers").then(|| xml(400, NOT_FOUND)));
    ensure().unwrap();
    let sent = forms(&new);
    let reads = sent
        .iter()
        .filter(|form| form["Action"] == "DescribeSubnets");
    let filters: Vec<_> = reads
        .map(|form| (&*form["Filter.1.Name"], &*form["Filter.1.Value.1"]))
        .collect();
    let cluster = ("tag-key", "kubernetes.io/cluster/prod");
    assert_eq!(filters, [cluster, ("vpc-id", "vpc-11112222")]);
    assert!(changes(&new).contains(&"CreateLoadBalancer".to_owned()));
    drop(new);
    let subnets = include_str!("../../../fixtures/subnets.xml");
    let subnets = subnets.replacen("vpc-11112222", "vpc-2", 1);
    let several = host(move |action, _| match action {
        "DescribeLoadBalancers" => Some(xml(400, NOT_FOUND)),
        "DescribeSubnets" => Some(xml(200, &subnets)),
        _ => None,
    });
    let refused = ensure().unwrap_err().error;
    assert!(matches!(&refused, Error::Unavailable(why) if why.contains("set VPC")));
    drop(several);
    // The older tag, which older clusters have alone.
    let older = host(move |action, form| match action {
        "DescribeLoadBalancers" => Some(xml(400, NOT_FOUND)),
        "DescribeSubnets" if form["Filter.1.Name"] == "tag-key" => Some(xml(
            200,
            "<DescribeSubnetsResponse><subnetSet/></DescribeSubnetsResponse>",
        )),
        _ => None,
    });
    ensure().unwrap();
    assert!(changes(&older).contains(&"CreateLoadBalancer".to_owned()));
}

#[test]
fn nodes_are_compared_and_odd_ones_left_out() {
    let host = host(|action, _| {
        // The fixture's own node is registered, and another one that left long ago.
        let health = "<DescribeTargetHealthResponse><DescribeTargetHealthResult><TargetHealthDescriptions><member><Target><Id>i-old</Id></Target></member></TargetHealthDescriptions></DescribeTargetHealthResult></DescribeTargetHealthResponse>";
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
    assert_eq!(
        sent,
        BTreeSet::from(["i-old".to_owned(), INSTANCE.to_owned()])
    );
    // The labels select the nodes.
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
    let error = answer.unwrap_err().error;
    assert!(matches!(error, Error::Unavailable(_)), "{error:?}");
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
    let groups = include_str!("../../../fixtures/target-groups.xml");
    let groups = groups
        .replace("<member>arn:load-balancer</member>", "")
        .replacen("k8s-default-web-00000", "auidofweb-00000", 1);
    let left = host(move |action, form| match action {
        "DescribeLoadBalancers" if !is_of_classic(form) => Some(xml(400, NOT_FOUND)),
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

/// Target groups of the Go provider have names without the UID, so that only their load balancer shows whose they are:
/// as long as it exists.
#[test]
fn the_go_providers_target_groups_go_with_their_load_balancer() {
    let used = "<ErrorResponse><Error><Code>ResourceInUse</Code><Message>m</Message></Error></ErrorResponse>";
    let groups = include_str!("../../../fixtures/target-groups.xml");
    let (mut is_there, mut refusals) = (true, 1);
    let host = host(move |action, form| match action {
        "DeleteLoadBalancer" => {
            is_there = false;
            None
        }
        "DescribeLoadBalancers" if !is_of_classic(form) => (!is_there).then(|| xml(400, NOT_FOUND)),
        "DescribeTargetGroups" if !is_there => Some(xml(
            200,
            groups.replace("<member>arn:load-balancer</member>", ""),
        )),
        // AWS counts a group as used for a moment after its load balancer was deleted.
        "DeleteTargetGroup" if refusals > 0 => {
            refusals -= 1;
            Some(xml(400, used))
        }
        _ => None,
    });
    let mut request = DeleteRequest::new(service(&[]));
    let progress = deletion::delete(&settings(&[]), &request).unwrap().progress;
    let Progress::Pending(pending) = progress else {
        panic!("{:?}", changes(&host))
    };
    request.hint = pending.hint;
    let again = deletion::delete(&settings(&[]), &request).unwrap();
    assert_eq!(again.progress, Progress::Done);
    let deleted = forms(&host).into_iter();
    let deleted = deleted.filter(|form| form["Action"] == "DeleteTargetGroup");
    let deleted: Vec<String> = deleted.map(|form| form["TargetGroupArn"].clone()).collect();
    let expected = ["arn:group-30080", "arn:group-30080", "arn:group-30443"];
    assert_eq!(deleted, expected);
}

/// AWS has one rule for the check that load balancers share, with the description of the one that was made first.
#[test]
fn the_rule_of_the_shared_health_check_goes_with_the_last_load_balancer() {
    let shared = settings(&[("ClusterServiceLoadBalancerHealthProbeMode", "Shared")]);
    let rule = |port: u16, range: &str, why: &str| {
        format!(
            "<item><ipProtocol>tcp</ipProtocol><fromPort>{port}</fromPort><toPort>{port}</toPort><ipRanges><item><cidrIp>{range}</cidrIp><description>kubernetes.io/rule/nlb/{why}</description></item></ipRanges></item>"
        )
    };
    let with = |rules: &[String]| {
        let groups = include_str!("../../../fixtures/security-groups.xml");
        groups.replacen(
            "<ipPermissions>",
            &format!("<ipPermissions>{}", rules.concat()),
            1,
        )
    };
    // Ports of the rules that the deletion of the Service's load balancer revokes.
    let revoked = |rules: &[String]| -> Vec<String> {
        let groups = with(rules);
        let host =
            host(move |action, _| (action == "DescribeSecurityGroups").then(|| xml(200, &groups)));
        deletion::delete(&shared, &DeleteRequest::new(service(&[]))).unwrap();
        let mut sent = forms(&host).into_iter();
        let form = sent.find(|form| form["Action"] == "RevokeSecurityGroupIngress");
        let fields = form.unwrap().into_iter();
        let ports = fields.filter(|(key, _)| key.ends_with("FromPort"));
        ports.map(|(_, port)| port).collect()
    };
    let other = rule(31000, "0.0.0.0/0", "client=aother");
    for owner in ["auidofweb", "agone"] {
        let check = rule(10256, "172.31.0.0/20", &format!("health={owner}"));
        assert_eq!(
            revoked(&[check.clone(), other.clone()]),
            ["30080", "30443"],
            "{owner}"
        );
        assert_eq!(
            revoked(&[check]),
            ["3", "10256", "30080", "30443"],
            "{owner}"
        );
    }
    let own = rule(32000, "172.31.0.0/20", "health=auidofweb");
    assert_eq!(
        revoked(&[own, other]),
        ["30080", "30443", "32000"],
        "nobody else's"
    );
}

#[test]
fn absence_is_proven_by_answers_without_an_error() {
    let host = host(|action, form| {
        let nothing = match form["Version"].as_str() {
            "2012-06-01" => {
                "<DescribeLoadBalancersResponse><DescribeLoadBalancersResult><LoadBalancerDescriptions><member><LoadBalancerName>auidofweb</LoadBalancerName></member></LoadBalancerDescriptions></DescribeLoadBalancersResult></DescribeLoadBalancersResponse>"
            }
            _ => {
                "<DescribeLoadBalancersResponse><DescribeLoadBalancersResult><LoadBalancers/></DescribeLoadBalancersResult></DescribeLoadBalancersResponse>"
            }
        };
        (action == "DescribeLoadBalancers").then(|| xml(200, nothing))
    });
    assert_eq!(deletion::get(&service(&[])).unwrap(), Found::Absent);
    assert_eq!(actions(&host).len(), 1);
    let classic = service(&[("type", "")]);
    assert!(matches!(
        deletion::get(&classic).unwrap(),
        Found::Present(_)
    ));
}

/// The manager died between making the load balancer and its first listener.
#[test]
fn a_load_balancer_without_listeners_gets_them() {
    let host = host(|action, _| match action {
        "DescribeListeners" => Some(xml(200, NO_LISTENERS)),
        "DescribeTargetGroups" => Some(xml(400, NOT_FOUND)),
        _ => None,
    });
    let request = EnsureRequest::new(service(&[]), vec![known()]);
    ensure::ensure(&settings(&[]), &request).unwrap();
    let made = ["CreateTargetGroup", "RegisterTargets", "CreateListener"];
    assert_eq!(changes(&host), made.repeat(2));
}
