//! The owner of a load balancer, and the treatment of another owner's.

use super::*;
use ccm_guest::Owner;

const NAME: &str = "shop";

#[test]
fn only_what_may_be_adopted_is_taken_over() {
    // Labels of the load balancer with the name, `adopt`, and the outcome: taken over, or the owner in the conflict.
    type Outcome = Result<(), Option<&'static str>>;
    let other = json!({"hcloud-ccm/service-uid": "other", "team": "a"});
    let nobodys = json!({"team": "a"});
    let empty = json!({"hcloud-ccm/service-uid": ""});
    let table: [(&Value, Option<&str>, Outcome); 10] = [
        (&other, None, Err(Some("other"))),
        (&other, Some(""), Err(Some("other"))),
        (&other, Some("another"), Err(Some("other"))),
        (&other, Some("other"), Ok(())),
        (&nobodys, None, Err(None)),
        (&nobodys, Some("other"), Err(None)),
        (&nobodys, Some(""), Ok(())),
        (&empty, None, Err(None)),
        (&empty, Some("other"), Err(None)),
        (&empty, Some(""), Ok(())),
    ];
    for (labels, adopt, expected) in table {
        let mut project = Project::new();
        let id = project.put(NAME, labels);
        let before = project.load_balancers.clone();
        let mut world = World::new(project);
        world.annotate(annotations::NAME, NAME);
        world.adopt = adopt.map(str::to_owned);
        match (world.ensure(), expected) {
            (Ok(_), Ok(())) => {
                let found = world.only();
                assert_eq!(found["id"], id);
                assert_eq!(found["labels"]["hcloud-ccm/service-uid"], UID);
                assert_eq!(found["labels"]["team"], labels["team"], "others stay");
                assert_eq!(brief(&found), as_wanted());
            }
            (Err(Error::Conflict(conflict)), Err(owner)) => {
                assert_eq!(conflict.owner, owner.map(Owner::uid));
                assert_eq!(world.project.borrow().load_balancers, before, "untouched");
            }
            (answer, _) => panic!("{labels} {adopt:?}: {answer:?}"),
        }
    }
}

#[test]
fn a_name_that_is_annotated_is_looked_up_first_and_another_one_when_it_is_taken() {
    const LOOK: &str = "GET /load_balancers";
    const ORDER: &str = "POST /load_balancers";
    for (annotated, expected) in [(true, &[LOOK; 2][..]), (false, &[LOOK, ORDER, LOOK])] {
        let mut project = Project::new();
        project.put(NAME, &json!({}));
        project.put(&service(&[]).default_name(), &json!({}));
        let mut world = World::new(project);
        if annotated {
            world.annotate(annotations::NAME, NAME);
        }
        assert!(matches!(world.ensure(), Err(Error::Conflict(_))));
        assert_eq!(world.requests(0), expected);
    }
}

#[test]
fn what_is_imported_by_name_needs_no_place_and_is_read_again_before_it_is_changed() {
    let mut project = Project::new();
    let id = project.put(NAME, &json!({}));
    let mut world = World::new(project);
    world.settings = settings(&[]);
    world.annotate(annotations::NAME, NAME);
    world.adopt = Some(String::new());
    world.ensure().unwrap();
    assert_eq!(world.only()["id"], id);
    assert_eq!(brief(&world.only()), as_wanted());
    let requests = world.requests(0);
    let update = format!("PUT /load_balancers/{id}");
    let look = "GET /load_balancers";
    assert_eq!(requests[..4], [look, look, update.as_str(), look]);
}

#[test]
fn a_name_that_nothing_has_needs_a_place() {
    let mut world = World::new(Project::new());
    world.settings = settings(&[]);
    world.annotate(annotations::NAME, NAME);
    let error = world.ensure().unwrap_err();
    assert!(error.message().contains(annotations::LOCATION), "{error:?}");
}

#[test]
fn who_sets_the_label_last_has_the_load_balancer_and_the_other_one_changes_nothing() {
    let mut project = Project::new();
    let id = project.put(NAME, &json!({}));
    let mut world = World::new(project);
    world.annotate(annotations::NAME, NAME);
    let mut request = EnsureRequest {
        service: world.service.clone(),
        targets: world.nodes.clone(),
        adopt: Some(Adoption::Unowned),
        hint: None,
    };
    let reply = ensure(&world.settings, &request).unwrap();
    let Ensured::Pending(pending) = reply.ensured else {
        panic!("{reply:?}");
    };
    let label = json!({"hcloud-ccm/service-uid": "other"});
    if let Some(found) = world.project.borrow_mut().load_balancers.get_mut(&id) {
        found["labels"] = label;
    }
    let before = world.project.borrow().load_balancers.clone();
    (request.adopt, request.hint) = (None, pending.hint);
    let error = ensure(&world.settings, &request).unwrap_err();
    assert!(matches!(error, Error::Conflict(_)), "{error:?}");
    assert_eq!(world.project.borrow().load_balancers, before);
}

#[test]
fn what_nobody_owns_and_serves_others_is_not_taken_over() {
    let server = |id: u64| json!({"type": "server", "server": {"id": id}, "use_private_ip": true});
    let selector = json!({"type": "label_selector", "label_selector": {"selector": "a"}});
    let ip = json!({"type": "ip", "ip": {"ip": "192.0.2.1"}});
    let table = [
        (json!([]), true),
        (json!([server(1), server(2)]), true),
        (json!([server(1), server(9)]), false),
        (json!([selector]), false),
        (json!([ip]), false),
    ];
    for (targets, is_taken) in table {
        let mut project = Project::new();
        let id = project.put(NAME, &json!({}));
        if let Some(found) = project.load_balancers.get_mut(&id) {
            found["targets"] = targets.clone();
        }
        let before = project.load_balancers.clone();
        let mut world = World::new(project);
        world.annotate(annotations::NAME, NAME);
        world.adopt = Some(String::new());
        match world.ensure() {
            Ok(_) => assert!(is_taken, "{targets}"),
            Err(error) => {
                assert!(!is_taken, "{targets}: {error:?}");
                let label = format!("the label hcloud-ccm/service-uid={UID}");
                assert!(error.message().contains(&label), "{error:?}");
                assert_eq!(world.project.borrow().load_balancers, before, "untouched");
            }
        }
    }
}

#[test]
fn who_renames_to_a_name_that_is_taken_gets_an_error_and_nothing_else() {
    let mut project = Project::new();
    let id = project.put(NAME, &json!({"hcloud-ccm/service-uid": "other"}));
    let mut world = World::new(project);
    world.ensure().unwrap();
    let before = world.project.borrow().load_balancers[&id].clone();
    world.annotate(annotations::NAME, NAME);
    world.adopt = Some("other".to_owned());
    assert!(matches!(world.ensure(), Err(Error::Invalid(_))));
    assert_eq!(world.project.borrow().load_balancers[&id], before);
}

#[test]
fn two_with_one_label_are_named_and_nothing_is_done() {
    let mut project = Project::new();
    let label = json!({"hcloud-ccm/service-uid": UID});
    let ids = [project.put("one", &label), project.put("two", &label)];
    let mut world = World::new(project);
    let error = world.ensure().unwrap_err();
    assert!(matches!(error, Error::Invalid(_)), "{error:?}");
    for id in ids {
        assert!(error.message().contains(&id.to_string()), "{error:?}");
    }
    assert!(world.update_targets().is_err());
    assert_eq!(world.requests(0), ["GET /load_balancers"; 2]);
    assert!(matches!(world.delete(), Err(Error::Invalid(_))));
    assert_eq!(world.project.borrow().load_balancers.len(), 2);
}

#[test]
fn a_uid_that_cannot_be_a_label_is_not_put_into_a_selector() {
    for uid in ["", "a,b", "!a", "a b", "a=b", &"a".repeat(64)] {
        let mut world = World::new(Project::new());
        world.service.uid = uid.to_owned();
        assert!(matches!(world.ensure(), Err(Error::Invalid(_))), "{uid}");
        assert!(matches!(world.delete(), Err(Error::Invalid(_))), "{uid}");
        assert_eq!(world.count(), 0);
    }
}

#[test]
fn deletion_touches_only_what_carries_the_label() {
    let mut project = Project::new();
    project.put(NAME, &json!({"hcloud-ccm/service-uid": "other"}));
    project.put("free", &json!({}));
    let before = project.load_balancers.clone();
    let mut world = World::new(project);
    world.annotate(annotations::NAME, NAME);
    world.delete().unwrap();
    assert_eq!(world.project.borrow().load_balancers, before);
}

#[test]
fn without_a_place_nothing_is_ordered_and_what_exists_is_kept_up() {
    let mut world = World::new(Project::new());
    let with_place = world.settings.clone();
    world.settings = settings(&[]);
    let error = world.ensure().unwrap_err();
    assert!(matches!(error, Error::Invalid(_)), "{error:?}");
    for what in [
        "load-balancer.hetzner.cloud/location",
        "load-balancer.hetzner.cloud/network-zone",
        "HCLOUD_LOAD_BALANCERS_LOCATION",
        "HCLOUD_LOAD_BALANCERS_NETWORK_ZONE",
    ] {
        assert!(error.message().contains(what), "{error:?}");
    }
    assert_eq!(world.requests(0), ["GET /load_balancers"]);
    world.settings = with_place;
    world.ensure().unwrap();
    world.settings = settings(&[]);
    world.service.ports.pop();
    world.ensure().unwrap();
    assert_eq!(brief(&world.only()).0, ["80→30080"]);
}

#[test]
fn update_targets_without_a_load_balancer_asks_for_ensure() {
    let mut world = World::new(Project::new());
    assert!(matches!(world.update_targets(), Err(Error::Unavailable(_))));
}

#[test]
fn ports_of_others_stay_where_the_operator_says_so_and_label_selectors_always() {
    for (keep, ports) in [("true", 3), ("false", 2)] {
        let values = [("HCLOUD_LOAD_BALANCERS_KEEP_FOREIGN_PORTS", keep)];
        let mut world = World::with(Project::new(), &values);
        world.ensure().unwrap();
        for found in world.project.borrow_mut().load_balancers.values_mut() {
            let foreign = json!({"protocol": "tcp", "listen_port": 25, "destination_port": 25});
            found["services"].as_array_mut().unwrap().push(foreign);
            let server = json!({"type": "server", "server": {"id": 9}, "use_private_ip": false});
            let selector = json!({"type": "label_selector", "label_selector": {"selector": "a"}});
            let targets = found["targets"].as_array_mut().unwrap();
            targets.extend([server, selector]);
        }
        world.ensure().unwrap();
        let (services, targets) = brief(&world.only());
        assert_eq!(services.len(), ports, "{keep}");
        assert_eq!(targets, ["1", "2", "3", "4", "label selector"], "{keep}");
    }
}
