//! For any sequence of events the world's own checks hold, and when the events end, the newest acceptable offer serves.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::world::{KINDS, Kind, World, digest};
use crate::rollout::*;

#[derive(Debug, Clone)]
enum Event {
    Offer(u8, Kind),
    Withdraw,
    /// The bytes of this version are not available any more.
    Vanish(u8),
    Unreachable,
    Seconds(u64),
    Restart,
    Follow,
    Lead,
    Policy,
    Enough,
    Online(bool),
    Pin(Option<u8>),
    Pause(bool),
    RollBack,
    Approve(u8),
    Retry(u8),
    /// The work under way fails because of the network.
    Hiccup,
    Trap,
}

fn event() -> impl Strategy<Value = Event> {
    let number = 1..8_u8;
    prop_oneof![
        6 => (number.clone(), select(&KINDS[..])).prop_map(|(number, kind)| Event::Offer(number, kind)),
        1 => Just(Event::Withdraw),
        1 => number.clone().prop_map(Event::Vanish),
        1 => Just(Event::Unreachable),
        8 => (1..90_u64).prop_map(Event::Seconds),
        2 => Just(Event::Restart),
        1 => Just(Event::Follow),
        1 => Just(Event::Lead),
        1 => Just(Event::Policy),
        1 => Just(Event::Enough),
        1 => any::<bool>().prop_map(Event::Online),
        1 => proptest::option::of(number.clone()).prop_map(Event::Pin),
        1 => any::<bool>().prop_map(Event::Pause),
        1 => Just(Event::RollBack),
        1 => number.clone().prop_map(Event::Approve),
        1 => number.prop_map(Event::Retry),
        2 => Just(Event::Hiccup),
        1 => Just(Event::Trap),
    ]
}

fn happens(world: &mut World, event: Event) {
    let mut orders = world.orders.clone();
    match event {
        // The same bytes always behave the same.
        Event::Offer(number, kind) => {
            let kind = world.kinds.get(&digest(number)).copied().unwrap_or(kind);
            world.offer(number, kind);
        }
        Event::Withdraw => world.facts.unoffered("there is nothing", true),
        Event::Vanish(number) => {
            world.gone.insert(digest(number));
        }
        Event::Unreachable => world.facts.unoffered("cannot be asked", false),
        Event::Seconds(seconds) => world.run(seconds),
        Event::Restart => world.restart(),
        Event::Follow => world.facts.follows(),
        Event::Lead => {
            if world.facts.role == Role::Follower {
                world.facts.leads(Some(world.stored.clone()));
            }
        }
        Event::Policy => world.facts.policy_changed(),
        Event::Enough => {
            world.enough = 0;
            world.facts.policy_changed();
        }
        Event::Online(is_online) => {
            world.is_online = is_online;
            if is_online && world.facts.role == Role::Leader {
                world.stored = world.record().clone();
            }
            world.facts.ordered(orders);
            return;
        }
        Event::Pin(pin) => orders.pin = pin.map(digest),
        Event::Pause(pause) => orders.pause = pause,
        Event::RollBack => orders.roll_back = true,
        Event::Approve(number) => orders.approve = Some(digest(number)),
        Event::Retry(number) => orders.retry = Some(digest(number)),
        Event::Hiccup => {
            if let Some(work) = world.facts.work.clone() {
                let now = world.now();
                let end = Cause::Circumstances.because("the network is away");
                world
                    .facts
                    .ended(&work, world.facts.policy_generation, end, now);
            }
        }
        Event::Trap => world.facts.tally.fatal = Some("trapped".to_owned()),
    }
    if orders != world.orders {
        world.order(orders);
    }
    if world.facts.role == Role::Leader {
        world.settle();
    }
}

/// No further events happen, and `number` is offered.
fn quiet(world: &mut World, number: u8, kind: Kind) {
    world.is_online = true;
    if world.facts.role == Role::Follower {
        world.facts.leads(Some(world.stored.clone()));
    }
    world.order(Orders::default());
    world.run(20);
    world.offer(number, kind);
    world.run(900);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 256,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn whatever_happens_the_newest_acceptable_offer_serves_in_the_end(
        events in vec(event(), 1..60),
        last in select(&KINDS[..]),
    ) {
        let mut world = World::new();
        for event in events {
            happens(&mut world, event);
        }
        quiet(&mut world, 100, last);
        let covered = world.facts.policy_generation >= world.enough;
        let serves = world.serves() == Some(digest(100));
        let had_none = world.stored.previous.is_none() && serves;
        // The version that served before is not available any more.
        let active = world.stored.active.clone();
        let stands_in = active.as_ref().is_some_and(|it| it.untried.is_some()) && serves;
        let expected = match last {
            Kind::Good | Kind::Adjusts | Kind::Reshaped | Kind::Flaky => true,
            Kind::Ungranted | Kind::Distrusted => covered,
            // It serves only if it was the first version.
            Kind::Wider => had_none,
            // It also serves if there is no version to compare it with.
            kind => kind.starts() && (had_none || stands_in),
        };
        prop_assert_eq!(world.serves() == Some(digest(100)), expected, "{:?} {:?}", last, world.stored);
        prop_assert_eq!(world.stored.is_rejected(&digest(100)), last.is_bad() && !expected);
        // The serving version is recorded, unless the recorded one is unavailable: then this process keeps its own.
        let active = active.map(|it| it.release.digest);
        let is_lost = active.as_ref().is_some_and(|it| world.gone.contains(it));
        prop_assert!(active == world.serves() || is_lost);
        // Much later nothing has changed.
        let before = (world.stored.clone(), world.begun(|work| matches!(work, Work::Compile(_))));
        world.run(900);
        prop_assert_eq!(&before.0.active, &world.stored.active);
        prop_assert_eq!(&before.0.rejected, &world.stored.rejected);
        prop_assert_eq!(before.1, world.begun(|work| matches!(work, Work::Compile(_))));
    }
}
