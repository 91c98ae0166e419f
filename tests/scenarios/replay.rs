//! Replays of a scenario, each with one disturbance more than the script has: the end state must be the same, and the
//! laws must hold. The disturbances are all possible ones, or a draw with a fixed seed.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use ccm_tests::counts::{self, Depth};
use ccm_tests::random::Random;
use libtest_mimic::Failed;

use crate::disturbance::{self, Disturbance};
use crate::script::{self, Line};
use crate::world::{self, Played, Run};

/// Environment variable for the number of disturbances drawn for each test: a number, or `all`.
const DRAWS: &str = "CCM_SCENARIO_DRAWS";
/// Environment variable for the only disturbance to replay, such as `conflict:3`.
const REPLAY: &str = "CCM_SCENARIO_REPLAY";
/// Draws of faults in CI.
const FAULTS: usize = 10;
/// Draws of deaths in CI: enough for all, except in a very long scenario.
const DEATHS: usize = 60;
/// The same where much happens at the API server and at the cloud.
const DEATHS_OF_SERVICES: usize = 24;
/// The same for scenarios over hours, in which much is asked again and again.
const DEATHS_OF_LIFECYCLES: usize = 12;
/// Without a variable one of this many of CI's draws is made, rounded up.
const PART: usize = 10;

/// Number of replays of this process.
static MADE: AtomicUsize = AtomicUsize::new(0);

/// A kind of disturbances that a test tries.
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
    /// The groups, each of which is a test.
    pub(crate) const ALL: [Group; 3] = [Group::Deaths, Group::RequestFaults, Group::CallFaults];

    /// The end of the group's test names.
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

/// Number of replays so far.
pub fn made() -> usize {
    MADE.load(Ordering::Relaxed)
}

/// The undisturbed play of a scenario: played once, for all groups of disturbances.
#[derive(Default)]
pub(crate) struct Undisturbed(OnceLock<Result<Played, String>>);

impl Undisturbed {
    fn of(&self, script: &[Line]) -> Result<&Played, String> {
        let played = self.0.get_or_init(|| world::play(script, Run::with(None)));
        played.as_ref().map_err(String::clone)
    }
}

/// Replays the scenario `name` with the script `text` and the disturbances of a group.
pub(crate) fn replay(
    name: &str,
    text: &str,
    undisturbed: &Undisturbed,
    group: Group,
) -> Result<(), Failed> {
    let script = script::read(text)?;
    let undisturbed = undisturbed.of(&script)?;
    if !undisturbed.broken.is_empty() {
        return Err(format!("undisturbed:\n{}", undisturbed.broken.join("\n")).into());
    }
    let is_honest = |one: &Disturbance| {
        let is_said = script
            .iter()
            .any(|line| line.word(0) == Ok(world::HONEST_FAULTS));
        !is_said || !one.is_a_lie()
    };
    let every = group.every(undisturbed).into_iter().filter(is_honest);
    let name = format!("{name} {}", group.title());
    let every = every.map(|one| (one.to_string(), one)).collect();
    let in_ci = match group {
        Group::Deaths if name.starts_with("node_lifecycle/") => DEATHS_OF_LIFECYCLES,
        Group::Deaths if name.starts_with("service/") => DEATHS_OF_SERVICES,
        Group::Deaths => DEATHS,
        Group::RequestFaults | Group::CallFaults => FAULTS,
    };
    let chosen = chosen(&name, every, in_ci)?;
    let mut failures = Vec::new();
    for (word, disturbance) in chosen {
        let (wrong, played) = judge(&script, undisturbed, disturbance);
        if only().is_some() {
            let played = played
                .as_ref()
                .map_or("nothing", |played| played.text.as_str());
            failures.push(format!("as asked for, {word} was replayed:\n{played}"));
        }
        if let Some(wrong) = wrong {
            failures.push(format!(
                "{word}: {wrong}\n{}",
                again("scenarios", &name, &word)
            ));
        }
    }
    match failures.is_empty() {
        true => Ok(()),
        false => Err(failures.join("\n\n").into()),
    }
}

/// The command that replays one disturbance of one test.
pub fn again(program: &str, test: &str, word: &str) -> String {
    format!("again: {REPLAY}={word} cargo test --workspace --test {program} -- --exact '{test}'")
}

fn only() -> Option<String> {
    std::env::var(REPLAY).ok()
}

/// One replay: its play, and the reason why it is wrong, if it is.
pub(crate) fn judge(
    script: &[Line],
    undisturbed: &Played,
    disturbance: Disturbance,
) -> (Option<String>, Option<Played>) {
    let play = AssertUnwindSafe(|| world::play(script, Run::with(Some(disturbance))));
    let played = match std::panic::catch_unwind(play) {
        Ok(Ok(played)) => played,
        Ok(Err(why)) => return (Some(why), None),
        Err(_) => return (Some("the play panicked, see above".to_owned()), None),
    };
    (wrong(undisturbed, Some(disturbance), &played), Some(played))
}

/// The reason why a replay is wrong, if it is.
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

/// The replays of a test, each named by its word `KIND:PLACE`: as many as the environment says, `in_ci` of them in CI,
/// or the one that a variable names.
///
/// # Errors
/// A variable names a replay that does not exist.
pub fn chosen<T>(
    test: &str,
    every: Vec<(String, T)>,
    in_ci: usize,
) -> Result<Vec<(String, T)>, String> {
    let count = match std::env::var(DRAWS).as_deref() {
        Err(_) => match counts::depth()? {
            Depth::Default => in_ci.div_ceil(PART),
            Depth::Ci => in_ci,
            Depth::Full => usize::MAX,
        },
        Ok("all") => usize::MAX,
        Ok(number) => number
            .parse()
            .map_err(|_| format!("{DRAWS}={number} is neither a number nor \"all\""))?,
    };
    choose(test, every, count)
}

/// Chooses at most `count`, of as many kinds as possible; always the same for the same test.
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
    // In each round, one place of every kind that has places left.
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
