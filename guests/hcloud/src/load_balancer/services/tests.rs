//! Ports: the Go manager's cases of `TestHCLBServiceOptsBuilder`, and further ones.
#![allow(clippy::unwrap_used, reason = "tests")]

use ccm_guest::load_balancer::ServicePort;
use ccm_guest::{Error, EventType};

use super::super::annotations::*;
use super::super::fixtures::{Pairs, port, service, settings};
use super::*;

/// The services of a Service with these annotations and ports; it wants certificates if any are annotated.
fn wanted(
    configured: Pairs<'_>,
    annotated: Pairs<'_>,
    ports: Vec<ServicePort>,
) -> (Result<BTreeMap<u16, WantedService>, Error>, Vec<Event>) {
    let settings = settings(configured);
    let service = Service {
        ports,
        ..service(annotated)
    };
    let mut annotations = service.values();
    let has_certificates = annotations.is_set(HTTP_CERTIFICATES);
    let mut events = Vec::new();
    let services = read(
        &settings.load_balancers,
        &service,
        has_certificates,
        &mut annotations,
        &mut events,
    );
    (annotations.finish().map(|()| services), events)
}

/// The service of port 83 and node port 8083.
fn one(configured: Pairs<'_>, annotated: Pairs<'_>) -> WantedService {
    let (services, events) = wanted(
        configured,
        annotated,
        vec![port(Protocol::Tcp, 83, Some(8083))],
    );
    assert_eq!(events, []);
    let mut services = services.unwrap();
    assert_eq!(services.len(), 1);
    services.remove(&83).unwrap()
}

fn check_of(protocol: ServiceProtocol) -> WantedHealthCheck {
    WantedHealthCheck {
        protocol,
        port: 8083,
        interval: None,
        timeout: None,
        retries: None,
        http: None,
    }
}

/// A TCP service with defaults only.
fn plain() -> WantedService {
    WantedService {
        destination_port: 8083,
        protocol: ServiceProtocol::Tcp,
        proxy_protocol: None,
        http: None,
        health_check: check_of(ServiceProtocol::Tcp),
    }
}

const PROXY: (&str, &str) = ("HCLOUD_LOAD_BALANCERS_USES_PROXYPROTOCOL", "true");
const HEALTH: [(&str, &str); 3] = [
    ("HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_INTERVAL", "30s"),
    ("HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_TIMEOUT", "5s"),
    ("HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_RETRIES", "5"),
];

#[test]
fn a_port_is_forwarded_as_it_is_unless_something_else_is_said() {
    let proxied = |proxy_protocol| WantedService {
        proxy_protocol: Some(proxy_protocol),
        ..plain()
    };
    // Certificates are kept beside the services: this checks only that there are HTTP options.
    let with_certificates = WantedService {
        protocol: ServiceProtocol::Https,
        http: Some(WantedHttp::default()),
        ..plain()
    };
    let all_http = WantedService {
        protocol: ServiceProtocol::Http,
        http: Some(WantedHttp {
            cookie_name: Some("my-cookie".to_owned()),
            cookie_lifetime: Some(3600),
            redirect_http: Some(true),
            sticky_sessions: Some(true),
            timeout_idle: Some(30),
        }),
        ..plain()
    };
    let table: [(Pairs<'_>, Pairs<'_>, WantedService); 8] = [
        (&[], &[], plain()),
        (&[], &[(USES_PROXYPROTOCOL, "true")], proxied(true)),
        (&[PROXY], &[], proxied(true)),
        (&[PROXY], &[(USES_PROXYPROTOCOL, "false")], proxied(false)),
        (
            &[],
            &[
                (PROTOCOL, "http"),
                (HTTP_COOKIE_NAME, "my-cookie"),
                (HTTP_COOKIE_LIFETIME, "1h"),
                (HTTP_CERTIFICATES, "1,3"),
                (HTTP_REDIRECT_HTTP, "true"),
                (HTTP_STICKY_SESSIONS, "true"),
                (HTTP_TIMEOUT_IDLE, "30s"),
            ],
            all_http,
        ),
        (
            &[],
            &[(PROTOCOL, "HTTPS"), (HTTP_CERTIFICATES, "cert-1,cert-2")],
            with_certificates,
        ),
        (
            &[],
            &[(PROTOCOL, "http")],
            WantedService {
                protocol: ServiceProtocol::Http,
                ..plain()
            },
        ),
        (
            &[],
            &[(HTTP_COOKIE_NAME, "")],
            WantedService {
                http: Some(WantedHttp {
                    cookie_name: Some(String::new()),
                    ..WantedHttp::default()
                }),
                ..plain()
            },
        ),
    ];
    for (configured, annotated, expected) in table {
        assert_eq!(one(configured, annotated), expected, "{annotated:?}");
    }
}

#[test]
fn a_health_check_tries_the_port_unless_something_else_is_said() {
    use ServiceProtocol::{Http, Https, Tcp};
    let http = HealthCheckHttp {
        domain: Some("example.com".to_owned()),
        path: Some("/internal/health".to_owned()),
        status_codes: Some(vec!["200".to_owned(), "202".to_owned()]),
        tls: Some(true),
    };
    let only_http = [
        (HEALTH_CHECK_HTTP_DOMAIN, "example.com"),
        (HEALTH_CHECK_HTTP_PATH, "/internal/health"),
        (HEALTH_CHECK_HTTP_VALIDATE_CERTIFICATE, "true"),
        (HTTP_STATUS_CODES, "200,202"),
    ];
    let times = [
        (HEALTH_CHECK_INTERVAL, "1h"),
        (HEALTH_CHECK_TIMEOUT, "30s"),
        (HEALTH_CHECK_RETRIES, "7"),
    ];
    let timed = WantedHealthCheck {
        interval: Some(3600),
        timeout: Some(30),
        retries: Some(7),
        ..check_of(Tcp)
    };
    let configured = WantedHealthCheck {
        interval: Some(30),
        timeout: Some(5),
        retries: Some(5),
        ..check_of(Tcp)
    };
    let over_http = |check, port| WantedHealthCheck {
        protocol: Http,
        port,
        http: Some(http.clone()),
        ..check
    };
    let of_nothing = Some(HealthCheckHttp::default());
    let table = [
        (&[][..], vec![], check_of(Tcp)),
        (&HEALTH, vec![], configured.clone()),
        (&HEALTH, times.to_vec(), timed.clone()),
        (
            &[],
            vec![(PROTOCOL, "tcp"), (HEALTH_CHECK_PORT, "8084")],
            WantedHealthCheck {
                port: 8084,
                ..check_of(Tcp)
            },
        ),
        (
            &[],
            [
                &times[..],
                &[(HEALTH_CHECK_PROTOCOL, "tcp"), (HEALTH_CHECK_PORT, "8084")],
            ]
            .concat(),
            WantedHealthCheck {
                port: 8084,
                ..timed.clone()
            },
        ),
        (
            &[],
            [
                &times[..],
                &only_http,
                &[(HEALTH_CHECK_PROTOCOL, "http"), (HEALTH_CHECK_PORT, "8085")],
            ]
            .concat(),
            over_http(timed.clone(), 8085),
        ),
        (
            &[],
            [&times[..], &only_http, &[(HEALTH_CHECK_PROTOCOL, "http")]].concat(),
            over_http(timed.clone(), 8083),
        ),
        // The health check uses the port's own protocol once any of its settings is given, and not before.
        (
            &[],
            vec![(PROTOCOL, "https"), (HEALTH_CHECK_RETRIES, "0")],
            WantedHealthCheck {
                retries: Some(0),
                http: of_nothing.clone(),
                ..check_of(Https)
            },
        ),
        (
            &HEALTH[2..],
            vec![(PROTOCOL, "http")],
            WantedHealthCheck {
                retries: Some(5),
                http: of_nothing,
                ..check_of(Http)
            },
        ),
        (
            &[],
            [&only_http[..], &[(PROTOCOL, "http")]].concat(),
            check_of(Tcp),
        ),
        // Settings for HTTP only are not even read.
        (&[], only_http.to_vec(), check_of(Tcp)),
        (
            &[],
            vec![
                (HEALTH_CHECK_PROTOCOL, "tcp"),
                (HEALTH_CHECK_HTTP_VALIDATE_CERTIFICATE, "invalid"),
            ],
            check_of(Tcp),
        ),
        (
            &[],
            vec![(HEALTH_CHECK_INTERVAL, "2500ms")],
            WantedHealthCheck {
                interval: Some(2),
                ..check_of(Tcp)
            },
        ),
    ];
    for (configured, annotated, expected) in table {
        let service = one(configured, &annotated);
        assert_eq!(service.health_check, expected, "{annotated:?}");
    }
}

#[test]
fn every_port_has_a_service_of_its_own() {
    let ports = vec![
        port(Protocol::Tcp, 443, Some(8443)),
        port(Protocol::Tcp, 80, Some(8080)),
    ];
    let (services, events) = wanted(&[], &[(PROTOCOL, "http")], ports);
    let brief: Vec<(u16, u16, u16)> = services
        .unwrap()
        .iter()
        .map(|(port, service)| (*port, service.destination_port, service.health_check.port))
        .collect();
    assert_eq!(brief, [(80, 8080, 8080), (443, 8443, 8443)]);
    assert_eq!(events, []);
}

#[test]
fn what_is_not_tcp_is_left_out_and_said() {
    let ports = vec![
        port(Protocol::Udp, 53, Some(30053)),
        port(Protocol::Tcp, 53, Some(30054)),
        port(Protocol::Udp, 54, None),
        port(Protocol::Sctp, 55, Some(30055)),
    ];
    let (services, events) = wanted(&[], &[], ports);
    assert_eq!(services.unwrap().into_keys().collect::<Vec<u16>>(), [53]);
    let reported: Vec<(&str, bool)> = events
        .iter()
        .map(|event| {
            (
                event.reason.as_str(),
                event.event_type == EventType::Warning,
            )
        })
        .collect();
    assert_eq!(reported, [("UnsupportedProtocolConfigured", true); 2]);
    assert!(
        events[0]
            .message
            .contains("UDP: port 53, 54 of service web"),
        "{events:?}"
    );
    assert!(
        events[1].message.contains("SCTP: port 55 of service web"),
        "{events:?}"
    );
}

#[test]
fn a_service_without_any_port_that_can_be_forwarded_is_no_mistake() {
    for ports in [vec![], vec![port(Protocol::Udp, 53, Some(30053))]] {
        assert_eq!(wanted(&[], &[], ports).0, Ok(BTreeMap::new()));
    }
}

#[test]
fn without_a_node_port_nothing_can_be_reached() {
    let ports = vec![
        port(Protocol::Tcp, 80, None),
        port(Protocol::Tcp, 81, Some(30081)),
        port(Protocol::Tcp, 82, Some(0)),
    ];
    let error = wanted(&[], &[], ports).0.unwrap_err();
    assert!(
        error.message().contains("without node port: 80, 82 ("),
        "{error:?}"
    );
}

#[test]
fn more_ports_than_any_load_balancer_has_are_not_read() {
    let ports = |count| (1..=count).map(|number| port(Protocol::Tcp, number, Some(number)));
    let most = u16::try_from(MAX_PORTS).unwrap();
    let services = wanted(&[], &[], ports(most).collect()).0.unwrap();
    assert_eq!(services.len(), MAX_PORTS);
    let error = wanted(&[], &[], ports(most + 1).collect()).0.unwrap_err();
    assert!(error.message().contains("257 ports"), "{error:?}");
}

#[test]
fn wrong_values_are_mistakes_and_reported_at_once() {
    let wrong = [
        (USES_PROXYPROTOCOL, "invalid"),
        (PROTOCOL, "udp"),
        (HTTP_COOKIE_LIFETIME, "3600"),
        (HTTP_REDIRECT_HTTP, ""),
        (HTTP_STICKY_SESSIONS, "invalid"),
        (HTTP_TIMEOUT_IDLE, "30"),
        (HEALTH_CHECK_PROTOCOL, "https"),
        (HEALTH_CHECK_PORT, "0"),
        (HEALTH_CHECK_INTERVAL, "-15s"),
        (HEALTH_CHECK_TIMEOUT, "invalid"),
        (HEALTH_CHECK_RETRIES, "-1"),
        (HEALTH_CHECK_HTTP_VALIDATE_CERTIFICATE, "invalid"),
    ];
    let ports = vec![port(Protocol::Tcp, 83, Some(8083))];
    let error = wanted(&[], &wrong, ports).0.unwrap_err();
    for (key, value) in wrong {
        let named = error.message().contains(&format!("{key}: {value:?}"));
        assert_eq!(named, key != HEALTH_CHECK_PROTOCOL, "{key}: {error:?}");
    }
    for port_number in ["65536", "-80", "http"] {
        let ports = vec![port(Protocol::Tcp, 83, Some(8083))];
        let annotated = [(HEALTH_CHECK_PORT, port_number)];
        assert!(wanted(&[], &annotated, ports).0.is_err(), "{port_number}");
    }
}
