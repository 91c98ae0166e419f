//! The behaviour of client-go's elector, and where ours is stricter. `safety` tests that two electors never act
//! together.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod safety;

use k8s_openapi::jiff::SignedDuration;
use std::collections::BTreeMap;

use super::*;

const TIMING: Timing = Timing {
    lease_duration: Duration::from_secs(15),
    renew_deadline: Duration::from_secs(10),
    retry_period: Duration::from_secs(2),
};

fn at(millis: u64) -> Moment {
    Moment(Duration::from_millis(1_000_000 + millis))
}

fn wall(millis: u64) -> Timestamp {
    let millis = i64::try_from(millis).unwrap();
    Timestamp::UNIX_EPOCH + SignedDuration::from_millis(millis)
}

fn elector(identity: &str) -> Elector {
    Elector::new(
        "kube-system".to_owned(),
        "ccm".to_owned(),
        identity.to_owned(),
        TIMING,
    )
}

/// A Lease that `holder` holds, renewed for the `renewal`-th time.
fn lease(holder: &str, renewal: i64) -> Box<Lease> {
    Box::new(Lease {
        metadata: ObjectMeta {
            name: Some("ccm".to_owned()),
            namespace: Some("kube-system".to_owned()),
            resource_version: Some(renewal.to_string()),
            annotations: Some(BTreeMap::from([("spent".to_owned(), "3".to_owned())])),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: Some(15),
            lease_transitions: Some(4),
            acquire_time: Some(MicroTime(Timestamp::UNIX_EPOCH)),
            // From a clock that is wrong by years, which must not matter.
            renew_time: Some(MicroTime(
                Timestamp::UNIX_EPOCH + SignedDuration::from_secs(renewal),
            )),
            ..LeaseSpec::default()
        }),
    })
}

fn asked(turn: LeaseAction) -> LeaseRequest {
    match turn {
        LeaseAction::Ask(ask) => ask,
        other => panic!("asks nothing: {other:?}"),
    }
}

/// Lets `elector` ask at `millis` and get `answer` at once; the answer to a write may contain what was written.
fn exchange(
    elector: &mut Elector,
    millis: u64,
    answer: impl FnOnce(&LeaseRequest) -> LeaseReply,
) -> LeaseRequest {
    let ask = asked(elector.turn(at(millis), wall(millis)));
    let answer = answer(&ask);
    elector.absorb(&ask, at(millis), at(millis), answer, 0.5);
    ask
}

/// The server performs the request.
fn done(ask: &LeaseRequest) -> LeaseReply {
    match ask {
        LeaseRequest::Create(lease) | LeaseRequest::Replace(lease) => {
            LeaseReply::Lease(lease.clone())
        }
        LeaseRequest::Read => panic!("a read has no answer of its own"),
    }
}

/// An elector that created the Lease at 0.
fn leader(identity: &str) -> Elector {
    let mut elector = elector(identity);
    exchange(&mut elector, 0, |_| LeaseReply::Absent);
    exchange(&mut elector, 0, done);
    assert_eq!(elector.renewed(), Some(at(0)));
    elector
}

#[test]
fn proc_041_the_durations_have_to_stand_in_their_order_and_be_positive() {
    let millis = |lease, renew, retry| Timing {
        lease_duration: Duration::from_millis(lease),
        renew_deadline: Duration::from_millis(renew),
        retry_period: Duration::from_millis(retry),
    };
    for (timing, mistakes) in [
        (TIMING, 0),
        (millis(3_000, 2_000, 500), 0),
        (millis(10_000, 10_000, 2_000), 1),
        (millis(15_000, 2_400, 2_000), 1),
        (millis(15_000, 2_401, 2_000), 0),
        (millis(15_000, 10_000, 0), 1),
        (millis(15_000, 0, 0), 3),
        (millis(0, 0, 0), 5),
    ] {
        assert_eq!(timing.mistakes().len(), mistakes, "{timing:?}");
    }
}

#[test]
fn proc_040_a_request_takes_at_most_half_the_renew_deadline_or_a_second() {
    for (renew, most) in [(10, 5_000), (1, 1_000), (3, 1_500)] {
        let timing = Timing {
            renew_deadline: Duration::from_secs(renew),
            ..TIMING
        };
        assert_eq!(timing.request_time(), Duration::from_millis(most));
    }
}

#[test]
fn what_is_sent_until_the_renew_deadline_arrives_before_the_end_of_the_lease() {
    assert_eq!(TIMING.unacknowledged(), Duration::from_secs(5));
}

#[test]
fn proc_040_a_lease_that_does_not_exist_is_created() {
    let mut elector = elector("me");
    exchange(&mut elector, 0, |_| LeaseReply::Absent);
    let ask = exchange(&mut elector, 0, done);
    let LeaseRequest::Create(created) = ask else {
        panic!("{ask:?}");
    };
    let record = created.spec.unwrap();
    assert_eq!(record.holder_identity.as_deref(), Some("me"));
    assert_eq!(record.lease_duration_seconds, Some(15));
    assert_eq!(record.lease_transitions, Some(0));
    assert_eq!(record.acquire_time, record.renew_time);
    assert_eq!(
        elector.turn(at(0), wall(0)),
        LeaseAction::Wait(TIMING.retry_period)
    );
}

#[test]
fn a_lease_without_a_namespace_is_tried_again_later() {
    let mut elector = elector("me");
    exchange(&mut elector, 0, |_| LeaseReply::Absent);
    exchange(&mut elector, 0, |_| LeaseReply::Absent);
    assert!(matches!(elector.turn(at(0), wall(0)), LeaseAction::Wait(_)));
}

#[test]
fn another_leader_is_waited_for_from_when_its_record_was_seen_to_change() {
    let mut elector = elector("me");
    // The Lease is read at each of these moments; the last change was seen at 6000.
    for (millis, renewal) in [(0, 1), (3_000, 2), (6_000, 3), (9_000, 3), (20_999, 3)] {
        let ask = exchange(&mut elector, millis, |_| {
            LeaseReply::Lease(lease("you", renewal))
        });
        assert_eq!(ask, LeaseRequest::Read);
        assert!(
            matches!(elector.turn(at(millis), wall(millis)), LeaseAction::Wait(_)),
            "{millis}"
        );
    }
    exchange(&mut elector, 23_400, |_| LeaseReply::Lease(lease("you", 3)));
    let ask = exchange(&mut elector, 23_400, done);
    let LeaseRequest::Replace(taken) = ask else {
        panic!("{ask:?}");
    };
    // Made from the Lease that was read: no other writer's fields are lost or overwritten.
    assert_eq!(taken.metadata, lease("you", 3).metadata);
    let record = taken.spec.unwrap();
    assert_eq!(record.holder_identity.as_deref(), Some("me"));
    assert_eq!(record.lease_transitions, Some(5));
    assert_eq!(record.acquire_time, Some(MicroTime(wall(23_400))));
    assert_eq!(elector.renewed(), Some(at(23_400)));
}

#[test]
fn an_annotation_is_no_renewal() {
    let mut elector = elector("me");
    exchange(&mut elector, 0, |_| LeaseReply::Lease(lease("you", 1)));
    let mut noted = lease("you", 1);
    noted.metadata.annotations = Some(BTreeMap::from([("spent".to_owned(), "9".to_owned())]));
    exchange(&mut elector, 15_001, |_| LeaseReply::Lease(noted));
    assert!(matches!(
        asked(elector.turn(at(15_001), wall(0))),
        LeaseRequest::Replace(_)
    ));
}

#[test]
fn a_lease_lasts_as_long_as_its_record_says_and_else_as_long_as_ours() {
    for (seconds, lasts) in [(Some(40), 40_000), (None, 15_000), (Some(5), 5_000)] {
        let mut elector = elector("me");
        let mut theirs = lease("you", 1);
        theirs.spec.as_mut().unwrap().lease_duration_seconds = seconds;
        for (millis, is_free) in [(0, false), (lasts, false), (lasts + 2_400, true)] {
            exchange(&mut elector, millis, |_| LeaseReply::Lease(theirs.clone()));
            let turn = elector.turn(at(millis), wall(0));
            let takes = matches!(turn, LeaseAction::Ask(LeaseRequest::Replace(_)));
            assert_eq!(takes, is_free, "{seconds:?} at {millis}: {turn:?}");
        }
    }
}

#[test]
fn edge_090_a_lease_that_was_given_back_is_taken_at_once() {
    let mut elector = elector("me");
    exchange(&mut elector, 0, |_| LeaseReply::Lease(lease("you", 1)));
    let freed = released(&lease("you", 1), "you", wall(2_000)).unwrap();
    assert_eq!(
        freed.spec.as_ref().unwrap().holder_identity.as_deref(),
        Some("")
    );
    exchange(&mut elector, 2_400, |_| LeaseReply::Lease(Box::new(freed)));
    let LeaseRequest::Replace(taken) = exchange(&mut elector, 2_400, done) else {
        panic!("not taken");
    };
    let record = taken.spec.unwrap();
    assert_eq!(record.lease_transitions, Some(5));
    // A released Lease lasts for a second.
    assert_eq!(record.lease_duration_seconds, Some(15));
}

#[test]
fn only_the_holder_gives_a_lease_back_and_annotations_stay() {
    assert_eq!(released(&lease("you", 1), "me", wall(0)), None);
    assert_eq!(released(&lease("", 1), "me", wall(0)), None);
    let freed = released(&lease("me", 1), "me", wall(7)).unwrap();
    assert_eq!(freed.metadata, lease("me", 1).metadata);
    let record = freed.spec.unwrap();
    assert_eq!(record.lease_duration_seconds, Some(1));
    assert_eq!(record.lease_transitions, Some(4));
    assert_eq!(record.renew_time, Some(MicroTime(wall(7))));
}

#[test]
fn candidates_come_back_after_one_to_one_and_a_fifth_retry_periods() {
    for (chance, millis) in [(0.0, 2_000), (0.5, 2_200), (1.0, 2_400), (7.0, 2_400)] {
        let mut elector = elector("me");
        let ask = asked(elector.turn(at(0), wall(0)));
        elector.absorb(
            &ask,
            at(0),
            at(0),
            LeaseReply::Lease(lease("you", 1)),
            chance,
        );
        assert_eq!(
            elector.turn(at(0), wall(0)),
            LeaseAction::Wait(Duration::from_millis(millis))
        );
    }
}

#[test]
fn proc_042_a_leader_renews_every_retry_period_without_reading() {
    let mut elector = leader("me");
    for round in 1..=5 {
        let millis = round * 2_000;
        let LeaseRequest::Replace(renewed) = exchange(&mut elector, millis, done) else {
            panic!("not renewed");
        };
        let record = renewed.spec.unwrap();
        assert_eq!(record.renew_time, Some(MicroTime(wall(millis))));
        assert_eq!(record.acquire_time, Some(MicroTime(wall(0))));
        assert_eq!(record.lease_transitions, Some(0));
        assert_eq!(elector.renewed(), Some(at(millis)));
    }
}

#[test]
fn proc_042_a_tenure_counts_from_when_the_last_answered_renewal_was_sent() {
    let mut elector = leader("me");
    // Sent at 2000, answered at 6000.
    let ask = asked(elector.turn(at(2_000), wall(0)));
    let answer = done(&ask);
    elector.absorb(&ask, at(2_000), at(6_000), answer, 0.0);
    assert_eq!(elector.renewed(), Some(at(2_000)));
    // Sent at 6000, written, and the answer was lost.
    let ask = asked(elector.turn(at(6_000), wall(6_000)));
    let LeaseRequest::Replace(written) = ask.clone() else {
        panic!("{ask:?}");
    };
    elector.absorb(&ask, at(6_000), at(11_000), LeaseReply::Failed, 0.0);
    assert_eq!(elector.renewed(), Some(at(2_000)));
    // The record shows that the write was made, which still does not count.
    let ask = exchange(&mut elector, 11_000, |_| LeaseReply::Lease(written));
    assert_eq!(ask, LeaseRequest::Read);
    assert_eq!(elector.renewed(), Some(at(2_000)));
    assert!(matches!(
        asked(elector.turn(at(12_000), wall(0))),
        LeaseRequest::Replace(_)
    ));
    assert_eq!(
        elector.turn(at(12_001), wall(0)),
        LeaseAction::Lost(Lost::Expired)
    );
    assert_eq!(elector.renewed(), None);
}

#[test]
fn a_renewal_that_failed_is_tried_again_a_retry_period_after_it_was_sent() {
    let mut elector = leader("me");
    exchange(&mut elector, 2_000, |_| LeaseReply::Failed);
    assert_eq!(
        elector.turn(at(2_000), wall(0)),
        LeaseAction::Wait(TIMING.retry_period)
    );
    let ask = asked(elector.turn(at(4_000), wall(0)));
    elector.absorb(&ask, at(4_000), at(9_000), LeaseReply::Failed, 1.0);
    assert_eq!(asked(elector.turn(at(9_000), wall(0))), LeaseRequest::Read);
}

#[test]
fn a_conflict_with_our_own_record_of_budgets_is_read_again_at_once() {
    let mut elector = leader("me");
    exchange(&mut elector, 2_000, |_| LeaseReply::Conflict);
    let mut noted = lease("me", 2);
    noted.metadata.annotations = Some(BTreeMap::from([("spent".to_owned(), "9".to_owned())]));
    let expected = noted.metadata.clone();
    let ask = exchange(&mut elector, 2_000, |_| LeaseReply::Lease(noted));
    assert_eq!(ask, LeaseRequest::Read);
    let LeaseRequest::Replace(renewed) = exchange(&mut elector, 2_000, done) else {
        panic!("not renewed");
    };
    assert_eq!(renewed.metadata, expected);
    assert_eq!(elector.renewed(), Some(at(2_000)));
}

#[test]
fn a_lease_that_somebody_else_writes_all_the_time_is_not_asked_for_without_end() {
    let mut elector = leader("me");
    let mut asked = 0;
    while let LeaseAction::Ask(ask) = elector.turn(at(2_000), wall(0)) {
        asked += 1;
        let answer = match ask {
            LeaseRequest::Read => LeaseReply::Lease(lease("me", 2)),
            _ => LeaseReply::Conflict,
        };
        elector.absorb(&ask, at(2_000), at(2_000), answer, 0.0);
    }
    assert_eq!(asked, 17);
    assert_eq!(elector.renewed(), Some(at(0)));
}

#[test]
fn a_tenure_is_over_as_soon_as_somebody_else_holds_the_lease() {
    let mut elector = leader("me");
    exchange(&mut elector, 2_000, |_| LeaseReply::Conflict);
    exchange(&mut elector, 2_000, |_| LeaseReply::Lease(lease("you", 9)));
    let lost = LeaseAction::Lost(Lost::Taken("you".to_owned()));
    assert_eq!(elector.turn(at(2_000), wall(0)), lost);
    assert_eq!(elector.renewed(), None);
    assert_eq!(elector.turn(at(99_000), wall(0)), lost);
}

#[test]
fn an_answer_that_names_another_holder_is_no_renewal() {
    let mut elector = leader("me");
    exchange(&mut elector, 2_000, |_| LeaseReply::Lease(lease("you", 9)));
    assert_eq!(
        elector.turn(at(2_000), wall(0)),
        LeaseAction::Lost(Lost::Taken("you".to_owned()))
    );
}

#[test]
fn a_leader_whose_lease_is_deleted_creates_it_anew_unless_somebody_else_does() {
    let mut first = leader("me");
    exchange(&mut first, 2_000, |_| LeaseReply::Absent);
    assert!(matches!(
        exchange(&mut first, 2_000, done),
        LeaseRequest::Create(_)
    ));
    assert_eq!(first.renewed(), Some(at(2_000)));

    let mut second = leader("me");
    exchange(&mut second, 2_000, |_| LeaseReply::Absent);
    exchange(&mut second, 2_000, |_| LeaseReply::Conflict);
    exchange(&mut second, 2_000, |_| LeaseReply::Lease(lease("you", 1)));
    assert!(matches!(
        second.turn(at(2_000), wall(0)),
        LeaseAction::Lost(Lost::Taken(_))
    ));
}

#[test]
fn a_candidate_whose_write_had_no_answer_reads_and_claims_again_without_a_transition() {
    let mut elector = elector("me");
    exchange(&mut elector, 0, |_| LeaseReply::Lease(lease("", 1)));
    let LeaseRequest::Replace(written) = exchange(&mut elector, 0, |_| LeaseReply::Failed) else {
        panic!("not claimed");
    };
    assert_eq!(elector.renewed(), None);
    exchange(&mut elector, 2_400, |_| LeaseReply::Lease(written));
    let LeaseRequest::Replace(claimed) = exchange(&mut elector, 2_400, done) else {
        panic!("not claimed again");
    };
    assert_eq!(claimed.spec.unwrap().lease_transitions, Some(5));
    assert_eq!(elector.renewed(), Some(at(2_400)));
}

#[test]
fn a_lease_of_fractions_is_written_so_that_others_wait_longer_not_shorter() {
    let timing = Timing {
        lease_duration: Duration::from_millis(1_500),
        renew_deadline: Duration::from_millis(1_000),
        retry_period: Duration::from_millis(200),
    };
    assert_eq!(timing.whole_seconds(), 2);
}
