//! How many removals the brake lets through.

use serde_json::json;

use super::world::*;
use crate::cloud::route::RouteTarget;

#[test]
fn the_brake_holds_removals_and_replacements_and_lets_them_through_in_the_end() {
    let mut world = world(&["10.1.0.0/16"]);
    world.brake();
    for number in 0..30 {
        let address = format!("10.0.0.{number}");
        world.add(
            &format!("n{number:02}"),
            &[&format!("10.1.{number}.0/24")],
            &address,
        );
    }
    world.settle();
    // A provider calls every route a blackhole.
    let before = world.routes.clone();
    for route in &mut world.routes {
        route.hop = Hop::Fixed(RouteTarget::Blackhole);
    }
    world.run(300_000);
    assert_eq!(world.deleted.len(), 3, "a tenth of thirty");
    assert_eq!(world.memory.tally().held, 27);
    // It was wrong: the remaining routes stay.
    let left: Vec<_> = world.routes.iter().map(|route| route.id.clone()).collect();
    for route in &mut world.routes {
        if let Some(known) = before.iter().find(|known| known.id == route.id) {
            *route = known.clone();
        }
    }
    world.run(600_000);
    assert_eq!(world.deleted.len(), 3);
    assert_eq!(world.memory.tally().held, 0);
    assert!(
        left.iter()
            .all(|id| world.routes.iter().any(|route| route.id == *id))
    );

    // Routes that really lead nowhere are removed, at least two in ten minutes.
    let mut world = one();
    world.brake();
    world.settle();
    for number in 10..16 {
        world.set_target(&format!("10.1.{number}.0/24"), RouteTarget::Blackhole);
    }
    world.run(10_000);
    world.pass();
    assert_eq!(world.deleted.len(), 2);
    world.run(3_600_000);
    assert_eq!(world.deleted.len(), 6);
}

/// Each of thirty nodes has a route that is to be replaced. A hundred routes that are not ours enlarge no budget.
#[test]
fn beside_the_brake_go_only_routes_to_nothing_of_nodes_that_have_no_network() {
    for (status, reason, leads_to_nothing, deleted) in [
        ("True", "NoRouteCreated", true, 30),
        ("True", "NoRouteCreated", false, 3),
        ("False", "CiliumIsUp", true, 3),
    ] {
        let mut world = world(&["10.1.0.0/16"]);
        world.brake();
        for number in 0..30 {
            let (name, cidr) = (format!("n{number:02}"), format!("10.1.{number}.0/24"));
            world.add(&name, &[&cidr], &format!("10.0.0.{number}"));
            let condition =
                json!([{ "type": "NetworkUnavailable", "status": status, "reason": reason }]);
            world.change(&name, |node| node["status"]["conditions"] = condition);
            let target = match leads_to_nothing {
                true => RouteTarget::Blackhole,
                false => RouteTarget::Outdated(name),
            };
            world.set_target(&cidr, target);
        }
        for number in 100..200 {
            let target = RouteTarget::Other("appliance 7".to_owned());
            world.set_target(&format!("10.1.{number}.0/24"), target);
        }
        world.settle();
        assert_eq!(world.deleted.len(), deleted, "{status} {leads_to_nothing}");
    }
}
