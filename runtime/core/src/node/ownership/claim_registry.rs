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

/// More nodes than the largest cluster has (15 000). At the limit, the node whose last vote is oldest is dropped.
const MOST: usize = 16_000;
/// How long the same verdict about a node is not reported again: the API server's default Event retention.
const REPORT_AGAIN_AFTER: Duration = Duration::from_secs(3600);

/// The vote of one candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Vote {
    /// The candidate finds the machine.
    Found,
    /// The candidate has no such machine, or knows that it is gone.
    NotMine,
    /// The candidate could not report; contains the reason.
    Silent(String),
}

/// The vote of one other candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherVote {
    /// Name of the candidate.
    pub provider: String,
    /// Its vote; `None` if it has not voted yet.
    pub vote: Option<Vote>,
}

/// The combined meaning of all votes for the candidate that voted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The node belongs to this candidate.
    Ours,
    /// The node belongs to another candidate, which waits or proceeds; or the votes decide nothing yet.
    Open,
    /// This candidate found the machine; the listed ones have not voted [`Vote::NotMine`].
    WaitsFor(Vec<OtherVote>),
    /// All of these found the machine.
    FoundBy(Vec<String>),
    /// All candidates voted [`Vote::NotMine`].
    NotFound(Vec<String>),
}

/// The votes on each node, by node UID.
#[derive(Debug, Default)]
pub struct ClaimRegistry(BTreeMap<String, Entry>);

#[derive(Debug, Default)]
struct Entry {
    votes: BTreeMap<String, Vote>,
    last_vote: Option<Moment>,
    /// The verdict reported last, and when.
    reported: Option<(Verdict, Moment)>,
}

/// The result of a vote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    /// The meaning of all votes for this candidate.
    pub verdict: Verdict,
    /// Whether to report it now: it is new, or the last report is long ago.
    pub report: bool,
    /// The candidates that found the machine and wait for this vote.
    pub wakes: Vec<String>,
}

impl ClaimRegistry {
    /// Records the vote of `provider` on the node with this UID; `others` are the other candidates. `is_quiet`
    /// suppresses reports of verdicts that may resolve without intervention.
    pub fn cast(
        &mut self,
        uid: &str,
        provider: &str,
        vote: Vote,
        others: &[String],
        is_quiet: bool,
        now: Moment,
    ) -> Claimed {
        self.make_room(uid);
        let entry = self.0.entry(uid.to_owned()).or_default();
        entry.last_vote = Some(now);
        let is_new = entry.note(provider, vote.clone());
        let other_votes: Vec<OtherVote> = others.iter().map(|other| entry.vote_of(other)).collect();
        let finders = other_votes
            .iter()
            .filter(|one| one.vote == Some(Vote::Found));
        let finders: Vec<String> = finders.map(|one| one.provider.clone()).collect();
        let verdict = verdict(provider, &vote, other_votes);
        let is_due = match &verdict {
            Verdict::Ours | Verdict::Open => false,
            Verdict::WaitsFor(_) | Verdict::NotFound(_) => !is_quiet,
            Verdict::FoundBy(_) => true,
        };
        let is_reported = entry.reported.as_ref().is_some_and(|(reported, at)| {
            is_same(reported, &verdict) && at.after(REPORT_AGAIN_AFTER) > now
        });
        let report = is_due && !is_reported;
        if report {
            entry.reported = Some((verdict.clone(), now));
        }
        let wakes = if is_new { finders } else { Vec::new() };
        Claimed {
            verdict,
            report,
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
            entry.votes.remove(provider);
        }
        self.0.retain(|_, entry| !entry.votes.is_empty());
    }

    fn make_room(&mut self, uid: &str) {
        if self.0.len() < MOST || self.0.contains_key(uid) {
            return;
        }
        let oldest = self.0.iter().min_by_key(|(_, entry)| entry.last_vote);
        if let Some(oldest) = oldest.map(|(uid, _)| uid.clone()) {
            self.0.remove(&oldest);
        }
    }
}

impl Entry {
    /// Returns whether the vote is new. A [`Vote::Silent`] does not replace an earlier answer.
    fn note(&mut self, provider: &str, vote: Vote) -> bool {
        match self.votes.get(provider) {
            Some(Vote::Found | Vote::NotMine) if matches!(vote, Vote::Silent(_)) => false,
            Some(before) if *before == vote => false,
            _ => {
                self.votes.insert(provider.to_owned(), vote);
                true
            }
        }
    }

    fn vote_of(&self, provider: &str) -> OtherVote {
        OtherVote {
            provider: provider.to_owned(),
            vote: self.votes.get(provider).cloned(),
        }
    }
}

fn verdict(provider: &str, vote: &Vote, other_votes: Vec<OtherVote>) -> Verdict {
    let all = |wanted: &Vote| {
        let theirs = other_votes
            .iter()
            .filter(|one| one.vote.as_ref() == Some(wanted));
        let mut names: Vec<String> = theirs.map(|one| one.provider.clone()).collect();
        names.push(provider.to_owned());
        names.sort_unstable();
        names
    };
    match vote {
        Vote::Found => {
            let finders = all(&Vote::Found);
            if finders.len() > 1 {
                return Verdict::FoundBy(finders);
            }
            let is_open = |one: &OtherVote| one.vote != Some(Vote::NotMine);
            let open: Vec<OtherVote> = other_votes.into_iter().filter(is_open).collect();
            match open.is_empty() {
                true => Verdict::Ours,
                false => Verdict::WaitsFor(open),
            }
        }
        Vote::NotMine => {
            let names = all(&Vote::NotMine);
            match names.len() == other_votes.len() + 1 {
                true => Verdict::NotFound(names),
                false => Verdict::Open,
            }
        }
        Vote::Silent(_) => Verdict::Open,
    }
}

/// Whether both verdicts read the same in a report. The reasons for silent candidates are ignored: they change often.
fn is_same(left: &Verdict, right: &Verdict) -> bool {
    let names = |other_votes: &[OtherVote]| -> Vec<String> {
        other_votes.iter().map(|one| one.provider.clone()).collect()
    };
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
            Verdict::NotFound(_) => write!(f, "found by nobody"),
        }
    }
}

#[cfg(test)]
mod tests;
