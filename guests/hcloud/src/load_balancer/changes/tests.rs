//! Which difference causes which write, field by field.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::super::annotations;
use super::super::fixtures::{service, settings};
use super::super::request_bodies::digest;
use super::*;

mod services;

const FIXTURE: &str = include_str!("../../../fixtures/load-balancer.json");

fn read(fixture: Value) -> LoadBalancer {
    serde_json::from_value(fixture).unwrap()
}

/// A load balancer with HTTPS on port 443 that agrees with [`wanted`].
fn found() -> Value {
    let mut fixture: Value = serde_json::from_str(FIXTURE).unwrap();
    let mut found = fixture["load_balancer"].take();
    found["services"].as_array_mut().unwrap().pop();
    found["targets"] = json!([]);
    found
}

const ANNOTATIONS: [(&str, &str); 15] = [
    (annotations::PROTOCOL, "https"),
    (annotations::TYPE, "lb11"),
    (annotations::ALGORITHM_TYPE, "round_robin"),
    (annotations::USES_PROXYPROTOCOL, "false"),
    (annotations::HTTP_COOKIE_NAME, "HCLBSTICKY"),
    (annotations::HTTP_COOKIE_LIFETIME, "5m"),
    (annotations::HTTP_TIMEOUT_IDLE, "60s"),
    (annotations::HTTP_CERTIFICATES, "897"),
    (annotations::HTTP_REDIRECT_HTTP, "true"),
    (annotations::HTTP_STICKY_SESSIONS, "true"),
    (annotations::HEALTH_CHECK_PROTOCOL, "http"),
    (annotations::HEALTH_CHECK_INTERVAL, "15s"),
    (annotations::HEALTH_CHECK_HTTP_DOMAIN, "example.com"),
    (annotations::HEALTH_CHECK_HTTP_PATH, "/"),
    (annotations::HTTP_STATUS_CODES, "3??,2??"),
];

fn wanted_with(extra: &[(&str, &str)]) -> Wanted {
    let kept = ANNOTATIONS
        .iter()
        .filter(|(key, _)| !extra.iter().any(|(other, _)| other == key));
    let all: Vec<(&str, &str)> = kept.chain(extra).copied().collect();
    let mut service = service(&all);
    service.ports[0].port = 443;
    service.ports[0].node_port = Some(30443);
    let settings = settings(&[("HCLOUD_NETWORK", "4711")]);
    Wanted::read(&settings, &service, &[]).unwrap()
}

/// Where nobody names a type, one that a person has made larger stays so; where somebody does, it is set back.
#[test]
fn a_default_type_is_another_wish_than_the_same_type_by_name() {
    let named = wanted_with(&[(annotations::TYPE, "lb11")]);
    let by_default = Wanted {
        type_source: TypeSource::Default,
        ..named.clone()
    };
    assert_ne!(digest(&named), digest(&by_default));
}

fn known() -> Known {
    Known {
        network: Some(4711),
        certificates: Some(vec![897]),
    }
}

/// Each write as its action and its body.
fn writes(changes: Vec<Change>) -> Vec<(String, Value)> {
    let short = changes.into_iter().map(|change| {
        let name = match change.node {
            Some(node) => format!("{} of {node}", change.action),
            None => change.action,
        };
        (name, change.body)
    });
    short.collect()
}

#[test]
fn the_label_of_a_managed_certificate_is_written_where_no_port_shows_one() {
    let mut wanted = wanted_with(&[]);
    wanted.labels.insert(ORDERED.to_owned(), "true".to_owned());
    let mut found = found();
    assert_eq!(of_itself(&wanted, &known(), &read(found.clone())), []);
    // Other labels are kept when labels are written.
    found["labels"] = json!({"mine": "yes"});
    let changes = writes(of_itself(&wanted, &known(), &read(found.clone())));
    assert_eq!(changes[0].1["labels"][ORDERED], "true", "{changes:?}");
    for service in found["services"].as_array_mut().unwrap() {
        service["http"]["certificates"] = json!([]);
    }
    let changes = writes(of_itself(&wanted, &known(), &read(found)));
    assert_eq!(changes[0].1["labels"][ORDERED], "true", "{changes:?}");
}

#[test]
fn what_agrees_causes_no_write() {
    let (wanted, found) = (wanted_with(&[]), read(found()));
    assert_eq!(of_itself(&wanted, &known(), &found), []);
    assert_eq!(of_services(&wanted, &known(), &found), []);
    let targets = of_targets(&wanted.targets, false, &found);
    assert_eq!(targets, TargetChanges::default());
}

#[test]
fn every_property_of_the_load_balancer_itself_is_compared() {
    let table: [(&str, &str, &str, Value); 8] = [
        (annotations::NAME, "shop", "update", json!({"name": "shop"})),
        (
            annotations::IPV4_RDNS,
            "a.example.com",
            "change_dns_ptr",
            json!({"ip": "203.0.113.10", "dns_ptr": "a.example.com"}),
        ),
        (
            annotations::IPV6_RDNS,
            "b.example.com",
            "change_dns_ptr",
            json!({"ip": "2001:db8:c17::1", "dns_ptr": "b.example.com"}),
        ),
        (
            annotations::ALGORITHM_TYPE,
            "least_connections",
            "change_algorithm",
            json!({"type": "least_connections"}),
        ),
        (
            annotations::TYPE,
            "lb21",
            "change_type",
            json!({"load_balancer_type": "lb21"}),
        ),
        (
            annotations::PRIVATE_IPV4,
            "10.0.0.3",
            "detach_from_network",
            json!({"network": 4711}),
        ),
        (
            annotations::DISABLE_PUBLIC_NETWORK,
            "true",
            "disable_public_interface",
            json!({}),
        ),
        // The location cannot be changed.
        (annotations::LOCATION, "hel1", "", Value::Null),
    ];
    for (key, value, write, body) in table {
        let wanted = wanted_with(&[(key, value)]);
        let writes = writes(of_itself(&wanted, &known(), &read(found())));
        let expected: Vec<(String, Value)> = match write {
            "" => Vec::new(),
            write => vec![(write.to_owned(), body)],
        };
        assert_eq!(writes, expected, "{key}");
    }
}

#[test]
fn it_is_attached_to_the_wanted_network_and_to_no_other() {
    let attach = |body| ("attach_to_network".to_owned(), body);
    let detach = |id: u64| ("detach_from_network".to_owned(), json!({"network": id}));
    let mut elsewhere = found();
    elsewhere["private_net"] = json!([{"network": 1, "ip": "10.1.0.2"}]);
    let mut nowhere = found();
    nowhere["private_net"] = json!([]);
    let plain = wanted_with(&[]);
    let with_address = wanted_with(&[
        (annotations::PRIVATE_IPV4, "10.0.0.3"),
        (annotations::PRIVATE_SUBNET_IP_RANGE, "10.0.0.0/24"),
    ]);
    let mut none = wanted_with(&[]);
    none.network = None;
    let table = [
        (
            &plain,
            known(),
            &nowhere,
            vec![attach(json!({"network": 4711}))],
        ),
        (
            &with_address,
            known(),
            &nowhere,
            vec![attach(
                json!({"network": 4711, "ip": "10.0.0.3", "ip_range": "10.0.0.0/24"}),
            )],
        ),
        (&plain, known(), &elsewhere, vec![detach(1)]),
        (
            &none,
            Known {
                network: None,
                ..known()
            },
            &elsewhere,
            vec![detach(1)],
        ),
    ];
    for (wanted, known, found, expected) in table {
        let changes = of_itself(wanted, &known, &read(found.clone()));
        assert!(changes.iter().all(|change| change.unsettles));
        assert_eq!(writes(changes), expected);
    }
}

#[test]
fn a_public_interface_that_nobody_spoke_of_is_switched_on_only_where_it_has_to_be() {
    let attach = "attach_to_network";
    let enable = "enable_public_interface";
    let off = |bare: bool, attached: bool| {
        let mut found = found();
        found["public_net"]["enabled"] = json!(false);
        if bare {
            found["services"] = json!([]);
        }
        if !attached {
            found["private_net"] = json!([]);
        }
        read(found)
    };
    let mut public = wanted_with(&[]);
    public.targets = targets_of(&[(server(1, false), "a")]);
    let mut private = wanted_with(&[]);
    private.targets = targets_of(&[(server(1, true), "a")]);
    let switched_off = wanted_with(&[(annotations::DISABLE_PUBLIC_NETWORK, "true")]);
    // The wanted state, whether there are no services, whether it is attached to the network; the writes.
    let table: [(&Wanted, bool, bool, &[&str]); 7] = [
        (&private, false, true, &[]),
        // Without ports, too, it may be a person who has closed it to the internet.
        (&private, true, true, &[]),
        // The cloud refuses the target, and names the reason.
        (&public, false, true, &[]),
        (&private, false, false, &[attach]),
        // The state after a failed create action.
        (&private, true, false, &[enable, attach]),
        (&public, true, false, &[enable, attach]),
        (&switched_off, true, false, &[attach]),
    ];
    for (wanted, bare, attached, expected) in table {
        let writes = writes(of_itself(wanted, &known(), &off(bare, attached)));
        let names: Vec<&str> = writes.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, expected, "{bare} {attached}");
    }
    let mut without_network = private.clone();
    without_network.network = None;
    let known = Known {
        network: None,
        ..known()
    };
    let changes = of_itself(&without_network, &known, &off(false, false));
    assert_eq!(writes(changes)[0].0, enable);
}

#[test]
fn labels_of_others_stay_when_ours_is_written() {
    let mut found = found();
    found["labels"] = json!({"env": "prod", "hcloud-ccm/service-uid": "other"});
    let wanted = wanted_with(&[]);
    let writes = writes(of_itself(&wanted, &known(), &read(found)));
    let uid = super::super::fixtures::UID;
    let labels = json!({"labels": {"env": "prod", "hcloud-ccm/service-uid": uid}});
    assert_eq!(writes, [("update".to_owned(), labels)]);
}

#[test]
fn a_new_port_comes_before_an_old_one_goes_unless_there_is_no_room() {
    for (room, expected) in [
        (Some(5), ["add_service", "delete_service"]),
        (Some(1), ["delete_service", "add_service"]),
        (None, ["add_service", "delete_service"]),
    ] {
        let mut wanted = wanted_with(&[(annotations::HTTP_REDIRECT_HTTP, "false")]);
        let service = wanted.services.remove(&443).unwrap();
        wanted.services.insert(8443, service);
        let mut found = found();
        found["services"][0]["http"]["redirect_http"] = json!(false);
        found["load_balancer_type"]["max_services"] = json!(room);
        let writes = writes(of_services(&wanted, &known(), &read(found)));
        let names: Vec<&str> = writes.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, expected);
    }
}

/// A redirect listens on port 80, where the cloud takes no second listener.
#[test]
fn port_80_is_free_before_a_service_or_a_redirect_takes_it() {
    // The services found, and those wanted, each by its port and whether port 80 redirects to it; the writes.
    type Row<'a> = (&'a [(u16, bool)], &'a [(u16, bool)], &'a [&'a str]);
    let table: [Row<'_>; 7] = [
        (
            &[(443, true)],
            &[(80, false), (443, false)],
            &["update_service 443", "add_service 80"],
        ),
        (
            &[(80, false), (443, false)],
            &[(443, true)],
            &["delete_service 80", "update_service 443"],
        ),
        (
            &[(80, false)],
            &[(443, true)],
            &["delete_service 80", "add_service 443"],
        ),
        (
            &[(443, true)],
            &[(8443, true)],
            &["delete_service 443", "add_service 8443"],
        ),
        (
            &[(443, true)],
            &[(80, false)],
            &["delete_service 443", "add_service 80"],
        ),
        // Another old port listens until the new one does.
        (
            &[(80, false), (8080, false)],
            &[(443, true)],
            &[
                "delete_service 80",
                "add_service 443",
                "delete_service 8080",
            ],
        ),
        // Nothing takes port 80.
        (
            &[(80, false), (443, false)],
            &[(443, false), (8443, false)],
            &["add_service 8443", "delete_service 80"],
        ),
    ];
    for (shown, wished, expected) in table {
        let mut found = found();
        let https = found["services"][0].take();
        let one_found = |(port, redirects): &(u16, bool)| {
            let mut service = https.clone();
            service["listen_port"] = json!(port);
            service["http"]["redirect_http"] = json!(redirects);
            service
        };
        found["services"] = shown.iter().map(one_found).collect();
        let mut wanted = wanted_with(&[]);
        let https = wanted.services.remove(&443).unwrap();
        let one_wanted = |(port, redirects): &(u16, bool)| {
            let mut service = https.clone();
            service.http.as_mut().unwrap().redirect_http = Some(*redirects);
            (*port, service)
        };
        wanted.services = wished.iter().map(one_wanted).collect();
        let writes = writes(of_services(&wanted, &known(), &read(found)));
        let names: Vec<String> = writes
            .iter()
            .map(|(name, body)| format!("{name} {}", body["listen_port"]))
            .collect();
        assert_eq!(names, expected);
    }
}

fn server(id: u64, use_private_ip: bool) -> Target {
    Target::Server { id, use_private_ip }
}

fn targets_of(targets: &[(Target, &str)]) -> WantedTargets {
    let targets = targets
        .iter()
        .map(|(target, node)| (*target, (*node).to_owned()));
    WantedTargets {
        targets: targets.collect(),
        ..WantedTargets::default()
    }
}

#[test]
fn targets_are_made_equal_to_the_nodes() {
    let ip = |text: &str| Target::Ip(text.parse().unwrap());
    let there = |targets: Value| {
        let mut found = found();
        found["targets"] = targets;
        found["load_balancer_type"]["max_targets"] = json!(3);
        read(found)
    };
    let is_server =
        |id: u64| json!({"type": "server", "server": {"id": id}, "use_private_ip": false});
    let is_ip = |ip: &str| json!({"type": "ip", "ip": {"ip": ip}});
    let selector = json!({"type": "label_selector", "label_selector": {"selector": "a"}});
    type Row<'a> = (Value, &'a [(Target, &'a str)], &'a [&'a str], &'a [&'a str]);
    let table: [Row<'_>; 7] = [
        (
            json!([]),
            &[(server(1, false), "a")],
            &["add_target of a"],
            &[],
        ),
        (json!([is_server(1)]), &[], &["remove_target"], &[]),
        (
            json!([is_server(1)]),
            &[(server(2, false), "b")],
            &["remove_target", "add_target of b"],
            &[],
        ),
        // Another address: the target is removed and added again, and keeps its place.
        (
            json!([is_server(1), is_server(2), selector]),
            &[
                (server(1, true), "a"),
                (server(2, true), "b"),
                (server(3, true), "c"),
            ],
            &["remove_target", "remove_target"],
            &["c"],
        ),
        (
            json!([is_ip("198.51.100.1"), is_ip("198.51.100.2")]),
            &[(ip("198.51.100.2"), "x"), (ip("198.51.100.3"), "y")],
            &["remove_target", "add_target of y"],
            &[],
        ),
        // Targets by label selector stay, and count towards the maximum.
        (
            json!([selector, selector, selector]),
            &[(server(1, false), "a")],
            &[],
            &["a"],
        ),
        (json!([is_ip("no address")]), &[], &[], &[]),
    ];
    for (found, wanted, expected, without_capacity) in table {
        let changes = of_targets(&targets_of(wanted), false, &there(found.clone()));
        assert_eq!(changes.without_capacity, without_capacity, "{found}");
        let writes = writes(changes.changes);
        let names: Vec<&str> = writes.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, expected, "{found}");
    }
}

#[test]
fn addresses_of_others_stay_where_the_operator_says_so_and_servers_never() {
    let mut found = found();
    found["targets"] = json!([
        {"type": "ip", "ip": {"ip": "198.51.100.1"}},
        {"type": "server", "server": {"id": 1}, "use_private_ip": false}]);
    let changes = of_targets(&WantedTargets::default(), true, &read(found));
    let body = json!({"type": "server", "server": {"id": 1}});
    assert_eq!(
        writes(changes.changes),
        [("remove_target".to_owned(), body)]
    );
}
