//! The limits of an object's spec, where the API server has accepted it.
#![allow(clippy::unwrap_used, reason = "tests")]

use serde_json::{Value, json};

use super::*;

fn spec() -> Value {
    json!({
        "source": "embedded:hcloud",
        "grants": {"targets": [{
            "name": "api",
            "endpoint": "https://api.hetzner.cloud/v1",
            "credential": {"bearer": {"secret": {"namespace": "clouds", "name": "hcloud", "key": "token"}}},
            "rules": [{"methods": ["GET"], "path": "/servers", "access": "read"}],
        }]},
    })
}

fn read(name: &str, spec: &Value) -> Result<ProviderConfig, SpecRefusal> {
    let written = WrittenObject::read(name, spec, "clouds")?;
    assert_eq!(written.secrets().len(), 1);
    written.meaning(&|_| Ok("a token".to_owned()))
}

#[test]
fn a_spec_is_an_entry_of_the_file_without_its_name() {
    let config = read("hcloud-fsn", &spec()).unwrap();
    assert_eq!(config.name, "hcloud-fsn");
    assert_eq!(config.source.to_string(), "embedded:hcloud");
    assert_eq!(config.grants.unwrap().targets.len(), 1);
}

/// An earlier definition of the kind may let it pass, and everybody who may read objects reads their status.
#[test]
fn a_secret_in_place_of_a_reference_to_it_is_not_shown() {
    let credential = "/grants/targets/0/credential";
    for (place, value) in [
        ("", json!("hunter2, expected 2")),
        ("/bearer", json!("hunter2")),
        ("/bearer", json!({"hunter2": "x"})),
        ("/bearer/secret", json!("hunter2")),
    ] {
        let mut spec = spec();
        *spec.pointer_mut(&format!("{credential}{place}")).unwrap() = value;
        let refusal = read("hcloud", &spec).err().unwrap();
        assert!(!refusal.message.contains("hunter2"), "{}", refusal.message);
        assert!(refusal.message.contains("expected "), "{}", refusal.message);
    }
}

#[test]
fn g15_what_an_object_may_not_say_is_refused_with_its_reason() {
    let target = "/grants/targets/0";
    let secret = json!({"namespace": "kube-system", "name": "x", "key": "y"});
    let table = [
        (
            "",
            "/name",
            json!("x"),
            "InvalidSpec",
            "it is the object's own",
        ),
        (
            "",
            "/grants",
            Value::Null,
            "InvalidSpec",
            "grants: an object says itself",
        ),
        (
            "",
            "/sources",
            json!("x"),
            "InvalidSpec",
            "unknown field `sources`",
        ),
        (
            "",
            "/source",
            json!("https://x"),
            "InvalidSpec",
            "`https://` is not known",
        ),
        (
            target,
            "/caFile",
            json!("/etc/ca"),
            "InvalidSpec",
            "names no file",
        ),
        (
            target,
            "/credential",
            json!({"awsSigV4": {"region": "eu-central-1", "service": "ec2", "source": {"instanceMetadata": {}}}}),
            "InvalidSpec",
            "no identity of the manager's own",
        ),
        (
            target,
            "/credential",
            json!({"awsSigV4": {"region": "eu-central-1", "service": "ec2", "source": {"container": {"issuer": {"endpoint": "http://127.0.0.1:1/x"}}}}}),
            "InvalidSpec",
            "no identity of the manager's own",
        ),
        (
            target,
            "/credential",
            json!({"oauth2": {"issuer": {"endpoint": "https://login.example.com", "caFile": "/etc/ca"}, "client": {"id": "x", "secret": {"secret": {"namespace": "clouds", "name": "x", "key": "y"}}}}}),
            "InvalidSpec",
            "names no file",
        ),
        (
            target,
            "/credential",
            json!({"awsSigV4": {"region": "eu-central-1", "service": "ec2", "source": {"webIdentity": {"roleArn": "arn:aws:iam::1:role/x", "token": {"file": "/token"}}}}}),
            "InvalidSpec",
            "env and file are for the file",
        ),
        (
            target,
            "/credential",
            json!({"bearer": {"env": "HCLOUD_TOKEN"}}),
            "InvalidSpec",
            "env and file are for the file",
        ),
        (
            target,
            "/credential",
            json!({"bearer": {"file": "/var/run/secrets/token"}}),
            "InvalidSpec",
            "env and file are for the file",
        ),
        (
            target,
            "/credential",
            json!({"bearer": {"secret": secret}}),
            "SecretNotAllowed",
            "\"clouds\" only (--provider-secret-namespace)",
        ),
        (
            "",
            "/trust",
            json!({"keys": [{"file": "/etc/key"}]}),
            "InvalidSpec",
            "names no file",
        ),
        (
            "",
            "/registry",
            json!({"caFile": "/etc/ca"}),
            "InvalidSpec",
            "names no file",
        ),
        (
            "",
            "/source",
            json!("configmap://a/b/c"),
            "InvalidSpec",
            "need a digest, keys or keyless",
        ),
    ];
    for (at, key, value, reason, part) in table {
        let mut spec = spec();
        let place = spec.pointer_mut(at).unwrap();
        place[key.trim_start_matches('/')] = value.clone();
        let refusal = match read("hcloud", &spec) {
            Ok(_) => panic!("{key} {value} is taken"),
            Err(refusal) => refusal,
        };
        assert_eq!(
            refusal.reason.as_str(),
            reason,
            "{key} {value}: {}",
            refusal.message
        );
        assert!(refusal.message.contains(part), "{}", refusal.message);
    }
    for name in ["external", "a.b", "Up", ""] {
        assert!(
            WrittenObject::read(name, &spec(), "clouds").is_err(),
            "{name}"
        );
    }
}

#[test]
fn of_two_that_want_the_same_the_first_has_it() {
    let mut first = spec();
    first["loadBalancerClasses"] = json!(["example.com/a"]);
    let one = read("one", &first).unwrap();
    let other = read("other", &first).unwrap();
    assert_eq!(beside(&[], &one), Ok(()));
    let refusal = beside(&[one], &other).unwrap_err();
    assert_eq!(refusal.reason.as_str(), "Conflict");
    assert!(
        refusal.message.contains("example.com/a"),
        "{}",
        refusal.message
    );
}
