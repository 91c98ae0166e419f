//! Subnets in zones that a classic load balancer lacks.

use super::*;

/// A subnet in a zone that has no node.
const WITHOUT_NODES: &str = "<item><subnetId>subnet-dddddddd</subnetId><vpcId>vpc-11112222</vpcId><availabilityZone>eu-west-1d</availabilityZone><tagSet/></item>";

/// The fixture's load balancer without its zone `eu-west-1b`, and a node in `zone`. An attachment has this status.
fn lacking_and_answering(zone: &str, attached: u16) -> TestHost {
    let classic = CLASSIC
        .replace("<member>eu-west-1b</member>", "")
        .replace("<member>subnet-b7d581c0</member>", "");
    let instances = INSTANCES.replace("eu-west-1c", zone);
    let subnets = include_str!("../../../../fixtures/subnets.xml");
    let subnets = subnets.replace("<subnetSet>", &format!("<subnetSet>{WITHOUT_NODES}"));
    host(
        move |action, form| match (action, form["Version"].as_str()) {
            ("DescribeLoadBalancers", "2012-06-01") => Some(xml(200, &classic)),
            ("DescribeInstances", _) => Some(xml(200, &instances)),
            ("DescribeSubnets", _) => Some(xml(200, &subnets)),
            ("AttachLoadBalancerToSubnets", _) if attached != 200 => Some(xml(
                attached,
                "<ErrorResponse><Error><Code>AccessDenied</Code></Error></ErrorResponse>",
            )),
            _ => existing(action, form),
        },
    )
}

fn lacking(zone: &str) -> TestHost {
    lacking_and_answering(zone, 200)
}

/// Such as yesterday's policy, or a subnet without free addresses.
#[test]
fn an_attachment_that_is_refused_keeps_nothing_else_from_being_done() {
    let there = lacking_and_answering("eu-west-1b", 403);
    assert!(
        ensure(web(&[(
            "ssl-cert",
            "arn:aws:acm:eu-west-1:1:certificate/1"
        )]))
        .is_err()
    );
    let changes = changes(&there);
    assert_eq!(changes[0], "AttachLoadBalancerToSubnets");
    assert!(changes.len() > 1, "{changes:?}");
}

/// As with the Go provider: nodes in a zone without a subnet would get no traffic.
#[test]
fn a_zone_that_it_lacks_gets_a_subnet() {
    const ATTACH: &[&str] = &["AttachLoadBalancerToSubnets"];
    const NAMED: (&str, &str) = ("subnets", "front, subnet-b7d581c0");
    type Row<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a [&'a str]);
    let cases: [Row<'_>; 4] = [
        ("eu-west-1b", &[], ATTACH),
        ("eu-west-1c", &[], &[]),
        ("eu-west-1c", &[NAMED], ATTACH),
        ("eu-west-1b", &[("internal", "true")], &[]),
    ];
    for (zone, more, expected) in cases {
        let there = lacking(zone);
        ensure(web(more)).unwrap();
        assert_eq!(changes(&there), expected, "{zone} {more:?}");
        let sent = forms(&there).into_iter();
        let mut attached = sent.filter_map(|form| form.get("Subnets.member.1").cloned());
        let expected = (!expected.is_empty()).then_some("subnet-b7d581c0");
        assert_eq!(attached.next().as_deref(), expected, "{zone} {more:?}");
        let others = forms(&there)
            .iter()
            .filter(|form| form.contains_key("Subnets.member.2"))
            .count();
        assert_eq!(others, 0, "the zone without nodes is left alone");
    }
    let there = lacking("eu-west-1c");
    ensure(web(&[])).unwrap();
    let looked = actions(&there).contains(&"DescribeSubnets".to_owned());
    assert!(!looked, "the load balancer reaches all nodes");
    ensure(web(&[NAMED])).unwrap();
    assert_eq!(changes(&there), ATTACH, "the annotation is new");
}
