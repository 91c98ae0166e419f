use super::*;

fn at(seconds: u64) -> Moment {
    Moment(Duration::from_secs(seconds))
}

fn names(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// Casts the vote of `provider`, with all problems reported.
fn cast(claims: &mut ClaimRegistry, provider: &str, vote: Vote, others: &str) -> Claimed {
    claims.cast("u", provider, vote, &names(others), false, at(0))
}

fn silent() -> Vote {
    Vote::Silent("it is down".to_owned())
}

#[test]
fn who_finds_the_machine_goes_on_when_every_other_one_has_said_that_it_is_not_theirs() {
    let mut claims = ClaimRegistry::default();
    let first = cast(&mut claims, "a", Vote::Found, "b c");
    assert!(matches!(first.verdict, Verdict::WaitsFor(open) if open.len() == 2));
    let second = cast(&mut claims, "b", Vote::NotMine, "a c");
    assert_eq!((second.verdict, second.wakes), (Verdict::Open, names("a")));
    let third = cast(&mut claims, "a", Vote::Found, "b c");
    let waits = matches!(third.verdict, Verdict::WaitsFor(open) if open.len() == 1 && open[0].provider == "c");
    assert!(waits);
    let last = cast(&mut claims, "c", Vote::NotMine, "a b");
    assert_eq!(last.wakes, names("a"));
    let ours = cast(&mut claims, "a", Vote::Found, "b c");
    assert_eq!((ours.verdict, ours.report), (Verdict::Ours, false));
    assert!(ours.wakes.is_empty());
}

/// Every order in which three providers cast their votes twice: at no time do two of them proceed, and with exactly one
/// finder that one does in the end.
#[test]
fn two_never_both_go_ahead_in_any_order() {
    let votes = [Vote::Found, Vote::NotMine, silent()];
    let providers = ["a", "b", "c"];
    let others = |me: &str| -> String {
        let others = providers.iter().filter(|one| **one != me);
        others.copied().collect::<Vec<_>>().join(" ")
    };
    for code in 0..27 {
        let votes = [code % 3, code / 3 % 3, code / 9].map(|index| votes[index].clone());
        let finders = votes.iter().filter(|one| **one == Vote::Found).count();
        let silents = votes.iter().filter(|one| **one == silent()).count();
        for order in 0..3_usize.pow(6) {
            let mut claims = ClaimRegistry::default();
            let mut ahead = std::collections::BTreeSet::new();
            let turns = (0..6).map(|turn| order / 3_usize.pow(turn) % 3);
            for who in turns {
                let me = providers[who];
                let claimed = cast(&mut claims, me, votes[who].clone(), &others(me));
                if claimed.verdict == Verdict::Ours {
                    ahead.insert(me);
                }
            }
            assert!(ahead.len() <= 1, "{votes:?} {order}: {ahead:?}");
            assert!(
                finders == 1 && silents == 0 || ahead.is_empty(),
                "{votes:?} {order}"
            );
        }
    }
}

#[test]
fn two_that_find_it_are_both_named_and_it_is_told_once_an_hour() {
    let mut claims = ClaimRegistry::default();
    cast(&mut claims, "b", Vote::Found, "a");
    let both = Verdict::FoundBy(names("a b"));
    let mut reported = |provider: &str, other: &str, seconds: u64| {
        let claimed = claims.cast("u", provider, Vote::Found, &names(other), true, at(seconds));
        assert_eq!(claimed.verdict, both);
        claimed.report
    };
    assert!(reported("a", "b", 1), "also before patience is over");
    assert!(!reported("b", "a", 2));
    assert!(!reported("a", "b", 3600));
    assert!(reported("b", "a", 3601));
    assert!(!reported("a", "b", 3602));
}

#[test]
fn that_nobody_finds_it_is_told_once_and_only_when_all_have_said_so_and_patience_is_over() {
    let mut claims = ClaimRegistry::default();
    let mut cast = |provider: &str, other: &str, vote: Vote, is_quiet: bool| {
        claims.cast("u", provider, vote, &names(other), is_quiet, at(40))
    };
    assert_eq!(cast("a", "b", Vote::NotMine, false).verdict, Verdict::Open);
    assert_eq!(cast("b", "a", silent(), false).verdict, Verdict::Open);
    let nobody = Verdict::NotFound(names("a b"));
    let early = cast("b", "a", Vote::NotMine, true);
    assert_eq!((early.verdict, early.report), (nobody.clone(), false));
    let due = cast("a", "b", Vote::NotMine, false);
    assert_eq!((due.verdict, due.report), (nobody.clone(), true));
    let again = cast("b", "a", Vote::NotMine, false);
    assert_eq!((again.verdict, again.report), (nobody, false));
}

#[test]
fn who_has_answered_and_cannot_now_has_still_answered() {
    let mut claims = ClaimRegistry::default();
    cast(&mut claims, "b", Vote::NotMine, "a");
    cast(&mut claims, "b", silent(), "a");
    assert_eq!(
        cast(&mut claims, "a", Vote::Found, "b").verdict,
        Verdict::Ours
    );
}

#[test]
fn what_a_provider_said_goes_with_it_and_with_the_node() {
    let mut claims = ClaimRegistry::default();
    cast(&mut claims, "b", Vote::NotMine, "a");
    claims.withdraw("b");
    let waits = |claimed: Claimed| matches!(claimed.verdict, Verdict::WaitsFor(_));
    assert!(waits(cast(&mut claims, "a", Vote::Found, "b")));
    cast(&mut claims, "b", Vote::NotMine, "a");
    claims.forget("u");
    assert!(waits(cast(&mut claims, "a", Vote::Found, "b")));
    claims.keep(|uid| uid != "u");
    assert!(waits(cast(&mut claims, "b", Vote::Found, "a")));
}

/// A candidate whose cloud is slow votes after another one has voted on all nodes.
#[test]
fn no_vote_on_a_node_of_the_largest_cluster_is_dropped() {
    let mut claims = ClaimRegistry::default();
    for index in 0..15_000 {
        let uid = format!("u{index}");
        claims.cast(&uid, "a", Vote::NotMine, &names("b"), true, at(index));
    }
    assert_eq!(claims.0.len(), 15_000);
    assert!(claims.0.contains_key("u0"));
}

#[test]
fn a_board_is_never_larger_than_its_bound() {
    let mut claims = ClaimRegistry::default();
    for index in 0..=MOST {
        let now = at(u64::try_from(index).unwrap_or_default());
        let uid = format!("u{index}");
        claims.cast(&uid, "a", Vote::NotMine, &names("b"), true, now);
    }
    assert_eq!(claims.0.len(), MOST);
    assert!(
        !claims.0.contains_key("u0"),
        "the one that was other_votes of longest ago"
    );
}
