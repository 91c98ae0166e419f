//! The owner of a node with one provider and with several, and mistakes in the configuration.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::fixtures;

/// A node with these labels, `KEY=VALUE` separated by blanks, and this provider ID.
fn node(labels: &str, provider_id: Option<&str>) -> PrunedNode {
    let node = labels
        .split_whitespace()
        .fold(fixtures::node("a"), |node, one| {
            let (key, value) = one.split_once('=').unwrap();
            node.label(key, value)
        });
    node.with(|node| node["spec"]["providerID"] = serde_json::json!(provider_id))
        .build()
}

fn claim(name: &str, scheme: &str, selector: Option<&str>) -> Claim {
    Claim {
        name: name.to_owned(),
        schemes: Some(scheme.to_owned())
            .filter(|one| !one.is_empty())
            .into_iter()
            .collect(),
        selector: selector.map(|text| Selector::parse(text).unwrap()),
    }
}

/// The ownership context of each of `claims` in turn.
fn each(claims: &[Claim]) -> Vec<OwnershipContext> {
    let one = |index: usize| {
        let mut others = claims.to_vec();
        OwnershipContext {
            claim: others.remove(index),
            has_instances: true,
            others,
            routers: Vec::new(),
        }
    };
    (0..claims.len()).map(one).collect()
}

fn seen_by_sim(label: Option<&str>, provider_id: Option<&str>) -> Owner {
    let label = label.map(|name| format!("{OWNER_LABEL}={name}"));
    let node = node(&label.unwrap_or_default(), provider_id);
    owner(
        &node,
        &OwnershipContext::alone("sim", vec!["sim".to_owned()]),
    )
}

#[test]
fn what_is_recorded_decides_over_the_scheme() {
    assert_eq!(seen_by_sim(Some("sim"), Some("other://1")), Owner::Recorded);
    assert!(matches!(
        seen_by_sim(Some("other"), Some("sim://1")),
        Owner::Other(_)
    ));
}

#[test]
fn without_a_record_the_scheme_decides_and_without_both_nobody_owns() {
    assert_eq!(seen_by_sim(None, Some("sim://1")), Owner::Implied);
    assert_eq!(seen_by_sim(None, None), Owner::SoleCandidate);
    assert_eq!(seen_by_sim(Some(""), Some("")), Owner::SoleCandidate);
    for foreign in ["simx://1", "other://1", "1", "sim:1", "Sim://1"] {
        assert!(
            matches!(seen_by_sim(None, Some(foreign)), Owner::Foreign(_)),
            "{foreign}"
        );
    }
}

/// How each provider sees the node, in one word each.
fn seen(claims: &[Claim], node: &PrunedNode) -> String {
    let words = each(claims)
        .into_iter()
        .map(|ownership| match owner(node, &ownership) {
            Owner::Recorded => "recorded".to_owned(),
            Owner::Implied => "implied".to_owned(),
            Owner::SoleCandidate => "asks".to_owned(),
            Owner::Candidates(others) => format!("asks-with-{}", others.join("-")),
            Owner::Other(_) => "other".to_owned(),
            Owner::Foreign(_) => "foreign".to_owned(),
            Owner::Unserved(_) => "unserved".to_owned(),
        });
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn of_several_providers_the_record_decides_then_the_scheme_then_the_selector_and_then_all_are_asked()
 {
    let clouds = [claim("east", "hc", None), claim("west", "aws", None)];
    let accounts = [
        claim("one", "hc", Some("account=1")),
        claim("two", "hc", Some("account=2")),
        claim("bare", "metal", Some("!account")),
    ];
    let recorded = |name: &str| format!("{OWNER_LABEL}={name}");
    for (claims, labels, provider_id, expected) in [
        (
            &clouds[..],
            &*recorded("west"),
            Some("hc://1"),
            "other recorded",
        ),
        (
            &clouds,
            &recorded("gone"),
            Some("hc://1"),
            "unserved unserved",
        ),
        (&clouds, "", Some("hc://1"), "implied other"),
        (&clouds, "", Some("elsewhere://1"), "foreign foreign"),
        (&clouds, "", Some("nonsense"), "foreign foreign"),
        (&clouds, "", None, "asks-with-west asks-with-east"),
        // A shared scheme: the selector decides, and the node has no owner if none matches.
        (
            &accounts,
            "account=1",
            Some("hc://1"),
            "implied other other",
        ),
        (
            &accounts,
            "account=2",
            Some("hc://1"),
            "other implied other",
        ),
        (&accounts, "", Some("hc://1"), "unserved unserved unserved"),
        // A scheme of one provider: the selector does not count once a provider ID is stored.
        (
            &accounts,
            "account=1",
            Some("metal://1"),
            "other other implied",
        ),
        // No provider ID is stored: the providers whose selector matches are candidates.
        (&accounts, "account=1", None, "asks other other"),
        (&accounts, "", None, "other other asks"),
        (&accounts, "account=3", None, "unserved unserved unserved"),
        (
            &accounts,
            &format!("account=3 {}", recorded("two")),
            None,
            "other recorded other",
        ),
    ] {
        let node = node(labels, provider_id);
        assert_eq!(seen(claims, &node), expected, "{labels} {provider_id:?}");
    }
}

#[test]
fn no_node_has_two_owners_whatever_its_labels_and_its_provider_id_are() {
    let selectors = [None, Some("a=1"), Some("a=2"), Some("!a"), Some("a")];
    let schemes = ["x", "y"];
    for (first, second) in selectors
        .iter()
        .flat_map(|one| selectors.iter().map(move |other| (one, other)))
    {
        for scheme in schemes {
            let claims = [claim("p", "x", *first), claim("q", scheme, *second)];
            if !mistakes(&claims).is_empty() {
                continue;
            }
            for labels in ["", "a=1", "a=2", "a=3"] {
                for provider_id in [None, Some("x://1"), Some("y://1"), Some("z://1")] {
                    let node = node(labels, provider_id);
                    let owners = each(&claims)
                        .iter()
                        .filter(|one| owner(&node, one).is_ours())
                        .count();
                    assert!(owners <= 1, "{claims:?} {labels} {provider_id:?}");
                    let concerned = each(&claims)
                        .iter()
                        .filter(|one| one.is_concerned(&node))
                        .count();
                    assert!(
                        concerned >= 1,
                        "somebody says something: {claims:?} {labels} {provider_id:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn only_one_provider_says_that_nobody_here_speaks_for_a_node() {
    let claims = [
        claim("b", "x", None),
        claim("a", "y", None),
        claim("c", "z", None),
    ];
    for (labels, provider_id, expected) in [
        (format!("{OWNER_LABEL}=gone"), None, "a"),
        (String::new(), Some("elsewhere://1"), "a"),
        (String::new(), Some("nonsense"), "a"),
        (String::new(), Some("z://1"), "c"),
        (format!("{OWNER_LABEL}=b"), Some("z://1"), "b"),
        (String::new(), None, "b a c"),
    ] {
        let node = node(&labels, provider_id);
        let concerned = each(&claims)
            .into_iter()
            .filter(|one| one.is_concerned(&node));
        let names: Vec<String> = concerned.map(|one| one.claim.name).collect();
        assert_eq!(names.join(" "), expected, "{labels} {provider_id:?}");
    }
}

#[test]
fn the_one_provider_that_says_so_gives_the_selectors_as_the_reason_whether_it_has_the_scheme_or_not()
 {
    let claims = [
        claim("a", "x", None),
        claim("b", "hc", Some("account=1")),
        claim("c", "hc", Some("account=2")),
    ];
    let node = node("", Some("hc://1"));
    let concerned: Vec<OwnershipContext> = each(&claims)
        .into_iter()
        .filter(|one| one.is_concerned(&node))
        .collect();
    let reported: Vec<(&str, Owner)> = concerned
        .iter()
        .map(|one| (&*one.claim.name, owner(&node, one)))
        .collect();
    let why = "several providers have the scheme \"hc\", and none of their node selectors matches the node";
    assert_eq!(reported, [("a", Owner::Unserved(why.to_owned()))]);
}

#[test]
fn traffic_goes_to_the_providers_own_nodes_and_to_those_that_nobody_here_speaks_for() {
    let claims = [claim("one", "x", None), claim("two", "y", None)];
    for (labels, provider_id, expected) in [
        (String::new(), Some("x://1"), "one"),
        (String::new(), Some("elsewhere://1"), "one two"),
        (format!("{OWNER_LABEL}=two"), Some("x://1"), "two"),
        (format!("{OWNER_LABEL}=gone"), Some("x://1"), ""),
    ] {
        let node = node(&labels, provider_id);
        let names: Vec<String> = each(&claims)
            .into_iter()
            .filter(|one| one.reaches(&node))
            .map(|one| one.claim.name)
            .collect();
        assert_eq!(names.join(" "), expected, "{labels} {provider_id:?}");
        let without_machines = OwnershipContext {
            has_instances: false,
            ..OwnershipContext::alone("balancer", Vec::new())
        };
        assert!(without_machines.reaches(&node));
    }
}

/// Which of `routers`, none of which implements instances, makes the routes of `node`, beside `others` that do
/// implement them; the others whose names begin with `r` make routes, too.
fn routed_by(node: &PrunedNode, routers: &[Claim], others: &[Claim]) -> String {
    let makes_routes = |other: &&Claim| other.name.starts_with('r');
    let all = routers.iter().chain(others.iter().filter(makes_routes));
    let all: Vec<Claim> = all.cloned().collect();
    let ownership = |one: &Claim| OwnershipContext {
        claim: Claim {
            schemes: Vec::new(),
            ..one.clone()
        },
        has_instances: false,
        others: others.to_vec(),
        routers: all
            .iter()
            .filter(|other| other.name != one.name)
            .cloned()
            .collect(),
    };
    let theirs = routers
        .iter()
        .filter(|one| ownership(one).routes_without_machine(node));
    let names: Vec<&str> = theirs.map(|one| &*one.name).collect();
    names.join(" ")
}

#[test]
fn routes_to_a_node_are_its_owners_or_else_one_providers_that_knows_no_machines() {
    let anybody = [claim("y", "", None), claim("x", "", None)];
    let racks = [
        claim("x", "", Some("rack=x")),
        claim("y", "", Some("rack=y")),
    ];
    let others = [
        claim("routing", "one", None),
        claim("plain", "two", Some("pool=two")),
    ];
    let plain = [claim("plain", "two", None)];
    let owned = |name: &str| format!("{OWNER_LABEL}={name}");
    for (labels, provider_id, routers, others, expected) in [
        // The owner, recorded or by its scheme, makes the routes.
        (owned("routing"), Some("one://1"), &anybody, &others[..], ""),
        (String::new(), Some("one://1"), &anybody, &others, ""),
        // The owner makes no routes.
        (owned("plain"), Some("two://1"), &anybody, &others, "x"),
        (String::new(), Some("two://1"), &anybody, &others, "x"),
        // A provider that makes routes may still become the owner.
        (String::new(), None, &anybody, &others, ""),
        ("pool=two".to_owned(), None, &anybody, &others, ""),
        (String::new(), None, &anybody, &plain, "x"),
        // No provider here is the owner.
        (String::new(), Some("three://1"), &anybody, &others, "x"),
        (String::new(), Some("nonsense"), &anybody, &others, "x"),
        // The recorded owner may still be configured here; if no provider here has instances, it is elsewhere.
        (owned("gone"), Some("two://1"), &anybody, &others, ""),
        (owned("gone"), Some("two://1"), &anybody, &[], "x"),
        // The selectors decide.
        ("rack=y".to_owned(), Some("two://1"), &racks, &others, "y"),
        ("rack=x".to_owned(), Some("two://1"), &racks, &[], "x"),
        ("rack=z".to_owned(), Some("two://1"), &racks, &others, ""),
        ("rack=y".to_owned(), Some("one://1"), &racks, &others, ""),
        // The recorded owner decides.
        (owned("y"), Some("two://1"), &anybody, &others, "y"),
        (owned("y"), Some("two://1"), &racks, &others, "y"),
    ] {
        let node = node(&labels, provider_id);
        let reported = routed_by(&node, routers, others);
        assert_eq!(reported, expected, "{labels} {provider_id:?}");
    }
}

#[test]
fn all_mistakes_of_several_claims_are_said_at_once_with_both_names() {
    let reported = mistakes(&[
        claim("a", "x", None),
        claim("b", "x", Some("pool=b")),
        claim("c", "x", Some("pool in (b,c)")),
        claim("d", "y", None),
        claim("e", "y", None),
        claim("f", "", None),
        claim("f", "z", None),
        claim("f", "z", None),
        claim("g", "", None),
    ]);
    let begins = [
        "two providers are named \"f\"",
        "the providers \"a\" and \"b\" share the provider ID scheme x, and \"a\" has no node selector",
        "the providers \"a\" and \"c\" share the provider ID scheme x, and \"a\" has no node selector",
        "the providers \"b\" and \"c\" share the provider ID scheme x, and a node could match both their node selectors, \"pool=b\" and \"pool in (b,c)\"",
        "the providers \"d\" and \"e\" share the provider ID scheme y, and neither has a node selector",
    ];
    assert_eq!(reported.len(), begins.len(), "{reported:#?}");
    for (reported, begin) in reported.iter().zip(begins) {
        assert!(reported.starts_with(begin), "{reported}");
    }
}

#[test]
fn claims_that_exclude_each_other_are_no_mistake() {
    for claims in [
        [claim("a", "x", None), claim("b", "y", None)],
        [claim("a", "x", Some("p=1")), claim("b", "x", Some("p=2"))],
        [claim("a", "x", Some("p")), claim("b", "x", Some("!p"))],
        [claim("a", "", None), claim("b", "", None)],
    ] {
        assert_eq!(mistakes(&claims), Vec::<String>::new());
    }
}
