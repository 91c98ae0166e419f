//! What one call tells the next about what it began: the contract's hint. Nothing depends on it but the number of requests:
//! whatever it says can be found out by a new look, and a hint that cannot be read, or is about something else, is none.

use serde::{Deserialize, Serialize};

use ccm_guest::Pending;

use super::api::LoadBalancer;
use super::changes::Change;

#[cfg(test)]
mod tests;

/// How soon running actions are asked about, in milliseconds: as often as the Go manager does.
const FIRST_POLLS: u64 = 500;
/// How soon a request that the cloud was too busy for is made again.
const BUSY: u64 = 1000;
/// How soon there is something new to see after changes that have ended.
const AT_ONCE: u64 = 100;
/// The longest wait.
const LONGEST: u64 = 10_000;
/// The longest hint that the host takes.
const MAX_BYTES: usize = 4096;
/// So many polls have the same distance; then it grows.
const PATIENCE: u64 = 8;

/// What was begun.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hint {
    /// Of what was wanted then.
    pub digest: u64,
    /// The load balancer.
    pub id: u64,
    /// The actions that were running.
    pub actions: Vec<u64>,
    /// What is to be sent when they have ended.
    pub left: Vec<Change>,
    /// Whether something has to be looked at after that.
    pub more: bool,
    /// How often it was asked in vain.
    pub waits: u64,
    /// The addresses of the load balancer, as they stay when nothing is left to do.
    pub addresses: Option<Addresses>,
}

/// The addresses of a load balancer, as far as a Service's status is about them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Addresses {
    /// Public, IPv4. `None` also while the public interface is off.
    pub ipv4: Option<String>,
    /// Public, IPv6.
    pub ipv6: Option<String>,
    /// In networks.
    pub private: Vec<String>,
}

impl Addresses {
    /// Those of a load balancer that was just read.
    pub fn of(found: &LoadBalancer) -> Addresses {
        let public = &found.public_net;
        let shown = |ip: &Option<String>| ip.clone().filter(|_| public.enabled);
        let private = found.private_net.iter().filter_map(|net| net.ip.clone());
        Addresses {
            ipv4: shown(&public.ipv4.ip),
            ipv6: shown(&public.ipv6.ip),
            private: private.collect(),
        }
    }
}

impl Hint {
    /// What the last call said about the same wish.
    pub fn read(bytes: Option<&[u8]>, digest: u64) -> Option<Hint> {
        let hint: Hint = serde_json::from_slice(bytes?).ok()?;
        (hint.digest == digest).then_some(hint)
    }

    /// The answer of a call that leaves something to do.
    pub fn pending(mut self) -> Pending {
        let idle = self.actions.is_empty();
        let wait = match self.waits {
            waits if !idle => FIRST_POLLS.saturating_mul(1 + waits / PATIENCE),
            0 => AT_ONCE,
            waits => BUSY.saturating_mul(waits),
        };
        // What does not fit is found again by the look that follows.
        let mut bytes = serde_json::to_vec(&self);
        while bytes.as_ref().is_ok_and(|bytes| bytes.len() > MAX_BYTES) && !self.left.is_empty() {
            self.left.truncate(self.left.len() / 2);
            self.more = true;
            bytes = serde_json::to_vec(&self);
        }
        Pending {
            retry_after_ms: wait.min(LONGEST),
            hint: bytes.ok().filter(|bytes| bytes.len() <= MAX_BYTES),
        }
    }
}
