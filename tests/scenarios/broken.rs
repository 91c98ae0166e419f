//! Tests of the runner: clients with a defect, each of which a law or the comparison of end states must notice; and
//! laws on writes that no honest API server lets happen. A runner that cannot fail proves nothing.

use std::sync::Arc;
use std::time::Duration;

use ccm_core::cloud::{Address, AddressType, Instance, Lookup};
use ccm_core::safety::permit::Mode;
use ccm_sim::cluster::{Request, Write};
use ccm_tests::harness::trial;
use libtest_mimic::{Failed, Trial};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::broken_clients::Tamper;
use crate::cloud::Answered;
use crate::disturbance::{self, Disturbance};
use crate::laws::{self, Record};
use crate::replay;
use crate::script;
use crate::world::{self, Run};

/// A script with one node, and another one later.
const SCRIPT: &str = "\
# A node is initialised, and later another one.
cloud worker-1 id=sim://41 type=t addr=InternalIP:10.0.0.1
cloud worker-2 id=sim://42 type=t addr=InternalIP:10.0.0.2
node worker-1 taint=uninitialized taint=other
wait 10s
node worker-2 taint=uninitialized taint=other
wait 10s
";

/// The name of the test, the defect, the kind of disturbance under which it shows, and the expected message.
const DEFECTS: [(&str, Tamper, Option<&str>, &str); 11] = [
    (
        "a_patch_without_a_uid",
        Tamper::DropsUid,
        None,
        "no UID precondition",
    ),
    (
        "a_patch_of_taints_without_a_version",
        Tamper::DropsVersion,
        None,
        "taints without a version",
    ),
    (
        "a_taint_removed_before_the_addresses",
        Tamper::TaintFirst,
        None,
        "(S3)",
    ),
    (
        "addresses_that_are_never_sent",
        Tamper::NoAddresses,
        None,
        "(S3)",
    ),
    (
        "a_refused_write_that_counts_as_done",
        Tamper::SwallowsFailures,
        Some("503"),
        "(S3)",
    ),
    (
        "a_lost_write_that_counts_as_done",
        Tamper::SwallowsFailures,
        Some("reset-before-commit"),
        "(S3)",
    ),
    (
        "others_taints_that_are_forgotten",
        Tamper::ForgetsTaints,
        None,
        "(S10)",
    ),
    (
        "an_annotation_that_nobody_owns",
        Tamper::Overreaches,
        None,
        "(S10)",
    ),
    (
        "a_whole_object_that_is_put",
        Tamper::PutsWhole,
        None,
        "nothing that the controllers may do",
    ),
    (
        "a_node_that_is_deleted_in_passing",
        Tamper::Deletes,
        None,
        "(S1)",
    ),
    (
        "a_watch_that_is_never_taken_up_again",
        Tamper::Deaf,
        Some("watch-ended-after-1"),
        "the end is not the same",
    ),
];

pub(crate) fn trials() -> Vec<Trial> {
    let defects = DEFECTS.map(|(name, tamper, kind, words)| {
        trial(format!("broken::{name}_is_noticed"), move || {
            is_noticed(tamper, kind, words)
        })
    });
    let laws = [
        (
            "broken::s4_a_changed_provider_id_is_noticed",
            a_changed_provider_id as fn() -> Result<(), Failed>,
        ),
        (
            "broken::one_answer_takes_no_address_from_a_ready_node",
            another_address,
        ),
        (
            "broken::a_write_in_plan_mode_is_noticed",
            a_write_in_plan_mode,
        ),
        ("broken::every_disturbance_has_its_own_word", words),
    ];
    let laws = laws.map(|(name, test)| trial(name, test));
    defects.into_iter().chain(laws).collect()
}

fn is_noticed(tamper: Tamper, kind: Option<&str>, words: &str) -> Result<(), Failed> {
    let script = script::read(SCRIPT)?;
    let honest = world::play(&script, Run::with(None))?;
    let disturbances = match kind {
        None => vec![None],
        Some(kind) => disturbance::request_faults(&honest.asked)
            .into_iter()
            .filter(|one| one.parts().0 == kind)
            .map(Some)
            // The places within the first node's initialisation.
            .take(5)
            .collect(),
    };
    let mut said = Vec::new();
    for disturbance in disturbances {
        let run = Run {
            tamper: Some(tamper),
            ..Run::with(disturbance)
        };
        said.extend(replay::wrong(
            &honest,
            disturbance,
            &world::play(&script, run)?,
        ));
        let sound = world::play(&script, Run::with(disturbance))?;
        if let Some(wrong) = replay::wrong(&honest, disturbance, &sound) {
            return Err(format!("a sound client is blamed: {wrong}").into());
        }
    }
    match said.iter().any(|said| said.contains(words)) {
        true => Ok(()),
        false => Err(format!("nobody says {words:?}, but: {said:?}").into()),
    }
}

pub(crate) fn write(verb: &'static str, body: Value, before: Value, after: Option<Value>) -> Write {
    Write {
        request: Request {
            sequence: 1,
            identity: "ccm".to_owned(),
            verb,
            resource: "nodes",
            subresource: String::new(),
            namespace: String::new(),
            name: "worker-1".to_owned(),
            content_type: String::new(),
            code: Some(200),
        },
        body,
        before: Some(Arc::new(before)),
        after: after.map(Arc::new),
        at: Instant::now(),
    }
}

pub(crate) fn expect(said: &[String], words: Option<&str>) -> Result<(), Failed> {
    let is_right = match words {
        Some(words) => said.len() == 1 && said[0].contains(words),
        None => said.is_empty(),
    };
    if is_right {
        return Ok(());
    }
    Err(format!("expected {words:?}, but: {said:?}").into())
}

/// An API server refuses this; the law is there in case one does not.
fn a_changed_provider_id() -> Result<(), Failed> {
    let node = |id: &str| json!({ "metadata": {}, "spec": { "providerID": id } });
    let body = json!({ "metadata": { "uid": "u" }, "spec": { "providerID": "sim://2" } });
    for (after, words) in [
        ("sim://1", None),
        ("sim://2", Some("(S4)")),
        ("", Some("(S4)")),
    ] {
        let write = write("patch", body.clone(), node("sim://1"), Some(node(after)));
        expect(
            &laws::broken(&Record::of(vec![write], Vec::new(), Mode::Enforce)),
            words,
        )?;
    }
    Ok(())
}

fn another_address() -> Result<(), Failed> {
    let node = |ready: &str, address: &str| {
        json!({ "metadata": {}, "status": {
            "conditions": [{ "type": "Ready", "status": ready }],
            "addresses": [{ "type": "InternalIP", "address": address }],
        } })
    };
    let change = |ready: &str| {
        let body = json!({ "metadata": { "uid": "u" } });
        let (before, after) = (node(ready, "10.0.0.1"), node(ready, "10.0.0.2"));
        write("patch", body, before, Some(after))
    };
    let answer = |ago: u64, address: &str| Answered {
        at: Instant::now() - Duration::from_secs(ago),
        call: 1,
        node: "worker-1".to_owned(),
        is_fresh: false,
        stored: None,
        lookup: Lookup::Found(Box::new(Instance {
            addresses: vec![Address {
                address_type: AddressType::InternalIp,
                address: address.to_owned(),
            }],
            ..Instance::default()
        })),
        complete: true,
    };
    let (old, new) = ("10.0.0.1", "10.0.0.2");
    let rows = [
        ("True", vec![answer(0, new)], false),
        ("True", vec![answer(9, new), answer(0, new)], false),
        (
            "True",
            vec![answer(20, new), answer(10, old), answer(0, new)],
            false,
        ),
        (
            "True",
            vec![answer(20, new), answer(10, new), answer(0, new)],
            true,
        ),
        ("Unknown", vec![answer(0, new)], true),
    ];
    for (ready, answered, is_enough) in rows {
        let said = laws::broken(&Record::of(vec![change(ready)], answered, Mode::Enforce));
        expect(&said, (!is_enough).then_some("two equal answers"))?;
    }
    Ok(())
}

fn a_write_in_plan_mode() -> Result<(), Failed> {
    let node = json!({ "metadata": {}, "spec": { "providerID": "" } });
    let body = json!({ "metadata": { "uid": "u" } });
    let write = write("patch", body, node.clone(), Some(node));
    expect(
        &laws::broken(&Record::of(vec![write.clone()], Vec::new(), Mode::Enforce)),
        None,
    )?;
    let said = laws::broken(&Record::of(vec![write], Vec::new(), Mode::Plan));
    expect(&said, Some("nothing may be changed"))
}

/// The word that names a failing replay must lead back to exactly the same disturbance.
fn words() -> Result<(), Failed> {
    let script = script::read(SCRIPT)?;
    let played = world::play(&script, Run::with(None))?;
    let mut every = disturbance::deaths(&played.effects, 2);
    every.extend(disturbance::request_faults(&played.asked));
    every.extend(disturbance::call_faults(played.calls));
    assert!(every.len() > 100, "{} disturbances", every.len());
    for one in every {
        let read: Disturbance = one.to_string().parse()?;
        assert_eq!(read, one, "{one}");
    }
    Ok(())
}
