//! Which parts of a field are compared, and in which order droplets change.

use super::*;

/// The number of updates that this request causes.
fn updates(account: Account, request: &EnsureRequest) -> usize {
    let (host, _account) = account.serve();
    ensure(&settings(&[]), request).unwrap();
    let sent = host.requests();
    sent.iter().filter(|line| line.starts_with("PUT")).count()
}

#[test]
fn each_part_of_rules_checks_and_firewalls_is_compared() {
    for (pointer, part) in [
        ("/forwarding_rules/0/entry_port", value!(81)),
        ("/forwarding_rules/0/entry_protocol", value!("udp")),
        ("/forwarding_rules/0/target_port", value!(30080)),
        ("/forwarding_rules/0/target_protocol", value!("udp")),
        ("/forwarding_rules/0/certificate_id", value!("c-1")),
        ("/forwarding_rules/0/tls_passthrough", value!(true)),
        ("/health_check/protocol", value!("https")),
        ("/health_check/path", value!("/other")),
        ("/health_check/port", value!(30080)),
        ("/health_check/check_interval_seconds", value!(4)),
        ("/health_check/response_timeout_seconds", value!(6)),
        ("/health_check/unhealthy_threshold", value!(4)),
        ("/health_check/healthy_threshold", value!(6)),
        ("/firewall/allow", value!(["ip:1.2.3.4"])),
        ("/firewall/deny", value!(["ip:1.2.3.4"])),
    ] {
        let mut account = of_the_go_manager(&value!({}));
        let field = account.load_balancers[0].pointer_mut(pointer);
        *field.unwrap() = part;
        let sent = updates(account, &request(owned(FIXTURE, &[])));
        assert_eq!(sent, 1, "{pointer}");
    }
}

#[test]
fn what_an_annotation_sets_is_compared() {
    let sessions = |name: &str, seconds: u64| {
        let sessions =
            value!({"type": "cookies", "cookie_name": name, "cookie_ttl_seconds": seconds});
        value!({"sticky_sessions": sessions})
    };
    let sticky = &[
        ("sticky-sessions-type", "cookies"),
        ("sticky-sessions-cookie-name", "A"),
        ("sticky-sessions-cookie-ttl", "300"),
    ][..];
    let (medium, large) = (&[("size-slug", "lb-medium")], &[("size-slug", "lb-large")]);
    let idle = &[("http-idle-timeout-seconds", "90")];
    for (shown, annotations, expected) in [
        (sessions("A", 300), sticky, 0),
        (sessions("B", 300), sticky, 1),
        (sessions("A", 301), sticky, 1),
        (value!({"http_idle_timeout_seconds": 90}), idle, 0),
        (value!({"http_idle_timeout_seconds": 91}), idle, 1),
        (value!({"size_unit": 3}), medium, 0),
        (value!({"size_unit": 6}), medium, 1),
        (value!({"size_unit": 6}), large, 0),
        (value!({"size_unit": 3}), large, 1),
    ] {
        let account = of_the_go_manager(&shown);
        let sent = updates(account, &request(owned(FIXTURE, annotations)));
        assert_eq!(sent, expected, "{shown}");
    }
}

/// A set that is replaced as a whole is never empty in between.
#[test]
fn new_droplets_come_before_former_ones_leave() {
    let (host, _account, id) = made();
    let before = host.requests().len();
    let update = UpdateRequest::new(owned(&id, &[]), vec![worker(3)]);
    update_targets(&settings(&[]), &update).unwrap();
    let path = format!("/v2/load_balancers/{id}");
    let sent = [
        format!("GET {path}"),
        format!("POST {path}/droplets"),
        format!("DELETE {path}/droplets"),
    ];
    assert_eq!(host.requests()[before..], sent);
}

/// The tag would select the droplets all the same: `ensure` removes it.
#[test]
fn droplets_that_a_tag_selects_are_left_to_ensure() {
    let (host, _account) = of_the_go_manager(&value!({"tag": "web"})).serve();
    let update = UpdateRequest::new(owned(FIXTURE, &[]), vec![worker(3)]);
    let error = update_targets(&settings(&[]), &update).unwrap_err();
    assert!(matches!(error, Error::Unavailable(_)), "{error:?}");
    assert!(host.requests().iter().all(|line| line.starts_with("GET")));
}
