//! The Kubernetes clients of one leadership: one that watches, and for each controller one that acts. Holds them, and
//! makes none.

use std::collections::BTreeMap;

use kube::Client;

/// The client that each controller acts with. Watches, budgets and all else that belongs to no controller use the base
/// client (PROC-031).
#[derive(Clone)]
pub struct Clients {
    base: Client,
    identities: BTreeMap<&'static str, Client>,
}

impl Clients {
    /// Creates clients with which all controllers act as `base`, except those that `identities` names (PROC-030).
    pub fn new(base: Client, identities: BTreeMap<&'static str, Client>) -> Clients {
        Clients { base, identities }
    }

    /// The client that watches.
    pub(crate) fn base(&self) -> &Client {
        &self.base
    }

    /// The client that `controller` acts with.
    pub(crate) fn of(&self, controller: &str) -> &Client {
        self.identities.get(controller).unwrap_or(&self.base)
    }
}

impl From<Client> for Clients {
    fn from(base: Client) -> Clients {
        Clients::new(base, BTreeMap::new())
    }
}
