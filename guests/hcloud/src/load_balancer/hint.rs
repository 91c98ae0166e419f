//! The contract's hint: state that a call passes to the next call about started work. Only the number of requests
//! depends on it: a new read finds out everything else. A hint that cannot be parsed or has another digest is ignored.

use serde::{Deserialize, Serialize};

use ccm_guest::Pending;

use super::api::LoadBalancer;
use super::changes::Change;

#[cfg(test)]
mod tests;

/// Initial poll interval of running actions, in milliseconds: the same as the Go manager's.
const FIRST_POLLS: u64 = 500;
/// Retry delay after the cloud was busy, in milliseconds.
const BUSY: u64 = 1000;
/// Delay before the read after completed changes, in milliseconds.
const AT_ONCE: u64 = 100;
/// Maximum delay, in milliseconds.
const LONGEST: u64 = 10_000;
/// Maximum size of a hint that the host accepts.
const MAX_BYTES: usize = 4096;
/// Number of polls at the same interval before it grows.
const PATIENCE: u64 = 8;

/// The started work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hint {
    /// Digest of the desired state at that time.
    pub digest: u64,
    /// The load balancer's id.
    pub id: u64,
    /// The running actions.
    pub actions: Vec<u64>,
    /// Changes to send after the running actions.
    pub left: Vec<Change>,
    /// Whether the load balancer must be read again afterwards.
    pub more: bool,
    /// Number of polls without success.
    pub waits: u64,
    /// The load balancer's addresses, final if no work is left.
    pub addresses: Option<Addresses>,
}

/// The addresses of a load balancer, as needed for a Service's status.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Addresses {
    /// Public IPv4. `None` also while the public interface is disabled.
    pub ipv4: Option<String>,
    /// Public IPv6.
    pub ipv6: Option<String>,
    /// Private addresses.
    pub private: Vec<String>,
}

impl Addresses {
    /// The addresses of a load balancer that was just read.
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
    /// The hint of the last call, if it is for the same desired state.
    pub fn read(bytes: Option<&[u8]>, digest: u64) -> Option<Hint> {
        let hint: Hint = serde_json::from_slice(bytes?).ok()?;
        (hint.digest == digest).then_some(hint)
    }

    /// The reply of a call with remaining work.
    pub fn pending(mut self) -> Pending {
        let idle = self.actions.is_empty();
        let wait = match self.waits {
            waits if !idle => FIRST_POLLS.saturating_mul(1 + waits / PATIENCE),
            0 => AT_ONCE,
            waits => BUSY.saturating_mul(waits),
        };
        // The following read finds truncated changes again.
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
