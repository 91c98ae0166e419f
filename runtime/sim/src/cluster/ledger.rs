//! Records writes in full (body, object before and after), so that tests can check invariants on recorded traffic.
//! Judges nothing.

use std::sync::Arc;

use serde_json::Value;
use tokio::time::Instant;

use super::ask::{Ask, Verb};
use super::store::Store;
use super::{Request, World};

/// A request that could have changed something.
#[derive(Clone, Debug)]
pub struct Write {
    /// The request, as logged.
    pub request: Request,
    /// The request body; null if it is empty or no JSON.
    pub body: Value,
    /// The named object before the write; `None` if it did not exist, or if the request names none, as creations do.
    pub before: Option<Arc<Value>>,
    /// The named object after the write; `None` if it does not exist.
    pub after: Option<Arc<Value>>,
    /// The time of the write, on tokio's clock.
    pub at: Instant,
}

/// The current state of the named object, if this is a write and writes are recorded.
pub(super) fn look(world: &World, ask: &Ask) -> Option<Arc<Value>> {
    is_kept(world, ask).then(|| named(&world.store, ask))?
}

/// Records the last logged write.
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
    store.get(ask.kind.collection, &ask.key()).cloned()
}
