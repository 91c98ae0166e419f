//! A whole load balancer: the Go manager's cases of `TestLoadBalancerOps_Create` and `_ReconcileHCLB`, as far as they
//! concern the wanted state; `every` has each annotation.
#![allow(clippy::unwrap_used, reason = "tests")]

use ccm_guest::Error;
use ccm_guest::testing::node;

use super::super::annotations::*;
use super::super::fixtures::{UID, port, service, settings};
use super::*;

mod every;

type Pair = (&'static str, &'static str);

const IN_HEL1: Pair = ("HCLOUD_LOAD_BALANCERS_LOCATION", "hel1");
const IN_ZONE: Pair = ("HCLOUD_LOAD_BALANCERS_NETWORK_ZONE", "eu-central");
const NETWORK: Pair = ("HCLOUD_NETWORK", "cluster");

fn wanted(configured: &[(&str, &str)], annotated: &[(&str, &str)]) -> Wanted {
    Wanted::read(&settings(configured), &service(annotated), &[]).unwrap()
}

fn refused(configured: &[(&str, &str)], annotated: &[(&str, &str)]) -> String {
    let error = Wanted::read(&settings(configured), &service(annotated), &[]).unwrap_err();
    assert!(matches!(error, Error::Invalid(_)), "{error:?}");
    error.message().to_owned()
}

#[test]
fn an_ordinary_service_wants_nothing_that_nobody_said() {
    let wanted = wanted(&[], &[]);
    let reasons: Vec<&str> = wanted
        .events
        .iter()
        .map(|event| event.reason.as_str())
        .collect();
    assert_eq!(reasons, Vec::<&str>::new());
    let service = WantedService {
        destination_port: 30080,
        protocol: ServiceProtocol::Tcp,
        proxy_protocol: None,
        http: None,
        health_check: WantedHealthCheck {
            protocol: ServiceProtocol::Tcp,
            port: 30080,
            interval: None,
            timeout: None,
            retries: None,
            http: None,
        },
    };
    let expected = Wanted {
        name: "a0b1f6d5e7a3c4c559e0a2f1d3b4c5a6".to_owned(),
        is_named: false,
        labels: BTreeMap::from([("hcloud-ccm/service-uid".to_owned(), UID.to_owned())]),
        type_name: "lb11".to_owned(),
        type_source: TypeSource::Default,
        place: None,
        algorithm: None,
        public_interface: None,
        network: None,
        rdns_ipv4: None,
        rdns_ipv6: None,
        services: BTreeMap::from([(80, service)]),
        certificates: Certificates::None,
        targets: WantedTargets::default(),
        shown: Shown {
            hostname: None,
            proxy_protocol: false,
            ipv6: true,
            private_ingress: true,
        },
        keep_foreign: false,
        events: wanted.events.clone(),
    };
    assert_eq!(wanted, expected);
}

#[test]
fn a_location_goes_before_a_network_zone_and_an_empty_annotation_takes_the_default_back() {
    let location = |name: &str| Some(Place::Location(name.to_owned()));
    let zone = |name: &str| Some(Place::NetworkZone(name.to_owned()));
    let table: [(&[Pair], &[Pair], Option<Place>); 12] = [
        (&[], &[], None),
        (&[IN_HEL1], &[(LOCATION, "fsn1")], location("fsn1")),
        (&[IN_ZONE], &[(NETWORK_ZONE, "us-east")], zone("us-east")),
        (&[IN_HEL1], &[], location("hel1")),
        (&[IN_ZONE], &[], zone("eu-central")),
        (
            &[IN_HEL1],
            &[(LOCATION, ""), (NETWORK_ZONE, "eu-central")],
            zone("eu-central"),
        ),
        (
            &[IN_HEL1],
            &[(NETWORK_ZONE, "eu-central")],
            location("hel1"),
        ),
        (
            &[IN_ZONE],
            &[(LOCATION, "fsn1"), (NETWORK_ZONE, "")],
            location("fsn1"),
        ),
        (&[IN_ZONE], &[(LOCATION, "fsn1")], location("fsn1")),
        (
            &[],
            &[(LOCATION, "nbg1"), (NETWORK_ZONE, "eu-central")],
            location("nbg1"),
        ),
        (&[IN_HEL1], &[(LOCATION, "")], None),
        (&[IN_ZONE], &[(NETWORK_ZONE, "")], None),
    ];
    for (configured, annotated, expected) in table {
        let wanted = wanted(configured, annotated);
        assert_eq!(wanted.place, expected, "{configured:?} {annotated:?}");
        match wanted.place() {
            Ok(place) => assert_eq!(Some(place), expected.as_ref()),
            Err(error) => {
                assert_eq!(expected, None);
                let names = [LOCATION, NETWORK_ZONE, IN_HEL1.0, IN_ZONE.0];
                assert!(
                    names.iter().all(|name| error.message().contains(name)),
                    "{error:?}"
                );
            }
        }
    }
}

#[test]
fn the_type_is_the_services_then_the_operators_then_the_smallest() {
    use TypeSource::{Annotation, Configuration, Default};
    let configured = [("HCLOUD_LOAD_BALANCERS_TYPE", "lb21")];
    let table: [(&[Pair], &[Pair], &str, TypeSource); 6] = [
        (&[], &[], "lb11", Default),
        (&[], &[(TYPE, "lb31")], "lb31", Annotation),
        (&[], &[(TYPE, "lb11")], "lb11", Annotation),
        (&configured, &[], "lb21", Configuration),
        (&configured, &[(TYPE, "lb31")], "lb31", Annotation),
        (&configured, &[(TYPE, "")], "lb11", Default),
    ];
    for (configured, annotated, type_name, source) in table {
        let wanted = wanted(configured, annotated);
        assert_eq!(
            (wanted.type_name.as_str(), wanted.type_source),
            (type_name, source),
            "{configured:?} {annotated:?}"
        );
    }
}

#[test]
fn a_type_that_is_a_number_is_a_mistake_of_the_one_who_chose_it() {
    let configured = ("HCLOUD_LOAD_BALANCERS_TYPE", "1");
    // The configuration, the annotations, and the key that the mistake names.
    let table: [(&[Pair], &[Pair], &str); 3] = [
        (&[], &[(TYPE, "1")], TYPE),
        (&[configured], &[], configured.0),
        (&[configured], &[(TYPE, "0012")], TYPE),
    ];
    for (configured, annotated, key) in table {
        let message = refused(configured, annotated);
        assert!(message.starts_with(key), "{annotated:?}: {message}");
        assert!(message.contains("such as lb11"), "{message}");
    }
    for other in ["lb21", ""] {
        let named = wanted(&[configured], &[(TYPE, other)]);
        assert!(named.type_name.starts_with("lb"), "{other}");
    }
}

#[test]
fn annotations_count_before_the_configuration() {
    let algorithm = ("HCLOUD_LOAD_BALANCERS_ALGORITHM_TYPE", "least_connections");
    let table = [
        (&[][..], &[][..], None),
        (
            &[],
            &[(ALGORITHM_TYPE, "Least_Connections")],
            Some(Algorithm::LeastConnections),
        ),
        (&[algorithm], &[], Some(Algorithm::LeastConnections)),
        (
            &[algorithm],
            &[(ALGORITHM_TYPE, "round_robin")],
            Some(Algorithm::RoundRobin),
        ),
    ];
    for (configured, annotated, expected) in table {
        assert_eq!(
            wanted(configured, annotated).algorithm,
            expected,
            "{annotated:?}"
        );
    }
    let closed = ("HCLOUD_LOAD_BALANCERS_DISABLE_PUBLIC_NETWORK", "true");
    let open = ("HCLOUD_LOAD_BALANCERS_DISABLE_PUBLIC_NETWORK", "false");
    let table = [
        (&[][..], &[][..], None),
        (&[], &[(DISABLE_PUBLIC_NETWORK, "true")], Some(false)),
        (&[], &[(DISABLE_PUBLIC_NETWORK, "false")], Some(true)),
        (&[closed], &[], Some(false)),
        (&[open], &[], Some(true)),
        (&[closed], &[(DISABLE_PUBLIC_NETWORK, "F")], Some(true)),
    ];
    for (configured, annotated, expected) in table {
        assert_eq!(
            wanted(configured, annotated).public_interface,
            expected,
            "{annotated:?}"
        );
    }
}

#[test]
fn a_network_is_wanted_where_one_is_configured_and_nowhere_else() {
    let subnet = (
        "HCLOUD_LOAD_BALANCERS_PRIVATE_SUBNET_IP_RANGE",
        "10.1.0.7/24",
    );
    let network = |ip: Option<[u8; 4]>, range: Option<&str>| {
        Some(WantedNetwork {
            network: "cluster".to_owned(),
            ip: ip.map(Ipv4Addr::from),
            ip_range: range.map(str::to_owned),
        })
    };
    let table: [(&[Pair], &[Pair], Option<WantedNetwork>); 8] = [
        (&[], &[], None),
        (&[NETWORK], &[], network(None, None)),
        (&[NETWORK, subnet], &[], network(None, Some("10.1.0.0/24"))),
        (
            &[NETWORK],
            &[(PRIVATE_IPV4, "10.10.10.2")],
            network(Some([10, 10, 10, 2]), None),
        ),
        (
            &[NETWORK, subnet],
            &[(PRIVATE_SUBNET_IP_RANGE, "10.2.0.0/16")],
            network(None, Some("10.2.0.0/16")),
        ),
        (
            &[NETWORK, subnet],
            &[(PRIVATE_SUBNET_IP_RANGE, "")],
            network(None, None),
        ),
        // Without a network the Go manager does not even read these annotations.
        (&[subnet], &[], None),
        (
            &[],
            &[
                (PRIVATE_IPV4, "invalid"),
                (PRIVATE_SUBNET_IP_RANGE, "invalid"),
            ],
            None,
        ),
    ];
    for (configured, annotated, expected) in table {
        let wanted = wanted(configured, annotated);
        assert_eq!(wanted.network, expected, "{configured:?} {annotated:?}");
    }
    for wrong in [
        (PRIVATE_IPV4, "invalid"),
        (PRIVATE_IPV4, ""),
        (PRIVATE_IPV4, "fd00::1"),
        (PRIVATE_SUBNET_IP_RANGE, "10.0.0.0/33"),
    ] {
        assert!(refused(&[NETWORK], &[wrong]).contains(wrong.0));
    }
}

#[test]
fn names_are_taken_as_they_are_and_empty_ones_are_none() {
    let named = wanted(
        &[],
        &[
            (NAME, "my-lb"),
            (IPV4_RDNS, "a.example"),
            (IPV6_RDNS, "b.example"),
        ],
    );
    assert_eq!((named.name.as_str(), named.is_named), ("my-lb", true));
    assert_eq!(named.rdns_ipv4.as_deref(), Some("a.example"));
    assert_eq!(named.rdns_ipv6.as_deref(), Some("b.example"));
    assert_eq!(
        wanted(&[], &[(NAME, ""), (IPV4_RDNS, ""), (IPV6_RDNS, "")]),
        wanted(&[], &[])
    );
}

#[test]
fn services_carry_options_of_http_exactly_where_certificates_are_wanted() {
    let managed = [
        (CERTIFICATE_TYPE, "managed"),
        (HTTP_MANAGED_CERTIFICATE_DOMAINS, "a.example"),
    ];
    let table: [(&[Pair], bool); 4] = [
        (&[], false),
        (&[(HTTP_CERTIFICATES, "1")], true),
        (&[(HTTP_CERTIFICATES, "some-cert")], true),
        (&managed, true),
    ];
    for (annotated, has_certificates) in table {
        let wanted = wanted(&[], annotated);
        assert_eq!(wanted.certificates != Certificates::None, has_certificates);
        let http = &wanted.services.get(&80).unwrap().http;
        assert_eq!(
            *http,
            has_certificates.then(WantedHttp::default),
            "{annotated:?}"
        );
    }
}

#[test]
fn all_mistakes_of_a_service_are_reported_at_once() {
    let mut wrong = service(&[
        (ALGORITHM_TYPE, "invalidType"),
        (DISABLE_PUBLIC_NETWORK, "invalid"),
        (PRIVATE_IPV4, "invalid"),
        (HTTP_CERTIFICATES, ""),
        (HEALTH_CHECK_PORT, "invalid"),
        (IPV6_DISABLED, "invalid"),
        (NODE_SELECTOR, "="),
        (USES_PROXYPROTOCOL, "twice read, once reported"),
    ]);
    wrong.ports.push(port(ccm_guest::Protocol::Tcp, 81, None));
    let error = Wanted::read(&settings(&[NETWORK]), &wrong, &[]).unwrap_err();
    for (key, _) in &wrong.annotations {
        assert_eq!(
            error.message().matches(key.as_str()).count(),
            1,
            "{key}: {error:?}"
        );
    }
    assert!(error.message().contains("node port: 81 ("), "{error:?}");
}

#[test]
fn events_are_those_of_the_targets_too() {
    let nodes = [node("other", Some("mycloud://2"))];
    let wanted = Wanted::read(&settings(&[]), &service(&[]), &nodes).unwrap();
    let events = wanted.all_events();
    let reasons: Vec<&str> = events.iter().map(|event| event.reason.as_str()).collect();
    assert_eq!(reasons, ["UnknownProviderIDPrefix"]);
}

#[test]
fn foreign_ports_stay_where_the_operator_says_so() {
    let keep = [("HCLOUD_LOAD_BALANCERS_KEEP_FOREIGN_PORTS", "true")];
    assert!(wanted(&keep, &[]).keep_foreign);
}
