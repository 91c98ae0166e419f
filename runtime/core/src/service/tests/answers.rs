//! F18, F19: which ingress a provider may answer. One invalid part invalidates the whole answer.

use super::world::*;
use crate::cloud::load_balancer::{
    Ensured, Ingress, IpMode, LoadBalancerStatus, PortStatus, Protocol,
};
use crate::reconciliation::effect::InUse;
use std::time::Duration;

fn net(text: &str) -> ipnet::IpNet {
    text.parse().unwrap()
}

/// A world whose provider answers this ingress for a Service that has another one stored.
fn answering(ingress: Vec<Ingress>) -> World {
    let mut world = made();
    world.rules.ingress.refused = vec![net("10.96.0.0/12"), net("10.244.0.0/16")];
    world.rules.ingress.api_server = vec!["203.0.113.1".parse().unwrap()];
    world.past.drift_due = true;
    world.ensure = [answered(Ensured::Ready(LoadBalancerStatus { ingress }), 0)].into();
    world
}

fn ip(text: &str) -> Ingress {
    Ingress {
        ip: Some(text.to_owned()),
        ..Ingress::default()
    }
}

fn hostname(text: &str) -> Ingress {
    Ingress {
        hostname: Some(text.to_owned()),
        ..Ingress::default()
    }
}

fn refuses(mut world: World, problem: &str) {
    let run = world.reconcile();
    assert_eq!(world.addresses(), ["192.0.2.1"], "{problem}");
    assert_eq!(run.event_reasons(), ["InvalidProviderAnswer"], "{problem}");
    let message = &run.events[0].1;
    assert!(message.contains(problem), "{problem}: {message}");
    assert_eq!(run.again(), Duration::from_secs(10));
    assert_eq!(
        world.condition("wasm-ccm.dev/LoadBalancer"),
        Some(("False".to_owned(), "InvalidAnswer".to_owned()))
    );
}

#[test]
fn f18_no_service_gets_an_address_that_is_not_a_load_balancers() {
    for (text, problem) in [
        ("127.0.0.1", "loopback"),
        ("::1", "loopback"),
        ("0.0.0.0", "unspecified"),
        ("::", "unspecified"),
        ("0.1.2.3", "this network"),
        ("169.254.169.254", "link-local"),
        ("fe80::1", "link-local"),
        ("224.0.0.1", "multicast"),
        ("ff02::1", "multicast"),
        ("255.255.255.255", "broadcast"),
        ("100.100.100.200", "metadata"),
        ("168.63.129.16", "metadata"),
        ("192.0.0.192", "metadata"),
        ("fd00:ec2::254", "metadata"),
        ("10.96.0.1", "10.96.0.0/12 is inside the cluster"),
        ("10.244.3.7", "10.244.0.0/16 is inside the cluster"),
        ("203.0.113.1", "the API server's"),
    ] {
        refuses(answering(vec![ip(text)]), problem);
        refuses(answering(vec![ip("192.0.2.7"), ip(text)]), problem);
    }
}

#[test]
fn f18_no_service_gets_the_address_of_a_node_or_of_another_service() {
    for (by, recorded) in [
        ("node/a", "that of a node"),
        ("service/kube-system/dns", "that of another Service"),
    ] {
        let mut world = answering(vec![ip("192.0.2.9")]);
        world.in_use = vec![InUse {
            ip: "192.0.2.9".parse().unwrap(),
            by: by.to_owned(),
        }];
        refuses(world, recorded);
    }
}

#[test]
fn what_a_service_has_is_not_taken_away_because_somebody_else_claims_it() {
    let mut world = answering(vec![ip("192.0.2.1"), ip("192.0.2.2")]);
    world.in_use = vec![InUse {
        ip: "192.0.2.1".parse().unwrap(),
        by: "service/evil/external-ip".to_owned(),
    }];
    world.reconcile();
    assert_eq!(world.addresses(), ["192.0.2.1", "192.0.2.2"]);
}

#[test]
fn f18_outside_of_what_the_operator_allows_is_nothing() {
    let allowed = |text: &str| {
        let mut world = answering(vec![ip(text)]);
        world.rules.ingress.allowed = vec![net("198.51.100.0/24"), net("2001:db8::/32")];
        world
    };
    refuses(allowed("192.0.2.7"), "outside of ingressCIDRs");
    for text in ["198.51.100.7", "2001:db8::7"] {
        let mut world = allowed(text);
        world.reconcile();
        assert_eq!(world.addresses(), [text]);
    }
}

#[test]
fn f19_what_is_badly_written_is_not_written_down() {
    let port = |port, error: Option<&str>| PortStatus {
        port,
        protocol: Protocol::Tcp,
        error: error.map(str::to_owned),
    };
    let with_ports = |ports| Ingress {
        ports,
        ..ip("192.0.2.7")
    };
    for (ingress, problem) in [
        (Ingress::default(), "it is empty"),
        (ip("192.0.2"), "not an IP address"),
        (ip(" 192.0.2.7"), "not an IP address"),
        (ip("192.0.2.7/32"), "not an IP address"),
        (ip("192.0.2.07"), "not an IP address"),
        (ip("lb.example.com"), "not an IP address"),
        (ip("::ffff:192.0.2.7"), "IPv4 written as IPv6"),
        (hostname("192.0.2.7"), "not a DNS name"),
        (hostname("LB.example.com"), "not a DNS name"),
        (hostname("-.example.com"), "not a DNS name"),
        (hostname("a b"), "not a DNS name"),
        (hostname(""), "not a DNS name"),
        (
            Ingress {
                ip_mode: Some(IpMode::Proxy),
                ..hostname("lb.example.com")
            },
            "an IP mode and no IP",
        ),
        (with_ports(vec![port(0, None)]), "the port 0"),
        (
            with_ports(vec![port(80, Some("no such thing"))]),
            "not a port's error",
        ),
        (with_ports(vec![port(80, Some(""))]), "not a port's error"),
        (with_ports(vec![port(80, None); 257]), "it has 257 ports"),
    ] {
        refuses(answering(vec![ingress]), problem);
    }
    refuses(
        answering(vec![ip("192.0.2.7"); 1_000]),
        "it has 1000 ingress entries, and 16 are allowed",
    );
}

#[test]
fn iface_013_everything_that_an_ingress_can_have_is_stored_as_it_was_said() {
    let reported = vec![
        Ingress {
            ip: Some("2001:DB8::0:7".to_owned()),
            hostname: Some("lb.example.com".to_owned()),
            ip_mode: Some(IpMode::Proxy),
            ports: vec![PortStatus {
                port: 80,
                protocol: Protocol::Udp,
                error: Some("example.com/NotServed".to_owned()),
            }],
        },
        hostname("other.example.com"),
    ];
    let mut world = answering(reported.clone());
    world.reconcile();
    assert_eq!(
        world.stored["status"]["loadBalancer"]["ingress"],
        serde_json::json!([
            { "ip": "2001:DB8::0:7", "hostname": "lb.example.com", "ipMode": "Proxy",
              "ports": [{ "port": 80, "protocol": "UDP", "error": "example.com/NotServed" }] },
            { "hostname": "other.example.com" }
        ])
    );
    does_nothing(&mut world);
}
