#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod absence;
mod regions;
mod schemas;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::grant::Secret;

fn whole() -> Value {
    json!({
        "$schema": "https://wasm-ccm.dev/schema/manifest-0.1.json",
        "contract": "0.1.0", "name": "hcloud", "version": "0.1.0", "description": "Hetzner Cloud",
        "schemes": ["hcloud", "hrobot"],
        "targets": [{
            "name": "api", "endpoint": "https://api.hetzner.cloud/v1", "auth": "bearer", "why": "the API", "required": true,
            "rules": [
                { "methods": ["GET"], "path": "/servers", "access": "read" },
                { "methods": ["GET", "DELETE"], "path": "/load_balancers/{id}", "access": "write" },
                { "methods": ["POST"], "path": "/", "form": { "Action": ["DescribeInstances", "CreateRoute"] }, "access": "write" }
            ]
        }],
        "annotationPrefixes": ["load-balancer.hetzner.cloud/"],
        "config": [{ "key": "HCLOUD_NETWORK", "why": "the network", "required": false }],
        "limits": { "memoryMiB": 64, "callSeconds": 60 }
    })
}

/// The whole manifest with one value replaced.
fn with(pointer: &str, value: Value) -> Value {
    let mut manifest = whole();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    match manifest.pointer_mut(parent).unwrap() {
        Value::Object(fields) => drop(fields.insert(key.to_owned(), value)),
        Value::Array(items) => items[key.parse::<usize>().unwrap()] = value,
        other => panic!("{other} has no parts"),
    }
    manifest
}

fn parse(json: &Value) -> Result<Manifest, ManifestError> {
    Manifest::parse(json.to_string().as_bytes())
}

fn bearer() -> Grants {
    let mut grants = parse(&whole()).unwrap().as_grants();
    grants.targets[0].credential = Credential::Bearer(Secret::new("token".to_owned()));
    grants
}

fn missing(grants: Grants) -> Vec<String> {
    parse(&whole())
        .unwrap()
        .narrow(grants)
        .map(|_| ())
        .unwrap_err()
        .lines
}

#[test]
fn a_whole_manifest_is_read() {
    let manifest = parse(&whole()).unwrap();
    assert_eq!(
        (manifest.name.as_str(), manifest.schemes.len()),
        ("hcloud", 2)
    );
    let [target] = manifest.targets.as_slice() else {
        panic!("one target")
    };
    assert_eq!(
        (target.auth, target.endpoint.as_str()),
        (AuthKind::Bearer, "https://api.hetzner.cloud/v1")
    );
    let rules: Vec<_> = target.rules.iter().map(Rule::to_string).collect();
    assert_eq!(rules[1], "GET,DELETE /load_balancers/{id} (write)");
    assert_eq!(
        manifest.limits,
        WantedLimits {
            memory_mib: Some(64),
            call_seconds: Some(60)
        }
    );
}

#[test]
fn the_least_manifest_has_no_network() {
    let manifest =
        parse(&json!({ "contract": "0.1.0", "name": "static", "version": "1" })).unwrap();
    assert!(manifest.targets.is_empty() && manifest.schemes.is_empty());
    let granted = manifest.narrow(Grants::default()).unwrap();
    assert!(granted.targets.is_empty() && granted.warnings.is_empty());
}

#[test]
fn every_mistake_is_refused_by_name() {
    let many = |count: usize| {
        Value::from(
            (0..count)
                .map(|number| format!("s{number}"))
                .collect::<Vec<_>>(),
        )
    };
    let times = |part: &str, count: usize| {
        let part = whole().pointer(part).cloned();
        Value::from(vec![part.unwrap(); count])
    };
    for (pointer, value, word) in [
        ("/contract", json!("1"), "contract"),
        ("/contract", json!("0.1.x"), "contract"),
        ("/name", json!("Hetzner Cloud"), "name"),
        ("/name", json!(""), "name"),
        ("/name", json!("-a"), "name"),
        ("/version", json!("1 0"), "version"),
        ("/description", json!("\u{1b}[31mred"), "description"),
        ("/description", json!("a\u{202e}b"), "description"),
        ("/schemes/0", json!("hcloud://"), "scheme"),
        ("/schemes/0", json!("HCLOUD"), "scheme"),
        ("/schemes/1", json!("hcloud"), "twice"),
        ("/schemes", many(17), "at most 16"),
        ("/schemes/0", json!("s".repeat(64)), "scheme"),
        ("/version", json!("1".repeat(65)), "version"),
        (
            "/description",
            json!("a".repeat(1025)),
            "at most 1024 bytes",
        ),
        ("/annotationPrefixes", many(17), "at most 16"),
        ("/targets", times("/targets/0", 17), "at most 16"),
        (
            "/targets/0/rules",
            times("/targets/0/rules/0", 257),
            "1 to 256",
        ),
        ("/config", times("/config/0", 257), "at most 256"),
        ("/config/0/key", json!("K".repeat(129)), "config key"),
        ("/surprise", json!(1), "unknown key \"surprise\""),
        ("/targets/0/host", json!("evil"), "unknown key \"host\""),
        ("/targets/0/name", json!("a b"), "DNS label"),
        ("/targets/0/auth", json!("sigv4"), "auth"),
        ("/targets/0/why", json!("a\nb"), "control"),
        ("/targets/0/rules", json!([]), "rules"),
        (
            "/targets/0/optional",
            json!(true),
            "unknown key \"optional\"",
        ),
        (
            "/targets/0/endpoint",
            json!("http://api.hetzner.cloud"),
            "https",
        ),
        ("/targets/0/endpoint", json!("ftp://x/"), "https"),
        (
            "/targets/0/endpoint",
            json!("https://user:pass@x/"),
            "credential",
        ),
        ("/targets/0/endpoint", json!("https://x/?a"), "base path"),
        (
            "/targets/0/endpoint",
            json!("https://x/a/%2e%2e/b%2fc"),
            "base path",
        ),
        ("/targets/0/endpoint", json!("x"), "endpoint"),
        (
            "/targets/0/endpoint",
            json!("https://{zone}.api.example/"),
            "placeholder",
        ),
        ("/targets/0/rules/0/path", json!("/x/**"), "no wildcards"),
        ("/targets/0/rules/0/path", json!("/x/*"), "no wildcards"),
        (
            "/targets/0/endpoint",
            json!("https://169.254.169.254/"),
            "metadata",
        ),
        (
            "/targets/0/endpoint",
            json!("https://0xa9fea9fe/"),
            "metadata",
        ),
        ("/targets/0/endpoint", json!("https://x:0/"), "port 0"),
        ("/targets/0/rules/0/path", json!("/a/../b"), "rule 1"),
        ("/targets/0/rules/0/methods", json!(["TRACE"]), "TRACE"),
        ("/targets/0/rules/0/extra", json!(1), "extra"),
        (
            "/targets/0/rules/1/access",
            json!("read"),
            "DELETE changes something",
        ),
        (
            "/annotationPrefixes/0",
            json!("load-balancer.hetzner.cloud"),
            "annotation prefix",
        ),
        (
            "/annotationPrefixes/0",
            json!("node.kubernetes.io/"),
            "Kubernetes'",
        ),
        ("/annotationPrefixes/0", json!("k8s.io/x"), "Kubernetes'"),
        (
            "/annotationPrefixes/0",
            json!("wasm-ccm.dev/"),
            "Kubernetes'",
        ),
        ("/annotationPrefixes/0", json!("/x"), "annotation prefix"),
        ("/config/0/key", json!("A B"), "config key"),
        ("/config/0/default", json!("x"), "unknown key"),
        ("/limits/memoryMiB", json!(0), "memoryMiB"),
        ("/limits/memoryMiB", json!(1025), "memoryMiB"),
        ("/limits/callSeconds", json!(301), "callSeconds"),
        ("/limits/cpu", json!(1), "unknown key"),
    ] {
        match parse(&with(pointer, value.clone())) {
            Err(ManifestError::Mistakes(mistakes)) => {
                assert!(
                    mistakes.iter().any(|mistake| mistake.contains(word)),
                    "{pointer} {value}: {word:?} is not in {mistakes:?}"
                );
            }
            other => panic!("{pointer} {value}: {other:?}"),
        }
    }
    // A domain that only looks like a foreign one is accepted.
    assert!(
        parse(&with(
            "/annotationPrefixes/0",
            json!("kubernetes.io.example.com/")
        ))
        .is_ok()
    );
    assert!(parse(&with("/annotationPrefixes/0", json!("notkubernetes.io/"))).is_ok());
    assert!(
        parse(&with(
            "/targets/0/endpoint",
            json!("http://localhost:8080/v1")
        ))
        .is_ok()
    );
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let mut manifest = with("/name", json!("A B"));
    manifest["surprise"] = json!(true);
    manifest["targets"][0]["auth"] = json!("magic");
    manifest["targets"][0]["rules"][0]["path"] = json!("a");
    manifest["limits"]["callSeconds"] = json!(0);
    let Err(ManifestError::Mistakes(mistakes)) = parse(&manifest) else {
        panic!("expected mistakes")
    };
    assert_eq!(mistakes.len(), 5, "{mistakes:#?}");
}

#[test]
fn what_is_missing_hides_no_other_mistake() {
    let mut manifest = whole();
    manifest["targets"][0]
        .as_object_mut()
        .unwrap()
        .remove("rules");
    manifest["limits"]["callSeconds"] = json!(0);
    manifest["schemes"][0] = json!("A");
    let Err(ManifestError::Mistakes(mistakes)) = parse(&manifest) else {
        panic!("expected mistakes")
    };
    assert_eq!(mistakes.len(), 3, "{mistakes:#?}");
    assert!(
        mistakes.iter().any(|line| line.contains("0 rules")),
        "{mistakes:#?}"
    );
    let Err(ManifestError::Mistakes(mistakes)) = parse(&json!({})) else {
        panic!("expected mistakes")
    };
    let [contract, name, version] = mistakes.as_slice() else {
        panic!("{mistakes:#?}")
    };
    assert!(contract.starts_with("contract \"\"") && name.starts_with("name \"\""));
    assert!(version.starts_with("version \"\""));
}

#[test]
fn the_former_spelling_of_a_limit_is_read() {
    let mut manifest = whole();
    manifest["limits"] = json!({ "memoryMib": 32 });
    assert_eq!(parse(&manifest).unwrap().limits.memory_mib, Some(32));
}

#[test]
fn what_is_too_large_or_not_json_is_refused() {
    let large = with("/description", json!("x".repeat(MAX_MANIFEST)));
    assert!(matches!(parse(&large), Err(ManifestError::TooLarge(_))));
    for bytes in [
        &b""[..],
        b"{",
        b"[]",
        b"null",
        b"\xff",
        b"{\"contract\":1}",
        b"{\"name\":\"a\",\"name\":\"b\"}",
    ] {
        assert!(
            matches!(Manifest::parse(bytes), Err(ManifestError::Json(_))),
            "{}",
            String::from_utf8_lossy(bytes)
        );
    }
    let deep = format!("{}{}", "[".repeat(30_000), "]".repeat(30_000));
    assert!(matches!(
        Manifest::parse(deep.as_bytes()),
        Err(ManifestError::Json(_))
    ));
}

#[test]
fn what_is_granted_exactly_is_granted_whole() {
    let granted = parse(&whole()).unwrap().narrow(bearer()).unwrap();
    assert!(granted.warnings.is_empty(), "{:?}", granted.warnings);
    assert_eq!(granted.targets[0].lines.len(), 5);
    assert_eq!(
        granted.annotation_prefixes,
        ["load-balancer.hetzner.cloud/"]
    );
}

#[test]
fn every_missing_line_is_named() {
    assert_eq!(
        missing(Grants::default()),
        [
            "target api: https://api.hetzner.cloud/v1 with bearer credential",
            "target api: GET /servers (read)",
            "target api: GET /load_balancers/{id} (write)",
            "target api: DELETE /load_balancers/{id} (write)",
            "target api: POST / form Action=CreateRoute (write)",
            "target api: POST / form Action=DescribeInstances (write)",
            "annotation prefix load-balancer.hetzner.cloud/",
        ]
    );
    let mut some = bearer();
    some.annotation_prefixes.clear();
    some.targets[0].credential = Credential::None;
    some.targets[0].rules = [
        json!({ "methods": ["GET"], "path": "/{anything}", "access": "read" }),
        json!({ "methods": ["GET"], "path": "/load_balancers/{id}", "access": "read" }),
        json!({ "methods": ["DELETE"], "path": "/servers/{id}", "access": "write" }),
        json!({ "methods": ["POST"], "path": "/", "form": { "Action": ["CreateRoute"] }, "access": "write" }),
    ]
    .map(|rule| serde_json::from_value(rule).unwrap())
    .to_vec();
    assert_eq!(
        missing(some),
        [
            "target api: bearer credential (granted: none)",
            "target api: GET /load_balancers/{id} (write)",
            "target api: DELETE /load_balancers/{id} (write)",
            "target api: POST / form Action=DescribeInstances (write)",
            "annotation prefix load-balancer.hetzner.cloud/",
        ]
    );
}

#[test]
fn an_optional_target_may_be_missing_and_only_as_a_whole() {
    let mut manifest = whole();
    let mut second = manifest["targets"][0].clone();
    second["name"] = json!("second");
    second["required"] = json!(false);
    manifest["targets"].as_array_mut().unwrap().push(second);
    let manifest = parse(&manifest).unwrap();
    assert_eq!(manifest.as_grants().targets.len(), 1, "not granted unasked");

    let granted = manifest.narrow(bearer()).unwrap();
    assert_eq!(granted.targets.len(), 1);
    assert!(granted.warnings.is_empty(), "{:?}", granted.warnings);

    let mut both = bearer();
    let mut second = manifest.targets[1].as_grant();
    second.credential = Credential::Bearer(Secret::new("other".to_owned()));
    both.targets.push(second);
    assert_eq!(manifest.narrow(both.clone()).unwrap().targets.len(), 2);

    both.targets[1].credential = Credential::None;
    both.targets[1].rules.truncate(2);
    let Missing { lines } = manifest.narrow(both).map(|_| ()).unwrap_err();
    assert_eq!(
        lines,
        [
            "target second: bearer credential (granted: none)",
            "target second: POST / form Action=CreateRoute (write)",
            "target second: POST / form Action=DescribeInstances (write)",
        ]
    );
}

#[test]
fn the_granted_access_decides_and_the_rest_is_a_warning() {
    let mut grants = bearer();
    grants.targets[0].rules[0] = serde_json::from_value(
        json!({ "methods": ["GET", "POST"], "path": "/servers", "access": "write" }),
    )
    .unwrap();
    grants.annotation_prefixes = vec![
        "load-balancer.hetzner.cloud/".to_owned(),
        "other.example.com/".to_owned(),
    ];
    let mut other = grants.targets[0].clone();
    other.name = "other".to_owned();
    grants.targets.push(other);
    let granted = parse(&whole()).unwrap().narrow(grants).unwrap();
    assert_eq!(
        granted.targets[0].lines[0].to_string(),
        "GET /servers (write)"
    );
    assert_eq!(
        granted.warnings,
        [
            "target api: POST /servers (write) is granted, but not requested",
            "target other is granted, but not requested",
            "annotation prefix other.example.com/ is granted, but not requested",
        ]
    );
}

#[test]
fn a_credential_that_was_not_requested_is_not_used() {
    let manifest = parse(&with("/targets/0/auth", json!("none"))).unwrap();
    let granted = manifest.narrow(bearer()).unwrap();
    assert_eq!(granted.targets[0].grant.credential.kind(), AuthKind::None);
    assert_eq!(granted.warnings.len(), 1);
}

#[test]
fn a_grant_may_name_another_endpoint() {
    let mut grants = bearer();
    grants.targets[0].endpoint = "http://127.0.0.1:8080/other".parse().unwrap();
    let granted = parse(&whole()).unwrap().narrow(grants).unwrap();
    assert_eq!(
        granted.targets[0].grant.endpoint.as_str(),
        "http://127.0.0.1:8080/other"
    );
}

proptest! {
    #[test]
    fn no_bytes_break_the_reader(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Manifest::parse(&bytes);
    }

    #[test]
    fn no_text_in_any_place_breaks_the_reader(text in any::<String>(), place in 0_usize..12) {
        let places = [
            "/contract", "/name", "/version", "/description", "/schemes/0", "/targets/0/name", "/targets/0/endpoint",
            "/targets/0/auth", "/targets/0/rules/0/path", "/targets/0/rules/0/methods", "/annotationPrefixes/0", "/config/0/key",
        ];
        let _ = parse(&with(places[place], json!(text)));
    }
}
