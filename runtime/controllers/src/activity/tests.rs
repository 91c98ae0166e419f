#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

fn node(object: &str) -> ActivitySubject<'_> {
    ActivitySubject {
        object,
        provider: "hcloud",
        controller: "cloud-node-controller",
    }
}

fn retry(why: &str) -> When {
    When::Retry {
        after: Duration::from_secs(10),
        why: why.to_owned(),
    }
}

fn waits(activity: &Activity, about: ActivitySubject<'_>, why: &str, now: i64) {
    let after = Some(Duration::from_secs(10));
    activity.ended(about, &retry(why), 1, after, false, at(now));
}

fn objects(activity: &Activity, now: i64) -> Vec<String> {
    let waiting = activity.snapshot_at(at(now)).waiting;
    waiting.into_iter().map(|one| one.object).collect()
}

#[test]
fn what_waits_is_told_from_its_first_end_until_it_is_done() {
    let activity = Activity::default();
    waits(&activity, node("node/a"), "no machine", 100);
    waits(&activity, node("node/a"), "no answer", 110);
    let [waiting] = activity.snapshot_at(at(111)).waiting.try_into().unwrap();
    let (since, next) = (Time(at(100)), Some(Time(at(120))));
    assert_eq!((waiting.since, waiting.next), (since, next));
    assert_eq!(waiting.why, "no answer");

    let blocked = When::Blocked {
        why: "no rights".to_owned(),
    };
    activity.ended(node("node/a"), &blocked, 3, None, true, at(130));
    let [waiting] = activity
        .snapshot_at(at(1_000_000))
        .waiting
        .try_into()
        .unwrap();
    assert_eq!((waiting.next, waiting.attempt), (None, 3));
    assert!(waiting.is_deletion);

    activity.ended(node("node/a"), &When::AwaitChange, 1, None, false, at(140));
    assert_eq!(objects(&activity, 141), [""; 0]);
}

#[test]
fn what_has_left_waits_no_longer() {
    let activity = Activity::default();
    let other = ActivitySubject {
        provider: "other",
        ..node("node/a")
    };
    let lifecycle = ActivitySubject {
        controller: "cloud-node-lifecycle-controller",
        ..node("node/a")
    };
    for (now, about) in [node("node/a"), other, lifecycle, node("node/ab")]
        .into_iter()
        .enumerate()
    {
        waits(&activity, about, "why", i64::try_from(now).unwrap());
    }
    activity.left("hcloud", "node/a");
    assert_eq!(objects(&activity, 5), ["node/a", "node/ab"]);
    activity.keep("hcloud", "cloud-node-controller", |_| false);
    assert_eq!(objects(&activity, 5), ["node/a"]);
    activity.ended_all("other");
    assert_eq!(objects(&activity, 5), [""; 0]);

    waits(&activity, node("node/a"), "why", 10);
    assert_eq!(objects(&activity, 20 + 60 * 60), ["node/a"]);
    assert_eq!(objects(&activity, 21 + 60 * 60), [""; 0], "long overdue");
}

#[test]
fn everything_has_a_bound() {
    let activity = Activity::default();
    let text = "ä".repeat(MOST_TEXT);
    for number in 0..=MOST_WAITING {
        let object = format!("node/{number}");
        waits(&activity, node(&object), &text, 100);
    }
    let snapshot = activity.snapshot_at(at(100));
    assert_eq!(snapshot.waiting.len(), MOST_WAITING);
    assert!(snapshot.is_cut);
    assert!(snapshot.waiting[0].why.len() <= MOST_TEXT + '…'.len_utf8());
    activity.left("hcloud", "node/7");
    assert!(!activity.snapshot_at(at(100)).is_cut, "there is room again");

    for number in 0..=MOST_DECISIONS {
        activity.decided(node("node/a"), format!("effect {number}"), &text, true);
    }
    let decisions = activity.snapshot_at(at(100)).decisions;
    assert_eq!(decisions.len(), MOST_DECISIONS);
    assert_eq!(decisions[0].effect, format!("effect {MOST_DECISIONS}"));
    assert!(decisions[0].outcome.len() <= MOST_TEXT + '…'.len_utf8());
}

#[test]
fn what_is_decided_again_is_one_line() {
    let activity = Activity::default();
    for outcome in ["gone", "found", "gone"] {
        activity.decided(node("node/a"), "find node/a", outcome, true);
    }
    let decisions = activity.snapshot().decisions;
    let shown = decisions.iter().map(|one| (&*one.outcome, one.times));
    assert_eq!(shown.collect::<Vec<_>>(), [("gone", 2), ("found", 1)]);
}

#[test]
fn budgets_that_are_gone_are_not_kept_until_somebody_reads() {
    let activity = Activity::default();
    let add = || {
        let budget = Arc::new(Vec::<BrakeReport>::new());
        let read = Arc::downgrade(&budget);
        activity.reads_brakes(move || read.upgrade().map(|levels| levels.to_vec()));
        budget
    };
    let _used = add();
    for _ in 0..5 {
        drop(add());
    }
    assert_eq!(activity.0.lock().brakes.len(), 2, "and the last one");
}
