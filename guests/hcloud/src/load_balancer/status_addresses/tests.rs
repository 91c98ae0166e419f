//! Which addresses a Service's status shows: annotations override the configuration.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::super::fixtures::{service, settings};
use super::super::{annotations, wanted::Shown};

const ORDINARY: Shown = Shown {
    hostname: None,
    proxy_protocol: false,
    ipv6: true,
    private_ingress: true,
};

#[test]
fn annotations_count_before_the_configuration() {
    const IPV6: (&str, &str) = ("HCLOUD_LOAD_BALANCERS_DISABLE_IPV6", "true");
    const PRIVATE: (&str, &str) = ("HCLOUD_LOAD_BALANCERS_DISABLE_PRIVATE_INGRESS", "true");
    const PROXY: (&str, &str) = ("HCLOUD_LOAD_BALANCERS_USES_PROXYPROTOCOL", "true");
    let without_ipv6 = Shown {
        ipv6: false,
        ..ORDINARY
    };
    let without_private = Shown {
        private_ingress: false,
        ..ORDINARY
    };
    let with_proxy = Shown {
        proxy_protocol: true,
        ..ORDINARY
    };
    let with_hostname = Shown {
        hostname: Some("lb.example.com".to_owned()),
        ..ORDINARY
    };
    let table = [
        (None, None, ORDINARY),
        (Some(IPV6), None, without_ipv6.clone()),
        (
            None,
            Some((annotations::IPV6_DISABLED, "true")),
            without_ipv6,
        ),
        (
            Some(IPV6),
            Some((annotations::IPV6_DISABLED, "false")),
            ORDINARY,
        ),
        (Some(PRIVATE), None, without_private.clone()),
        (
            None,
            Some((annotations::DISABLE_PRIVATE_INGRESS, "true")),
            without_private,
        ),
        (
            Some(PRIVATE),
            Some((annotations::DISABLE_PRIVATE_INGRESS, "0")),
            ORDINARY,
        ),
        (Some(PROXY), None, with_proxy.clone()),
        (
            None,
            Some((annotations::USES_PROXYPROTOCOL, "true")),
            with_proxy,
        ),
        (
            Some(PROXY),
            Some((annotations::USES_PROXYPROTOCOL, "f")),
            ORDINARY,
        ),
        (
            None,
            Some((annotations::HOSTNAME, "lb.example.com")),
            with_hostname,
        ),
        // An empty host name in a status would show nothing at all.
        (None, Some((annotations::HOSTNAME, "")), ORDINARY),
    ];
    for (configured, annotated, expected) in table {
        let settings = settings(configured.as_slice());
        let service = service(annotated.as_slice());
        let shown = Shown::read(&settings, &service).unwrap();
        assert_eq!(shown, expected, "{configured:?} {annotated:?}");
    }
}

#[test]
fn mistakes_elsewhere_do_not_hide_the_addresses_and_mistakes_here_do() {
    let settings = settings(&[]);
    let elsewhere = service(&[(annotations::HEALTH_CHECK_PORT, "invalid")]);
    assert_eq!(Shown::read(&settings, &elsewhere), Ok(ORDINARY));
    let keys = [
        annotations::USES_PROXYPROTOCOL,
        annotations::IPV6_DISABLED,
        annotations::DISABLE_PRIVATE_INGRESS,
    ];
    let here = service(&keys.map(|key| (key, "invalid")));
    let error = Shown::read(&settings, &here).unwrap_err();
    assert!(
        keys.iter().all(|key| error.message().contains(key)),
        "{error:?}"
    );
}

#[test]
fn a_host_name_that_no_status_can_hold_is_a_mistake() {
    let long = format!("{}.example", "a.".repeat(130));
    for (name, expected) in [
        (long.as_str(), None),
        ("lb_1.example.com", None),
        ("203.0.113.7", None),
        ("LB.example.com", Some("lb.example.com")),
    ] {
        let service = service(&[(annotations::HOSTNAME, name)]);
        let shown = Shown::read(&settings(&[]), &service);
        match expected {
            Some(_) => assert_eq!(shown.unwrap().hostname.as_deref(), expected),
            None => assert!(shown.unwrap_err().message().contains(annotations::HOSTNAME)),
        }
    }
}
