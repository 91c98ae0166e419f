//! The handle on one project or account of a running simulator: where it is, who may use it, and what it was asked.
//!
//! None of this counts as a request, waits, or uses budget.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;

use super::access::Access;
use super::exchange::{Api, Cloud, Tenant};
use super::faults::Fault;
use super::journal::Request;
use super::tls::Tls;
use super::{Loopback, StartError};

/// What the handles of all clouds can do. Clones share it; dropping the last one stops the simulator.
#[derive(Clone)]
pub struct Handle {
    loopback: Arc<Loopback>,
    access: Arc<Mutex<Access>>,
    /// The path of the endpoint.
    root: &'static str,
}

impl Handle {
    /// Starts a simulator on the current tokio runtime. Returns a handle on this tenant, its first one.
    pub(crate) async fn start<A: Api>(
        cloud: Arc<Cloud<A>>,
        tenant: &Tenant<A>,
        tls: Option<Tls>,
    ) -> Result<Self, StartError> {
        Ok(Self {
            access: Arc::clone(&tenant.access),
            loopback: Arc::new(Loopback::start(cloud, tls).await?),
            root: A::ROOT,
        })
    }

    /// A handle on another tenant of the same simulator.
    pub(crate) fn on<A>(&self, tenant: &Tenant<A>) -> Self {
        Self {
            access: Arc::clone(&tenant.access),
            ..self.clone()
        }
    }

    /// The base URL for clients: `http://127.0.0.1:PORT`, with TLS `https://localhost:PORT`, and the path that the
    /// vendor's base URL has.
    #[must_use]
    pub fn endpoint(&self) -> String {
        let (port, root) = (self.loopback.address.port(), self.root);
        match self.loopback.ca_pem {
            None => format!("http://127.0.0.1:{port}{root}"),
            Some(_) => format!("https://localhost:{port}{root}"),
        }
    }

    /// The address it listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.loopback.address
    }

    /// The CA that clients must trust, as PEM; `None` without TLS.
    #[must_use]
    pub fn ca_pem(&self) -> Option<&str> {
        self.loopback.ca_pem.as_deref()
    }

    /// Number of connections accepted so far, for all projects.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.loopback.connections.load(Ordering::Relaxed)
    }

    /// Stops listening, drops all connections and waits until that is done. The records remain readable.
    pub async fn stop(&self) {
        self.loopback.stop().await;
    }

    /// Changes the `Authorization` header that clients must send.
    pub(crate) fn set_credential(&self, credential: String) {
        self.access.lock().credential = credential;
    }

    /// Sets a second one that allows only reading.
    pub(crate) fn set_read_credential(&self, credential: String) {
        self.access.lock().read_credential = Some(credential);
    }

    /// Adds a fault. It stays until it is used up or cleared.
    pub fn inject(&self, fault: Fault) {
        self.access.lock().faults.push(fault);
    }

    /// Removes all faults, used up or not.
    pub fn clear_faults(&self) {
        self.access.lock().faults.clear();
    }

    /// All requests recorded since they were last cleared, in the order of arrival. Only the newest 200 000 are kept.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.access.lock().journal.all()
    }

    /// The requests recorded after the one with this number, in the order of arrival; all of them after 0.
    #[must_use]
    pub fn requests_since(&self, sequence: u64) -> Vec<Request> {
        self.access.lock().journal.since(sequence)
    }

    /// Clears the recorded requests; their numbering continues.
    pub fn clear_requests(&self) {
        self.access.lock().journal.clear();
    }
}
