//! A scenario again and again, each time with one disturbance more than the script has: the end has to be the
//! same, and the laws have to hold. Which disturbances are tried is all of them, or a draw with a fixed seed.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicUsize, Ordering};

use libtest_mimic::Failed;

use crate::disturbance::{self, Disturbance};
use crate::script::{self, Line};
use crate::stage::{self, Played, Run};

/// Says how many faults are drawn for each test: a number, or `all`.
const DRAWS: &str = "CCM_SCENARIO_DRAWS";
/// The only disturbance to be replayed, such as `conflict:3`.
const REPLAY: &str = "CCM_SCENARIO_REPLAY";
/// Without a word from outside.
const FEW: usize = 10;
/// The same for deaths: all of them, but for a scenario that goes on and on.
const MANY: usize = 60;
/// The same where much happens at the API server and at the cloud.
const SOME: usize = 24;
/// The same where hours go by, in which much is asked again and again.
const FEWER: usize = 12;

/// How many replays were made by this process.
static MADE: AtomicUsize = AtomicUsize::new(0);

/// Which disturbances a test tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Group {
    /// The process is killed at every effect and every mutation.
    Deaths,
    /// One request to the API server goes wrong.
    RequestFaults,
    /// One call of the cloud goes wrong.
    CallFaults,
}

impl Group {
    /// All of them.
    pub(crate) const ALL: [Group; 3] = [Group::Deaths, Group::RequestFaults, Group::CallFaults];

    /// The end of the test's name.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Group::Deaths => "killed at every effect",
            Group::RequestFaults => "with faults of the API server",
            Group::CallFaults => "with faults of the cloud",
        }
    }

    fn every(self, undisturbed: &Played) -> Vec<Disturbance> {
        match self {
            Group::Deaths => disturbance::deaths(&undisturbed.effects, undisturbed.mutations),
            Group::RequestFaults => disturbance::request_faults(&undisturbed.asked),
            Group::CallFaults => disturbance::call_faults(undisturbed.calls),
        }
    }
}

/// How many replays were made so far.
pub(crate) fn made() -> usize {
    MADE.load(Ordering::Relaxed)
}

/// Replays the scenario `name`, which is written in `text`, with the disturbances of a group.
pub(crate) fn replay(name: &str, text: &str, group: Group) -> Result<(), Failed> {
    let script = script::read(text)?;
    let undisturbed = stage::play(&script, Run::with(None))?;
    if !undisturbed.broken.is_empty() {
        return Err(format!("undisturbed:\n{}", undisturbed.broken.join("\n")).into());
    }
    let is_honest = |one: &Disturbance| {
        let is_said = script
            .iter()
            .any(|line| line.word(0) == Ok(stage::HONEST_FAULTS));
        !is_said || !one.is_a_lie()
    };
    let every = group.every(&undisturbed).into_iter().filter(is_honest);
    let name = format!("{name} {}", group.title());
    let every = every.map(|one| (one.to_string(), one)).collect();
    let few = match group {
        Group::Deaths if name.starts_with("node_lifecycle/") => FEWER,
        Group::Deaths if name.starts_with("service/") => SOME,
        Group::Deaths => MANY,
        Group::RequestFaults | Group::CallFaults => FEW,
    };
    let chosen = chosen(&name, every, few)?;
    let mut failures = Vec::new();
    for (word, disturbance) in chosen {
        let (wrong, played) = judge(&script, &undisturbed, disturbance);
        if only().is_some() {
            let played = played
                .as_ref()
                .map_or("nothing", |played| played.text.as_str());
            failures.push(format!("as asked for, {word} was replayed:\n{played}"));
        }
        if let Some(wrong) = wrong {
            failures.push(format!("{word}: {wrong}\n{}", again(&name, &word)));
        }
    }
    match failures.is_empty() {
        true => Ok(()),
        false => Err(failures.join("\n\n").into()),
    }
}

/// The line that replays one disturbance of one test.
pub(crate) fn again(test: &str, word: &str) -> String {
    format!("again: {REPLAY}={word} cargo test --workspace --test scenarios -- --exact '{test}'")
}

fn only() -> Option<String> {
    std::env::var(REPLAY).ok()
}

/// One replay: what is wrong with it, if anything, and how it went.
pub(crate) fn judge(
    script: &[Line],
    undisturbed: &Played,
    disturbance: Disturbance,
) -> (Option<String>, Option<Played>) {
    let play = AssertUnwindSafe(|| stage::play(script, Run::with(Some(disturbance))));
    let played = match std::panic::catch_unwind(play) {
        Ok(Ok(played)) => played,
        Ok(Err(why)) => return (Some(why), None),
        Err(_) => return (Some("the play panicked, see above".to_owned()), None),
    };
    (wrong(undisturbed, Some(disturbance), &played), Some(played))
}

/// What is wrong with a replay, if anything.
pub(crate) fn wrong(
    undisturbed: &Played,
    disturbance: Option<Disturbance>,
    played: &Played,
) -> Option<String> {
    let mut found = played.broken.clone();
    if disturbance.is_some() && !played.is_disturbed {
        found.push("the disturbance did not happen".to_owned());
    }
    let (expected, state) = match disturbance {
        Some(Disturbance::Death(_)) => (&undisturbed.state_apart, &played.state_apart),
        _ => (&undisturbed.state, &played.state),
    };
    if state != expected {
        let difference = difference(expected, state);
        found.push(format!("the end is not the same:\n{difference}"));
    }
    (!found.is_empty()).then(|| found.join("\n"))
}

/// The lines that only one of two texts has.
fn difference(left: &str, right: &str) -> String {
    let only = |one: &str, other: &str, mark: &str| -> Vec<String> {
        let others: Vec<&str> = other.lines().collect();
        let lines = one.lines().filter(|line| !others.contains(line));
        lines.map(|line| format!("{mark} {line}")).collect()
    };
    let mut lines = only(left, right, "without it ");
    lines.extend(only(right, left, "with it    "));
    if lines.is_empty() {
        lines.push(format!("the same lines in another order:\n{right}"));
    }
    lines.join("\n")
}

/// What a test replays of everything that it could, each by its word `KIND:PLACE`: as many as the environment says,
/// or the one replay that is asked for.
pub(crate) fn chosen<T>(
    test: &str,
    every: Vec<(String, T)>,
    few: usize,
) -> Result<Vec<(String, T)>, String> {
    let count = match std::env::var(DRAWS).as_deref() {
        Err(_) => few,
        Ok("all") => usize::MAX,
        Ok(number) => number
            .parse()
            .map_err(|_| format!("{DRAWS}={number} is neither a number nor \"all\""))?,
    };
    choose(test, every, count)
}

/// Chooses at most `count`, of as many kinds as possible. The same test gets the same ones every time.
fn choose<T>(
    test: &str,
    every: Vec<(String, T)>,
    count: usize,
) -> Result<Vec<(String, T)>, String> {
    let mut kinds: BTreeMap<String, Vec<(String, T)>> = BTreeMap::new();
    for (word, one) in every {
        if only().is_none_or(|only| only == word) {
            let kind = word.split(':').next().unwrap_or_default().to_owned();
            kinds.entry(kind).or_default().push((word, one));
        }
    }
    if let Some(only) = only()
        && kinds.is_empty()
    {
        return Err(format!("{test} has no replay {only}"));
    }
    let mut random = Random::of(test);
    let mut kinds: Vec<Vec<(String, T)>> = kinds.into_values().collect();
    let mut chosen = Vec::new();
    // Round by round, one place of every kind that has places left.
    let mut round = Vec::new();
    while chosen.len() < count {
        if round.is_empty() {
            kinds.retain(|places| !places.is_empty());
            round = Vec::from_iter(0..kinds.len());
        }
        if round.is_empty() {
            break;
        }
        let kind = round.swap_remove(random.below(round.len()));
        let places = &mut kinds[kind];
        chosen.push(places.swap_remove(random.below(places.len())));
    }
    MADE.fetch_add(chosen.len(), Ordering::Relaxed);
    Ok(chosen)
}

/// SplitMix64 (Steele, Lea, Flood 2014): small, and the same everywhere.
struct Random(u64);

impl Random {
    /// Seeded by a text, with FNV-1a.
    fn of(text: &str) -> Random {
        Random(text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        }))
    }

    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let mixed = mixed ^ (mixed >> 31);
        usize::try_from(mixed % end as u64).unwrap_or(0)
    }
}
