//! The meaning of answers and refusals, in the vendor's documented form.
#![allow(clippy::unwrap_used, reason = "tests")]

use ccm_guest::testing::{Answer, TestHost, json};
use serde_json::json as value;

use super::super::fixtures::project::refused;
use super::*;

const MANIFEST: &str = include_str!("../../../manifest.json");
const LOAD_BALANCER: &str = include_str!("../../../fixtures/load-balancer.json");
const INVALID: &str = include_str!("../../../fixtures/error-invalid-input.json");
const UID: &str = "0b1f6d5e-7a3c-4c55-9e0a-2f1d3b4c5a69";

fn answering(answer: Answer) -> TestHost {
    TestHost::new(MANIFEST, move |_| answer.clone())
}

fn list(load_balancers: &[&Value], next_page: Value) -> Answer {
    let answer = value!({"load_balancers": load_balancers, "meta": {"pagination": {
        "page": 1, "per_page": 50, "previous_page": null, "next_page": next_page, "last_page": 1,
        "total_entries": load_balancers.len()}}});
    json(200, &answer.to_string())
}

fn fixture() -> Value {
    let mut fixture: Value = serde_json::from_str(LOAD_BALANCER).unwrap();
    fixture["load_balancer"].take()
}

#[test]
fn a_load_balancer_is_read_in_the_documented_form() {
    let found: LoadBalancer = serde_json::from_value(fixture()).unwrap();
    assert_eq!(found.owner(), Some(UID));
    assert_eq!(found.public_net.ipv4.ip.as_deref(), Some("203.0.113.10"));
    assert_eq!(found.public_net.ipv6.dns_ptr.as_deref(), Some(""));
    assert_eq!(found.private_net[0].ip.as_deref(), Some("10.0.0.2"));
    assert_eq!(found.load_balancer_type.max_targets, Some(25));
    assert_eq!(found.load_balancer_type.deprecated, None);
    assert!(!found.protection.delete);
    let https = &found.services[0];
    assert_eq!(https.http.certificates, [897]);
    let check = https.health_check.as_ref().unwrap();
    assert_eq!(check.http.status_codes, ["2??", "3??"]);
    assert_eq!(found.services[1].http, answers::Http::default());
    assert!(found.services[1].proxyprotocol);
    assert_eq!(found.targets[0].server.as_ref().unwrap().id, 80);
    assert!(found.targets[0].use_private_ip && !found.targets[1].use_private_ip);
    assert_eq!(found.targets[1].ip.as_ref().unwrap().ip, "198.51.100.7");
    assert_eq!(found.algorithm.kind, "round_robin");
}

#[test]
fn what_may_be_null_is_read_as_not_said() {
    let mut bare = fixture();
    bare["public_net"]["ipv4"] = value!({"ip": null, "dns_ptr": null});
    bare["services"][0]["http"] = value!({"cookie_name": null, "cookie_lifetime": null,
        "certificates": null, "redirect_http": null, "sticky_sessions": null, "timeout_idle": null});
    bare["services"][0]["health_check"]["http"] =
        value!({"domain": null, "path": null, "status_codes": null, "tls": null});
    bare["targets"][0]["use_private_ip"] = Value::Null;
    let found: LoadBalancer = serde_json::from_value(bare).unwrap();
    assert_eq!(found.services[0].http, answers::Http::default());
}

#[test]
fn absence_needs_a_complete_answer_that_holds_nothing_else() {
    let foreign = {
        let mut foreign = fixture();
        foreign["labels"] = value!({"hcloud-ccm/service-uid": "other"});
        foreign
    };
    let ours = fixture();
    let table: [(Answer, Option<usize>); 9] = [
        (list(&[], Value::Null), Some(0)),
        (list(&[&ours], Value::Null), Some(1)),
        (list(&[&ours, &ours], Value::Null), Some(2)),
        (list(&[], value!(2)), None),
        (list(&[&foreign], Value::Null), None),
        (list(&[&ours, &foreign], Value::Null), None),
        (json(200, r#"{"load_balancers": []}"#), None),
        (json(200, "{}"), None),
        (json(404, r#"{"error": {"code": "not_found"}}"#), None),
    ];
    for (answer, expected) in table {
        let shown = format!("{answer:?}");
        let _host = answering(answer);
        let found = by_owner(UID);
        assert_eq!(found.ok().map(|some| some.len()), expected, "{shown}");
    }
}

/// Another Service's certificate would be deleted, and another load balancer taken over.
#[test]
fn a_list_that_holds_something_else_is_the_clouds_failure() {
    for (uid, name, expected) in [
        (UID, "shop", [true, true]),
        ("other", "shop", [false, true]),
        (UID, "another", [true, false]),
    ] {
        let shown = value!({"id": 1, "name": name, "type": "managed",
            "labels": {"hcloud-ccm/service-uid": uid}});
        let meta = value!({"pagination": {"page": 1, "next_page": null, "last_page": 1, "total_entries": 1}});
        let answer = value!({"certificates": [shown], "meta": meta});
        let _host = answering(json(200, &answer.to_string()));
        let are_taken = [certificates_of(UID).is_ok(), certificate("shop").is_ok()];
        assert_eq!(are_taken, expected, "{uid} {name}");
    }
    for (name, expected) in [("shop", true), ("another", false)] {
        let mut shown = fixture();
        shown["name"] = value!(name);
        let _host = answering(list(&[&shown], Value::Null));
        assert_eq!(by_name("shop").is_ok(), expected, "{name}");
    }
}

/// No defect of this module.
#[test]
fn a_list_that_does_not_say_whether_it_is_complete_is_the_clouds_failure() {
    for meta in [value!(null), value!({}), value!({"pagination": null})] {
        let answer = value!({"load_balancers": [], "meta": meta});
        let _host = answering(json(200, &answer.to_string()));
        let found = by_owner(UID);
        assert!(matches!(found, Err(Error::Unavailable(_))), "{found:?}");
    }
}

#[test]
fn the_code_decides_what_an_error_is_and_not_the_status() {
    let table = [
        (422, "invalid_input", "invalid"),
        (400, "json_error", "invalid"),
        (409, "uniqueness_error", "invalid"),
        (403, "protected", "invalid"),
        (422, "invalid_load_balancer_type", "invalid"),
        (422, "no_subnet_available", "invalid"),
        (500, "unsupported_error", "invalid"),
        (500, "source_port_already_used", "invalid"),
        (500, "ip_not_owned", "invalid"),
        (500, "cloud_resource_ip_not_allowed", "invalid"),
        (500, "missing_ipv4", "invalid"),
        (500, "resolve_cloud_public_targets_error", "invalid"),
        (500, "load_balancer_public_interface_disabled", "invalid"),
        (500, "network_has_no_vswitch_subnet", "invalid"),
        (500, "targets_without_use_private_ip", "invalid"),
        (500, "ip_not_available", "invalid"),
        (401, "unauthorized", "denied"),
        (403, "forbidden", "denied"),
        (403, "token_readonly", "denied"),
        (429, "rate_limit_exceeded", "throttled"),
        (403, "rate_limit_exceeded", "throttled"),
        (409, "conflict", "unavailable"),
        (423, "locked", "unavailable"),
        (404, "not_found", "unavailable"),
        (403, "resource_limit_exceeded", "unavailable"),
        (412, "resource_unavailable", "unavailable"),
        (409, "maintenance", "unavailable"),
        (422, "server_not_attached_to_network", "unavailable"),
        (422, "load_balancer_target_not_found", "unavailable"),
        (422, "resource_in_use", "unavailable"),
        (422, "robot_unavailable", "unavailable"),
        (422, "resolve_cloud_private_targets_error", "unavailable"),
        (422, "load_balancer_not_attached_to_network", "unavailable"),
        (422, "load_balancer_already_attached", "unavailable"),
        (422, "target_already_defined", "unavailable"),
        (422, "service_error", "unavailable"),
        (422, "bad_gateway", "unavailable"),
        (422, "timeout", "unavailable"),
        (500, "server_error", "unavailable"),
        (503, "unknown_error", "unavailable"),
        (422, "a_code_of_tomorrow", "invalid"),
        (500, "a_code_of_tomorrow", "unavailable"),
        (403, "a_code_of_tomorrow", "denied"),
    ];
    for (status, code, expected) in table {
        let _host = answering(refused(status, code));
        let refusal = begin(1, "add_target", &value!({})).unwrap_err();
        assert!(refusal.is(code));
        assert_eq!(refusal.is_busy(), matches!(code, "locked" | "conflict"));
        let kind = match &refusal.error {
            Error::Invalid(_) => "invalid",
            Error::Denied(_) => "denied",
            Error::Throttled(_) => "throttled",
            Error::Unavailable(_) => "unavailable",
            _ => "something else",
        };
        assert_eq!(kind, expected, "{status} {code}");
    }
}

#[test]
fn a_refusal_says_whether_targets_or_the_object_may_explain_it() {
    for (code, targets, object) in [
        ("not_found", true, true),
        ("resource_limit_exceeded", true, true),
        ("resolve_cloud_private_targets_error", true, false),
        ("resolve_cloud_public_targets_error", true, true),
        ("server_not_attached_to_network", true, false),
        ("load_balancer_not_attached_to_network", true, false),
        ("load_balancer_public_interface_disabled", true, true),
        ("ip_not_owned", true, true),
        ("cloud_resource_ip_not_allowed", true, true),
        ("missing_ipv4", true, true),
        ("target_already_defined", true, false),
        ("targets_without_use_private_ip", true, true),
        ("service_error", false, true),
        ("uniqueness_error", false, true),
        ("invalid_input", false, true),
        ("locked", false, false),
        ("server_error", false, false),
    ] {
        let _host = answering(refused(503, code));
        let refusal = create(&value!({})).unwrap_err();
        let found = (refusal.is_about_targets(), refusal.is_about_object());
        assert_eq!(found, (targets, object), "{code}");
    }
}

#[test]
fn what_is_invalid_is_named_field_by_field() {
    let _host = answering(json(422, INVALID));
    let refusal = create(&value!({})).unwrap_err();
    let message = refusal.error.message();
    assert!(
        message.ends_with(
            "(invalid_input): invalid fields: location (unknown location), name (is too long, has a blank)"
        ),
        "{message}"
    );
    assert!(!refusal.is_about_targets());
}

#[test]
fn an_answer_of_somebody_in_between_is_no_refusal_of_the_api() {
    for answer in [
        json(423, "<html>locked</html>"),
        json(409, "{}"),
        json(404, ""),
        json(502, "bad gateway"),
    ] {
        let _host = answering(answer);
        let refusal = delete(1).unwrap_err();
        assert!(
            !refusal.is_busy() && !refusal.is("not_found"),
            "{refusal:?}"
        );
    }
}

#[test]
fn what_is_gone_already_is_deleted() {
    let _host = answering(refused(404, "not_found"));
    assert_eq!(delete(1), Ok(()));
    assert_eq!(delete_certificate(1), Ok(()));
}

#[test]
fn actions_that_were_not_asked_for_count_for_nothing() {
    let answer = value!({"actions": [
        {"id": 1, "status": "success", "command": "add_target", "error": null},
        {"id": 2, "status": "error", "command": "add_target", "error": {"code": "x", "message": "y"}}]});
    let host = answering(json(200, &answer.to_string()));
    let found = actions::actions(&[1, 3]).unwrap();
    assert_eq!(found.iter().map(|one| one.id).collect::<Vec<_>>(), [1]);
    assert_eq!(host.requests(), ["GET /actions?id=1&id=3"]);
}
