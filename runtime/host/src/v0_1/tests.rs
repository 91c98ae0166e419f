//! Conversion of arguments and answers between the versions.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::bindings::v0_1;
use crate::egress::FetchRequest;

fn node(ready: Option<bool>) -> common::Node {
    common::Node {
        name: "worker-1".to_owned(),
        uid: "u1".to_owned(),
        provider_id: Some("sample://1".to_owned()),
        labels: vec![("a".to_owned(), "b".to_owned())],
        annotations: vec![("c".to_owned(), "d".to_owned())],
        addresses: vec![common::Address {
            address_type: common::AddressType::InternalIp,
            address: "10.0.0.1".to_owned(),
        }],
        pod_cidrs: vec!["10.1.0.0/24".to_owned()],
        system_uuid: Some("s".to_owned()),
        created: 60,
        ready,
        initialized: true,
        extra: Vec::new(),
    }
}

#[test]
fn a_node_keeps_everything_and_says_ready_in_its_extra() {
    for (ready, word) in [
        (Some(true), "true"),
        (Some(false), "false"),
        (None, "unknown"),
    ] {
        let newest = node(ready);
        let reported = Node::from(&newest);
        assert_eq!(reported.extra, [("ready", word)]);
        assert_eq!(
            (reported.name, reported.uid, reported.created),
            ("worker-1", "u1", 60)
        );
        assert_eq!(reported.provider_id, Some("sample://1"));
        assert_eq!(reported.system_uuid, Some("s"));
        assert_eq!(reported.labels, newest.labels);
        assert_eq!(reported.annotations, newest.annotations);
        assert_eq!(reported.pod_cidrs, newest.pod_cidrs);
        assert_eq!(reported.addresses.len(), 1);
    }
}

#[test]
fn the_granted_targets_are_a_list_in_a_text() {
    let target = |name: &str| lifecycle::GrantedTarget {
        name: name.to_owned(),
        region: Some("eu-central-1".to_owned()),
    };
    for (names, text) in [
        (&[][..], ""),
        (&["api"], "api"),
        (&["api", "agent"], "api,agent"),
    ] {
        let config = lifecycle::Config {
            cluster_name: "kubernetes".to_owned(),
            cluster_cidrs: vec!["10.1.0.0/16".to_owned()],
            values: vec![("KEY".to_owned(), "value".to_owned())],
            targets: names.iter().copied().map(target).collect(),
            schemes: vec!["sample".to_owned()],
            extra: Vec::new(),
        };
        let reported = Config::from(&config);
        assert_eq!(reported.extra, [("targets", text.to_owned())]);
        assert_eq!(reported.cluster_name, "kubernetes");
        assert_eq!(reported.cluster_cidrs, config.cluster_cidrs);
        assert_eq!(reported.values, config.values);
    }
}

#[test]
fn what_may_be_taken_over_is_a_uid_or_empty() {
    use load_balancer::Adoption;
    let uid = Adoption::Owned(common::Owner::Uid("u1".to_owned()));
    let name = Adoption::Owned(common::Owner::Name(common::NamespacedName {
        namespace: "default".to_owned(),
        name: "web".to_owned(),
    }));
    for (allowed, reported) in [
        (None, None),
        (Some(uid), Some("u1")),
        // An owner that is known by name must not become "unowned".
        (Some(name), None),
        (Some(Adoption::Unowned), Some("")),
    ] {
        assert_eq!(adopt(allowed.as_ref()), reported, "{allowed:?}");
    }
}

#[test]
fn an_error_keeps_its_case_and_its_text() {
    let throttled = common::Throttled {
        message: "slow down".to_owned(),
        retry_after_ms: Some(7),
    };
    let text = || "why".to_owned();
    let conflict = |owner: Option<&str>| {
        let owner = owner.map(str::to_owned);
        let message = text();
        Error::Conflict(Conflict { message, owner })
    };
    let rows = [
        (Error::Invalid(text()), r#"Error::Invalid("why")"#),
        (Error::Denied(text()), r#"Error::Denied("why")"#),
        (
            conflict(None),
            r#"Error::Conflict(Conflict {message: "why", owner: None})"#,
        ),
        (
            conflict(Some("u1")),
            r#"Error::Conflict(Conflict {message: "why", owner: Some(Owner::Uid("u1"))})"#,
        ),
        (
            Error::Throttled(throttled),
            r#"Error::Throttled(Throttled {message: "slow down", retry-after-ms: Some(7)})"#,
        ),
        (Error::Unavailable(text()), r#"Error::Unavailable("why")"#),
        (Error::Unsupported(text()), r#"Error::Unsupported("why")"#),
        (Error::Elsewhere, "Error::Elsewhere"),
        (Error::Internal(text()), r#"Error::Internal("why")"#),
    ];
    for (error, expected) in rows {
        let newest = format!("{:?}", common::Error::from(error));
        let plain = |text: &str| text.replace(' ', "");
        assert_eq!(plain(&newest), plain(expected));
    }
}

#[test]
fn an_instance_has_as_many_addresses_as_its_version_allows() {
    let reply = |addresses: usize| instances::FindReply {
        lookups: vec![
            instances::Lookup::Gone,
            instances::Lookup::Found(common::Instance {
                provider_id: "sample://1".to_owned(),
                instance_type: None,
                zone: None,
                region: None,
                addresses: vec![node(None).addresses[0].clone(); addresses],
                labels: Vec::new(),
                shutdown: None,
                extra: Vec::new(),
            }),
        ],
        events: Vec::new(),
    };
    assert!(found(reply(32)).is_ok());
    let Err(Error::Internal(text)) = found(reply(33)).map(|_| ()) else {
        panic!("33 addresses are taken")
    };
    assert_eq!(text, "find, lookup 1: 33 addresses, at most 32 allowed");
}

#[test]
fn a_request_is_never_supplementary() {
    let request = FetchRequest::from(v0_1::http::Request {
        target: "api".to_owned(),
        method: v0_1::http::Method::Patch,
        path: "/a".to_owned(),
        query: vec![("b".to_owned(), "c".to_owned())],
        headers: vec![("d".to_owned(), "e".to_owned())],
        body: Some(vec![7]),
    });
    assert!(!request.supplementary);
    assert_eq!(request.method, http::Method::PATCH);
    assert_eq!(
        (request.target.as_str(), request.path.as_str()),
        ("api", "/a")
    );
    assert_eq!(request.query, [("b".to_owned(), "c".to_owned())]);
    assert_eq!(request.headers, [("d".to_owned(), "e".to_owned())]);
    assert_eq!(request.body.as_deref(), Some(&[7][..]));
}
