//! Hostile answers, as tables.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use super::*;
use crate::cloud::instance::AddressType::{ExternalIp, Hostname, InternalDns, InternalIp};
use crate::cloud::instance::{Address, AddressType, EventType};
use crate::reconciliation::event::MAX_MESSAGE;
use crate::selector::Selector;

fn addresses(list: &[(AddressType, &str)]) -> Vec<Address> {
    list.iter()
        .map(|(address_type, address)| Address {
            address_type: *address_type,
            address: (*address).to_owned(),
        })
        .collect()
}

fn instance() -> Instance {
    Instance {
        provider_id: "sim://42".to_owned(),
        addresses: addresses(&[(InternalIp, "10.0.0.2")]),
        ..Instance::default()
    }
}

/// Checks against the stored provider ID and the scheme `sim` only.
fn check_stored(instance: &Instance, stored: Option<&str>) -> Result<Checked, Unusable> {
    let known = Known {
        provider_id: stored,
        schemes: &["sim".to_owned()],
        rules: &AddressRules::default(),
        clashes: &[],
        is_control_plane: false,
    };
    check(instance, known)
}

fn checked(instance: &Instance) -> Checked {
    check_stored(instance, None).unwrap()
}

#[test]
fn node_022_an_answer_without_provider_id_needs_a_stored_one() {
    let silent = Instance {
        provider_id: String::new(),
        ..instance()
    };
    assert_eq!(check_stored(&silent, None), Err(Unusable::NoProviderId));
    let taken = check_stored(&silent, Some("sim://42")).unwrap();
    assert_eq!(taken.instance.provider_id, "sim://42");
}

#[test]
fn node_024_a_stored_provider_id_is_never_contradicted() {
    assert!(check_stored(&instance(), Some("sim://42")).is_ok());
    let other = check_stored(&instance(), Some("sim://41"));
    assert!(matches!(other, Err(Unusable::Differs { .. })), "{other:?}");
}

#[test]
fn a_provider_id_of_a_foreign_scheme_or_none_at_all_ends_the_matter() {
    for (provider_id, expected) in [
        ("other://42", "has a scheme that this provider does not own"),
        ("simx://42", "has a scheme that this provider does not own"),
        ("42", "does not begin with a scheme"),
        ("sim://", "there is nothing after"),
        ("sim://4 2", "other than visible ASCII"),
    ] {
        let answer = Instance {
            provider_id: provider_id.to_owned(),
            ..instance()
        };
        let error = check_stored(&answer, None).unwrap_err().to_string();
        assert!(error.contains(expected), "{provider_id}: {error}");
    }
}

#[test]
fn addresses_that_are_none_are_left_out_and_named() {
    let long_name = "a".repeat(300);
    let bad = [
        (InternalIp, "999.1.1.1"),
        (InternalIp, ""),
        (InternalIp, "1.2.3.4/24"),
        (InternalIp, "2001:db8:1234::/64"),
        (InternalIp, "fe80::1%eth0"),
        (ExternalIp, " 1.2.3.4"),
        (ExternalIp, "01.2.3.4"),
        (ExternalIp, "127.0.0.1"),
        (ExternalIp, "::1"),
        (ExternalIp, "::ffff:127.0.0.1"),
        (ExternalIp, "169.254.169.254"),
        (ExternalIp, "fe80::1"),
        (ExternalIp, "224.0.0.1"),
        (ExternalIp, "ff02::1"),
        (ExternalIp, "0.0.0.0"),
        (ExternalIp, "::"),
        (ExternalIp, "0.1.2.3"),
        (ExternalIp, "255.255.255.255"),
        (Hostname, ""),
        (Hostname, "-a"),
        (Hostname, "a..b"),
        (Hostname, "a_b"),
        (Hostname, "a\nb"),
        (InternalDns, long_name.as_str()),
    ];
    for one in bad {
        let answer = Instance {
            addresses: addresses(&[one, (InternalIp, "10.0.0.2")]),
            ..instance()
        };
        let checked = checked(&answer);
        assert_eq!(
            checked.instance.addresses,
            addresses(&[(InternalIp, "10.0.0.2")]),
            "{one:?}"
        );
        assert_eq!(checked.faults.len(), 1, "{one:?}");
    }
    let none_left = Instance {
        addresses: addresses(&bad),
        ..instance()
    };
    let refused = check_stored(&none_left, None).unwrap_err();
    assert!(matches!(refused, Unusable::Addresses { count, .. } if count == bad.len()));
}

#[test]
fn good_addresses_stay_in_order_and_in_their_spelling() {
    let good = addresses(&[
        (Hostname, "Worker-1.example"),
        (InternalIp, "10.0.0.2"),
        (InternalIp, "2001:db8:0:0:0:0:0:1"),
        (ExternalIp, "192.0.2.1"),
        (InternalDns, "ip-10-0-0-2.internal"),
    ]);
    let answer = Instance {
        addresses: good.clone(),
        ..instance()
    };
    let checked = checked(&answer);
    assert_eq!(checked.instance.addresses, good);
    assert!(checked.faults.is_empty(), "{:?}", checked.faults);
    let empty = Instance {
        addresses: Vec::new(),
        ..instance()
    };
    assert_eq!(check_stored(&empty, None).unwrap().instance.addresses, []);
}

#[test]
fn repeated_addresses_collapse_and_more_than_sixty_four_are_cut() {
    let repeated = Instance {
        addresses: addresses(&[
            (InternalIp, "2001:db8::1"),
            (InternalIp, "2001:db8:0:0::1"),
            (ExternalIp, "2001:db8::1"),
            (InternalIp, "2001:db8::1"),
        ]),
        ..instance()
    };
    let expected = addresses(&[(InternalIp, "2001:db8::1"), (ExternalIp, "2001:db8::1")]);
    assert_eq!(checked(&repeated).instance.addresses, expected);

    let many: Vec<Address> = (0..10_000)
        .map(|number| Address {
            address_type: InternalIp,
            address: format!("10.1.{}.{}", number / 250, number % 250),
        })
        .collect();
    let checked = checked(&Instance {
        addresses: many.clone(),
        ..instance()
    });
    assert_eq!(checked.instance.addresses, many[..64]);
    assert_eq!(checked.faults.len(), 1);
}

#[test]
fn node_034_labels_of_kubernetes_and_of_ours_are_left_out_by_exact_suffix() {
    for (key, may) in [
        ("topology.kubernetes.io/region", false),
        ("topology.k8s.io/region", false),
        ("kubernetes.io/region", false),
        ("k8s.io/region", false),
        ("node-role.kubernetes.io/control-plane", false),
        ("node-restriction.kubernetes.io/x", false),
        ("wasm-ccm.dev/provider", false),
        ("x.wasm-ccm.dev/provider", false),
        ("Topology.Kubernetes.IO/region", false),
        ("topology.k8s.cp/zone-id", true),
        ("app.k8snio/bar", true),
        ("k8snio/bar", true),
        ("kubernetes.io.evil.example/x", true),
        ("my-kubernetes.io/x", true),
        ("plain", true),
    ] {
        let answer = Instance {
            labels: vec![(key.to_owned(), "v".to_owned())],
            ..instance()
        };
        let checked = checked(&answer);
        assert_eq!(checked.instance.labels.len(), usize::from(may), "{key}");
        assert_eq!(checked.faults.len(), usize::from(!may), "{key}");
    }
}

#[test]
fn a_label_that_the_api_server_takes_is_kept() {
    // The parts of a prefix may be longer than those of a DNS name.
    let key = format!("{}.example/x", "a".repeat(64));
    let answer = Instance {
        labels: vec![(key.clone(), "v".to_owned())],
        ..instance()
    };
    assert_eq!(
        checked(&answer).instance.labels,
        [(key.clone(), "v".to_owned())]
    );
    assert!(Selector::parse(&key).is_ok());
}

#[test]
fn labels_with_bad_syntax_are_left_out_one_by_one() {
    let long = "v".repeat(64);
    let bad = [
        ("", "v"),
        ("a/b/c", "v"),
        ("/b", "v"),
        ("a/", "v"),
        ("UPPER.example/x", "v"),
        ("-a", "v"),
        ("a", "-v"),
        ("a", "v v"),
        ("a", "v\n"),
        ("a", long.as_str()),
        (long.as_str(), "v"),
    ];
    let mut labels: Vec<(String, String)> = bad
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    labels.push(("good".to_owned(), String::new()));
    labels.push(("good".to_owned(), "again".to_owned()));
    let checked = checked(&Instance {
        labels,
        ..instance()
    });
    assert_eq!(
        checked.instance.labels,
        [("good".to_owned(), String::new())]
    );
    assert_eq!(checked.faults.len(), bad.len() + 1);

    let many = (0..10_000)
        .map(|number| (format!("k{number}"), String::new()))
        .collect();
    let capped = check_stored(
        &Instance {
            labels: many,
            ..instance()
        },
        None,
    )
    .unwrap();
    assert_eq!(capped.instance.labels.len(), MAX_LABELS);
    assert!(faults_event(&capped.faults).unwrap().message.len() <= MAX_MESSAGE);
}

#[test]
fn zone_region_and_type_have_to_be_label_values_and_empty_means_none() {
    let answer = Instance {
        instance_type: Some("m5 large".to_owned()),
        zone: Some(String::new()),
        region: Some("eu-1".to_owned()),
        ..instance()
    };
    let checked = checked(&answer);
    assert_eq!(checked.instance.instance_type, None);
    assert_eq!(checked.instance.zone, None);
    assert_eq!(checked.instance.region.as_deref(), Some("eu-1"));
    assert_eq!(checked.faults.len(), 1);
}

#[test]
fn events_are_made_safe_before_they_are_recorded() {
    let event =
        |reason: &str, message: String| CloudEvent::new(EventType::Warning, reason, message);
    for bad in ["", "lower", "Has Blank", "Has-Dash", &"A".repeat(65)] {
        assert_eq!(check_event(&event(bad, String::new())), None, "{bad}");
    }
    let kept = check_event(&event("Odd", format!("a\u{1b}[31m\n{}", "ü".repeat(2000)))).unwrap();
    assert!(kept.message.len() <= MAX_MESSAGE && kept.message.ends_with('…'));
    assert!(!kept.message.contains(char::is_control));
    assert!(kept.is_from_provider);
    assert_eq!(faults_event(&[]), None);
}

/// The address answered beside `192.0.2.9` as ExternalIP, the addresses that are kept, and the fault reported.
#[test]
fn an_address_of_somebody_else_or_outside_of_what_is_allowed_is_left_out() {
    let rules = AddressRules {
        refused: vec![
            "10.96.0.0/12".parse().unwrap(),
            "10.0.0.1/32".parse().unwrap(),
        ],
        api_server: vec!["10.0.0.5".parse().unwrap()],
        internal: vec!["10.0.0.0/8".parse().unwrap(), "fd00::/8".parse().unwrap()],
    };
    let clashes = [("10.0.0.7", "b"), ("fd00::7", "c")].map(|(address, name)| AddressClash {
        address: address.parse().unwrap(),
        name: name.to_owned(),
    });
    let rows: [(AddressType, &str, Result<(), &str>); 10] = [
        (InternalIp, "10.0.0.2", Ok(())),
        (InternalIp, "fd00::2", Ok(())),
        (InternalIp, "10.0.0.7", Err("the node \"b\" has it")),
        (InternalIp, "fd00:0:0::7", Err("the node \"c\" has it")),
        (InternalIp, "::ffff:10.0.0.7", Err("the node \"b\" has it")),
        (
            InternalIp,
            "10.100.0.1",
            Err("10.96.0.0/12 is not for machines"),
        ),
        (
            ExternalIp,
            "10.0.0.1",
            Err("10.0.0.1/32 is not for machines"),
        ),
        (
            InternalIp,
            "192.168.0.1",
            Err("it is outside of --node-internal-ip-cidrs"),
        ),
        (ExternalIp, "192.168.0.1", Ok(())),
        (
            InternalIp,
            "10.0.0.5",
            Err(
                "it is the API server's, and the node has no label node-role.kubernetes.io/control-plane",
            ),
        ),
    ];
    for (kind, address, expected) in rows {
        let answer = Instance {
            addresses: addresses(&[(InternalIp, "10.0.0.3"), (kind, address)]),
            ..instance()
        };
        let known = Known {
            provider_id: None,
            schemes: &["sim".to_owned()],
            rules: &rules,
            clashes: &clashes,
            is_control_plane: false,
        };
        let checked = check(&answer, known).unwrap();
        let faults = checked.faults;
        match expected {
            Ok(()) => assert_eq!((checked.instance.addresses.len(), faults), (2, vec![])),
            Err(why) => {
                assert_eq!(checked.instance.addresses.len(), 1, "{address}");
                assert!(faults[0].ends_with(why), "{faults:?}");
            }
        }
        // Without another InternalIP the node cannot be reached, unless no InternalIP was answered at all.
        let alone = Instance {
            addresses: addresses(&[(ExternalIp, "192.0.2.9"), (kind, address)]),
            ..instance()
        };
        let is_held = matches!(check(&alone, known), Err(Unusable::InternalIps(_)));
        assert_eq!(
            is_held,
            expected.is_err() && kind == InternalIp,
            "{address}"
        );
    }
}

#[test]
fn a_node_of_the_control_plane_may_have_the_api_servers_address() {
    let rules = AddressRules {
        api_server: vec!["10.0.0.2".parse().unwrap()],
        ..AddressRules::default()
    };
    for is_control_plane in [true, false] {
        let known = Known {
            provider_id: None,
            schemes: &["sim".to_owned()],
            rules: &rules,
            clashes: &[],
            is_control_plane,
        };
        assert_eq!(check(&instance(), known).is_ok(), is_control_plane);
    }
}
