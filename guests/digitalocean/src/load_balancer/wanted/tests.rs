//! What a Service's annotations mean, as the body of the request that the Go manager would send.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use ccm_guest::Address;
use ccm_guest::load_balancer::{ServicePort, TrafficPolicy};

use super::*;
use crate::load_balancer::fixtures::{settings, web, worker};

/// Annotations of a Service, as key and value.
type Pairs<'a> = &'a [(&'a str, &'a str)];

fn wanted(annotations: Pairs<'_>) -> Result<Wanted, Error> {
    Wanted::read(
        &settings(&[]),
        &web(annotations),
        &[worker(1), worker(2)],
        None,
    )
}

fn body(annotations: &[(&str, &str)]) -> Value {
    let body = wanted(annotations)
        .unwrap()
        .creation("the-certificate", "nyc3", None);
    serde_json::to_value(body).unwrap()
}

fn rule(entry: &str, port: u16, target: &str, target_port: u16) -> Value {
    json!({"entry_protocol": entry, "entry_port": port, "target_protocol": target, "target_port": target_port})
}

#[test]
fn a_plain_service_is_as_with_the_go_manager() {
    assert_eq!(
        body(&[]),
        json!({
            "name": "auidofweb", "region": "nyc3", "type": "REGIONAL_NETWORK", "network": "EXTERNAL",
            "network_stack": "IPV4", "tags": ["k8s-service-uid:uid-of-web"], "droplet_ids": [1, 2],
            "forwarding_rules": [rule("tcp", 80, "tcp", 80), rule("tcp", 443, "tcp", 443)],
            "health_check": {
                "protocol": "http", "port": 10256, "path": "/healthz", "proxy_protocol": false,
                "check_interval_seconds": 3, "response_timeout_seconds": 5, "unhealthy_threshold": 3,
                "healthy_threshold": 5,
            },
            "sticky_sessions": {"type": "none"},
            "firewall": {"allow": [], "deny": []},
        })
    );
}

#[test]
fn each_annotation_sets_its_field() {
    let table: &[(Pairs<'_>, &str, Value)] = &[
        (&[("name", "shop")], "/name", json!("shop")),
        (&[("type", "REGIONAL")], "/type", json!("REGIONAL")),
        (
            &[("type", "REGIONAL")],
            "/network_stack",
            json!("DUALSTACK"),
        ),
        (
            &[("type", "REGIONAL"), ("network-stack", "IPV4")],
            "/network_stack",
            json!("IPV4"),
        ),
        (&[("network", "INTERNAL")], "/network", json!("INTERNAL")),
        (&[("size-unit", "3")], "/size_unit", json!(3)),
        (&[("size-slug", "lb-large")], "/size", json!("lb-large")),
        (
            &[("redirect-http-to-https", "true")],
            "/redirect_http_to_https",
            json!(true),
        ),
        (
            &[("enable-proxy-protocol", "1")],
            "/enable_proxy_protocol",
            json!(true),
        ),
        (
            &[("enable-backend-keepalive", "t")],
            "/enable_backend_keepalive",
            json!(true),
        ),
        (
            &[("disable-lets-encrypt-dns-records", "True")],
            "/disable_lets_encrypt_dns_records",
            json!(true),
        ),
        (
            &[("http-idle-timeout-seconds", "90")],
            "/http_idle_timeout_seconds",
            json!(90),
        ),
        (
            &[("deny-rules", "ip:1.2.3.4, cidr:2.3.0.0/16")],
            "/firewall/deny",
            json!(["ip:1.2.3.4", "cidr:2.3.0.0/16"]),
        ),
        (
            &[("allow-rules", "ip:1.2.3.4")],
            "/firewall/allow",
            json!(["ip:1.2.3.4"]),
        ),
        (&[("ip", " 203.0.113.7 ")], "/ip", json!("203.0.113.7")),
        (
            &[("subnet-uuid", "4d9d8375")],
            "/subnet_uuid",
            json!("4d9d8375"),
        ),
        (
            &[("healthcheck-check-interval-seconds", "10")],
            "/health_check/check_interval_seconds",
            json!(10),
        ),
        (
            &[("healthcheck-response-timeout-seconds", "9")],
            "/health_check/response_timeout_seconds",
            json!(9),
        ),
        (
            &[("healthcheck-unhealthy-threshold", "4")],
            "/health_check/unhealthy_threshold",
            json!(4),
        ),
        (
            &[("healthcheck-healthy-threshold", "2")],
            "/health_check/healthy_threshold",
            json!(2),
        ),
        // Without the override, the three annotations have no effect.
        (
            &[
                ("healthcheck-path", "/x"),
                ("healthcheck-port", "80"),
                ("healthcheck-protocol", "tcp"),
            ],
            "/health_check/path",
            json!("/healthz"),
        ),
        (
            &[("override-health-check", ""), ("healthcheck-path", "/x")],
            "/health_check/path",
            json!("/x"),
        ),
        (
            &[("override-health-check", ""), ("healthcheck-path", "/x")],
            "/health_check/protocol",
            json!("http"),
        ),
        (
            &[("override-health-check", "")],
            "/health_check/protocol",
            json!("tcp"),
        ),
        (
            &[("override-health-check", "")],
            "/health_check/port",
            json!(30080),
        ),
        (
            &[("override-health-check", ""), ("healthcheck-port", "443")],
            "/health_check/port",
            json!(30443),
        ),
        (
            &[
                ("override-health-check", ""),
                ("healthcheck-protocol", "https"),
            ],
            "/health_check/protocol",
            json!("https"),
        ),
        (
            &[
                ("sticky-sessions-type", "cookies"),
                ("sticky-sessions-cookie-name", "DO-LB"),
                ("sticky-sessions-cookie-ttl", "300"),
            ],
            "/sticky_sessions",
            json!({"type": "cookies", "cookie_name": "DO-LB", "cookie_ttl_seconds": 300}),
        ),
        (
            &[("sticky-sessions-type", "other")],
            "/sticky_sessions",
            json!({"type": "none"}),
        ),
    ];
    for (annotations, pointer, expected) in table {
        let body = body(annotations);
        assert_eq!(
            body.pointer(pointer),
            Some(expected),
            "{annotations:?}: {body:#}"
        );
    }
    assert_eq!(
        wanted(&[("hostname", "Web.Example.com")])
            .unwrap()
            .hostname
            .as_deref(),
        Some("web.example.com")
    );
}

#[test]
fn ports_speak_what_the_annotations_say() {
    let rules = |annotations: &[(&str, &str)]| {
        let mut all = vec![("type", "REGIONAL")];
        all.extend(annotations);
        body(&all)["forwarding_rules"].clone()
    };
    let ended = |entry: &str, port, target_port| {
        let mut rule = rule(entry, port, "http", target_port);
        rule["certificate_id"] = json!("the-certificate");
        rule
    };
    let passed = |entry: &str, port, target_port| {
        let mut rule = rule(entry, port, entry, target_port);
        rule["tls_passthrough"] = json!(true);
        rule
    };
    let tcp = |port, target_port| rule("tcp", port, "tcp", target_port);
    let http = rule("http", 80, "http", 30080);
    assert_eq!(rules(&[]), json!([tcp(80, 30080), tcp(443, 30443)]));
    let id = ("certificate-id", "x");
    assert_eq!(
        rules(&[("protocol", "http"), id]),
        json!([http, ended("https", 443, 30443)])
    );
    assert_eq!(
        rules(&[("http-ports", "80"), ("certificate-name", "x")]),
        json!([http, ended("https", 443, 30443)])
    );
    assert_eq!(
        rules(&[("tls-ports", "80"), id]),
        json!([ended("https", 80, 30080), tcp(443, 30443)])
    );
    assert_eq!(
        rules(&[("http2-ports", "443"), id]),
        json!([tcp(80, 30080), ended("http2", 443, 30443)])
    );
    assert_eq!(
        rules(&[("tls-passthrough", "true")]),
        json!([tcp(80, 30080), passed("https", 443, 30443)])
    );
    assert_eq!(
        rules(&[("http3-port", "443"), ("http2-ports", "443"), id]),
        json!([
            tcp(80, 30080),
            ended("http2", 443, 30443),
            ended("http3", 443, 30443)
        ])
    );
}

#[test]
fn udp_and_local_traffic() {
    let mut service = web(&[]);
    service.ports[1].protocol = Protocol::Udp;
    service.external_traffic_policy = Some(TrafficPolicy::Local);
    service.health_check_node_port = Some(32000);
    let wanted = Wanted::read(&settings(&[]), &service, &[worker(1)], None).unwrap();
    let fields = wanted.fields("");
    assert_eq!(fields["forwarding_rules"][1], rule("udp", 443, "udp", 443));
    assert_eq!(fields["health_check"]["port"], 32000);
}

#[test]
fn rules_of_the_firewall_may_be_many() {
    let rules = |count: u32| {
        let rules = (0..count).map(|n| format!("cidr:10.{}.{}.0/24", n / 256, n % 256));
        rules.collect::<Vec<_>>().join(",")
    };
    let many = rules(300);
    assert!(many.len() > ccm_guest::values::MAX_ANNOTATION);
    let many = many.as_str();
    let firewall = body(&[("deny-rules", many), ("allow-rules", many)])["firewall"].clone();
    for field in ["deny", "allow"] {
        assert_eq!(
            firewall[field].as_array().map(Vec::len),
            Some(300),
            "{field}"
        );
    }
    let error = wanted(&[("deny-rules", rules(5000).as_str())]).unwrap_err();
    assert!(error.message().contains("65536 are allowed"), "{error:?}");
}

#[test]
fn source_ranges_count_before_the_annotation() {
    let mut service = web(&[("allow-rules", "ip:1.2.3.4")]);
    service.source_ranges = vec!["10.0.0.0/8".to_owned(), "192.0.2.0/24".to_owned()];
    let wanted = Wanted::read(&settings(&[]), &service, &[worker(1)], None).unwrap();
    let allow = json!(["cidr:10.0.0.0/8", "cidr:192.0.2.0/24"]);
    assert_eq!(wanted.fields("")["firewall"]["allow"], allow);
}

#[test]
fn all_mistakes_of_a_service_are_told_at_once() {
    let annotations = [
        ("network-stack", "IPV6"),
        ("size-slug", "lb-huge"),
        ("size-unit", "many"),
        ("enable-proxy-protocol", "yes"),
        ("http-idle-timeout-seconds", "1m"),
        ("healthcheck-check-interval-seconds", "often"),
        ("sticky-sessions-type", "cookies"),
        ("type", "GLOBAL"),
    ];
    let error = wanted(&annotations).unwrap_err();
    let Error::Invalid(message) = &error else {
        panic!("{error:?}");
    };
    for (key, _) in annotations
        .iter()
        .filter(|(key, _)| *key != "sticky-sessions-type")
    {
        assert!(message.contains(key), "{key}: {message}");
    }
    assert!(message.contains("sticky-sessions-cookie-name") && message.contains("cookie-ttl"));
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_asked() {
    let table: &[(Pairs<'_>, &str)] = &[
        (&[("hostname", "web_1.example.com")], "must be a DNS name"),
        (&[("size-slug", "lb-small"), ("size-unit", "2")], "excludes"),
        (
            &[("network", "INTERNAL"), ("network-stack", "DUALSTACK")],
            "IPv4 alone",
        ),
        (&[("network-stack", "DUALSTACK")], "worker-1, worker-2"),
        (
            &[("type", "REGIONAL"), ("protocol", "smtp")],
            "must be one of",
        ),
        (
            &[("type", "REGIONAL"), ("protocol", "https")],
            "need a certificate",
        ),
        (
            &[
                ("type", "REGIONAL"),
                ("certificate-id", "x"),
                ("tls-passthrough", "true"),
            ],
            "excludes passing",
        ),
        (
            &[
                ("type", "REGIONAL"),
                ("http-ports", "80"),
                ("tls-ports", "80,443"),
                ("certificate-id", "x"),
            ],
            "more than one annotation: 80",
        ),
        (
            &[("type", "REGIONAL"), ("http-ports", "web")],
            "must be a port",
        ),
        (
            &[("type", "REGIONAL"), ("http3-port", "443")],
            "HTTP/3 needs a certificate",
        ),
        (
            &[
                ("override-health-check", "true"),
                ("healthcheck-port", "81"),
            ],
            "no such port",
        ),
    ];
    for (annotations, words) in table {
        let error = wanted(annotations).unwrap_err();
        assert!(
            error.message().contains(words),
            "{annotations:?}: {error:?}"
        );
    }
    let mut service = web(&[("type", "REGIONAL")]);
    service.ports.push(ServicePort {
        protocol: Protocol::Sctp,
        node_port: None,
        ..service.ports[0].clone()
    });
    service.ports[0].node_port = None;
    let error = Wanted::read(&settings(&[]), &service, &[], None).unwrap_err();
    assert!(
        error.message().contains("SCTP") && error.message().contains("node port"),
        "{error:?}"
    );
}

#[test]
fn a_service_has_not_thousands_of_ports() {
    for (ports, is_possible) in [(256, true), (257, false)] {
        let mut service = web(&[]);
        let port = service.ports[0].clone();
        service.ports = vec![port; ports];
        let read = Wanted::read(&settings(&[]), &service, &[worker(1)], None);
        let told = read.map(|wanted| wanted.rules.len());
        match is_possible {
            true => assert_eq!(told, Ok(ports)),
            false => assert!(told.unwrap_err().message().contains("257 ports")),
        }
    }
}

#[test]
fn what_has_no_effect_is_told() {
    let mut service = web(&[
        ("algorithm", "least_connections"),
        ("kubernetes.digitalocean.com/firewall-managed", "true"),
    ]);
    service.requested_ip = Some("203.0.113.7".to_owned());
    service.session_affinity_seconds = Some(10800);
    let mut odd = worker(3);
    odd.provider_id = None;
    let wanted = Wanted::read(&settings(&[]), &service, &[worker(1), odd], None).unwrap();
    let reasons: Vec<&str> = wanted
        .events
        .iter()
        .map(|event| event.reason.as_str())
        .collect();
    assert_eq!(
        reasons,
        [[NO_EFFECT; 4].as_slice(), &["UnknownProviderIDPrefix"]].concat()
    );
    let messages = [0, 1].map(|index| wanted.events[index].message.as_str());
    assert_eq!(
        messages,
        [
            "annotation service.beta.kubernetes.io/do-loadbalancer-algorithm has no effect: DigitalOcean ignores the algorithm of load balancers",
            "annotation kubernetes.digitalocean.com/firewall-managed has no effect: this provider manages no firewall of nodes",
        ]
    );
}

/// Only a load balancer that passes packets on, with both families, reaches the node ports of such a Service.
#[test]
fn a_service_of_ipv6_alone_is_told_that_it_gets_no_traffic_by_ipv4() {
    let mut dual_stack = worker(1);
    dual_stack.addresses.push(Address::external("2001:db8::1"));
    let table: [(Pairs<'_>, Node, bool); 4] = [
        (&[], worker(1), true),
        (&[], dual_stack.clone(), false),
        (&[("network-stack", "IPV4")], dual_stack.clone(), true),
        (&[("type", "REGIONAL")], dual_stack, true),
    ];
    for (annotations, node, is_told) in table {
        let events = |families: &[IpFamily]| {
            let mut service = web(annotations);
            service.ip_families = families.to_vec();
            let wanted = Wanted::read(&settings(&[]), &service, std::slice::from_ref(&node), None);
            wanted.unwrap().events
        };
        assert_eq!(events(&[IpFamily::Ipv6, IpFamily::Ipv4]), []);
        let told = events(&[IpFamily::Ipv6]);
        let reasons: Vec<&str> = told.iter().map(|event| event.reason.as_str()).collect();
        assert_eq!(
            reasons,
            [NO_EFFECT].repeat(usize::from(is_told)),
            "{annotations:?}"
        );
        assert!(
            told.iter()
                .all(|one| one.message.contains("gets no traffic"))
        );
    }
}

#[test]
fn tags_and_vpc_are_those_of_the_cluster() {
    let settings = settings(&[("DO_CLUSTER_ID", "c1"), ("DO_CLUSTER_VPC_ID", "v1")]);
    let wanted = Wanted::read(&settings, &web(&[]), &[worker(1)], None).unwrap();
    let body = wanted.creation("", "nyc3", Some("p1"));
    assert_eq!(
        body["tags"],
        json!(["k8s-service-uid:uid-of-web", "k8s:c1"])
    );
    assert_eq!(
        (&body["vpc_uuid"], &body["project_id"]),
        (&json!("v1"), &json!("p1"))
    );
}
