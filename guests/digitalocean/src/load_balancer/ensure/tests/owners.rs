//! Which load balancers are taken over, released and deleted.

use super::*;
use ccm_guest::Owner;
use ccm_guest::load_balancer::Adoption;

#[test]
fn a_load_balancer_of_another_is_taken_only_if_the_host_says_so() {
    let foreign = |tags: Value| {
        let mut account = Account::new();
        account.put(&value!({"name": "shop", "tags": tags}));
        account
    };
    let take = |account: Account,
                annotations: &[(&str, &str)],
                values: &[(&str, &str)],
                adopt: Option<&str>| {
        let (host, account) = account.serve();
        let mut request = request(web(annotations));
        request.adopt = adopt.map(|uid| match uid {
            "" => Adoption::Unowned,
            uid => Adoption::of(uid),
        });
        let result = ensure(&settings(values), &request);
        let tags = account.borrow().load_balancers[0]["tags"].clone();
        (result, tags, host.requests())
    };
    let ours = value!(["k8s-service-uid:uid-of-web"]);
    // By id or by name, a load balancer without an owner needs the host's permission.
    for annotations in [[(ID, FIXTURE)], [("name", "shop")]] {
        let (result, _, requests) = take(foreign(value!([])), &annotations, &[], None);
        assert!(
            matches!(&result, Err(Error::Conflict(one)) if one.owner.is_none()),
            "{result:?}"
        );
        assert!(requests.iter().all(|line| line.starts_with("GET")));
        let (result, tags, _) = take(foreign(value!([])), &annotations, &[], Some(""));
        assert!(result.is_ok() && tags == ours, "{result:?} {tags}");
    }
    // One of another owner needs permission that names this owner.
    let mark = value!(["k8s-service-uid:other"]);
    for adopt in [None, Some(""), Some("someone")] {
        let (result, tags, _) = take(foreign(mark.clone()), &[(ID, FIXTURE)], &[], adopt);
        assert!(
            matches!(&result, Err(Error::Conflict(one)) if one.owner == Some(Owner::uid("other"))),
            "{result:?}"
        );
        assert_eq!(tags, mark);
    }
    let (result, tags, _) = take(foreign(mark), &[(ID, FIXTURE)], &[], Some("other"));
    assert!(result.is_ok() && tags == ours, "{result:?} {tags}");
    // One of another cluster is never taken over.
    let cluster = [("DO_CLUSTER_ID", "c1")];
    for (tags, adopt) in [
        (value!(["k8s:c2"]), ""),
        (value!(["k8s-service-uid:other", "k8s:c2"]), "other"),
    ] {
        let (result, kept, _) = take(
            foreign(tags.clone()),
            &[(ID, FIXTURE)],
            &cluster,
            Some(adopt),
        );
        assert!(
            matches!(&result, Err(Error::Invalid(text)) if text.contains("k8s:c2 of another cluster: take the tag off, or add k8s:c1,")),
            "{result:?}"
        );
        assert_eq!(kept, tags);
    }
    // The Go manager's way of moving one leaves the tags of both.
    for tags in [value!(["k8s:c1"]), value!(["k8s:c1", "k8s:c2"])] {
        let (result, _, _) = take(foreign(tags), &[(ID, FIXTURE)], &cluster, Some(""));
        assert!(result.is_ok(), "{result:?}");
    }
}

#[test]
fn two_that_claim_to_be_ours_are_told() {
    let mut account = of_the_go_manager(&value!({}));
    account.put(&value!({"id": "5de7ac8b-495b-4884-9a69-1050c6793cd6", "tags": ["k8s-service-uid:uid-of-web"]}));
    let (_host, _account) = account.serve();
    let error = ensure(&settings(&[]), &request(web(&[]))).unwrap_err();
    assert!(
        matches!(&error, Error::Invalid(text) if text.contains(FIXTURE)),
        "{error:?}"
    );
}

#[test]
fn a_disowned_one_is_left_alone_and_free() {
    let mut account = of_the_go_manager(&value!({"tags": ["k8s-service-uid:uid-of-web"]}));
    account.tags.push("k8s-service-uid:uid-of-web".to_owned());
    let (host, account) = account.serve();
    let service = owned(
        FIXTURE,
        &[("service.kubernetes.io/do-loadbalancer-disown", "true")],
    );
    for _ in 0..2 {
        assert_eq!(
            ensure(&settings(&[]), &request(service.clone())),
            Err(Error::Elsewhere)
        );
    }
    let update = UpdateRequest::new(service.clone(), Vec::new());
    assert_eq!(
        update_targets(&settings(&[]), &update),
        Err(Error::Elsewhere)
    );
    assert_eq!(deletion::delete(&service), Err(Error::Elsewhere));
    assert_eq!(deletion::get(&service), Err(Error::Elsewhere));
    let tag = "/v2/tags/k8s-service-uid:uid-of-web";
    assert_eq!(
        host.requests(),
        [
            format!("GET {tag}"),
            format!("DELETE {tag}"),
            format!("GET {tag}"),
            // The deletion asks, too.
            format!("GET {tag}")
        ]
    );
    assert_eq!(account.borrow().load_balancers.len(), 1);
    let odd = owned(
        FIXTURE,
        &[("service.kubernetes.io/do-loadbalancer-disown", "maybe")],
    );
    assert!(matches!(deletion::delete(&odd), Err(Error::Invalid(_))));
}

/// Between the annotation and the deletion there may be no `ensure`.
#[test]
fn one_that_is_disowned_at_the_last_moment_is_free() {
    let mut account =
        of_the_go_manager(&value!({"tags": ["k8s-service-uid:uid-of-web", "foreign"]}));
    account.tags.push("k8s-service-uid:uid-of-web".to_owned());
    let (_host, account) = account.serve();
    let service = owned(
        FIXTURE,
        &[("service.kubernetes.io/do-loadbalancer-disown", "true")],
    );
    assert_eq!(deletion::delete(&service), Err(Error::Elsewhere));
    let account = account.borrow();
    assert_eq!(account.load_balancers.len(), 1);
    assert_eq!(account.load_balancers[0]["tags"], value!(["foreign"]));
}

#[test]
fn nothing_of_anybody_else_is_deleted() {
    for tags in [value!(["k8s-service-uid:other"]), value!([])] {
        let mut account = Account::new();
        account.put(&value!({"name": "shop", "tags": tags}));
        let (host, account) = account.serve();
        let is_unowned = tags == value!([]);
        // By id, a person decides.
        match deletion::delete(&owned(FIXTURE, &[])) {
            Ok(reply) => assert!(!is_unowned && reply.events.is_empty(), "{reply:?}"),
            Err(Error::Invalid(text)) => {
                assert!(
                    is_unowned && text.contains("k8s-service-uid:uid-of-web") && text.contains(ID),
                    "{text}"
                );
            }
            Err(error) => panic!("{error:?}"),
        }
        // By name alone it stays.
        let reply = deletion::delete(&web(&[("name", "shop")])).unwrap();
        let is_told = reply
            .events
            .iter()
            .any(|event| event.reason == "LoadBalancerKept");
        assert_eq!(is_told, is_unowned);
        assert_eq!(account.borrow().load_balancers.len(), 1);
        assert!(host.requests().iter().all(|line| line.starts_with("GET")));
    }
    let (_host, _account) = Account::new().serve();
    assert!(deletion::delete(&web(&[])).unwrap().events.is_empty());
}

/// The annotation with the id hides no load balancer of the Service's own: its nodes change, and it is deleted.
#[test]
fn an_id_of_another_hides_nothing_of_our_own() {
    for tags in [value!(["k8s-service-uid:other"]), value!([])] {
        const OURS: &str = "5de7ac8b-495b-4884-9a69-1050c6793cd6";
        let mut account = Account::new();
        account.put(&value!({"name": "theirs", "tags": tags, "droplet_ids": [9]}));
        let ours = value!({"id": OURS, "name": "ours", "tags": ["k8s-service-uid:uid-of-web"], "droplet_ids": [1]});
        account.put(&ours);
        let (_host, account) = account.serve();
        let service = owned(FIXTURE, &[]);
        let update = UpdateRequest::new(service.clone(), vec![worker(2)]);
        update_targets(&settings(&[]), &update).unwrap();
        let droplets = |index: usize| account.borrow().load_balancers[index]["droplet_ids"].clone();
        assert_eq!((droplets(0), droplets(1)), (value!([9]), value!([2])));
        deletion::delete(&service).unwrap();
        assert_eq!(deletion::get(&service), Ok(Found::Absent));
        assert_eq!(account.borrow().load_balancers.len(), 1);
        assert_eq!(account.borrow().load_balancers[0]["name"], "theirs");
    }
}

#[test]
fn the_droplets_of_a_load_balancer_of_another_stay() {
    for tags in [value!(["k8s-service-uid:other"]), value!([])] {
        for annotation in [(ID, FIXTURE), ("name", "theirs")] {
            let mut account = Account::new();
            account.put(&value!({"name": "theirs", "tags": tags, "droplet_ids": [9]}));
            let (host, _account) = account.serve();
            let update = UpdateRequest::new(web(&[annotation]), vec![worker(2)]);
            let error = update_targets(&settings(&[]), &update).unwrap_err();
            assert!(matches!(error, Error::Conflict(_)), "{error:?}");
            assert!(host.requests().iter().all(|line| line.starts_with("GET")));
        }
    }
}

/// The tag that both would have goes with the first one that is deleted.
#[test]
fn a_service_with_a_load_balancer_takes_no_other_over() {
    let mut account = Account::new();
    account.put(&value!({"name": "theirs", "tags": []}));
    account.put(
        &value!({"id": "5de7ac8b-495b-4884-9a69-1050c6793cd6", "name": "ours",
        "tags": ["k8s-service-uid:uid-of-web"]}),
    );
    let (host, account) = account.serve();
    let request = EnsureRequest {
        adopt: Some(Adoption::Unowned),
        ..request(owned(FIXTURE, &[("name", "ours")]))
    };
    let error = ensure(&settings(&[]), &request).unwrap_err();
    assert!(
        matches!(&error, Error::Invalid(text) if text.contains("5de7ac8b")),
        "{error:?}"
    );
    assert!(host.requests().iter().all(|line| line.starts_with("GET")));
    assert_eq!(account.borrow().load_balancers[0]["tags"], value!([]));
}

/// Another Service may write its mark at the same moment.
#[test]
fn taking_over_writes_the_mark_and_nothing_else() {
    let mut account = Account::new();
    let theirs = value!(["k8s-service-uid:other", "theirs"]);
    account.put(&value!({"name": "shop", "tags": theirs, "forwarding_rules": []}));
    let (host, account) = account.serve();
    let mut request = EnsureRequest {
        adopt: Some(Adoption::of("other")),
        ..request(owned(FIXTURE, &[]))
    };
    let reply = ensure(&settings(&[]), &request).unwrap();
    let Ensured::Pending(pending) = reply.ensured else {
        panic!("{reply:?}");
    };
    assert_eq!(
        writes(&host),
        [
            "POST /v2/tags",
            "POST /v2/tags/k8s-service-uid:uid-of-web/resources",
            "DELETE /v2/tags/k8s-service-uid:other/resources"
        ]
    );
    let found = account.borrow().load_balancers[0].clone();
    assert_eq!(
        (&found["forwarding_rules"], &found["tags"]),
        (
            &value!([]),
            &value!(["theirs", "k8s-service-uid:uid-of-web"])
        )
    );
    // The next call finds the mark.
    request.adopt = None;
    request.hint = pending.hint;
    let reply = ensure(&settings(&[]), &request).unwrap();
    assert!(status(&reply).is_some(), "{reply:?}");
    let found = account.borrow().load_balancers[0].clone();
    assert_ne!(found["forwarding_rules"], value!([]));
}

/// The vendor's document shows no tags in answers. A load balancer whose name does not prove its owner gets the mark all
/// the same: once in a row of pending calls, and again at the next look.
#[test]
fn one_without_the_field_for_tags_is_marked() {
    let service = owned(FIXTURE, &[("name", "shop")]);
    for (name, adopt, hides_tags) in [
        ("shop", Some(Adoption::Unowned), false),
        ("shop", Some(Adoption::Unowned), true),
        ("auidofweb", None, false),
    ] {
        let mut account = Account {
            hides_tags,
            ..Account::new()
        };
        account.put(&value!({"name": name}));
        let (host, account) = account.serve();
        let mut request = EnsureRequest {
            adopt,
            ..request(service.clone())
        };
        let reply = ensure(&settings(&[]), &request).unwrap();
        let Ensured::Pending(pending) = reply.ensured else {
            panic!("{reply:?}");
        };
        let mark = [
            "POST /v2/tags",
            "POST /v2/tags/k8s-service-uid:uid-of-web/resources",
        ];
        assert_eq!(writes(&host), mark, "{name}");
        request.hint = pending.hint;
        if !hides_tags {
            request.adopt = None;
        }
        let reply = ensure(&settings(&[]), &request).unwrap();
        assert!(status(&reply).is_some(), "{name}: {reply:?}");
        let tags = host.requests();
        let tags = tags.iter().filter(|line| line.starts_with("POST /v2/tags"));
        assert_eq!(tags.count(), mark.len());
        if hides_tags {
            request.hint = None;
            let again = ensure(&settings(&[]), &request).unwrap();
            assert!(matches!(again.ensured, Ensured::Pending(_)));
            let tags = host.requests();
            let tags = tags.iter().filter(|line| line.starts_with("POST /v2/tags"));
            assert_eq!(tags.count(), 2 * mark.len());
        }
        // Without the mark nothing proves the owner.
        assert_eq!(deletion::delete(&service).is_ok(), !hides_tags, "{name}");
        assert_eq!(account.borrow().load_balancers.is_empty(), !hides_tags);
    }
}

#[test]
fn an_id_that_a_tenant_made_up_leads_nowhere() {
    let (host, _account) = Account::new().serve();
    for id in ["", "../../account", "a/b", "x?y", "%2e%2e"] {
        ensure(&settings(&[]), &request(owned(id, &[]))).unwrap();
    }
    assert!(host.requests().iter().all(|line| line == LIST
        || line.contains("load_balancers/0000")
        || line.starts_with("POST")));
}
