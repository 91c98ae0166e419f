//! Which of a load balancer's addresses a Service's status shows.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::super::api::LoadBalancer;
use super::*;

const FIXTURE: &str = include_str!("../../../fixtures/load-balancer.json");

fn found() -> LoadBalancer {
    let mut fixture: serde_json::Value = serde_json::from_str(FIXTURE).unwrap();
    serde_json::from_value(fixture["load_balancer"].take()).unwrap()
}

fn shown() -> Shown {
    Shown {
        hostname: None,
        proxy_protocol: false,
        ipv6: true,
        private_ingress: true,
    }
}

fn brief(shown: &Shown, found: &LoadBalancer) -> Vec<String> {
    let ingress = status(shown, &Addresses::of(found)).ingress;
    let text = |one: &Ingress| {
        let Ingress {
            ip,
            hostname,
            ip_mode,
            ports,
        } = one;
        assert!(ports.is_empty());
        let mode = match ip_mode {
            Some(IpMode::Vip) => " VIP",
            Some(IpMode::Proxy) => " Proxy",
            None => "",
        };
        let (ip, hostname) = (ip.as_deref(), hostname.as_deref());
        format!(
            "{}{}{mode}",
            ip.unwrap_or_default(),
            hostname.unwrap_or_default()
        )
    };
    ingress.iter().map(text).collect()
}

#[test]
fn addresses_are_shown_as_the_service_says() {
    let (v4, v6, private) = ("203.0.113.10", "2001:db8:c17::1", "10.0.0.2");
    let vip = |ips: &[&str]| -> Vec<String> { ips.iter().map(|ip| format!("{ip} VIP")).collect() };
    assert_eq!(brief(&shown(), &found()), vip(&[v4, v6, private]));
    let without_ipv6 = Shown {
        ipv6: false,
        ..shown()
    };
    assert_eq!(brief(&without_ipv6, &found()), vip(&[v4, private]));
    let without_private = Shown {
        private_ingress: false,
        ..shown()
    };
    assert_eq!(brief(&without_private, &found()), vip(&[v4, v6]));
    let proxy = Shown {
        proxy_protocol: true,
        private_ingress: false,
        ipv6: false,
        ..shown()
    };
    assert_eq!(brief(&proxy, &found()), ["203.0.113.10 Proxy"]);
    let hostname = Shown {
        hostname: Some("www.example.com".to_owned()),
        ..proxy
    };
    assert_eq!(brief(&hostname, &found()), ["www.example.com"]);
}

#[test]
fn a_public_interface_that_is_off_shows_no_address() {
    let mut found = found();
    found.public_net.enabled = false;
    assert_eq!(brief(&shown(), &found), ["10.0.0.2 VIP"]);
    found.private_net.clear();
    assert_eq!(brief(&shown(), &found), [] as [&str; 0]);
}
