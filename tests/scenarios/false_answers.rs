//! False answers of a cloud, until the script makes it honest again. Knows no node and no controller.

use std::time::Duration;

use ccm_core::cloud::{FindReply, Instance, Lookup, ProviderError};
use tokio::time::Instant;

use crate::cloud::{SLOW, TIMEOUT};
use crate::disturbance::CallFault;
use crate::script::Line;

/// One way of lying.
#[derive(Debug, Clone)]
pub(crate) enum Lie {
    /// Every machine is gone: a list without entries, or the credential of another account (E10, E13, F14).
    EverybodyGone,
    /// Every machine is gone in every other call, from the first one on (F15).
    Flips,
    /// The machines of these nodes are missing from the list (E11).
    Misses(Vec<String>),
    /// The state of these nodes is unknown.
    Unknown(Vec<String>),
    /// Every machine is switched off (F17).
    EverybodyOff,
    /// True answers, from an exchange that was not complete (E9).
    Incomplete,
    /// The answer about the last node is missing.
    Short,
    /// A look-up that allows cached answers gets the state of a while ago.
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

    /// The time whose state answers a look-up that allows cached answers.
    pub(crate) fn remembers(&self, now: Instant) -> Instant {
        match self {
            Lie::Memory(age) => now.checked_sub(*age).unwrap_or(now),
            _ => now,
        }
    }

    /// Changes the true answers about `names` into those of the call with this number.
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

/// Applies an injected fault to an answer about nodes.
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
            retry_after: Some(TIMEOUT),
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
