//! When a credential is used, renewed and given up. No clock: each moment is an argument.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::grant::Secret;

const HOUR: Duration = Duration::from_secs(3600);

fn begin() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000)
}

fn token(text: &str, expires: SystemTime) -> Issued {
    Issued {
        material: Material::Token(Secret::new(text.to_owned())),
        expires,
    }
}

/// Name of a caller's next step after this time, without a pause between exchanges.
fn turn(state: &mut State, after: Duration, instant: Instant) -> &'static str {
    turn_at(state, begin() + after, instant)
}

fn turn_at(state: &mut State, now: SystemTime, instant: Instant) -> &'static str {
    match state.turn(now, instant) {
        Turn::Use(_) => "use",
        Turn::UseAndRenew(_) => "use and renew",
        Turn::Wait(_) => "wait",
        Turn::Renew => "renew",
        Turn::Fail(_) => "fail",
    }
}

#[test]
fn a_credential_is_renewed_before_its_end_and_never_used_after_it() {
    let instant = Instant::now();
    for (dice, from_minute) in [(0.0, 45), (1.0, 54)] {
        let mut state = State::default();
        assert_eq!(turn(&mut state, Duration::ZERO, instant), "renew");
        state.succeeded(token("first", begin() + HOUR), begin(), dice);
        for (minute, expected) in [
            (0, "use"),
            (from_minute - 1, "use"),
            (from_minute, "use and renew"),
            (59, "use and renew"),
            (60, "renew"),
            (600, "renew"),
        ] {
            let after = Duration::from_secs(minute * 60);
            assert_eq!(turn(&mut state, after, instant), expected, "{minute} min");
        }
        assert_eq!(turn(&mut state, HOUR - LAST_MOMENTS, instant), "renew");
    }
}

#[test]
fn while_an_exchange_is_under_way_no_other_begins() {
    let instant = Instant::now();
    let mut state = State::default();
    let (ended, under_way) = watch::channel(());
    state.under_way = Some(under_way);
    assert_eq!(turn(&mut state, Duration::ZERO, instant), "wait");
    state.succeeded(token("first", begin() + HOUR), begin(), 0.5);
    let late = Duration::from_secs(55 * 60);
    assert_eq!(turn(&mut state, late, instant), "use");
    // The channel also closes when an exchange panics.
    drop(ended);
    assert_eq!(turn(&mut state, late, instant), "use and renew");
}

#[test]
fn the_last_good_one_serves_while_exchanges_fail_and_pauses_grow() {
    let begun = Instant::now();
    let mut state = State::default();
    state.succeeded(token("first", begin() + HOUR), begin(), 0.5);
    let late = Duration::from_secs(55 * 60);
    let mut instant = begun;
    for pause in [1, 2, 4, 8, 16, 32, 60, 60] {
        state.failed("no answer".to_owned(), instant);
        let pause = Duration::from_secs(pause);
        let shortly_before = instant + pause - Duration::from_millis(1);
        assert_eq!(turn(&mut state, late, shortly_before), "use", "{pause:?}");
        // An hour later the credential has expired, and the reason is reported without another request.
        assert_eq!(turn(&mut state, 2 * HOUR, shortly_before), "fail");
        instant += pause;
        assert_eq!(
            turn(&mut state, late, instant),
            "use and renew",
            "{pause:?}"
        );
        assert_eq!(turn(&mut state, 2 * HOUR, instant), "renew");
    }
    state.succeeded(token("second", begin() + 3 * HOUR), begin() + 2 * HOUR, 0.5);
    assert_eq!(turn(&mut state, 2 * HOUR, instant), "use");
    assert!(state.failed.is_none());
}

#[test]
fn a_refused_one_is_renewed_unless_it_is_new_also_when_the_clock_was_set_back() {
    let instant = Instant::now();
    let table = [
        (begin() + NEW - Duration::from_secs(1), "use"),
        (begin() + NEW, "renew"),
        // Valid for three hours by this clock, but its target's clock says otherwise.
        (begin() - 2 * HOUR, "renew"),
    ];
    for (now, expected) in table {
        let mut state = State::default();
        state.succeeded(token("first", begin() + HOUR), begin(), 0.5);
        state.doubt(now);
        assert_eq!(turn_at(&mut state, now, instant), expected, "{now:?}");
    }
}

#[test]
fn a_refused_one_is_used_only_while_no_other_is_issued() {
    let instant = Instant::now();
    let mut state = State::default();
    state.succeeded(token("first", begin() + HOUR), begin(), 0.5);
    state.doubt(begin() + NEW);
    let (ended, under_way) = watch::channel(());
    state.under_way = Some(under_way);
    assert_eq!(turn(&mut state, NEW, instant), "wait");
    state.failed("no answer".to_owned(), instant);
    drop(ended);
    // It may have been refused for another reason.
    assert_eq!(turn(&mut state, NEW, instant), "use");
    let later = instant + PAUSES.first;
    assert_eq!(turn(&mut state, NEW, later), "use and renew");
    state.succeeded(token("second", begin() + 2 * HOUR), begin() + NEW, 0.5);
    assert_eq!(turn(&mut state, NEW, instant), "use");
}

#[test]
fn the_newest_one_is_used() {
    let mut state = State::default();
    state.succeeded(token("first", begin() + HOUR), begin(), 0.5);
    state.succeeded(token("second", begin() + 2 * HOUR), begin() + HOUR, 0.5);
    let Turn::Use(material) = state.turn(begin() + HOUR, Instant::now()) else {
        panic!("it is not used")
    };
    let Material::Token(token) = &*material else {
        panic!("no token")
    };
    assert_eq!(token.expose(), "second");
}
