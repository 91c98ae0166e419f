//! A stateful Hetzner Cloud API on loopback, for the demo and the tests.
//!
//! It responds with the vendor's objects, envelopes, paging, actions and rate-limit headers (API reference:
//! <https://docs.hetzner.cloud>), over HTTP or TLS. Faults are injected by the caller, and every request is recorded.
//! The same requests in the same order give the same state: IDs come from counters, addresses from the order of
//! creation, and only displayed times come from a clock, which the caller may supply.
//!
//! It listens only on 127.0.0.1 and never contacts another server.
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
mod load_balancer_service_body;
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
mod server_types;
mod servers;
mod world;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;

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
pub use loopback::{Clock, RateLimit, Request, StartError, Tls, TlsError};
pub use objects::{ServerSpec, ServerStatus};
pub use server_types::ServerType;

/// The vendor's budget: 3600 requests, refilled at one per second.
pub const VENDOR_LIMIT: RateLimit = RateLimit {
    limit: 3600,
    refill_every: Duration::from_secs(1),
};

/// Options of a simulator. Start from [`Options::new`] and change what matters.
///
/// There is no `Debug`: clients must keep the token secret, even if it opens nothing real.
#[derive(Clone)]
pub struct Options {
    /// The bearer token of the first project.
    pub token: String,
    /// Serves TLS with this certificate instead of plain HTTP.
    pub tls: Option<Tls>,
    /// The request budget of each project. `None`: unlimited, without `RateLimit-*` headers.
    pub rate_limit: Option<RateLimit>,
    /// Delay before each request is executed.
    pub latency: Duration,
    /// Duration of actions. With zero they end before the next request is answered; with `Duration::MAX` they never
    /// end.
    pub action_duration: Duration,
    /// The first ID of each kind of object; IDs continue without gaps.
    pub first_id: u64,
    /// Source of the displayed times.
    pub clock: Clock,
}

impl Options {
    /// Plain HTTP, the vendor's budget, no latency, actions that end at once, the system clock.
    #[must_use]
    pub fn new(token: impl Into<String>) -> Self {
        Self {
            token: token.into(),
            tls: None,
            rate_limit: Some(VENDOR_LIMIT),
            latency: Duration::ZERO,
            action_duration: Duration::ZERO,
            first_id: 1,
            clock: Arc::new(SystemTime::now),
        }
    }
}

/// A handle on one project of a running simulator. Clones share it; dropping the last handle stops the simulator.
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
    /// Starts a simulator on a free port of 127.0.0.1, on the current tokio runtime. Returns a handle on its first
    /// project.
    ///
    /// # Errors
    ///
    /// No port is available, or the certificate is unusable.
    pub async fn start(options: Options) -> Result<Self, StartError> {
        let (token, tls) = (options.token.clone(), options.tls.clone());
        let shared = Arc::new(Shared::new(options));
        let project = shared.open(token);
        let loopback = Loopback::start(Arc::clone(&shared), tls).await?;
        let running = Arc::new(Running { shared, loopback });
        Ok(Self { running, project })
    }

    /// Opens another project behind the same endpoint and returns a handle on it. It has its own token, servers,
    /// networks, IDs, budget, faults and records, as the vendor's projects do; requests whose token opens no project
    /// are recorded with the first one.
    ///
    /// IDs and public addresses are 32 768 apart from those of the previous project.
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

    /// The address it listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.running.loopback.address()
    }

    /// The CA that clients must trust, as PEM; `None` without TLS.
    #[must_use]
    pub fn ca_pem(&self) -> Option<&str> {
        self.running.loopback.ca_pem()
    }

    /// Stops listening, drops all connections and waits until that is done. The records remain readable.
    pub async fn stop(&self) {
        self.running.loopback.stop().await;
    }
}
