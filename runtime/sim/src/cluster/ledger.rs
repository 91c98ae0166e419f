//! Writes with everything that can be said about them, so that laws can be checked on recorded traffic: what was
//! sent, and the object before and after. It judges nothing.

use std::sync::Arc;

use serde_json::Value;
use tokio::time::Instant;

use super::ask::{Ask, Verb};
use super::store::Store;
use super::{Request, World};

/// One request that could have changed something.
#[derive(Clone, Debug)]
pub struct Write {
    /// As it stands in the log.
    pub request: Request,
    /// What was sent; null when that was nothing, or no JSON.
    pub body: Value,
    /// The named object before; `None` when there was none, and where a request names none, as creations do.
    pub before: Option<Arc<Value>>,
    /// The named object after.
    pub after: Option<Arc<Value>>,
    /// When, on tokio's clock.
    pub at: Instant,
}

/// The named object as it is now, if this is a write and writes are kept.
pub(super) fn look(world: &World, ask: &Ask) -> Option<Arc<Value>> {
    is_kept(world, ask).then(|| named(&world.store, ask))?
}

/// Keeps the write that was put into the log last.
pub(super) fn keep(world: &mut World, ask: &Ask, body: &[u8], before: Option<Arc<Value>>) {
    if !is_kept(world, ask) {
        return;
    }
    let after = named(&world.store, ask);
    let Some(request) = world.log.back().cloned() else {
        return;
    };
    if let Some(ledger) = &mut world.ledger {
        ledger.push(Write {
            request,
            body: serde_json::from_slice(body).unwrap_or_default(),
            before,
            after,
            at: Instant::now(),
        });
    }
}

fn is_kept(world: &World, ask: &Ask) -> bool {
    world.ledger.is_some() && !matches!(ask.verb, Verb::Get | Verb::List | Verb::Watch)
}

fn named(store: &Store, ask: &Ask) -> Option<Arc<Value>> {
    store.get(ask.kind.room, &ask.key()).cloned()
}
