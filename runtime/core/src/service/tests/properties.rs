//! Properties that hold for any answers of a provider and any changes of the Service meanwhile.

use super::world::*;
use crate::cloud::error::ProviderError;
use crate::cloud::load_balancer::{Found, GetReply, Progress};
use crate::reconciliation::effect::When;
use crate::service::retained_state::Phase;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::time::Duration;

/// An event between two reconciliations.
#[derive(Debug, Clone)]
enum Happening {
    Ensure(Answer),
    Update(Answer),
    Delete(Answer),
    Get(Answer),
    Nodes(Vec<&'static str>),
    Type(&'static str),
    Port(u16),
    Annotation(&'static str),
    Deleted,
    FinalizerRemoved,
    OwnerRemoved,
    StatusWiped,
    Drift,
    Restart,
    Wait(u16),
}

#[derive(Debug, Clone, Copy)]
enum Answer {
    Done(&'static str),
    Begun,
    Unavailable,
    Denied,
    Elsewhere,
    Conflict,
    Present,
    Incomplete,
}

fn answer() -> impl Strategy<Value = Answer> {
    prop_oneof![
        4 => prop_oneof![Just("192.0.2.1"), Just("192.0.2.2"), Just(""), Just("127.0.0.1"), Just("nonsense")]
            .prop_map(Answer::Done),
        2 => Just(Answer::Begun),
        1 => Just(Answer::Unavailable),
        1 => Just(Answer::Denied),
        1 => Just(Answer::Elsewhere),
        1 => Just(Answer::Conflict),
        1 => Just(Answer::Present),
        1 => Just(Answer::Incomplete),
    ]
}

fn happening() -> impl Strategy<Value = Happening> {
    let nodes = proptest::sample::subsequence(vec!["a", "b", "c", "d"], 0..=4);
    prop_oneof![
        4 => answer().prop_map(Happening::Ensure),
        1 => answer().prop_map(Happening::Update),
        2 => answer().prop_map(Happening::Delete),
        2 => answer().prop_map(Happening::Get),
        2 => nodes.prop_map(Happening::Nodes),
        1 => prop_oneof![Just("LoadBalancer"), Just("ClusterIP")].prop_map(Happening::Type),
        1 => (80..82_u16).prop_map(Happening::Port),
        1 => prop_oneof![Just("x"), Just("y")].prop_map(Happening::Annotation),
        1 => Just(Happening::Deleted),
        1 => Just(Happening::FinalizerRemoved),
        1 => Just(Happening::OwnerRemoved),
        1 => Just(Happening::StatusWiped),
        1 => Just(Happening::Drift),
        1 => Just(Happening::Restart),
        3 => (0..60_u16).prop_map(Happening::Wait),
    ]
}

fn error(answer: Answer) -> Option<ProviderError> {
    match answer {
        Answer::Unavailable => Some(unavailable()),
        Answer::Denied => Some(denied()),
        Answer::Elsewhere => Some(ProviderError::Elsewhere),
        Answer::Conflict => Some(conflict(None)),
        Answer::Done(_) | Answer::Begun | Answer::Present | Answer::Incomplete => None,
    }
}

fn progress(answer: Answer) -> Result<Progress, ProviderError> {
    match (error(answer), answer) {
        (Some(error), _) => Err(error),
        (None, Answer::Begun) => Ok(Progress::Pending(pending("h"))),
        _ => Ok(Progress::Done),
    }
}

impl Happening {
    fn happen(&self, world: &mut World) {
        let metadata = |world: &mut World, key: &str, value: Value| {
            world.stored["metadata"][key] = value;
        };
        match self {
            Happening::Ensure(answer) => {
                world.ensure = [match (error(*answer), *answer) {
                    (Some(error), _) => Err(error),
                    (None, Answer::Begun) => begun("h"),
                    (None, Answer::Done("")) => ready(&[], 1),
                    (None, Answer::Done(ip)) => ready(&[ip], 1),
                    _ => ready(&["192.0.2.1"], 0),
                }]
                .into();
            }
            Happening::Update(answer) => world.update = [progress(*answer)].into(),
            Happening::Delete(answer) => world.delete = [progress(*answer)].into(),
            Happening::Get(answer) => {
                let found = match answer {
                    Answer::Present => Found::Present(status(&[])),
                    _ => Found::Absent,
                };
                let complete = !matches!(answer, Answer::Incomplete);
                let reply = GetReply { found, complete };
                world.get = [error(*answer).map_or(Ok(reply), Err)].into();
            }
            Happening::Nodes(names) => world.with_nodes(names),
            Happening::Type(kind) => world.stored["spec"]["type"] = json!(kind),
            Happening::Port(port) => world.stored["spec"]["ports"][0]["port"] = json!(port),
            Happening::Annotation(text) => {
                world.stored["metadata"]["annotations"]["a"] = json!(text);
            }
            Happening::Deleted => world.delete_object(),
            Happening::FinalizerRemoved => metadata(world, "finalizers", json!(["other"])),
            Happening::OwnerRemoved => metadata(world, "annotations", json!({})),
            Happening::StatusWiped => world.stored["status"]["loadBalancer"] = json!({}),
            Happening::Drift => world.past.drift_due = true,
            Happening::Restart => world.past = Default::default(),
            Happening::Wait(seconds) => world.wait(u64::from(*seconds)),
        }
    }
}

/// Continues with a provider that does what is requested, until nothing is left to do.
fn settle(world: &mut World) {
    world.ensure = [ready(&["192.0.2.1"], 0)].into();
    world.update = [Ok(Progress::Done)].into();
    world.delete = [Ok(Progress::Done)].into();
    world.get = [absent()].into();
    world.is_synced = true;
    world.past.drift_due = true;
    for _ in 0..20 {
        match world.reconcile().end {
            When::AwaitChange => return,
            When::Retry { after, .. } | When::NotBefore { after, .. } => {
                world.now = world.now.after(after.max(Duration::from_millis(1)));
            }
            When::Blocked { why } => panic!("nobody comes back: {why}"),
        }
    }
    panic!("it never settles");
}

/// The provider's module has changed, so that the last hint is dropped.
fn drop_hint(world: &mut World) {
    if let Phase::Requested(request) | Phase::Made(request) | Phase::Removing(request) =
        &mut world.past.phase
        && let Some(pending) = &mut request.pending
    {
        pending.hint = None;
    }
}

proptest! {
    #[test]
    fn whatever_happens_the_laws_hold_and_the_end_is_the_same(happenings in vec(happening(), 0..24)) {
        let mut world = world();
        for happening in &happenings {
            happening.happen(&mut world);
            let before = world.stored.clone();
            world.calls.clear();
            world.patches.clear();
            let had_mark = world.has_finalizer() || world.annotation(OWNER).is_some();
            let run = world.reconcile();

            let place = |needle: &str| run.effects.iter().position(|effect| effect.contains(needle));
            if let Some(call) = place("ensure ").or(place("update ")) {
                let is_marked = before["metadata"]["finalizers"].as_array()
                    .is_some_and(|all| all.contains(&json!(FINALIZER)))
                    && before["metadata"]["annotations"][OWNER] == "sim";
                prop_assert!(is_marked || place("patch ").is_some_and(|patch| patch < call),
                    "marked before any change: {:?}", run.effects);
            }
            if place("-finalizer").is_some() || had_mark && place("annotations(1)").is_some() && place("delete ").is_some() {
                let get = place("get ");
                prop_assert!(get.is_some(), "a look before the end: {:?}", run.effects);
                let answer = &world.get[0];
                let proven = matches!(answer, Ok(GetReply { found: Found::Absent, complete: true }))
                    || matches!(answer, Err(ProviderError::Elsewhere));
                prop_assert!(proven, "{:?} {:?}", answer, run.effects);
            }
            prop_assert_eq!(&before["spec"], &world.stored["spec"], "the spec is nobody's to write");
            prop_assert_eq!(&before["metadata"]["annotations"]["a"], &world.stored["metadata"]["annotations"]["a"]);
            for address in world.addresses() {
                prop_assert!(["192.0.2.1", "192.0.2.2"].contains(&address.as_str()), "{} was written", address);
            }
            if !before["metadata"]["deletionTimestamp"].is_null() {
                prop_assert!(place("+finalizer").is_none() && place("ensure ").is_none(), "{:?}", run.effects);
            }
        }
        settle(&mut world);
        let is_wanted = world.stored["spec"]["type"] == "LoadBalancer"
            && world.stored["metadata"]["deletionTimestamp"].is_null();
        prop_assert_eq!(world.has_finalizer(), is_wanted);
        prop_assert_eq!(world.annotation(OWNER).is_some(), is_wanted);
        if is_wanted {
            prop_assert_eq!(world.addresses(), vec!["192.0.2.1"]);
            let names: Vec<&str> = world.past.targets.confirmed.as_ref().unwrap().iter().map(|node| node.name.as_str()).collect();
            prop_assert_eq!(names, world.nodes.iter().map(String::as_str).collect::<Vec<_>>());
        }
        does_nothing(&mut world);
    }

    #[test]
    fn hints_never_change_the_end(happenings in vec(happening(), 0..16)) {
        let mut ends = Vec::new();
        for keeps in [true, false] {
            let mut world = world();
            for happening in &happenings {
                happening.happen(&mut world);
                if !keeps {
                    drop_hint(&mut world);
                }
                world.reconcile();
            }
            settle(&mut world);
            ends.push(world.stored);
        }
        prop_assert_eq!(&ends[0], &ends[1]);
    }

    #[test]
    fn a_service_of_somebody_elses_class_has_no_effect_at_all(happenings in vec(happening(), 0..16)) {
        let mut world = world();
        world.stored["spec"]["loadBalancerClass"] = json!("io.cilium/node");
        world.stored["metadata"]["finalizers"] = json!([FINALIZER]);
        for happening in happenings.iter().filter(|one| !matches!(one, Happening::Type(_))) {
            happening.happen(&mut world);
            does_nothing(&mut world);
        }
    }
}
