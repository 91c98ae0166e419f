//! How many requests each event costs.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests, and figures"
)]

use ccm_guest::load_balancer::{DeleteRequest, EnsureRequest, Service, UpdateRequest};
use ccm_guest::testing::Answer;

use super::requests::set;
use crate::fixtures::{
    Form, INSTANCE, INSTANCES, NOT_FOUND, actions, forms, host, is_of_classic, node, service,
    settings, xml,
};
use crate::load_balancer::{deletion, ensure, wanted};

const GROUPS: &str = include_str!("../../../fixtures/security-groups.xml");

pub(super) const README: &str = include_str!("../../../README.md");

/// The row of an event with these requests and the Go provider's number of them, which the README must have.
pub(super) fn row_of_readme(event: &str, go: usize, sent: &[String]) -> String {
    let row = format!("| {event} | {} | {go} |", sent.len());
    println!("{row} {sent:?}");
    assert!(
        README.contains(&row),
        "guests/aws/README.md lacks\n{row}\nof {sent:#?}"
    );
    row
}

/// What each event costs, beside the Go provider's requests for it, counted in its source (version 1.37.1): at most a
/// third, unless the changes alone, which AWS has no request to make together, are more. The README has the same rows.
#[test]
fn each_event_costs_what_the_readme_says() {
    let settings = settings(&[]);
    let cost = |event: &str, go: usize, sent: &[String]| {
        let row = row_of_readme(event, go, sent);
        let changes = sent.iter().filter(|one| !one.starts_with("Describe"));
        let changes = changes.count();
        assert!(sent.len() * 3 <= go || changes * 3 > go, "{row} {sent:?}");
    };
    let ensure = |service: Service, nodes: usize| {
        ensure::ensure(&settings, &EnsureRequest::new(service, four(nodes))).unwrap()
    };
    // The nodes' group lets in another load balancer, at other node ports.
    let elsewhere = [
        ("=auidofweb", "=aother"),
        (">30080<", ">31080<"),
        (">30443<", ">31443<"),
    ];
    let fold = |text: String, (from, to): (&str, &str)| text.replace(from, to);
    let closed = elsewhere.into_iter().fold(GROUPS.to_owned(), fold);
    let new = host(move |action, form| match action {
        "DescribeLoadBalancers" => Some(xml(400, NOT_FOUND)),
        "DescribeSecurityGroups" => Some(xml(200, &closed)),
        _ => four_registered(action, form),
    });
    ensure(service(&[]), 4);
    cost("create", 20, &actions(&new));
    drop(new);

    let there = host(four_registered);
    ensure(service(&[]), 4);
    let row = "| the hourly look, when all is as wanted | 8 | never |";
    assert!(README.contains(row));
    assert_eq!(actions(&there).len(), 8);
    drop(there);
    let ensured = |change: fn(&mut Service)| {
        move || {
            let mut changed = service(&[]);
            change(&mut changed);
            ensure(changed, 4);
        }
    };
    let add = || {
        let request = UpdateRequest::new(service(&[]), four(5));
        drop(ensure::update_targets(&settings, &request).unwrap());
    };
    let events: [(&str, usize, &dyn Fn()); 9] = [
        (
            "another annotation that says nothing about it",
            12,
            &ensured(|one| {
                one.annotations
                    .push(("example.com/x".to_owned(), String::new()))
            }),
        ),
        ("node added", 16, &add),
        (
            "one node port changed",
            19,
            &ensured(|one| one.ports[0].node_port = Some(30081)),
        ),
        (
            "one port replaced",
            16,
            &ensured(|one| one.ports[0].port = 81),
        ),
        (
            "another certificate",
            13,
            &ensured(|one| set(one, "ssl-cert", "arn:other")),
        ),
        (
            "another threshold of health checks",
            16,
            &ensured(|one| set(one, "healthcheck-healthy-threshold", "5")),
        ),
        (
            "cross-zone load balancing, or another attribute",
            13,
            &ensured(|one| set(one, "cross-zone-load-balancing-enabled", "true")),
        ),
        (
            "another attribute of the target groups",
            17,
            &ensured(|one| {
                set(
                    one,
                    "target-group-attributes",
                    "proxy_protocol_v2.enabled=true",
                )
            }),
        ),
        (
            "other source ranges",
            22,
            &ensured(|one| one.source_ranges = vec!["10.0.0.0/8".to_owned()]),
        ),
    ];
    for (event, go, happen) in events {
        let there = host(four_registered);
        ensure(service(&[]), 4);
        let before = actions(&there).len();
        happen();
        cost(event, go, &actions(&there)[before..]);
    }
    let there = host(|_, _| None);
    deletion::delete(&settings, &DeleteRequest::new(service(&[]))).unwrap();
    let _ = deletion::get(&service(&[]));
    cost("delete, and the proof of it", 11, &actions(&there));
}

/// The cached ports and rules equal those at AWS through several changes. Then AWS refuses a change, because a person
/// deleted the load balancer, and everything is compared.
#[test]
fn ports_change_one_after_another_and_a_refusal_ends_what_is_remembered() {
    let settings = settings(&[]);
    let gone = std::rc::Rc::new(std::cell::Cell::new(false));
    let is_gone = gone.clone();
    let there = host(move |action, form| match action {
        "DeleteListener" if is_gone.get() => {
            Some(xml(400, NOT_FOUND.replace("LoadBalancerN", "ListenerN")))
        }
        "ModifyListener" | "CreateListener" if is_gone.get() => Some(xml(400, NOT_FOUND)),
        "DescribeLoadBalancers" if is_gone.get() => Some(xml(400, NOT_FOUND)),
        _ => four_registered(action, form),
    });
    let ensure = |port: u16, node_port: u16| {
        let mut changed = service(&[]);
        (changed.ports[0].port, changed.ports[0].node_port) = (port, Some(node_port));
        ensure::ensure(&settings, &EnsureRequest::new(changed, four(4)))
    };
    let mut before = 0;
    let mut since = || {
        let all = actions(&there);
        let new = all[before..].to_vec();
        before = all.len();
        new
    };
    ensure(80, 30080).unwrap();
    since();
    ensure(80, 30081).unwrap();
    let moved = [
        "CreateTargetGroup",
        "RegisterTargets",
        "ModifyListener",
        "AuthorizeSecurityGroupIngress",
        "RevokeSecurityGroupIngress",
        "DeleteTargetGroup",
    ];
    assert_eq!(since(), moved);
    // The rules have changed: they are read once more.
    ensure(81, 30081).unwrap();
    let moved = [
        "DescribeSecurityGroups",
        "CreateTargetGroup",
        "RegisterTargets",
        "CreateListener",
        "DeleteListener",
    ];
    let sent = since();
    assert_eq!(sent[..moved.len()], moved);
    assert_eq!(sent.last().unwrap(), "DeleteTargetGroup");
    gone.set(true);
    assert!(ensure(81, 30082).is_err());
    since();
    gone.set(false);
    ensure(81, 30082).unwrap();
    assert_eq!(since()[0], "DescribeLoadBalancers");
}

/// Rules that serve all load balancers of a group are compared with those at AWS before one goes.
#[test]
fn a_rule_that_another_load_balancer_needs_by_now_stays() {
    const OTHER: &str = "<ipPermissions><item><ipProtocol>tcp</ipProtocol><fromPort>31000</fromPort><toPort>31000</toPort><ipRanges><item><cidrIp>0.0.0.0/0</cidrIp><description>kubernetes.io/rule/nlb/client=aother</description></item></ipRanges></item>";
    let has_other = std::rc::Rc::new(std::cell::Cell::new(false));
    let is_there = has_other.clone();
    let there = host(move |action, form| match action {
        "DescribeSecurityGroups" if is_there.get() => {
            Some(xml(200, GROUPS.replacen("<ipPermissions>", OTHER, 1)))
        }
        _ => four_registered(action, form),
    });
    let ensure = |sources: &[&str]| {
        let mut changed = service(&[]);
        changed.source_ranges = sources.iter().map(|&one| one.to_owned()).collect();
        ensure::ensure(&settings(&[]), &EnsureRequest::new(changed, four(4))).unwrap();
    };
    ensure(&[]);
    has_other.set(true);
    ensure(&["10.0.0.0/8"]);
    let mut revokes = forms(&there);
    revokes.retain(|form| form["Action"] == "RevokeSecurityGroupIngress");
    assert_eq!(revokes.len(), 1);
    assert!(
        !revokes[0].values().any(|value| value == "icmp"),
        "{revokes:?}"
    );
}

/// AWS keeps the folder while logs are off.
#[test]
fn attributes_are_known_after_several_changes() {
    let there = host(four_registered);
    let on = [
        ("access-log-enabled", "true"),
        ("access-log-s3-bucket-name", "logs"),
    ];
    let folder = [&on[..], &[("access-log-s3-bucket-prefix", "a")]].concat();
    for more in [&folder[..], &[], &on] {
        let request = EnsureRequest::new(service(more), four(4));
        ensure::ensure(&settings(&[]), &request).unwrap();
    }
    let last = forms(&there).pop().unwrap();
    assert_eq!(last["Action"], "ModifyLoadBalancerAttributes");
    let mut pairs: Vec<(&str, &str)> = (1..=2)
        .map(|number| {
            let field = |name: &str| last[&format!("Attributes.member.{number}.{name}")].as_str();
            (field("Key"), field("Value"))
        })
        .collect();
    pairs.sort_unstable();
    let expected = [
        ("access_logs.s3.enabled", "true"),
        ("access_logs.s3.prefix", ""),
    ];
    assert_eq!(pairs, expected);
}

/// A load balancer's own group gets its rules from the cached ones, too.
#[test]
fn ports_of_a_load_balancer_with_an_own_group_change_without_a_look() {
    let managed = settings(&[("NLBSecurityGroupMode", "Managed")]);
    let own = wanted::own_group(&managed, &service(&[]));
    let groups = GROUPS.replace("<groupName>default<", &format!("<groupName>{own}<"));
    let has_groups = include_str!("../../../fixtures/load-balancers.xml").replace(
        "<Type>network",
        "<SecurityGroups><member>sg-other</member></SecurityGroups><Type>network",
    );
    let there = host(move |action, form| match action {
        "DescribeSecurityGroups" => Some(xml(200, &groups)),
        "DescribeLoadBalancers" if !is_of_classic(form) => Some(xml(200, &has_groups)),
        _ => four_registered(action, form),
    });
    let ensure = |port: u16| {
        let mut changed = service(&[]);
        changed.ports[0].port = port;
        ensure::ensure(&managed, &EnsureRequest::new(changed, four(4))).unwrap();
    };
    ensure(80);
    // The rules were changed, so they are read.
    for port in [81, 82] {
        let before = actions(&there).len();
        ensure(port);
        let sent = &actions(&there)[before..];
        assert_eq!(
            sent[..2],
            ["DescribeSecurityGroups", "AuthorizeSecurityGroupIngress"]
        );
        let reads = sent.iter().filter(|one| one.starts_with("Describe"));
        assert_eq!(reads.count(), 1, "{sent:?}");
    }
}

/// Nodes whose instances are copies of the fixture's, with other IDs.
pub(super) fn four(count: usize) -> Vec<ccm_guest::Node> {
    let id = |number: usize| format!("aws:///eu-west-1c/i-{number:017x}");
    (0..count)
        .map(|number| node(&format!("node-{number}"), Some(&id(number))))
        .collect()
}

pub(super) fn four_registered(action: &str, form: &Form) -> Option<Answer> {
    let ids = |from: &str| {
        let of = form
            .iter()
            .filter(|(key, _)| key.starts_with(from))
            .map(|(_, id)| id.clone());
        of.collect::<Vec<_>>()
    };
    match action {
        "DescribeInstances" => {
            let (_, rest) = INSTANCES.split_once("<instancesSet>")?;
            let (item, _) = rest.split_once("</instancesSet>")?;
            let items: String = ids("Filter.1.Value")
                .iter()
                .map(|id| item.replace(INSTANCE, id))
                .collect();
            Some(xml(
                200,
                format!(
                    "<DescribeInstancesResponse><reservationSet><item><instancesSet>{items}</instancesSet></item></reservationSet></DescribeInstancesResponse>"
                ),
            ))
        }
        "DescribeTargetGroupAttributes" => Some(xml(
            200,
            "<DescribeTargetGroupAttributesResponse><DescribeTargetGroupAttributesResult><Attributes/></DescribeTargetGroupAttributesResult></DescribeTargetGroupAttributesResponse>",
        )),
        "DescribeTargetHealth" => {
            let target = |number: usize| {
                format!("<member><Target><Id>i-{number:017x}</Id></Target></member>")
            };
            let targets: String = (0..4).map(target).collect();
            let inner = format!("<TargetHealthDescriptions>{targets}</TargetHealthDescriptions>");
            Some(xml(
                200,
                format!(
                    "<DescribeTargetHealthResponse><DescribeTargetHealthResult>{inner}</DescribeTargetHealthResult></DescribeTargetHealthResponse>"
                ),
            ))
        }
        _ => None,
    }
}

/// The nodes that came while the annotations had a mistake may be in a security group that is still closed.
#[test]
fn after_a_mistake_the_rules_are_compared() {
    let settings = settings(&[]);
    let there = host(four_registered);
    let ensure = |nodes| {
        let request = EnsureRequest::new(service(&[]), four(nodes));
        ensure::ensure(&settings, &request).unwrap()
    };
    ensure(4);
    let mistaken = service(&[("healthcheck-port", "0")]);
    let request = UpdateRequest::new(mistaken, four(5));
    ensure::update_targets(&settings, &request).unwrap();
    let before = actions(&there).len();
    ensure(5);
    let sent = actions(&there).split_off(before);
    assert!(
        sent.contains(&"DescribeSecurityGroups".to_owned()),
        "{sent:?}"
    );
}

/// A person may have changed something at AWS.
#[test]
fn everything_is_compared_again_after_ten_minutes() {
    let there = host(four_registered);
    let cost = || {
        let before = actions(&there).len();
        let request = EnsureRequest::new(service(&[]), four(4));
        ensure::ensure(&settings(&[]), &request).unwrap();
        actions(&there).len() - before
    };
    let whole = cost();
    assert_eq!(cost(), 1);
    there.advance(std::time::Duration::from_secs(600));
    assert_eq!(cost(), whole);
}
