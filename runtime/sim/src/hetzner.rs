//! A stateful Hetzner Cloud API on loopback, for the demo and the tests.
//!
//! It answers with the vendor's objects, envelopes, paging, actions and rate-limit headers (API
//! reference: <https://docs.hetzner.cloud>), over HTTP or over TLS. Faults
//! are injected on purpose, and every request is recorded. The same requests in the same order give
//! the same state: ids come from counters, addresses from the order of creation, and only shown
//! times come from a clock, which the caller may give.
//!
//! It never listens anywhere but on 127.0.0.1, and it never asks another server for anything.
//!
//! ```no_run
//! # async fn example() -> Result<(), ccm_sim::hetzner::StartError> {
//! use ccm_sim::hetzner::{Fault, Hetzner, Options, ServerSpec, Trouble};
//!
//! let cloud = Hetzner::start(Options::new("token")).await?;
//! let id = cloud.add_server(ServerSpec::named("node-1"));
//! cloud.inject(Fault::new(Trouble::ResetAfter).path("/servers").times(1));
//! // A client of `cloud.endpoint()` now loses its first answer about servers.
//! assert!(cloud.requests().is_empty());
//! # let _ = id;
//! # Ok(())
//! # }
//! ```

mod actions;
mod answer;
mod api;
mod attachments;
mod certificates;
mod control;
mod exchange;
mod faults;
mod labels;
mod load_balancer_actions;
mod load_balancer_control;
mod load_balancer_networks;
mod load_balancer_objects;
mod load_balancer_service_wish;
mod load_balancer_services;
mod load_balancer_state;
mod load_balancer_targets;
mod load_balancer_types;
mod load_balancer_view;
mod load_balancers;
mod locations;
mod network_control;
mod network_rules;
mod networks;
mod objects;
mod query;
mod rate;
mod server_types;
mod servers;
mod world;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use exchange::{Project, Shared};
use loopback::Loopback;

use crate::loopback;

pub use control::ControlError;
pub use faults::{Fault, Trouble};
pub use load_balancer_objects::{
    Algorithm, HealthCheck, HttpCheck, HttpOptions, LoadBalancerSpec, Protocol, Service, Target,
};
pub use load_balancer_state::Locking;
pub use load_balancer_types::{LoadBalancerType, Offer};
pub use locations::Location;
pub use loopback::{Clock, Request, StartError, Tls, TlsError};
pub use objects::{ServerSpec, ServerStatus};
pub use rate::RateLimit;
pub use server_types::ServerType;

/// How a simulator is set up. Start from [`Options::new`] and change what matters.
///
/// There is no `Debug`: the token is one a client must keep secret, even if it opens nothing real.
#[derive(Clone)]
pub struct Options {
    /// What clients of the first project must send after `Bearer `.
    pub token: String,
    /// TLS with this certificate in place of plain HTTP.
    pub tls: Option<Tls>,
    /// The request budget of each project. `None` means unlimited, and no `RateLimit-*` headers.
    pub rate_limit: Option<RateLimit>,
    /// How long every request waits before it is carried out.
    pub latency: Duration,
    /// How long actions run. With zero they end before the next request is answered; with
    /// `Duration::MAX` they never end.
    pub action_duration: Duration,
    /// The first id of each kind of object; the next ones follow without gaps.
    pub first_id: u64,
    /// Where the times come from that objects show.
    pub clock: Clock,
}

impl Options {
    /// Plain HTTP, the vendor's budget, no latency, actions that end at once, the system's clock.
    #[must_use]
    pub fn new(token: impl Into<String>) -> Self {
        Self {
            token: token.into(),
            tls: None,
            rate_limit: Some(RateLimit::VENDOR),
            latency: Duration::ZERO,
            action_duration: Duration::ZERO,
            first_id: 1,
            clock: Arc::new(SystemTime::now),
        }
    }
}

/// A handle on one project of a running simulator. Clones are handles on the same one; the last handle
/// to be dropped stops the simulator.
#[derive(Clone)]
pub struct Hetzner {
    running: Arc<Running>,
    project: Arc<Mutex<Project>>,
}

struct Running {
    shared: Arc<Shared>,
    loopback: Loopback,
}

impl Hetzner {
    /// Starts a simulator on a free port of 127.0.0.1, on the current tokio runtime. The handle is one on
    /// its first project.
    ///
    /// # Errors
    ///
    /// When no port can be had, or the certificate cannot be used.
    pub async fn start(options: Options) -> Result<Self, StartError> {
        let (token, tls) = (options.token.clone(), options.tls.clone());
        let shared = Arc::new(Shared::new(options));
        let project = shared.open(token);
        let loopback = Loopback::start(Arc::clone(&shared), tls).await?;
        let running = Arc::new(Running { shared, loopback });
        Ok(Self { running, project })
    }

    /// Opens another project behind the same endpoint and returns a handle on it. It has its own token,
    /// servers, networks, ids, budget, faults and records, as the vendor's projects have; requests whose
    /// token opens no project are recorded with the first one.
    ///
    /// Ids and public addresses are 32 768 apart from those of the project before.
    #[must_use]
    pub fn project(&self, token: impl Into<String>) -> Self {
        Self {
            running: Arc::clone(&self.running),
            project: self.running.shared.open(token.into()),
        }
    }

    /// The base URL for clients: `http://127.0.0.1:PORT/v1`, with TLS `https://localhost:PORT/v1`.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("{}/v1", self.running.loopback.origin())
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.running.loopback.address()
    }

    /// The authority that clients must trust, as PEM; `None` without TLS.
    #[must_use]
    pub fn ca_pem(&self) -> Option<&str> {
        self.running.loopback.ca_pem()
    }

    /// Stops listening, drops all connections and waits until that is done. The handle stays usable
    /// for reading the records.
    pub async fn stop(&self) {
        self.running.loopback.stop().await;
    }
}
