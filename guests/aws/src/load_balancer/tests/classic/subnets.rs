//! Subnets in zones that a classic load balancer lacks.

use super::*;

/// The fixture's load balancer without its zone `eu-west-1b`, and a node in `zone`.
fn lacking(zone: &str) -> TestHost {
    let classic = CLASSIC
        .replace("<member>eu-west-1b</member>", "")
        .replace("<member>subnet-b7d581c0</member>", "");
    let instances = INSTANCES.replace("eu-west-1c", zone);
    host(
        move |action, form| match (action, form["Version"].as_str()) {
            ("DescribeLoadBalancers", "2012-06-01") => Some(xml(200, &classic)),
            ("DescribeInstances", _) => Some(xml(200, &instances)),
            _ => existing(action, form),
        },
    )
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
    }
    let there = lacking("eu-west-1c");
    ensure(web(&[])).unwrap();
    let looked = actions(&there).contains(&"DescribeSubnets".to_owned());
    assert!(!looked, "the load balancer reaches all nodes");
    ensure(web(&[NAMED])).unwrap();
    assert_eq!(changes(&there), ATTACH, "the annotation is new");
}
