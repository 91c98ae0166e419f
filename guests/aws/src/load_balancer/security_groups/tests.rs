#![allow(clippy::unwrap_used, reason = "tests")]

use ccm_guest::Protocol;

use super::*;
use crate::fixtures::{INSTANCE, forms, host, service, settings, xml};
use crate::load_balancer::wanted::Wanted;

const WEB: &str = "auidofweb";

fn rules(all: &[(&str, u16, &str, &str)]) -> Rules {
    let rule = |(protocol, port, range, why): &(&str, u16, &str, &str)| match *protocol {
        "icmp" => (Rule::packet_size(range), (*why).to_owned()),
        protocol => (Rule::new(protocol, *port, range), (*why).to_owned()),
    };
    all.iter().map(rule).collect()
}

fn wanted(sources: &[&str]) -> Wanted {
    let mut service = service(&[]);
    service.source_ranges = sources.iter().map(|text| (*text).to_owned()).collect();
    Wanted::read(&settings(&[]), &service, &mut Vec::new()).unwrap()
}

#[test]
fn node_groups_let_clients_in_and_health_checks_where_these_are_others() {
    let client = format!("{CLIENT}={WEB}");
    let health = format!("{HEALTH}={WEB}");
    let subnets = ["10.0.0.0/24".to_owned()];
    let all = rules(&[
        ("tcp", 30080, "0.0.0.0/0", &client),
        ("tcp", 30443, "0.0.0.0/0", &client),
    ]);
    assert_eq!(for_nodes(&wanted(&[]), &subnets), all);
    let some = rules(&[
        ("tcp", 30080, "10.0.0.0/24", &health),
        ("tcp", 30443, "10.0.0.0/24", &health),
        ("tcp", 30080, "203.0.113.0/24", &client),
        ("tcp", 30443, "203.0.113.0/24", &client),
        ("tcp", 30080, "2001:db8::/32", &client),
        ("tcp", 30443, "2001:db8::/32", &client),
    ]);
    assert_eq!(
        for_nodes(&wanted(&["203.0.113.0/24", "2001:db8::/32"]), &subnets),
        some
    );
}

/// The health check asks by TCP.
#[test]
fn a_port_of_udp_lets_in_udp_and_its_health_check() {
    let mut service = service(&[]);
    service.ports.truncate(1);
    service.ports[0].protocol = Protocol::Udp;
    let wanted = Wanted::read(&settings(&[]), &service, &mut Vec::new()).unwrap();
    let client = format!("{CLIENT}={WEB}");
    let health = format!("{HEALTH}={WEB}");
    let of_nodes = rules(&[
        ("udp", 30080, "0.0.0.0/0", &client),
        ("tcp", 30080, "10.0.0.0/24", &health),
    ]);
    assert_eq!(for_nodes(&wanted, &["10.0.0.0/24".to_owned()]), of_nodes);
    let own = rules(&[("udp", 80, "0.0.0.0/0", ""), ("icmp", 0, "0.0.0.0/0", "")]);
    assert_eq!(for_own(&wanted), own);
}

#[test]
fn only_what_differs_is_changed_and_only_our_own() {
    let (ours, other) = (format!("{CLIENT}={WEB}"), format!("{CLIENT}=aother"));
    let mtu = PACKET_SIZE;
    let everywhere = "0.0.0.0/0";
    let are = rules(&[
        ("tcp", 30080, everywhere, &ours),
        ("tcp", 31000, "10.0.0.0/8", &other),
        ("icmp", 0, everywhere, mtu),
        ("icmp", 0, "10.0.0.0/8", mtu),
        ("tcp", 22, everywhere, "ssh"),
        ("tcp", 30443, everywhere, "somebody's"),
    ]);
    let wanted = rules(&[
        ("tcp", 30080, everywhere, &ours),
        ("tcp", 30443, everywhere, &ours),
    ]);
    assert_eq!(
        difference(&are, WEB, &wanted, KUBE_PROXY),
        Change::default(),
        "somebody lets in what is missing"
    );
    let moved = rules(&[("tcp", 30081, "192.0.2.0/24", &ours)]);
    let change = difference(&are, WEB, &moved, KUBE_PROXY);
    assert_eq!(
        change.grant,
        rules(&[
            ("tcp", 30081, "192.0.2.0/24", &ours),
            ("icmp", 0, "192.0.2.0/24", mtu)
        ])
    );
    let gone = rules(&[("tcp", 30080, everywhere, ""), ("icmp", 0, everywhere, "")]);
    assert_eq!(change.revoke, gone);
    // The last load balancer of a group takes the shared rule along.
    let change = difference(&are, "aother", &Rules::new(), KUBE_PROXY);
    let gone = rules(&[
        ("tcp", 31000, "10.0.0.0/8", ""),
        ("icmp", 0, "10.0.0.0/8", ""),
    ]);
    assert_eq!((change.grant, change.revoke), (Rules::new(), gone));
    assert_eq!(
        difference(&are, "athird", &Rules::new(), KUBE_PROXY),
        Change::default()
    );
}

/// AWS has one rule for all of them, whose description names the first.
#[test]
fn the_rule_for_kube_proxys_health_check_stays_for_the_others() {
    let (health, other) = (format!("{HEALTH}={WEB}"), format!("{CLIENT}=aother"));
    let own = ("tcp", 30080, "0.0.0.0/0", &*format!("{CLIENT}={WEB}"));
    let check = ("tcp", KUBE_PROXY, "10.0.0.0/24", &*health);
    let others = ("tcp", 31000, "0.0.0.0/0", &*other);
    for (are, stays) in [(vec![own, check, others], true), (vec![own, check], false)] {
        let change = difference(&rules(&are), WEB, &Rules::new(), KUBE_PROXY);
        let of_check = Rule::new("tcp", KUBE_PROXY, "10.0.0.0/24");
        assert_eq!(!change.revoke.contains_key(&of_check), stays);
    }
}

#[test]
fn rules_go_to_aws_in_one_request_for_each_group() {
    let host = host(|_, _| None);
    let groups = list("vpc-id", "vpc-11112222").unwrap();
    let sg = |id: &str| BTreeSet::from([id.to_owned()]);
    open(
        &settings(&[]),
        &groups,
        WEB,
        &sg("sg-e4076980"),
        &for_nodes(&wanted(&[]), &[]),
        None,
    )
    .unwrap();
    assert_eq!(forms(&host).len(), 1, "the fixture is as wanted");
    // The nodes have moved to another group.
    open(
        &settings(&[]),
        &groups,
        WEB,
        &sg("sg-other"),
        &for_nodes(&wanted(&["2001:db8::/32"]), &[]),
        None,
    )
    .unwrap();
    let [_, revoke, grant] = forms(&host).try_into().unwrap();
    assert_eq!(
        (revoke["Action"].as_str(), revoke["GroupId"].as_str()),
        ("RevokeSecurityGroupIngress", "sg-e4076980")
    );
    assert_eq!(
        revoke.keys().filter(|key| key.ends_with("CidrIp")).count(),
        3
    );
    assert!(
        !revoke.keys().any(|key| key.ends_with("Description")),
        "AWS knows a rule by what it lets in"
    );
    assert_eq!(
        (
            grant["GroupId"].as_str(),
            grant["IpPermissions.1.Ipv6Ranges.1.CidrIpv6"].as_str()
        ),
        ("sg-other", "2001:db8::/32")
    );
    assert_eq!(
        grant["IpPermissions.1.Ipv6Ranges.1.Description"],
        "kubernetes.io/rule/nlb/client=auidofweb"
    );
}

#[test]
fn the_own_group_of_a_load_balancer_has_its_name_and_the_tag_of_an_owner() {
    const GROUPS: &str = include_str!("../../../fixtures/security-groups.xml");
    for (name, tag, is_own) in [
        ("k8s-elb-auidofweb", "owned", true),
        ("k8s-elb-auidofweb", "shared", false),
        ("SecurityGroup1", "owned", false),
    ] {
        let groups = GROUPS.replace("SecurityGroup1", name);
        let groups = groups.replace(">owned<", &format!(">{tag}<"));
        let _host = host(move |_, _| Some(xml(200, &groups)));
        let group = list("vpc-id", "vpc-11112222").unwrap().remove(0);
        assert_eq!(group.is_own(&settings(&[]).cluster), is_own, "{name} {tag}");
    }
}

#[test]
fn the_group_of_a_node_is_the_tagged_one_or_its_only_one() {
    let _host = host(|_, _| None);
    let settings = settings(&[]);
    let mut instance = crate::ec2::by_ids(&[INSTANCE]).unwrap().remove(0);
    let mut told = |ids: &[&str], tagged: &[&str]| {
        instance.groups = ids.iter().map(|id| (*id).to_owned()).collect();
        let tagged = tagged.iter().map(|id| (*id).to_owned()).collect();
        let (chosen, event) = of_nodes(&tagged, std::slice::from_ref(&instance), &settings);
        (
            chosen.into_iter().collect::<Vec<_>>().join(","),
            usize::from(event.is_some()),
        )
    };
    assert_eq!(told(&["a"], &[]), ("a".to_owned(), 0));
    assert_eq!(told(&["a", "b"], &["b", "c"]), ("b".to_owned(), 0));
    assert_eq!(told(&["a", "b"], &[]), (String::new(), 1));
    assert_eq!(told(&["a", "b"], &["a", "b"]), (String::new(), 1));
}
