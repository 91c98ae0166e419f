//! Collects the votes of all candidate providers on nodes without an owner. A node is initialised by the provider that
//! finds its machine, and only when every other candidate has voted that the machine is not theirs.
//!
//! Why two candidates can never both proceed: a candidate records its own vote and reads the others' in one step. If
//! two find the machine, the second one sees the vote of the first; and a candidate that has not voted is waited for.
//!
//! Stores votes and computes their combined verdict; asks no provider and performs nothing. Forgets a node when it is
//! initialised or gone; a candidate that finds the machine after that waits, and then looks at the node again.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::moment::Moment;

/// More nodes than ever wait at the same time. At the limit, the node whose last vote is oldest is dropped.
const MOST: usize = 10_000;
/// How long the same verdict about a node is not reported again: the API server's default Event retention.
const SAID: Duration = Duration::from_secs(3600);

/// The vote of one candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Vote {
    /// The candidate finds the machine.
    Found,
    /// The candidate has no such machine, or knows that it is gone.
    NotMine,
    /// The candidate could not tell; contains the reason.
    Silent(String),
}

/// The vote of one other candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard {
    /// Name of the candidate.
    pub provider: String,
    /// Its vote; `None` if it has not voted yet.
    pub opinion: Option<Vote>,
}

/// The combined meaning of all votes for the candidate that voted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The node belongs to this candidate.
    Ours,
    /// The node belongs to another candidate, which waits or proceeds; or the votes decide nothing yet.
    Open,
    /// This candidate found the machine; the listed ones have not voted [`Vote::NotMine`].
    WaitsFor(Vec<Heard>),
    /// All of these found the machine.
    FoundBy(Vec<String>),
    /// All candidates voted [`Vote::NotMine`].
    FoundByNobody(Vec<String>),
}

/// The votes on each node, by node UID.
#[derive(Debug, Default)]
pub struct ClaimRegistry(BTreeMap<String, Entry>);

#[derive(Debug, Default)]
struct Entry {
    opinions: BTreeMap<String, Vote>,
    heard: Option<Moment>,
    /// The verdict reported last, and when.
    told: Option<(Verdict, Moment)>,
}

/// The result of a vote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    /// The meaning of all votes for this candidate.
    pub verdict: Verdict,
    /// Whether to report it now: it is new, or the last report is long ago.
    pub tell: bool,
    /// The candidates that found the machine and wait for this vote.
    pub wakes: Vec<String>,
}

impl ClaimRegistry {
    /// Records the vote of `provider` on the node with this UID; `others` are the other candidates. `is_patient`
    /// suppresses reports of verdicts that may resolve without intervention.
    pub fn confer(
        &mut self,
        uid: &str,
        provider: &str,
        opinion: Vote,
        others: &[String],
        is_patient: bool,
        now: Moment,
    ) -> Claimed {
        self.make_room(uid);
        let entry = self.0.entry(uid.to_owned()).or_default();
        entry.heard = Some(now);
        let is_new = entry.note(provider, opinion.clone());
        let heard: Vec<Heard> = others.iter().map(|other| entry.heard_of(other)).collect();
        let finders = heard.iter().filter(|one| one.opinion == Some(Vote::Found));
        let finders: Vec<String> = finders.map(|one| one.provider.clone()).collect();
        let verdict = verdict(provider, &opinion, heard);
        let is_due = match &verdict {
            Verdict::Ours | Verdict::Open => false,
            Verdict::WaitsFor(_) | Verdict::FoundByNobody(_) => !is_patient,
            Verdict::FoundBy(_) => true,
        };
        let is_told = entry
            .told
            .as_ref()
            .is_some_and(|(told, at)| is_same(told, &verdict) && at.after(SAID) > now);
        let tell = is_due && !is_told;
        if tell {
            entry.told = Some((verdict.clone(), now));
        }
        let wakes = if is_new { finders } else { Vec::new() };
        Claimed {
            verdict,
            tell,
            wakes,
        }
    }

    /// The node has an owner now, or is gone.
    pub fn forget(&mut self, uid: &str) {
        self.0.remove(uid);
    }

    /// Drops all other nodes.
    pub fn keep(&mut self, is_left: impl Fn(&str) -> bool) {
        self.0.retain(|uid, _| is_left(uid));
    }

    /// Drops all votes of `provider`: the instance that cast them no longer runs.
    pub fn withdraw(&mut self, provider: &str) {
        for entry in self.0.values_mut() {
            entry.opinions.remove(provider);
        }
        self.0.retain(|_, entry| !entry.opinions.is_empty());
    }

    fn make_room(&mut self, uid: &str) {
        if self.0.len() < MOST || self.0.contains_key(uid) {
            return;
        }
        let oldest = self.0.iter().min_by_key(|(_, entry)| entry.heard);
        if let Some(oldest) = oldest.map(|(uid, _)| uid.clone()) {
            self.0.remove(&oldest);
        }
    }
}

impl Entry {
    /// Returns whether the vote is new. A [`Vote::Silent`] does not replace an earlier answer.
    fn note(&mut self, provider: &str, opinion: Vote) -> bool {
        match self.opinions.get(provider) {
            Some(Vote::Found | Vote::NotMine) if matches!(opinion, Vote::Silent(_)) => false,
            Some(before) if *before == opinion => false,
            _ => {
                self.opinions.insert(provider.to_owned(), opinion);
                true
            }
        }
    }

    fn heard_of(&self, provider: &str) -> Heard {
        Heard {
            provider: provider.to_owned(),
            opinion: self.opinions.get(provider).cloned(),
        }
    }
}

fn verdict(provider: &str, opinion: &Vote, heard: Vec<Heard>) -> Verdict {
    let all = |wanted: &Vote| {
        let theirs = heard
            .iter()
            .filter(|one| one.opinion.as_ref() == Some(wanted));
        let mut names: Vec<String> = theirs.map(|one| one.provider.clone()).collect();
        names.push(provider.to_owned());
        names.sort_unstable();
        names
    };
    match opinion {
        Vote::Found => {
            let finders = all(&Vote::Found);
            if finders.len() > 1 {
                return Verdict::FoundBy(finders);
            }
            let is_open = |one: &Heard| one.opinion != Some(Vote::NotMine);
            let open: Vec<Heard> = heard.into_iter().filter(is_open).collect();
            match open.is_empty() {
                true => Verdict::Ours,
                false => Verdict::WaitsFor(open),
            }
        }
        Vote::NotMine => {
            let names = all(&Vote::NotMine);
            match names.len() == heard.len() + 1 {
                true => Verdict::FoundByNobody(names),
                false => Verdict::Open,
            }
        }
        Vote::Silent(_) => Verdict::Open,
    }
}

/// Whether both verdicts read the same in a report. The reasons for silent candidates are ignored: they change often.
fn is_same(left: &Verdict, right: &Verdict) -> bool {
    let names =
        |heard: &[Heard]| -> Vec<String> { heard.iter().map(|one| one.provider.clone()).collect() };
    match (left, right) {
        (Verdict::WaitsFor(left), Verdict::WaitsFor(right)) => names(left) == names(right),
        _ => left == right,
    }
}

impl fmt::Display for Vote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Vote::Found => "found",
            Vote::NotMine => "not-mine",
            Vote::Silent(_) => "silent",
        })
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Ours => write!(f, "ours"),
            Verdict::Open => write!(f, "open"),
            Verdict::WaitsFor(open) => {
                let names: Vec<&str> = open.iter().map(|one| &*one.provider).collect();
                write!(f, "waits for {}", names.join(", "))
            }
            Verdict::FoundBy(names) => write!(f, "found by {}", names.join(", ")),
            Verdict::FoundByNobody(_) => write!(f, "found by nobody"),
        }
    }
}

#[cfg(test)]
mod tests;
