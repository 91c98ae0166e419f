//! Who has said what about a node that several providers could speak for. A node is initialised by the one that finds
//! its machine, and only when every other candidate has said that it is not theirs.
//!
//! Why two can never both go ahead: who finds a machine writes that down and reads what the others have said in one
//! step. Of two that both find it, the second one reads that the first one did; and who has said nothing is waited for.
//!
//! Holds words; asks nobody and decides nothing but what they mean together. Forgets a node when it is initialised or
//! gone; a candidate that finds it after that is one that waits, and then looks at the node anew.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::moment::Moment;

/// More nodes than ever wait at the same time; the one that was heard of longest ago is forgotten for the next one.
const MOST: usize = 10_000;
/// How long the same thing about a node is not said again: as long as an API server keeps an Event by default.
const SAID: Duration = Duration::from_secs(3600);

/// What one candidate says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Vote {
    /// It knows the machine.
    Found,
    /// It knows no such machine, or knows that there is none any more.
    NotMine,
    /// It could not say, and why.
    Silent(String),
}

/// What one of the others has said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard {
    /// Who.
    pub provider: String,
    /// What; `None`: nothing yet.
    pub opinion: Option<Vote>,
}

/// What all of it means for the one that asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The node is its own.
    Ours,
    /// The node is for another one, who is waiting or at work; or nothing can be said yet.
    Open,
    /// It has found the machine, and these have not said that it is not theirs.
    WaitsFor(Vec<Heard>),
    /// These have all found the machine.
    FoundBy(Vec<String>),
    /// These have all said that it is not theirs: all that could.
    FoundByNobody(Vec<String>),
}

/// See the module's documentation. Nodes are known by UID.
#[derive(Debug, Default)]
pub struct ClaimRegistry(BTreeMap<String, Entry>);

#[derive(Debug, Default)]
struct Entry {
    opinions: BTreeMap<String, Vote>,
    heard: Option<Moment>,
    /// What was told people last, and when.
    told: Option<(Verdict, Moment)>,
}

/// What came of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    /// What it means, with what the others have said.
    pub verdict: Verdict,
    /// Whether people are to be told now: it is new, or was told long ago.
    pub tell: bool,
    /// Who waits for exactly such a word.
    pub wakes: Vec<String>,
}

impl ClaimRegistry {
    /// `provider` says this about the node with this UID, of which `others` are the other candidates; `is_patient` says
    /// that what may pass by itself is not worth telling yet.
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

    /// Only these nodes are left.
    pub fn keep(&mut self, is_left: impl Fn(&str) -> bool) {
        self.0.retain(|uid, _| is_left(uid));
    }

    /// Whatever `provider` said was said by something that does not run any more.
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
    /// Says whether it is another word than before. Who has answered once and cannot now has still answered.
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

/// Whether both say the same to people: why somebody cannot answer changes all the time.
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
