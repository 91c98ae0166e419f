//! Additions of contract 0.2 to the form: proofs of absence, and targets without an endpoint.

use super::*;

fn newest(change: impl FnOnce(&mut Value)) -> Result<Manifest, ManifestError> {
    let mut manifest = with("/contract", json!("0.2.0"));
    change(&mut manifest["targets"][0]);
    parse(&manifest)
}

fn with_absence(absence: &Value) -> Result<Manifest, ManifestError> {
    newest(|target| target["rules"][0]["absence"] = absence.clone())
}

#[test]
fn a_rule_names_the_answers_that_prove_absence() {
    let absence = json!([
        { "status": 400, "contains": "InvalidInstanceID.NotFound" },
        { "status": 500, "contains": "does not exist" }
    ]);
    let manifest = with_absence(&absence).unwrap();
    let [rule, other, _] = manifest.targets[0].rules.as_slice() else {
        panic!("three rules")
    };
    let texts: Vec<_> = rule
        .absence()
        .iter()
        .map(|one| (one.status, one.contains.as_str()))
        .collect();
    assert_eq!(
        texts,
        [(400, "InvalidInstanceID.NotFound"), (500, "does not exist")]
    );
    assert!(other.absence().is_empty());
    // Proofs of absence are a manifest's only: a grant has no key for them.
    let mut grants = manifest.as_grants();
    let written = serde_json::to_value(&grants.targets[0].rules).unwrap();
    assert_eq!(written[0].get("absence"), None);
    grants.targets[0].rules = serde_json::from_value(written).unwrap();
    grants.targets[0].credential = Credential::Bearer(Secret::new("token".to_owned()));
    let granted = manifest.narrow(grants).unwrap();
    assert_eq!(granted.targets[0].lines[0].absence.len(), 2);
}

#[test]
fn what_proves_too_little_is_refused() {
    let one = |status: Value, contains: Value| json!([{ "status": status, "contains": contains }]);
    let text = || json!("NotFound");
    for (absence, words) in [
        (json!([{ "status": 400 }]), "missing field `contains`"),
        (json!([{ "status": 500 }]), "missing field `contains`"),
        (
            json!([{ "contains": "NotFound" }]),
            "missing field `status`",
        ),
        (
            json!([{ "status": 400, "contains": "NotFound", "or": 1 }]),
            "unknown field `or`",
        ),
        (json!([]), "0 answers, expected 1 to 8"),
        (
            json!(vec![one(json!(400), text())[0].clone(); 9]),
            "9 answers",
        ),
        (json!({}), "invalid type"),
        (json!(null), "invalid type"),
        (
            one(json!(400), json!("")),
            "expected a text of 4 to 256 bytes",
        ),
        (
            one(json!(400), json!("no")),
            "expected a text of 4 to 256 bytes",
        ),
        (
            one(json!(400), json!("x".repeat(257))),
            "expected a text of 4 to 256 bytes",
        ),
        (
            one(json!(400), json!("Not\nFound")),
            "expected a text of 4 to 256 bytes",
        ),
        (one(json!("400"), text()), "invalid type"),
        (one(json!(99999), text()), "invalid value"),
        (one(json!(200), text()), "status 200"),
        (one(json!(302), text()), "status 302"),
        (one(json!(401), text()), "status 401"),
        (one(json!(403), text()), "status 403"),
        (one(json!(404), text()), "404 needs no entry"),
        (one(json!(405), text()), "status 405"),
        (one(json!(407), text()), "status 407"),
        (one(json!(408), text()), "status 408"),
        (one(json!(423), text()), "status 423"),
        (one(json!(425), text()), "status 425"),
        (one(json!(429), text()), "status 429"),
        (one(json!(502), text()), "status 502"),
        (one(json!(503), text()), "status 503"),
        (one(json!(504), text()), "status 504"),
        (one(json!(600), text()), "status 600"),
    ] {
        let error = with_absence(&absence).unwrap_err().to_string();
        assert!(error.contains(words), "{absence}: {error}");
        assert!(
            error.contains("target \"api\": rule 1"),
            "{absence}: {error}"
        );
    }
}

#[test]
fn a_target_may_leave_its_endpoint_to_the_grant() {
    let without = |target: &mut Value| drop(target.as_object_mut().unwrap().remove("endpoint"));
    let manifest = newest(without).unwrap();
    let target = &manifest.targets[0];
    assert!(!target.names_endpoint());
    assert!(newest(|_| {}).unwrap().targets[0].names_endpoint());
    let refused = crate::egress::check_endpoint(&target.as_grant().endpoint).unwrap_err();
    assert!(refused.contains("only you know it: grant one"), "{refused}");
    let missing = manifest.narrow(Grants::default()).map(|_| ()).unwrap_err();
    assert_eq!(
        missing.lines[0],
        "target api: the endpoint, which only you know, with bearer credential"
    );
    let mut grants = bearer();
    grants.targets[0].endpoint = "https://cloud.example/api".parse().unwrap();
    let granted = manifest.narrow(grants).unwrap();
    assert_eq!(
        granted.targets[0].grant.endpoint.as_str(),
        "https://cloud.example/api"
    );
    let empty = newest(|target| target["endpoint"] = json!("")).unwrap_err();
    assert!(empty.to_string().contains("endpoint \"\""), "{empty}");
}

#[test]
fn the_form_of_0_1_has_neither() {
    let mut manifest = whole();
    manifest["targets"][0]
        .as_object_mut()
        .unwrap()
        .remove("endpoint");
    let error = parse(&manifest).unwrap_err().to_string();
    assert!(error.contains("endpoint \"\""), "{error}");
    let mut manifest = whole();
    manifest["targets"][0]["rules"][0]["absence"] =
        json!([{ "status": 400, "contains": "NotFound" }]);
    let error = parse(&manifest).unwrap_err().to_string();
    assert!(error.contains("unknown field `absence`"), "{error}");
}
