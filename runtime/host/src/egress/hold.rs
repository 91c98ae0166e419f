//! Which targets share one hold: those of the same provider, at the same endpoint, with the same credential. A cloud
//! counts the requests of an account, whichever generation of a provider sends them. Two providers share nothing, so
//! that none of them can hold the other back.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use sha2::{Digest as _, Sha256};

use super::patience::Patience;
use super::target::Target;

/// The holds of all providers of a host. A hold is forgotten with the last target that has it.
#[derive(Default)]
pub(crate) struct Holds(Mutex<HashMap<Key, Weak<Patience>>>);

/// Rather than the parts themselves, because one of them is a credential.
type Key = [u8; 32];

impl Holds {
    /// The hold of this provider's target: the one that there is, or a new one.
    pub(super) fn of(&self, provider: &str, target: &Target) -> Arc<Patience> {
        let key = key(provider, target);
        let mut holds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        holds.retain(|_, hold| hold.strong_count() > 0);
        if let Some(hold) = holds.get(&key).and_then(Weak::upgrade) {
            return hold;
        }
        let hold = Arc::default();
        holds.insert(key, Arc::downgrade(&hold));
        hold
    }
}

fn key(provider: &str, target: &Target) -> Key {
    let (name, value) = target.credential().unwrap_or_default();
    let mut hash = Sha256::new();
    for part in [
        provider.as_bytes(),
        target.endpoint.as_str().as_bytes(),
        name.as_bytes(),
        value,
    ] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}
