#![allow(clippy::unwrap_used, reason = "tests")]

use ccm_guest::annotations::Treatment;
use ccm_guest::load_balancer::{EnsureRequest, Service, TrafficPolicy};
use ccm_guest::{Error, Failure, IpFamily, Protocol};

use super::annotations::{ALL, PREFIX};
use super::wanted::{Groups, Wanted};
use super::{ensure, subnets, wanted};
use crate::fixtures::{THROTTLED, actions, host, known, service, settings, xml};

mod classic;
mod costs;
mod nodes;
mod others;
mod own_groups;
mod requests;
mod target_groups;

fn read(service: &Service) -> Wanted {
    Wanted::read(&settings(&[]), service, &mut Vec::new()).unwrap()
}

fn mistakes(service: &Service) -> String {
    match Wanted::read(&settings(&[]), service, &mut Vec::new()) {
        Err(Error::Invalid(reported)) => reported,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_table_of_annotations_and_the_readme_agree() {
    assert_eq!(ALL.len(), 30, "as many as the Go provider has");
    let readme = include_str!("../../README.md");
    let word = |treatment: &Treatment| match treatment {
        Treatment::Supported => "yes".to_owned(),
        Treatment::AtCreation(why) => format!("at creation: {why}"),
        Treatment::Ignored(why) => format!("ignored, with an Event: {why}"),
        Treatment::Refused(why) => format!("refused: {why}"),
    };
    for (name, (network, classic)) in ALL {
        let row = format!("| `{name}` | {} | {} |", word(network), word(classic));
        assert!(readme.contains(&row), "guests/aws/README.md lacks\n{row}");
    }
    let (_, rows) = readme
        .split_once("aws-load-balancer-` | network | classic |")
        .unwrap();
    let rows = rows
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'));
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

/// As with the Go provider, in which a space makes a number a name.
#[test]
fn ports_have_tls_as_the_annotation_names_them() {
    for (listed, expected) in [
        ("", [true, true]),
        ("*", [true, true]),
        ("80,443", [true, true]),
        ("80, 443", [true, false]),
        ("80,*", [true, false]),
        (" 443", [false, false]),
    ] {
        let wanted = read(&service(&[("ssl-ports", listed)]));
        let ports = wanted.ports.iter().map(|port| port.tls.is_some());
        assert_eq!(ports.collect::<Vec<_>>(), expected, "{listed:?}");
    }
}

/// As with the Go provider, which compares the whole values.
#[test]
fn spaces_count_in_the_kind_and_in_the_scheme() {
    for (kind, is_classic) in [("nlb", false), ("nlb ", true), (" external", true)] {
        let service = service(&[("type", kind)]);
        assert_eq!(wanted::is_classic(&service), is_classic, "{kind:?}");
        assert_eq!(wanted::is_ours(&service), Ok(()), "{kind:?}");
    }
    for (text, internal) in [
        ("", false),
        ("false", false),
        ("false ", true),
        (" ", true),
        ("true", true),
    ] {
        let wanted = read(&service(&[("internal", text)]));
        assert_eq!(wanted.internal, internal, "{text:?}");
    }
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
    let health = |service: &Service| {
        let wanted = Wanted::read(&shared, service, &mut Vec::new()).unwrap();
        wanted.ports[0].health.clone()
    };
    assert_eq!(health(&local).port, "32000");
    let annotated = [
        ("healthcheck-port", "8080"),
        ("healthcheck-path", "/x"),
        ("healthcheck-protocol", "https"),
    ];
    for annotations in [&[][..], &annotated] {
        let of_proxy = health(&service(annotations));
        assert_eq!(
            (
                of_proxy.port.as_str(),
                of_proxy.path.as_deref(),
                of_proxy.protocol.as_str()
            ),
            ("10256", Some("/healthz"), "HTTP"),
            "{annotations:?}"
        );
    }
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
    let long = "k=v,".repeat(2000);
    bad.annotations
        .push((format!("{PREFIX}additional-resource-tags"), long));
    bad.ports[0].protocol = Protocol::Udp;
    bad.ports[1].node_port = None;
    bad.requested_ip = Some("192.0.2.1".to_owned());
    bad.session_affinity_seconds = Some(60);
    let reported = mistakes(&bad);
    let too_long = format!(
        "additional-resource-tags: {:?}… has 8000 bytes, and 4096 are allowed",
        "k=v,".repeat(16)
    );
    for part in [
        "extra-security-groups: network load balancers take security-groups only",
        "healthcheck-interval",
        "healthcheck-protocol",
        "healthcheck-port",
        "cross-zone",
        "access-log-s3-bucket-name",
        "stickiness",
        "several protocols",
        "no node port",
        too_long.as_str(),
        "loadBalancerIP",
        "sessionAffinity",
    ] {
        assert!(reported.contains(part), "{part}: {reported}");
    }
    let mut odd = service(&[
        ("connection-idle-timeout", "60"),
        ("security-groups", "sg-1"),
        ("scheme", "internal"),
    ]);
    let rules = (format!("{PREFIX}rules"), "x".repeat(5000));
    odd.annotations.push(rules);
    odd.ip_families = vec![IpFamily::Ipv6, IpFamily::Ipv4];
    let mut events = Vec::new();
    let wanted = Wanted::read(&settings(&[]), &odd, &mut events).unwrap();
    let shown: Vec<&str> = events.iter().map(|event| event.message.as_str()).collect();
    assert_eq!(
        shown,
        [
            "connection-idle-timeout: it is about classic load balancers; scheme: unknown; rules: unknown",
            "security-groups: without NLBSecurityGroupMode=Managed it has no effect, as with the Go provider",
        ]
    );
    assert_eq!(wanted.groups, Groups::Unmanaged);
    odd.ip_families.truncate(1);
    let mut events = Vec::new();
    Wanted::read(&settings(&[]), &odd, &mut events).unwrap();
    let last = events.last().unwrap();
    assert!(last.message.contains("gets no traffic"), "{last:?}");
    let managed = settings(&[("NLBSecurityGroupMode", "Managed")]);
    assert_eq!(
        Wanted::read(&managed, &odd, &mut Vec::new())
            .unwrap()
            .groups,
        Groups::Named(vec!["sg-1".to_owned()])
    );
}

/// Each port of the wanted state has the annotations that are about all of them, and a rule for each range.
#[test]
fn a_service_has_at_least_one_port_and_not_thousands_or_as_many_rules() {
    for (ports, ranges, is_possible) in [
        (0, 0, false),
        (1, 0, true),
        (256, 0, true),
        (257, 0, false),
        (256, 16, true),
        (256, 17, false),
        (1, 4097, false),
    ] {
        let mut web = service(&[]);
        let port = web.ports[0].clone();
        web.ports = vec![port; ports];
        web.source_ranges = vec!["192.0.2.0/24".to_owned(); ranges];
        let read = Wanted::read(&settings(&[]), &web, &mut Vec::new());
        let told = read.map(|wanted| wanted.ports.len());
        match is_possible {
            true => assert_eq!(told, Ok(ports)),
            false => assert!(matches!(&told, Err(Error::Invalid(why)) if why.contains("1 to 256"))),
        }
    }
}

/// A person who corrects the mistake also learns of the annotations that have no effect.
#[test]
fn events_are_told_with_the_error_too() {
    let ensure = |more: &[(&str, &str)]| {
        let request = EnsureRequest::new(service(more), vec![known()]);
        ensure::ensure(&settings(&[]), &request).unwrap_err()
    };
    let reasons = |failure: Failure| -> Vec<String> {
        failure
            .events
            .into_iter()
            .map(|event| event.reason)
            .collect()
    };
    let quiet = host(|_, _| None);
    let mistake = ensure(&[("healthcheck-port", "0"), ("connection-idle-timeout", "60")]);
    assert!(matches!(mistake.error, Error::Invalid(_)));
    assert_eq!(reasons(mistake), ["AnnotationIgnored"]);
    assert_eq!(actions(&quiet), [""; 0]);
    drop(quiet);
    let _throttled = host(|action, _| (action == "DescribeListeners").then(|| xml(503, THROTTLED)));
    let refused = ensure(&[("internal", "true"), ("connection-idle-timeout", "60")]);
    assert!(matches!(refused.error, Error::Throttled(_)));
    assert_eq!(
        reasons(refused),
        ["AnnotationIgnored", "LoadBalancerNotChanged"]
    );
}

#[test]
fn services_of_others_are_left_to_them() {
    let host = host(|_, _| None);
    let ensure = |service: Service| {
        let request = EnsureRequest::new(service, vec![known()]);
        let failure = ensure::ensure(&settings(&[]), &request).unwrap_err();
        failure.error
    };
    for kind in ["external", "nlb-ip"] {
        assert_eq!(ensure(service(&[("type", kind)])), Error::Elsewhere);
    }
    let mut classed = service(&[]);
    classed.class = Some("service.k8s.aws/nlb".to_owned());
    assert_eq!(ensure(classed), Error::Elsewhere);
    assert_eq!(actions(&host), [""; 0]);
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
