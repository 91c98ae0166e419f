//! What a cloud says that is not true, until it is told to be honest again. Knows no node and no controller.

use std::time::Duration;

use ccm_core::cloud::{FindReply, Instance, Lookup, ProviderError};
use tokio::time::Instant;

use crate::cloud::{PATIENCE, SLOW};
use crate::disturbance::CallFault;
use crate::script::Line;

/// One way of lying.
#[derive(Debug, Clone)]
pub(crate) enum Lie {
    /// Every machine is gone: a list without entries, or the credential of another account (E10, E13, F14).
    EverybodyGone,
    /// The same at every other call, from the first one on (F15).
    Flips,
    /// The machines of these nodes are missing from the list (E11).
    Misses(Vec<String>),
    /// Nothing is known about these nodes now.
    Unknown(Vec<String>),
    /// Every machine is switched off (F17).
    EverybodyOff,
    /// The right answers, from an exchange that was not complete (E9).
    Incomplete,
    /// One answer too few.
    Short,
    /// A plain look-up is answered as things were a while ago.
    Memory(Duration),
    /// Machines of the same names, under other provider IDs (E15).
    OtherIds,
}

impl Lie {
    /// `cloud lies …`: see `README.md`.
    pub(crate) fn read(line: &Line) -> Result<Lie, String> {
        let names = || line.words.iter().skip(3).cloned().collect();
        Ok(match line.word(2)? {
            "everybody-gone" => Lie::EverybodyGone,
            "flips" => Lie::Flips,
            "misses" => Lie::Misses(names()),
            "unknown" => Lie::Unknown(names()),
            "everybody-off" => Lie::EverybodyOff,
            "incomplete" => Lie::Incomplete,
            "short" => Lie::Short,
            "memory" => Lie::Memory(crate::world::seconds(line.word(3)?)?),
            "other-ids" => Lie::OtherIds,
            other => return Err(format!("no lie is called {other:?}")),
        })
    }

    /// As when a plain look-up is answered.
    pub(crate) fn remembers(&self, now: Instant) -> Instant {
        match self {
            Lie::Memory(age) => now.checked_sub(*age).unwrap_or(now),
            _ => now,
        }
    }

    /// Makes of the truth about `names` what is said in the so many-th call.
    pub(crate) fn tell(&self, names: &[&str], reply: &mut FindReply, call: usize) {
        let all = reply.lookups.iter_mut();
        let named = |these: &[String], lookup: Lookup, reply: &mut FindReply| {
            for (name, one) in names.iter().zip(&mut reply.lookups) {
                if these.iter().any(|this| this == name) {
                    *one = lookup.clone();
                }
            }
        };
        match self {
            Lie::EverybodyGone => all.for_each(|one| *one = Lookup::Gone),
            Lie::Flips if call % 2 == 1 => all.for_each(|one| *one = Lookup::Gone),
            Lie::Flips | Lie::Memory(_) => {}
            Lie::Misses(these) => named(these, Lookup::Gone, reply),
            Lie::Unknown(these) => {
                named(
                    these,
                    Lookup::Unknown("the page was lost".to_owned()),
                    reply,
                );
            }
            Lie::EverybodyOff => instances(reply, |one| one.shutdown = Some(true)),
            Lie::Incomplete => reply.complete = false,
            Lie::Short => drop(reply.lookups.pop()),
            Lie::OtherIds => instances(reply, |one| one.provider_id.push_str("-other")),
        }
    }
}

fn instances(reply: &mut FindReply, change: fn(&mut Instance)) {
    for lookup in &mut reply.lookups {
        if let Lookup::Found(instance) = lookup {
            change(instance);
        }
    }
}

/// What an injected fault makes of an answer about nodes.
pub(crate) async fn disturbed(
    honest: Result<FindReply, ProviderError>,
    fault: Option<CallFault>,
) -> Result<FindReply, ProviderError> {
    let why = || "injected".to_owned();
    let Some(fault) = fault else {
        return honest;
    };
    match fault {
        CallFault::Throttled => Err(ProviderError::Throttled {
            message: why(),
            retry_after: Some(PATIENCE),
        }),
        CallFault::Unavailable | CallFault::Lost => Err(ProviderError::Unavailable(why())),
        CallFault::Denied => Err(ProviderError::Denied(why())),
        CallFault::Trapped => Err(ProviderError::Trapped(why())),
        CallFault::Slow => {
            tokio::time::sleep(SLOW).await;
            honest
        }
        CallFault::Endless => std::future::pending().await,
        CallFault::NobodyMine => everybody(honest, |_, _| Lookup::NotMine),
        CallFault::AllGone => everybody(honest, |_, _| Lookup::Gone),
        CallFault::Partial => everybody(honest, |index, lookup| match index % 2 {
            0 => Lookup::Unknown("injected".to_owned()),
            _ => lookup,
        }),
        CallFault::Short => honest.map(|mut reply| {
            reply.lookups.pop();
            reply
        }),
        CallFault::Incomplete => honest.map(|mut reply| {
            reply.complete = false;
            reply
        }),
    }
}

fn everybody(
    honest: Result<FindReply, ProviderError>,
    answer: fn(usize, Lookup) -> Lookup,
) -> Result<FindReply, ProviderError> {
    honest.map(|mut reply| {
        let lookups = reply.lookups.into_iter().enumerate();
        reply.lookups = lookups.map(|(index, one)| answer(index, one)).collect();
        reply
    })
}
