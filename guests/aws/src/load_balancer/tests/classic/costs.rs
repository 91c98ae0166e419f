//! How many requests each event costs.

use super::super::costs::{README, four, four_registered, row_of_readme};
use super::*;
use crate::fixtures::INSTANCE;

/// The fixture's load balancer with four instances.
fn with_four() -> TestHost {
    let member = |id: &str| format!("<member><InstanceId>{id}</InstanceId></member>");
    let four_of_them: String = (0..4)
        .map(|number| member(&format!("i-{number:017x}")))
        .collect();
    let registered = CLASSIC.replace(&member(INSTANCE), &four_of_them);
    host(until_deleted(move |action, form| {
        match (action, form["Version"].as_str()) {
            ("DescribeLoadBalancers", "2012-06-01") => Some(xml(200, &registered)),
            ("DescribeInstances", _) => four_registered(action, form),
            _ => existing(action, form),
        }
    }))
}

fn ensure(service: Service) {
    let request = EnsureRequest::new(service, four(4));
    ensure::ensure(&settings(&[]), &request).unwrap();
}

/// What each event costs, beside the Go provider's requests for it, counted in its source (version 1.37.1): at most a
/// third, except for the events that `ABOVE` names. The README has the same rows.
#[test]
fn each_event_costs_what_the_readme_says() {
    const ABOVE: [&str; 4] = [
        "create a classic one",
        "one port of a classic one replaced",
        "node added to a classic one",
        "delete a classic one, and the proof of it",
    ];
    let cost = |event: &str, go: usize, sent: &[String]| {
        let row = row_of_readme(event, go, sent);
        assert_eq!(sent.len() * 3 > go, ABOVE.contains(&event), "{row}");
    };
    let new = host(move |action, form| match action {
        "DescribeLoadBalancers" => Some(xml(400, NOT_FOUND)),
        "CreateLoadBalancer" => Some(xml(200, MADE)),
        "CreateSecurityGroup" => Some(xml(200, MADE_GROUP)),
        _ => four_registered(action, form),
    });
    ensure(web(&[]));
    cost("create a classic one", 19, &actions(&new));
    drop(new);

    let there = with_four();
    ensure(web(&[]));
    assert!(README.contains("| the hourly look at a classic one | 4 | never |"));
    assert_eq!(actions(&there).len(), 4);
    drop(there);

    type Change = fn(&mut Service);
    let events: [(&str, usize, Change); 9] = [
        (
            "another annotation that says nothing about a classic one",
            10,
            |one| {
                one.annotations
                    .push(("example.com/x".to_owned(), String::new()))
            },
        ),
        ("one node port of a classic one changed", 12, |one| {
            one.ports[1].node_port = Some(31443)
        }),
        ("one port of a classic one replaced", 14, |one| {
            one.ports[1].port = 444;
            set(one, "ssl-ports", "444");
        }),
        ("another certificate of a classic one", 12, |one| {
            set(one, "ssl-cert", "arn:other")
        }),
        ("another security policy of a classic one", 13, |one| {
            set(one, "ssl-negotiation-policy", "other")
        }),
        (
            "another threshold of a classic one's health checks",
            11,
            |one| set(one, "healthcheck-healthy-threshold", "5"),
        ),
        ("another attribute of a classic one", 10, |one| {
            set(one, "connection-idle-timeout", "120")
        }),
        ("other source ranges of a classic one", 12, |one| {
            one.source_ranges = vec!["10.0.0.0/8".to_owned()]
        }),
        ("proxy protocol of a classic one switched on", 13, |one| {
            set(one, "proxy-protocol", "*")
        }),
    ];
    for (event, go, change) in events {
        let there = with_four();
        ensure(web(&[]));
        let before = actions(&there).len();
        let mut changed = web(&[]);
        change(&mut changed);
        ensure(changed);
        cost(event, go, &actions(&there)[before..]);
    }

    let there = with_four();
    ensure(web(&[]));
    let before = actions(&there).len();
    let request = UpdateRequest::new(web(&[]), four(5));
    ensure::update_targets(&settings(&[]), &request).unwrap();
    cost("node added to a classic one", 5, &actions(&there)[before..]);
    let before = actions(&there).len();
    deletion::delete(&settings(&[]), &DeleteRequest::new(web(&[]))).unwrap();
    let _ = deletion::get(&web(&[]));
    let event = "delete a classic one, and the proof of it";
    cost(event, 9, &actions(&there)[before..]);
}

/// The cached rules are those at AWS only until they are changed, or the load balancer gets other groups, or AWS
/// refuses a change.
#[test]
fn rules_are_read_again_where_they_may_differ() {
    let refuses = std::rc::Rc::new(std::cell::Cell::new(false));
    let has_others = std::rc::Rc::new(std::cell::Cell::new(false));
    let (is_refused, are_others) = (refuses.clone(), has_others.clone());
    let there = host(
        move |action, form| match (action, form["Version"].as_str()) {
            ("ConfigureHealthCheck", _) if is_refused.get() => Some(xml(400, NOT_FOUND)),
            ("DescribeLoadBalancers", "2012-06-01") if are_others.get() => {
                let other = CLASSIC.replace("<member>sg-own<", "<member>sg-e4076980<");
                Some(xml(200, other))
            }
            _ => existing(action, form),
        },
    );
    let mut before = 0;
    let mut reads_rules = |more: &[(&str, &str)], sources: &[&str]| {
        let mut changed = web(more);
        changed.source_ranges = sources.iter().map(|&one| one.to_owned()).collect();
        let request = EnsureRequest::new(changed, vec![known()]);
        let is_done = ensure::ensure(&settings(&[]), &request).is_ok();
        let all = actions(&there);
        let new = all[before..].to_vec();
        before = all.len();
        (is_done, new.contains(&"DescribeSecurityGroups".to_owned()))
    };
    assert_eq!(reads_rules(&[], &[]), (true, true));
    assert_eq!(reads_rules(&[], &["10.0.0.0/8"]), (true, false));
    assert_eq!(reads_rules(&[], &["10.0.0.0/9"]), (true, true), "changed");
    let threshold = [("healthcheck-healthy-threshold", "5")];
    refuses.set(true);
    assert!(!reads_rules(&threshold, &[]).0);
    refuses.set(false);
    assert_eq!(reads_rules(&threshold, &[]), (true, true), "refused");
    has_others.set(true);
    assert_eq!(reads_rules(&[], &[]), (true, true), "other groups");
}

/// A person may have changed something at AWS.
#[test]
fn everything_is_compared_again_after_ten_minutes() {
    let there = with_four();
    let cost = || {
        let before = actions(&there).len();
        ensure(web(&[]));
        actions(&there).len() - before
    };
    let whole = cost();
    assert_eq!(cost(), 1);
    there.advance(std::time::Duration::from_secs(600));
    assert_eq!(cost(), whole);
}
