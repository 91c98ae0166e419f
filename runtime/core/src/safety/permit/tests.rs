#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::reconciliation::effect::ObjectKind;
use crate::safety::audit::Unrecordable;
use crate::safety::brake::{Allowance, BudgetLevel, BudgetShare};
use std::time::Duration;

/// An audit sink that keeps its records; if it is broken, none can be written.
#[derive(Default)]
struct OtherVote {
    is_broken: bool,
    records: Mutex<Vec<AuditRecord>>,
    refused: Mutex<Vec<(Refusal, Option<String>)>>,
}

impl AuditSink for OtherVote {
    fn before(&self, _: &Subject, _: &CloudRequest) -> Result<(), Unrecordable> {
        if self.is_broken {
            Err(Unrecordable)
        } else {
            Ok(())
        }
    }

    fn after(&self, record: &AuditRecord) {
        self.records.lock().unwrap().push(record.clone());
    }

    fn refused(&self, refused: &Refused<'_>) {
        let log_line = refused.log_line.map(str::to_owned);
        self.refused
            .lock()
            .unwrap()
            .push((refused.refusal, log_line));
    }
}

fn at(seconds: u64) -> Moment {
    Moment(Duration::from_secs(seconds))
}

fn request(access: Access) -> CloudRequest {
    CloudRequest {
        author: Author {
            provider: "hcloud".to_owned(),
            digest: "sha256:0".to_owned(),
        },
        target: "api".to_owned(),
        host: "api.example.com".to_owned(),
        method: "POST".to_owned(),
        path: "/load_balancers/secret-looking-name".to_owned(),
        template: "/load_balancers/{id}".to_owned(),
        rule: "POST /load_balancers/{id} (write)".to_owned(),
        sha256: "00".to_owned(),
        access,
    }
}

fn permit(mode: Mode, mutations: u32, received: &Arc<OtherVote>) -> Permit {
    let tenure = Arc::new(Tenure::unlimited());
    Permit::new(
        Moment(Duration::MAX),
        mode,
        mutations,
        tenure,
        received.clone(),
    )
}

fn budget(most: usize) -> Arc<SharedBudget> {
    let allowance = Allowance {
        least: most,
        most,
        ..Allowance::default_of(Brake::CloudMutations)
    };
    Arc::new(SharedBudget::new(Brake::CloudMutations, allowance, || 0))
}

#[test]
fn one_budget_holds_back_all_calls_and_comes_back_after_its_window() {
    let (received, budget) = (Arc::default(), budget(3));
    let permit = |name: &str| {
        let subject = Subject {
            name: name.to_owned(),
            ..Subject::default()
        };
        permit(Mode::Enforce, 9, &received)
            .sharing(budget.clone(), BudgetShare::Whole)
            .about(subject)
    };
    let (first, second) = (permit("first"), permit("second"));
    let write = request(Access::Write);
    assert_eq!(first.ask(at(0), &write), Ok(()));
    assert_eq!(second.ask(at(1), &write), Ok(()));
    assert_eq!(first.ask(at(2), &write), Ok(()));
    let engaged = Refusal::Brake {
        brake: Brake::CloudMutations,
        again: at(600),
    };
    assert_eq!(second.ask(at(3), &write), Err(engaged));
    assert_eq!(second.ask(at(3), &request(Access::Read)), Ok(()));
    assert_eq!((first.mutations_made(), second.mutations_made()), (2, 1));
    assert_eq!(*received.refused.lock().unwrap(), [(engaged, None)]);
    assert_eq!(second.ask(at(600), &write), Ok(()));
}

/// What users ask for has a part of the budget; what nodes and deletions require has all of it.
#[test]
fn only_a_brake_on_what_users_ask_for_is_told_from_the_clouds_rate_limit() {
    let throttled = || ProviderError::Throttled {
        message: "429".to_owned(),
        retry_after: None,
    };
    let held = ProviderError::Held(Duration::from_secs(597));
    for (share, expected) in [
        (BudgetShare::Common, held),
        (BudgetShare::Whole, throttled()),
    ] {
        let (received, budget) = (Arc::default(), budget(4));
        let permit = permit(Mode::Enforce, 9, &received).sharing(budget, share);
        while permit.ask(at(0), &request(Access::Write)).is_ok() {
            assert_eq!(permit.failure(throttled()).error, throttled());
        }
        // The first refusal counts.
        let permit = Permit {
            held_for: OnceLock::new(),
            ..permit
        };
        for seconds in [3, 4] {
            assert!(permit.ask(at(seconds), &request(Access::Write)).is_err());
        }
        assert_eq!(permit.failure(throttled()).error, expected);
        let denied = ProviderError::Denied("403".to_owned());
        assert_eq!(permit.failure(denied.clone()).error, denied);
    }
}

#[test]
fn a_call_that_has_made_all_its_changes_takes_nothing_from_the_others() {
    let (received, budget) = (Arc::default(), budget(3));
    let greedy = permit(Mode::Enforce, 1, &received).sharing(budget.clone(), BudgetShare::Whole);
    let write = request(Access::Write);
    assert_eq!(greedy.ask(at(0), &write), Ok(()));
    for _ in 0..9 {
        assert_eq!(greedy.ask(at(0), &write), Err(Refusal::Budget(1)));
    }
    let level = BudgetLevel {
        taken: 1,
        allowed: 3,
    };
    assert_eq!(budget.level(at(0)), level);
}

#[test]
fn what_is_refused_for_the_mode_takes_nothing_and_carries_the_providers_last_words() {
    for (mode, word) in [(Mode::Plan, "plan"), (Mode::Observe, "observe")] {
        let (received, budget) = (Arc::default(), budget(3));
        let permit = permit(mode, 9, &received).sharing(budget.clone(), BudgetShare::Whole);
        permit.note_log_line("first");
        permit.note_log_line(&"x".repeat(5_000));
        assert_eq!(
            permit.ask(at(0), &request(Access::Write)),
            Err(Refusal::Mode(word))
        );
        assert_eq!(permit.ask(at(0), &request(Access::Read)), Ok(()));
        let expected = [(Refusal::Mode(word), Some("x".repeat(MAX_LOG_LINE)))];
        assert_eq!(*received.refused.lock().unwrap(), expected);
        assert_eq!(budget.level(at(0)).taken, 0);
        assert_eq!(permit.mutations_made(), 0);
        assert!(permit.has_withheld());
    }
}

#[test]
fn a_call_that_only_looks_is_refused_its_changes_in_every_mode_for_the_same_reason() {
    for mode in Mode::ALL {
        let received = Arc::default();
        let permit = permit(mode, 0, &received);
        let verdict = permit.ask(at(0), &request(Access::Write));
        assert_eq!(verdict, Err(Refusal::Budget(0)), "no plan is made of it");
        let text = verdict.map_err(|refusal| refusal.to_string());
        assert_eq!(text, Err("this call may change nothing".to_owned()));
        assert!(!permit.has_withheld());
    }
}

#[test]
fn a_change_that_cannot_be_recorded_is_not_made_and_reads_go_on() {
    let received = Arc::new(OtherVote {
        is_broken: true,
        ..OtherVote::default()
    });
    let permit = permit(Mode::Enforce, 9, &received);
    assert_eq!(
        permit.ask(at(0), &request(Access::Write)),
        Err(Refusal::Unaudited)
    );
    assert_eq!(permit.ask(at(0), &request(Access::Read)), Ok(()));
}

#[test]
fn a_record_has_the_calls_object_the_rules_pattern_and_the_budget_and_not_the_path() {
    let (received, budget) = (Arc::new(OtherVote::default()), budget(3));
    let subject = Subject {
        kind: Some(ObjectKind::Service),
        namespace: Some("default".to_owned()),
        name: "web".to_owned(),
        uid: "u-1".to_owned(),
        reason: "it has no load balancer".to_owned(),
    };
    let permit = permit(Mode::Enforce, 9, &received)
        .sharing(budget, BudgetShare::Whole)
        .about(subject.clone());
    let write = request(Access::Write);
    permit.ask(at(1), &write).unwrap();
    let answered = End::Answered {
        status: 201,
        request_id: Some("r-1".to_owned()),
    };
    permit.ended(at(1), at(3), &write, answered);
    permit.ask(at(4), &write).unwrap();
    permit.ended(at(4), at(9), &write, End::Unknown);
    permit.ended(at(9), at(9), &request(Access::Read), End::Unknown);
    let records = received.records.lock().unwrap();
    let [first, second] = records.as_slice() else {
        unreachable!("{records:?}")
    };
    assert_eq!(first.subject, subject);
    assert_eq!(first.took, Some(Duration::from_secs(2)));
    assert_eq!(second.end, End::Unknown);
    assert_eq!(first.brake.unwrap().level.taken, 1);
    assert_eq!(second.brake.unwrap().level.taken, 2);
    let line = first.to_json("t", &Default::default()).to_string();
    assert!(line.contains("/load_balancers/{id}"), "{line}");
    assert!(!line.contains("secret-looking-name"), "{line}");
}

#[test]
fn the_contract_names_how_many_changes_a_call_may_make() {
    let load_balancers = include_str!("../../../../../wit/v0.2/load-balancer.wit");
    let routes = include_str!("../../../../../wit/v0.2/routes.wit");
    for (contract, most) in [
        (load_balancers, LOAD_BALANCER_CHANGES),
        (routes, ROUTE_CHANGES),
    ] {
        let sentence = format!("makes at most {most} changes:");
        assert!(contract.contains(&sentence), "{sentence}");
    }
}
