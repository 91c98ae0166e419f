//! Tests of the runner: clients that are broken on purpose, each of which a law or the comparison of end states
//! has to notice; and laws on writes that no honest API server lets happen. A runner that cannot fail proves nothing.

use std::sync::Arc;
use std::time::Duration;

use ccm_core::cloud::{Address, AddressType, Instance, Lookup};
use ccm_core::permit::Mode;
use ccm_sim::cluster::{Request, Write};
use libtest_mimic::{Failed, Trial};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::cloud::{Answered, Truth};
use crate::disturbance::{self, Disturbance};
use crate::laws::{self, Record};
use crate::replay;
use crate::script;
use crate::stage::{self, Run};
use crate::tamper::Tamper;
use crate::transcript::Surveyed;

/// One node, and another one later.
const SCRIPT: &str = "\
# A node is initialised, and later another one.
cloud worker-1 id=sim://41 type=t addr=InternalIP:10.0.0.1
cloud worker-2 id=sim://42 type=t addr=InternalIP:10.0.0.2
node worker-1 taint=uninitialized taint=other
wait 10s
node worker-2 taint=uninitialized taint=other
wait 10s
";

/// The name of the test, the defect, the kind of disturbance under which it shows, and what is said about it.
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

/// What the node lifecycle controller is broken with: a defect of the client, or a setting that no operator has.
enum Broken {
    Client(Tamper),
    Setting(&'static str),
}

/// The name of the test, the rest of the script behind [`LIFECYCLE`], the defect, and what is said about it.
const DELETIONS: [(&str, &str, Broken, &str); 12] = [
    (
        "a_deletion_without_a_uid",
        ONE_GONE,
        Broken::Client(Tamper::DeletesWithoutUid),
        "(S2)",
    ),
    (
        "a_deletion_without_a_version",
        ONE_GONE,
        Broken::Client(Tamper::DeletesWithoutVersion),
        "(S2)",
    ),
    (
        "a_second_answer_out_of_a_memory",
        ONE_GONE,
        Broken::Client(Tamper::KeepsAnswers),
        "(S1)",
    ),
    (
        "a_second_answer_that_came_too_soon",
        ONE_GONE,
        Broken::Setting("setting confirm-after=0s not-ready=0s"),
        "10 s apart",
    ),
    (
        "a_deletion_of_a_node_that_was_ready_a_moment_ago",
        ONE_GONE,
        Broken::Setting("setting not-ready=0s"),
        "was a moment ago",
    ),
    (
        "a_deletion_of_a_young_node",
        "cloud d gone\nnode d provider-id=sim://d ready=False\nwait 100s\n",
        Broken::Setting("setting min-age=0s"),
        "younger than five minutes",
    ),
    (
        "a_held_deletion_of_a_young_node",
        "cloud d gone\nnode d provider-id=sim://d ready=False\nwait 100s\n",
        Broken::Client(Tamper::DeletesWhatIsHeld),
        "younger than five minutes",
    ),
    (
        "a_held_deletion_without_a_known_good_node",
        "change a ready=Unknown\ncloud lies everybody-gone\nwait 100s\n",
        Broken::Client(Tamper::DeletesWhatIsHeld),
        "found no node that exists",
    ),
    (
        "a_held_deletion_of_a_machine_that_exists",
        "change a ready=Unknown\nwait 10s\ncloud lies misses a b\nwait 100s\n",
        Broken::Client(Tamper::DeletesWhatIsHeld),
        "whose machine exists",
    ),
    (
        "a_held_deletion_beyond_the_brake",
        FIVE_GO,
        Broken::Client(Tamper::DeletesWhatIsHeld),
        "(S11)",
    ),
    (
        "a_budget_that_a_restart_refills",
        FIVE_GO,
        Broken::Client(Tamper::ForgetsSpending),
        "(S11)",
    ),
    (
        "a_lost_deletion_that_counts_as_done",
        "cluster drops delete nodes 1\ncloud a gone\nchange a ready=Unknown\nwait 100s\n",
        Broken::Client(Tamper::SwallowsFailures),
        "the end is not the same",
    ),
];

/// Three nodes that are an hour old.
const LIFECYCLE: &str = "\
# Nodes whose machines are gone.
controllers node-lifecycle
calm 100s
cloud a id=sim://a
cloud b id=sim://b
cloud c id=sim://c
node a provider-id=sim://a ready=True created=-3600s
node b provider-id=sim://b ready=True created=-3600s
node c provider-id=sim://c ready=True created=-3600s
wait 10s
";
const ONE_GONE: &str = "cloud a gone\nchange a ready=Unknown\nwait 100s\n";
/// One after another, so that they are no mass; the manager is started anew before the last ones.
const FIVE_GO: &str = "\
node d provider-id=sim://d ready=Unknown created=-3600s
node e provider-id=sim://e ready=Unknown created=-3600s
cloud d gone
cloud e gone
wait 40s
node f provider-id=sim://f ready=Unknown created=-3600s
node g provider-id=sim://g ready=Unknown created=-3600s
cloud f gone
cloud g gone
wait 40s
restart
wait 200s
";

pub(crate) fn trials() -> Vec<Trial> {
    let deletions = DELETIONS.map(|(name, rest, broken, words)| {
        Trial::test(format!("broken::{name}_is_noticed"), move || {
            is_noticed_in_deletions(rest, &broken, words)
        })
    });
    let defects = DEFECTS.map(|(name, tamper, kind, words)| {
        Trial::test(format!("broken::{name}_is_noticed"), move || {
            is_noticed(tamper, kind, words)
        })
    });
    let laws = [
        (
            "broken::s4_a_changed_provider_id_is_noticed",
            a_changed_provider_id as fn() -> Result<(), Failed>,
        ),
        (
            "broken::s1_one_answer_is_not_enough_for_a_deletion",
            one_answer,
        ),
        (
            "broken::s11_a_fourth_deletion_in_ten_minutes_is_noticed",
            four_deletions,
        ),
        (
            "broken::a_deletion_of_a_node_whose_machine_exists_is_noticed",
            a_machine_that_exists,
        ),
        (
            "broken::questions_without_end_are_noticed",
            questions_without_end,
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
    let laws = laws.map(|(name, test)| Trial::test(name, test));
    defects.into_iter().chain(deletions).chain(laws).collect()
}

fn is_noticed_in_deletions(rest: &str, broken: &Broken, words: &str) -> Result<(), Failed> {
    let text = format!("{LIFECYCLE}{rest}");
    let honest = stage::play(&script::read(&text)?, Run::with(None))?;
    if !honest.broken.is_empty() {
        return Err(format!("a sound client is blamed: {}", honest.broken.join("\n")).into());
    }
    let (text, tamper) = match broken {
        Broken::Client(tamper) => (text, Some(*tamper)),
        Broken::Setting(setting) => {
            (text.replace("calm 100s", &format!("calm 100s\n{setting}")), None)
        }
    };
    let run = Run {
        tamper,
        ..Run::with(None)
    };
    let played = stage::play(&script::read(&text)?, run)?;
    let said = replay::wrong(&honest, None, &played);
    match said.as_ref().is_some_and(|said| said.contains(words)) {
        true => Ok(()),
        false => Err(format!("nobody says {words:?}, but: {said:?}\n{}", played.text).into()),
    }
}

fn is_noticed(tamper: Tamper, kind: Option<&str>, words: &str) -> Result<(), Failed> {
    let script = script::read(SCRIPT)?;
    let honest = stage::play(&script, Run::with(None))?;
    let disturbances = match kind {
        None => vec![None],
        Some(kind) => disturbance::request_faults(&honest.asked)
            .into_iter()
            .filter(|one| one.parts().0 == kind)
            .map(Some)
            // The places of the first node's initialisation.
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
            &stage::play(&script, run)?,
        ));
        let sound = stage::play(&script, Run::with(disturbance))?;
        if let Some(wrong) = replay::wrong(&honest, disturbance, &sound) {
            return Err(format!("a sound client is blamed: {wrong}").into());
        }
    }
    match said.iter().any(|said| said.contains(words)) {
        true => Ok(()),
        false => Err(format!("nobody says {words:?}, but: {said:?}").into()),
    }
}

fn write(verb: &'static str, body: Value, before: Value, after: Option<Value>) -> Write {
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

fn expect(said: &[String], words: Option<&str>) -> Result<(), Failed> {
    let is_right = match words {
        Some(words) => said.len() == 1 && said[0].contains(words),
        None => said.is_empty(),
    };
    if is_right {
        return Ok(());
    }
    Err(format!("expected {words:?}, but: {said:?}").into())
}

/// An API server refuses this; the law is there for the day when one does not.
fn a_changed_provider_id() -> Result<(), Failed> {
    let node = |id: &str| json!({ "metadata": {}, "spec": { "providerID": id } });
    let body = json!({ "metadata": { "uid": "u" }, "spec": { "providerID": "sim://2" } });
    for (after, words) in [
        ("sim://1", None),
        ("sim://2", Some("(S4)")),
        ("", Some("(S4)")),
    ] {
        let write = write("patch", body.clone(), node("sim://1"), Some(node(after)));
        expect(&laws::broken(&Record::of(vec![write], Vec::new(), Mode::Enforce)), words)?;
    }
    Ok(())
}

/// The node of the deletion, and one that vouches for it.
fn answer(at: Instant, call: usize, lookup: Lookup, kind: &str) -> Vec<Answered> {
    let about = |node: &str, lookup: Lookup| Answered {
        at,
        call,
        node: node.to_owned(),
        lookup,
        complete: kind != "incomplete",
        is_fresh: kind != "kept",
        stored: Some(format!("sim://{node}")),
    };
    let instance = Instance {
        provider_id: "sim://worker-2".to_owned(),
        ..Instance::default()
    };
    let found = Lookup::Found(Box::new(instance));
    let witness = (kind != "alone").then(|| about("worker-2", found));
    witness.into_iter().chain([about("worker-1", lookup)]).collect()
}

fn one_answer() -> Result<(), Failed> {
    let body = json!({ "preconditions": { "uid": "u", "resourceVersion": "7" } });
    let deletion = write("delete", body, json!({}), None);
    let gone = |call, ago, kind| (call, ago, Lookup::Gone, kind);
    let rows = [
        (vec![], false),
        (vec![gone(1, 0, "")], false),
        (vec![gone(1, 9, ""), gone(2, 0, "")], false),
        (
            vec![gone(1, 20, ""), (2, 5, Lookup::NotMine, ""), gone(3, 0, "")],
            false,
        ),
        (vec![gone(1, 20, ""), gone(2, 0, "incomplete")], false),
        (vec![gone(1, 20, ""), gone(2, 0, "kept")], false),
        (vec![gone(1, 20, "alone"), gone(2, 0, "")], false),
        (vec![gone(1, 20, ""), gone(2, 0, "alone")], false),
        (vec![gone(1, 20, "kept"), gone(2, 5, "incomplete"), gone(3, 0, "")], true),
        (vec![gone(1, 10, ""), gone(2, 0, "")], true),
    ];
    for (rows, is_enough) in rows {
        let answered = rows.into_iter().flat_map(|(call, ago, lookup, kind)| {
            answer(deletion.at - Duration::from_secs(ago), call, lookup, kind)
        });
        let record = Record::of(vec![deletion.clone()], answered.collect(), Mode::Enforce);
        expect(&laws::broken(&record), (!is_enough).then_some("(S1)"))?;
    }
    Ok(())
}

/// In any ten minutes, whoever was started in between.
fn four_deletions() -> Result<(), Failed> {
    let body = json!({ "preconditions": { "uid": "u", "resourceVersion": "7" } });
    let deleted = |seconds: u64| Write {
        at: Instant::now() + Duration::from_secs(seconds),
        ..write("delete", body.clone(), json!({}), None)
    };
    for (seconds, words) in [
        (vec![0, 1, 2, 603], None),
        (vec![0, 200, 400, 539], Some("(S11)")),
        (vec![0, 200, 400, 601, 802], None),
    ] {
        let deletions: Vec<Write> = seconds.into_iter().map(deleted).collect();
        let answered = deletions.iter().enumerate().flat_map(|(index, deletion)| {
            let first = answer(deletion.at - Duration::from_secs(20), 2 * index, Lookup::Gone, "");
            let second = answer(deletion.at, 2 * index + 1, Lookup::Gone, "");
            first.into_iter().chain(second)
        });
        let answered = answered.collect();
        let record = Record {
            starts: vec![Instant::now() + Duration::from_secs(300)],
            ..Record::of(deletions, answered, Mode::Enforce)
        };
        expect(&laws::broken(&record), words)?;
    }
    Ok(())
}

fn a_machine_that_exists() -> Result<(), Failed> {
    let body = json!({ "preconditions": { "uid": "u", "resourceVersion": "7" } });
    let deletion = write("delete", body, json!({}), None);
    let ago = |seconds| deletion.at - Duration::from_secs(seconds);
    let answered = [answer(ago(10), 1, Lookup::Gone, ""), answer(ago(0), 2, Lookup::Gone, "")];
    let truth = |seconds, lookup: &Lookup| Truth {
        at: ago(seconds),
        node: "worker-1".to_owned(),
        lookup: lookup.clone(),
    };
    let found = Lookup::Found(Box::default());
    for (truth, words) in [
        (vec![truth(900, &found), truth(50, &Lookup::Gone)], None),
        (vec![truth(900, &found)], Some("whose machine exists")),
        (
            vec![truth(900, &Lookup::Gone), truth(50, &found)],
            Some("whose machine exists"),
        ),
    ] {
        let answered = answered.concat();
        let record = Record {
            truth,
            ..Record::of(vec![deletion.clone()], answered, Mode::Enforce)
        };
        expect(&laws::broken(&record), words)?;
    }
    Ok(())
}

fn questions_without_end() -> Result<(), Failed> {
    let begin = Instant::now();
    let survey = |seconds, about: &str| Surveyed {
        at: begin + Duration::from_secs(seconds),
        about: vec![about.to_owned()],
        is_vouched_for: true,
    };
    for (surveys, started, words) in [
        (vec![survey(0, "a"), survey(5, "a"), survey(6, "b")], 0, None),
        (vec![survey(0, "a"), survey(4, "a")], 0, Some("again within 5 s")),
        (vec![survey(0, "a"), survey(4, "a")], 2, None),
        (vec![survey(0, "a"), survey(0, "b")], 0, Some("in a second call")),
    ] {
        let record = Record {
            surveys,
            starts: vec![begin + Duration::from_secs(started)],
            ..Record::of(Vec::new(), Vec::new(), Mode::Enforce)
        };
        expect(&laws::broken(&record), words)?;
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

/// A failing replay is named by its word: it has to lead back to the very same disturbance.
fn words() -> Result<(), Failed> {
    let script = script::read(SCRIPT)?;
    let played = stage::play(&script, Run::with(None))?;
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
