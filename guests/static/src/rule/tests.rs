//! Which nodes a rule matches, and how it describes them.

use ccm_guest::testing::node;

use super::*;

fn rule() -> Rule {
    Rule {
        names: Vec::new(),
        selector: Vec::new(),
        cidrs: Vec::new(),
        provider_id: "static://{name}".to_owned(),
        instance_type: None,
        zone: None,
        region: None,
        labels: BTreeMap::new(),
        addresses: BTreeMap::new(),
    }
}

fn node_ip(ips: &str) -> (String, String) {
    let key = "alpha.kubernetes.io/provided-node-ip";
    (key.to_owned(), ips.to_owned())
}

#[test]
fn one_star_stands_for_any_characters() {
    let table = [
        ("metal-1", "metal-1", true),
        ("metal-1", "metal-10", false),
        ("metal-*", "metal-10", true),
        ("metal-*", "metal-", true),
        ("*", "laptop", true),
        ("*.example.com", "a.example.com", true),
        ("*.example.com", "a.example.org", false),
        ("a*a", "a", false),
        ("a*a", "aa", true),
    ];
    for (pattern, name, expected) in table {
        assert_eq!(is_like(pattern, name), expected, "{pattern} {name}");
    }
}

#[test]
fn labels_are_selected_as_kubernetes_selects_them() {
    let values = || vec!["a".to_owned(), "b".to_owned()];
    let table = [
        (Of::In(values()), [true, false, false]),
        (Of::NotIn(values()), [false, true, true]),
        (Of::Exists, [true, true, false]),
        (Of::DoesNotExist, [false, false, true]),
    ];
    for (of, expected) in table {
        let requirement = Requirement {
            key: "rack".to_owned(),
            of,
        };
        for (value, expected) in [Some("a"), Some("c"), None].into_iter().zip(expected) {
            let labels: Vec<_> = value
                .map(|value| ("rack".to_owned(), value.to_owned()))
                .into_iter()
                .collect();
            assert_eq!(
                requirement.holds(&labels),
                expected,
                "{requirement:?} {value:?}"
            );
        }
    }
}

#[test]
fn an_address_counts_wherever_the_kubelet_says_it() {
    let rule = Rule {
        cidrs: vec!["10.0.7.0/24".parse().unwrap_or_default()],
        ..rule()
    };
    let mut reported = node("a", None);
    reported.addresses = vec![Address::hostname("a"), Address::internal("10.0.7.3")];
    let mut given = node("b", None);
    given.annotations = vec![node_ip("2001:db8::1, 10.0.7.4")];
    let mut elsewhere = node("c", None);
    elsewhere.addresses = vec![Address::internal("10.0.8.3")];
    let matched = [reported, given, elsewhere, node("d", None)].map(|node| rule.matches(&node));
    assert_eq!(matched, [true, true, false, false]);
}

#[test]
fn listed_addresses_are_all_that_a_node_has_and_begin_with_its_name() {
    let listed = vec![
        Address::internal("10.0.7.3"),
        Address::external("203.0.113.3"),
    ];
    let rule = Rule {
        addresses: BTreeMap::from([("a".to_owned(), listed)]),
        ..rule()
    };
    let shown = |name: &str| -> Vec<String> {
        let instance = rule.instance(&node(name, None));
        instance
            .addresses
            .into_iter()
            .map(|one| one.address)
            .collect()
    };
    assert_eq!(shown("a"), ["a", "10.0.7.3", "203.0.113.3"]);
    assert_eq!(
        shown("b"),
        [] as [&str; 0],
        "it keeps what its kubelet reports"
    );
}

/// Without that address in the answer the taint would stay.
#[test]
fn a_new_node_has_the_addresses_of_its_kubelets_node_ip() {
    let mut given = node("a", None);
    given.annotations = vec![node_ip("10.0.7.4,2001:db8::1")];
    given.addresses = vec![Address::internal("10.0.7.4"), Address::hostname("a")];
    let shown = |node: &Node| {
        let addresses = rule().instance(node).addresses.into_iter();
        addresses.map(|one| one.address).collect::<Vec<String>>()
    };
    assert_eq!(shown(&given), ["a", "10.0.7.4", "2001:db8::1"]);
    given.initialized = true;
    assert_eq!(shown(&given), ["10.0.7.4", "a", "2001:db8::1"], "changed");
    given.annotations = vec![node_ip("10.0.7.4")];
    assert_eq!(shown(&given), [""; 0], "what is stored stays");
    given.annotations = vec![node_ip("::ffff:10.0.7.4")];
    assert_eq!(shown(&given), [""; 0], "that is the stored one");
    given.annotations = vec![node_ip("0.0.0.0")];
    assert_eq!(shown(&given), [""; 0], "that is no address");
    given.annotations.clear();
    assert_eq!(shown(&given), [""; 0], "what is stored stays");
}
