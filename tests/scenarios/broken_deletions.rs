//! Tests of the laws about deletions: clients with a defect and invalid settings, each of which must be noticed, and
//! records that no sound manager leaves behind.

use std::time::Duration;

use ccm_core::cloud::{Instance, Lookup};
use ccm_core::safety::permit::Mode;
use ccm_sim::cluster::Write;
use ccm_tests::harness::trial;
use libtest_mimic::{Failed, Trial};
use serde_json::json;
use tokio::time::Instant;

use crate::audited::{self, Audited};
use crate::broken::{expect, write};
use crate::broken_clients::Tamper;
use crate::cloud::{Answered, Truth};
use crate::laws::{self, Record};
use crate::replay;
use crate::script;
use crate::transcript::Surveyed;
use crate::world::{self, Run};

/// A defect of the node lifecycle controller: of its client, or a setting that operators cannot make.
enum Broken {
    Client(Tamper),
    Setting(&'static str),
}

/// The name of the test, the rest of the script after [`LIFECYCLE`], the defect, and the expected message.
const DELETIONS: [(&str, &str, Broken, &str); 11] = [
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
];

/// A script with three nodes that are an hour old.
const LIFECYCLE: &str = "\
# Nodes whose machines are gone.
controllers node-lifecycle
calm 100s 100s
cloud a id=sim://a
cloud b id=sim://b
cloud c id=sim://c
node a provider-id=sim://a ready=True created=-3600s
node b provider-id=sim://b ready=True created=-3600s
node c provider-id=sim://c ready=True created=-3600s
wait 10s
";
const ONE_GONE: &str = "cloud a gone\nchange a ready=Unknown\nwait 100s\n";
/// One deletion after another, so that there is no mass outage; the manager restarts before the last two.
const FIVE_GO: &str = "\
calm 0s 100s
cloud d id=sim://d
cloud e id=sim://e
cloud f id=sim://f
cloud g id=sim://g
node d provider-id=sim://d ready=True created=-3600s
node e provider-id=sim://e ready=True created=-3600s
node f provider-id=sim://f ready=True created=-3600s
node g provider-id=sim://g ready=True created=-3600s
wait 5s
cloud a gone
change a ready=Unknown
wait 40s
cloud b gone
change b ready=Unknown
wait 40s
cloud c gone
change c ready=Unknown
wait 40s
restart
cloud d gone
change d ready=Unknown
wait 60s
cloud e gone
change e ready=Unknown
wait 60s
";

pub(crate) fn trials() -> Vec<Trial> {
    let defects = DELETIONS.map(|(name, rest, broken, words)| {
        trial(format!("broken::{name}_is_noticed"), move || {
            is_noticed(rest, &broken, words)
        })
    });
    let laws = [
        (
            "broken::s1_one_answer_is_not_enough_for_a_deletion",
            one_answer as fn() -> Result<(), Failed>,
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
            "broken::s12_a_deletion_without_its_record_is_noticed",
            records_of_deletions,
        ),
    ];
    let laws = laws.map(|(name, test)| trial(name, test));
    defects.into_iter().chain(laws).collect()
}

fn is_noticed(rest: &str, broken: &Broken, words: &str) -> Result<(), Failed> {
    let text = format!("{LIFECYCLE}{rest}");
    let honest = world::play(&script::read(&text)?, Run::with(None))?;
    if !honest.broken.is_empty() {
        return Err(format!("a sound client is blamed: {}", honest.broken.join("\n")).into());
    }
    let (text, tamper) = match broken {
        Broken::Client(tamper) => (text, Some(*tamper)),
        Broken::Setting(setting) => (
            text.replace("calm 100s 100s", &format!("calm 100s 100s\n{setting}")),
            None,
        ),
    };
    let run = Run {
        tamper,
        ..Run::with(None)
    };
    let played = world::play(&script::read(&text)?, run)?;
    let reported = replay::wrong(&honest, None, &played);
    match reported
        .as_ref()
        .is_some_and(|reported| reported.contains(words))
    {
        true => Ok(()),
        false => Err(format!("nobody says {words:?}, but: {reported:?}\n{}", played.text).into()),
    }
}

/// Answers about the node of the deletion, and about its witness.
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
    witness
        .into_iter()
        .chain([about("worker-1", lookup)])
        .collect()
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
        (
            vec![
                gone(1, 20, "kept"),
                gone(2, 5, "incomplete"),
                gone(3, 0, ""),
            ],
            true,
        ),
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

/// In any ten minutes, across restarts.
fn four_deletions() -> Result<(), Failed> {
    let body = json!({ "preconditions": { "uid": "u", "resourceVersion": "7" } });
    let deleted = |seconds: u64| Write {
        at: Instant::now() + Duration::from_secs(seconds),
        ..write("delete", body.clone(), json!({}), None)
    };
    for (seconds, words) in [
        (vec![0, 40, 80, 641], None),
        (vec![0, 80, 160, 239], Some("(S11)")),
        // A deletion that was held for four minutes may use twice the budget.
        (vec![0, 200, 230, 240], None),
        (vec![0, 200, 400, 601, 802], None),
    ] {
        let deletions: Vec<Write> = seconds.into_iter().map(deleted).collect();
        let answered = deletions.iter().enumerate().flat_map(|(index, deletion)| {
            let first = answer(
                deletion.at - Duration::from_secs(20),
                2 * index,
                Lookup::Gone,
                "",
            );
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
    let answered = [
        answer(ago(10), 1, Lookup::Gone, ""),
        answer(ago(0), 2, Lookup::Gone, ""),
    ];
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

fn records_of_deletions() -> Result<(), Failed> {
    let body = json!({ "preconditions": { "uid": "u", "resourceVersion": "7" } });
    let deletion = write("delete", body, json!({}), None);
    let record = |uid: &str, is_done| Audited {
        uid: uid.to_owned(),
        is_done,
    };
    for (records, words) in [
        (vec![record("u", true)], None),
        // The answer to the deletion was lost.
        (vec![record("u", false)], None),
        (vec![record("u", false), record("u", true)], None),
        (vec![], Some("has 0 records")),
        (vec![record("v", false)], Some("has 0 records")),
        (
            vec![record("u", true), record("u", true)],
            Some("2 of them done"),
        ),
        (
            vec![record("u", true), record("v", true)],
            Some("calls v deleted"),
        ),
    ] {
        let found = audited::broken(std::slice::from_ref(&deletion), &records);
        expect(&found, words)?;
    }
    Ok(())
}

fn questions_without_end() -> Result<(), Failed> {
    let begin = Instant::now();
    let survey = |process, seconds, about: &str| Surveyed {
        at: begin + Duration::from_secs(seconds),
        process,
        about: vec![about.to_owned()],
        has_witness: true,
    };
    for (surveys, words) in [
        (
            vec![survey(1, 0, "a"), survey(1, 5, "a"), survey(1, 6, "b")],
            None,
        ),
        (
            vec![survey(1, 0, "a"), survey(1, 4, "a")],
            Some("again within 5 s"),
        ),
        (vec![survey(1, 0, "a"), survey(2, 4, "a")], None),
        (
            vec![survey(1, 0, "a"), survey(1, 0, "b")],
            Some("in a second call"),
        ),
    ] {
        let record = Record {
            surveys,
            ..Record::of(Vec::new(), Vec::new(), Mode::Enforce)
        };
        expect(&laws::broken(&record), words)?;
    }
    Ok(())
}
