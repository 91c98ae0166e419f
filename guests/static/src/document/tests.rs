//! Documents of operators, and the messages about mistakes in them.
#![allow(clippy::unwrap_used, reason = "tests")]

use ccm_guest::testing::config;
use proptest::prelude::*;

use super::*;

const FULL: &str = r#"
rules:
- names: [metal-1, "gpu-*"]
  selector:
    matchLabels: {rack: a}
    matchExpressions:
    - {key: example.com/power, operator: In, values: ["1", "2"]}
    - {key: old, operator: DoesNotExist}
  cidrs: [10.0.7.0/24, "2001:db8::7"]
  providerID: metal://rack-a/{name}
  instanceType: r640
  zone: rack-a
  region: home
  labels: {example.com/feed: a}
  addresses:
    metal-1:
    - {type: InternalIP, address: 10.0.7.11}
    - {type: ExternalIP, address: 203.0.113.11}
- names: [odd-one]
  providerID: metal://by-hand
- names: ["*"]
retired: [metal-9]
"#;

fn read(text: &str) -> Result<Document, Error> {
    read_with(text, &["static", "metal"])
}

fn read_with(text: &str, schemes: &[&str]) -> Result<Document, Error> {
    let schemes = schemes.iter().map(|one| (*one).to_owned()).collect();
    Document::read(&Config {
        schemes,
        ..config(&[(KEY, text)])
    })
}

fn mistakes(text: &str) -> Vec<String> {
    match read(text) {
        Ok(document) => panic!("taken: {document:?}"),
        Err(Error::Invalid(message)) => message.split("; ").map(str::to_owned).collect(),
        Err(error) => panic!("{error:?}"),
    }
}

#[test]
fn a_document_is_read_whole() {
    let document = read(FULL).unwrap();
    let [first, second, third] = document.rules.as_slice() else {
        panic!("{document:?}");
    };
    assert_eq!(first.names, ["metal-1", "gpu-*"]);
    assert_eq!(first.selector.len(), 3);
    assert_eq!(first.cidrs.len(), 2);
    assert_eq!(first.provider_id("gpu-7"), "metal://rack-a/gpu-7");
    let addresses = first.addresses.get("metal-1").unwrap();
    assert_eq!(addresses.len(), 2);
    assert_eq!(second.provider_id("odd-one"), "metal://by-hand");
    assert_eq!(third.provider_id("laptop"), "static://laptop");
    assert!(document.retired.contains("metal-9"));
}

#[test]
fn provider_ids_are_of_schemes_whose_nodes_are_this_providers() {
    assert!(read_with(FULL, &["static", "metal"]).is_ok());
    for (schemes, missing) in [
        (["static"], "metal://by-hand"),
        (["metal"], "static://{name}"),
    ] {
        let error = read_with(FULL, &schemes).unwrap_err();
        let text = error.message();
        assert!(
            text.contains(missing) && text.contains("nodes.schemes"),
            "{text}"
        );
    }
}

#[test]
fn json_says_the_same() {
    let value: Value = serde_saphyr::from_str(FULL).unwrap();
    assert_eq!(read(&value.to_string()), read(FULL));
}

#[test]
fn every_mistake_is_told_at_once_with_its_place() {
    let text = r#"
rules:
- names: [Metal_1, "a*b*c", 7]
  selektor: {}
  cidrs: [10.0.7.300/24]
  providerID: "metal://{name}/x"
  zone: "rack a"
  labels: {node.kubernetes.io/x: "1", example.com/: "2"}
- selector:
    matchLabels: {rack: true}
    matchExpressions: [{key: a, operator: In}, {operator: Exists}]
  addresses: {metal-1: [{type: IP, address: 10.0.0.1}, {type: InternalIP, address: metal-1}, {}]}
- {}
- names: [a, b]
  providerID: static://same
retired: metal-9
extra: 1
"#;
    let expected = [
        r#"no such key: "extra""#,
        r#"rules[0]: no such key: "selektor""#,
        r#"rules[0].names[0]: "Metal_1""#,
        r#"rules[0].names[1]: "a*b*c""#,
        "rules[0].names[2]: 7 has to be quoted",
        r#"rules[0].cidrs[0]: "10.0.7.300/24""#,
        r#"rules[0].providerID: "metal://{name}/x""#,
        r#"rules[0].zone: "rack a""#,
        "rules[0].labels.node.kubernetes.io/x: labels under kubernetes.io",
        "rules[0].labels.example.com/: this is not the name of a label",
        "rules[1].selector.matchLabels.rack: true has to be quoted",
        "rules[1].selector.matchExpressions[0].operator: expected In, NotIn",
        "rules[1].selector.matchExpressions[1]: key is missing",
        r#"rules[1].addresses.metal-1[0].type: "IP""#,
        r#"rules[1].addresses.metal-1[1].address: "metal-1""#,
        "rules[1].addresses.metal-1[2]: type and address have to be set",
        "rules[2]: names, selector or cidrs have to say",
        r#"rules[3].providerID: "static://same""#,
        "retired: expected a list",
    ];
    let reported = mistakes(text);
    for part in expected {
        assert!(
            reported.iter().any(|one| one.contains(part)),
            "{part}:\n{reported:#?}"
        );
    }
    assert_eq!(reported.len(), expected.len(), "{reported:#?}");
}

#[test]
fn what_no_rule_could_mean_is_a_mistake() {
    let table = [
        ("rules: []", "there has to be at least one"),
        ("[]", "expected keys and values"),
        ("rules: [names", "neither YAML nor JSON"),
        ("rules: [{names: [a], names: [b]}]", "neither YAML nor JSON"),
        (
            "rules: [{names: [a], addresses: {b: [{type: InternalIP, address: 10.0.0.1}]}}]",
            "do not admit this node",
        ),
        (
            "rules: [{names: [a], addresses: {a: []}}]",
            "expected 1 to 63 addresses",
        ),
        (
            "rules: [{names: [a], addresses: {a: [{type: Hostname, address: a}, {type: InternalDNS, address: 10.0.0.1}]}}]",
            "rules[0].addresses.a: expected an InternalIP or ExternalIP among them",
        ),
        (
            "rules: [{names: [a], providerID: 'x://1'}, {names: [b], providerID: 'x://1'}]",
            "a and b have the same providerID",
        ),
        (
            "rules: [{names: ['*'], addresses: {a: [{type: InternalIP, address: 10.0.0.1}], b: [{type: ExternalIP, address: 10.0.0.1}]}}]",
            "a and b have the same address 10.0.0.1",
        ),
        (
            "rules: [{names: [a], addresses: {a: [{type: InternalIP, address: 127.0.0.1}]}}]",
            "expected an address of its type",
        ),
        (
            "rules: [{names: [a], addresses: {a: [{type: InternalIP, address: 'fe80::1'}]}}]",
            "expected an address of its type",
        ),
        (
            "rules: [{names: [a], addresses: {a: [{type: ExternalIP, address: '::ffff:169.254.0.1'}]}}]",
            "expected an address of its type",
        ),
        (
            "rules: [{names: ['*'], addresses: {a: [{type: InternalIP, address: 10.0.0.1}], b: [{type: ExternalIP, address: '::ffff:10.0.0.1'}]}}]",
            "a and b have the same address 10.0.0.1",
        ),
        (
            "rules: [{names: [a], providerID: 'no scheme/{name}'}]",
            "expected <scheme>://",
        ),
        (
            "rules: [{names: ['a*'], providerID: 'x://1'}]",
            "expected /{name} at the end",
        ),
        (
            "rules: [{names: [a], providerID: 'x://{uuid}'}]",
            "expected /{name} at the end",
        ),
    ];
    for (text, expected) in table {
        let reported = mistakes(text);
        assert!(
            reported.iter().any(|one| one.contains(expected)),
            "{text}: {reported:?}"
        );
    }
    let unset = Document::read(&config(&[]));
    assert!(matches!(unset, Err(Error::Invalid(text)) if text.contains(KEY)));
}

proptest! {
    /// Any text is read or refused.
    #[test]
    fn no_text_breaks_the_reader(text in "\\PC*") {
        let _ = read(&text);
    }

    /// A document with one damaged place is read or refused.
    #[test]
    fn no_damage_breaks_the_reader(at in 0..FULL.len(), with in "[\\PC\\n]{0,3}") {
        let (begin, end) = FULL.split_at_checked(at).unwrap_or((FULL, ""));
        let rest: String = end.chars().skip(1).collect();
        let _ = read(&format!("{begin}{with}{rest}"));
    }

    /// An accepted document obeys the host's limits of answers.
    #[test]
    fn what_is_taken_is_short_enough(name in "[a-z0-9]{1,253}", begin in "(static|metal)://([a-z]{0,280}/)?") {
        let text = format!("rules: [{{names: ['*'], providerID: '{begin}{{name}}'}}]");
        if let Ok(document) = read(&text) {
            prop_assert!(document.rules[0].provider_id(&name).len() <= MAX_PROVIDER_ID);
        }
    }
}
