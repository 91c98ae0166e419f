//! The cloud: the true state of the machines, and its lies about them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ccm_core::cloud::{FindReply, Instance, Lookup, ProviderError};

use ccm_tests::random::Random;

/// An answer of the cloud.
pub(crate) type Answer = Result<FindReply, ProviderError>;

/// One machine, by the name of its node.
#[derive(Debug, Clone)]
pub(crate) struct Machine {
    pub(crate) provider_id: String,
    /// When it appears in the cloud's lists.
    pub(crate) listed: u64,
    /// When it is gone.
    pub(crate) gone: Option<u64>,
    pub(crate) is_off: bool,
}

impl Machine {
    /// Whether the cloud knew it in the second `at`.
    pub(crate) fn exists(&self, at: u64) -> bool {
        self.listed <= at && self.gone.is_none_or(|gone| gone > at)
    }
}

/// A way of lying.
#[derive(Debug, Clone)]
pub(crate) enum Lie {
    /// An error in place of an answer.
    Error,
    /// Throttled, with this many seconds to wait.
    Throttled(u64),
    /// The truth, from an exchange that was not complete.
    Incomplete,
    /// The answer about one node of each call is unknown.
    Unknown,
    /// The answer about one node is missing.
    Short,
    /// An empty list, or another account's.
    EverybodyGone,
    /// Machines of the same names in another account.
    OtherIds,
    /// Look-ups that allow cached answers get answers in which these are missing.
    Memory(BTreeSet<String>),
    /// All machines are gone in every other call.
    FlipsAll,
    /// Each node that is NotReady is gone in every other answer about it.
    FlipsEach,
    /// These are missing: for less than ten seconds; or a known-good node is among them, or they are a mass, for less
    /// than a quarter of an hour.
    Misses(BTreeSet<String>),
}

/// The machines, and the current lie.
#[derive(Default)]
pub(crate) struct Cloud {
    pub(crate) machines: BTreeMap<String, Machine>,
    pub(crate) lie: Option<Lie>,
    calls: u64,
    flips: BTreeMap<String, u64>,
}

impl Cloud {
    /// The answer about these nodes now; `about` of them are NotReady.
    pub(crate) fn answer(
        &mut self,
        names: &[&str],
        about: usize,
        is_fresh: bool,
        now: u64,
        random: &mut Random,
    ) -> Answer {
        self.calls += 1;
        let mut reply = FindReply {
            lookups: names.iter().map(|name| self.truth(name, now)).collect(),
            events: Vec::new(),
            complete: true,
        };
        let everybody_gone = |reply: &mut FindReply| {
            reply.lookups.iter_mut().for_each(|one| *one = Lookup::Gone);
        };
        match &self.lie {
            None => {}
            Some(Lie::Memory(_)) if is_fresh => {}
            Some(Lie::Error) => return Err(ProviderError::Unavailable("down".to_owned())),
            Some(Lie::Throttled(seconds)) => {
                return Err(ProviderError::Throttled {
                    message: "slow down".to_owned(),
                    retry_after: Some(Duration::from_secs(*seconds)),
                });
            }
            Some(Lie::Incomplete) => {
                reply.complete = false;
                everybody_gone(&mut reply);
            }
            Some(Lie::Unknown) => {
                let last = u64::try_from(names.len()).unwrap() - 1;
                let which = usize::try_from(random.within(0, last)).unwrap();
                everybody_gone(&mut reply);
                reply.lookups[which] = Lookup::Unknown("lost".to_owned());
            }
            Some(Lie::Short) => {
                everybody_gone(&mut reply);
                reply.lookups.pop();
            }
            Some(Lie::EverybodyGone) => everybody_gone(&mut reply),
            Some(Lie::FlipsAll) if self.calls % 2 == 1 => everybody_gone(&mut reply),
            Some(Lie::FlipsAll) => {}
            Some(Lie::FlipsEach) => {
                for (name, lookup) in names.iter().zip(&mut reply.lookups).take(about) {
                    let count = self.flips.entry((*name).to_owned()).or_default();
                    *count += 1;
                    if *count % 2 == 1 {
                        *lookup = Lookup::Gone;
                    }
                }
            }
            Some(Lie::OtherIds) => {
                for lookup in &mut reply.lookups {
                    if let Lookup::Found(instance) = lookup {
                        instance.provider_id.push_str("-other");
                    }
                }
            }
            Some(Lie::Misses(missing) | Lie::Memory(missing)) => {
                for (name, lookup) in names.iter().zip(&mut reply.lookups) {
                    if missing.contains(*name) {
                        *lookup = Lookup::Gone;
                    }
                }
            }
        }
        Ok(reply)
    }

    fn truth(&self, name: &str, at: u64) -> Lookup {
        match self.machines.get(name) {
            Some(machine) if machine.exists(at) => Lookup::Found(Box::new(Instance {
                provider_id: machine.provider_id.clone(),
                shutdown: Some(machine.is_off),
                ..Instance::default()
            })),
            _ => Lookup::Gone,
        }
    }
}
