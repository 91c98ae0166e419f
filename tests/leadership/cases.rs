//! Tests of the oracle: traffic that it must accept, and traffic that it must condemn, each for its reason.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use crate::oracle::{Record, Rule, Timings, What, Who, judge};

const A: Who = Who::Replica(1);
const B: Who = Who::Replica(2);

fn at(milliseconds: i64) -> Timestamp {
    Timestamp::from_millisecond(1_000_000 + milliseconds).unwrap()
}

fn record((milliseconds, by, what): (i64, Who, What)) -> Record {
    Record {
        at: at(milliseconds),
        answered: at(milliseconds + 5),
        by,
        what,
    }
}

fn act() -> What {
    What::Act("GET /servers".to_owned())
}

/// A row: its name, the traffic, the broken rules.
type Case = (&'static str, Vec<(i64, Who, What)>, Vec<Rule>);

fn cases() -> Vec<Case> {
    use What::{Looked, Released, Renewed};
    vec![
        (
            "within the renew deadline, and again after the next renewal",
            vec![
                (0, A, Renewed),
                (3500, A, act()),
                (3501, A, Renewed),
                (7001, A, act()),
            ],
            vec![],
        ),
        (
            "a standby that acts",
            vec![(0, A, Renewed), (10, B, act())],
            vec![Rule::WithoutLease],
        ),
        (
            "stamped late, as a loaded server does",
            vec![(0, A, Renewed), (3750, A, act())],
            vec![],
        ),
        (
            "begun after the renew deadline",
            vec![(0, A, Renewed), (3751, A, act())],
            vec![Rule::AfterRenewDeadline],
        ),
        (
            "when others may hold the lease",
            vec![(0, A, Renewed), (5001, A, act())],
            vec![Rule::AfterLease, Rule::AfterRenewDeadline],
        ),
        (
            "one after the other",
            vec![
                (0, A, Renewed),
                (3400, A, act()),
                (5000, B, Renewed),
                (5001, B, act()),
            ],
            vec![],
        ),
        (
            "taken before it is free",
            vec![(0, A, Renewed), (4999, B, Renewed)],
            vec![Rule::TakenEarly],
        ),
        (
            "both at once",
            vec![
                (0, A, Renewed),
                (10, A, Released),
                (11, B, Renewed),
                (12, A, act()),
            ],
            vec![Rule::AfterSuccessor, Rule::AfterRelease],
        ),
        (
            "given back, and taken at once",
            vec![
                (0, A, Renewed),
                (9, A, act()),
                (10, A, Released),
                (11, B, Renewed),
                (12, B, act()),
            ],
            vec![],
        ),
        (
            "given back before the last request was over",
            vec![(0, A, Renewed), (10, A, Released), (11, A, act())],
            vec![Rule::AfterRelease],
        ),
        (
            "lost, and taken back",
            vec![(0, A, Renewed), (5000, B, Renewed), (10000, A, Renewed)],
            vec![Rule::TakenBack],
        ),
        (
            "stolen, and not told yet",
            vec![
                (0, A, Renewed),
                (100, Who::Hand, Renewed),
                (500, A, act()),
                (5100, B, Renewed),
            ],
            vec![],
        ),
        (
            "stolen, told, and going on",
            vec![
                (0, A, Renewed),
                (100, Who::Hand, Renewed),
                (500, A, Looked),
                (756, A, act()),
            ],
            vec![Rule::AfterTheft],
        ),
        (
            "stolen twice",
            vec![
                (0, A, Renewed),
                (100, Who::Hand, Renewed),
                (5100, B, Renewed),
                (5200, Who::Hand, Renewed),
            ],
            vec![],
        ),
        (
            "stolen from the thief",
            vec![
                (0, A, Renewed),
                (100, Who::Hand, Renewed),
                (5000, B, Renewed),
            ],
            vec![Rule::TakenEarly],
        ),
    ]
}

#[test]
fn the_oracle_condemns_exactly_what_it_should() {
    for (name, traffic, expected) in cases() {
        let acts = traffic.iter().filter(|(_, _, what)| *what == act()).count();
        let traffic: Vec<_> = traffic.into_iter().map(record).collect();
        let judgement = judge(&traffic, Timings::SHORT);
        let found: Vec<_> = judgement.findings.iter().map(|one| one.rule).collect();
        assert_eq!(found, expected, "{name}");
        assert_eq!(judgement.judged, acts, "{name}");
    }
}

/// Takes correct traffic, and moves or adds one request at a time to a wrong place. The oracle must find each, and
/// nothing else. Returns the number of such changes.
pub(crate) fn bites(traffic: &[Record], timings: Timings) -> usize {
    let clean = judge(traffic, timings);
    assert!(clean.findings.is_empty(), "{:?}", clean.findings);
    let mut tried = 0;
    for (one, taken) in traffic.iter().enumerate() {
        // A Lease that one client takes from another.
        if taken.what != What::Renewed || taken.by == Who::Hand {
            continue;
        }
        let before = &traffic[..one];
        let held = |record: &&Record| record.what == What::Renewed && record.by != Who::Hand;
        let Some(last) = before
            .iter()
            .rev()
            .find(held)
            .filter(|last| last.by != taken.by)
        else {
            continue;
        };
        let its_act = |record: &&Record| {
            record.by == last.by && record.at > last.at && matches!(record.what, What::Act(_))
        };
        let Some(late) = before.iter().find(its_act) else {
            continue;
        };
        let just_after = |time: Timestamp| time + Duration::from_micros(1);
        let deadline = last.at + timings.renew + crate::oracle::STAMPED_LATE;
        for (moment, rule) in [
            (just_after(deadline), Rule::AfterRenewDeadline),
            (just_after(taken.at), Rule::AfterSuccessor),
        ] {
            let mut broken = traffic.to_vec();
            broken.push(Record {
                at: moment,
                ..late.clone()
            });
            broken.sort_by_key(|record| record.at);
            let found = judge(&broken, timings).findings;
            assert!(
                found.iter().any(|finding| finding.rule == rule),
                "{rule:?}: {found:?}"
            );
            assert!(
                found.iter().all(|finding| finding.record.at == moment),
                "{found:?}"
            );
            tried += 1;
        }
    }
    tried
}
