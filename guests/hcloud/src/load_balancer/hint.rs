//! The contract's hint: what a call passes to the next call about started work. Only the number of requests depends on
//! it: a new read finds out everything else. A hint that cannot be parsed or has another digest is ignored.

use std::time::Duration;

use ccm_guest::Pending;
use ccm_guest::hint::{busy_delay, poll_delay};
use serde::{Deserialize, Serialize};

use super::api::LoadBalancer;
use super::changes::Change;

#[cfg(test)]
mod tests;

/// Delay before the read after completed changes.
const AT_ONCE: Duration = Duration::from_millis(100);

/// The work that earlier calls started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hint {
    /// Digest of the desired state at that time.
    pub digest: u64,
    /// The load balancer's id.
    pub id: u64,
    /// Ids of the actions that were running.
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
    /// Public IPv6. `None` also while the public interface is disabled.
    pub ipv6: Option<String>,
    /// Addresses in attached networks.
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
    pub fn of(hint: Option<Hint>, digest: u64) -> Option<Hint> {
        hint.filter(|hint| hint.digest == digest)
    }

    /// The reply of a call with remaining work.
    pub fn pending(mut self) -> Pending {
        let wait = match (self.actions.is_empty(), self.waits) {
            (false, waits) => poll_delay(waits),
            (true, 0) => AT_ONCE,
            (true, waits) => busy_delay(waits),
        };
        let mut pending = Pending::after(wait).with_hint(&self);
        // The following read finds truncated changes again.
        while pending.hint.is_none() && !self.left.is_empty() {
            self.left.truncate(self.left.len() / 2);
            self.more = true;
            pending = pending.with_hint(&self);
        }
        pending
    }
}
