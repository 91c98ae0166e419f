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
mod api;
mod attachments;
mod certificates;
mod control;
mod exchange;
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

use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use loopback::{Cloud, Tenant, bearer};
use world::World;

use crate::loopback;

pub use control::ControlError;
pub use load_balancer_objects::{
    Algorithm, HealthCheck, HttpCheck, HttpOptions, LoadBalancerSpec, Protocol, Service, Target,
};
pub use load_balancer_state::Locking;
pub use load_balancer_types::{LoadBalancerType, Offer};
pub use locations::Location;
pub use loopback::{Clock, Fault, Handle, RateLimit, Request, StartError, Tls, TlsError, Trouble};
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
    handle: Handle,
    project: Arc<Tenant<World>>,
    cloud: Arc<Cloud<World>>,
    options: Options,
}

impl Hetzner {
    /// Starts a simulator on a free port of 127.0.0.1, on the current tokio runtime. Returns a handle on its first
    /// project.
    ///
    /// # Errors
    ///
    /// No port is available, or the certificate is unusable.
    pub async fn start(options: Options) -> Result<Self, StartError> {
        let clock = Arc::clone(&options.clock);
        let cloud = Arc::new(Cloud::new(options.rate_limit, options.latency, clock));
        let project = cloud.open(bearer(&options.token), |number| {
            World::new(number, &options)
        });
        let handle = Handle::start(Arc::clone(&cloud), &project, options.tls.clone()).await?;
        Ok(Self {
            handle,
            project,
            cloud,
            options,
        })
    }

    /// Opens another project behind the same endpoint and returns a handle on it. It has its own token, servers,
    /// networks, IDs, budget, faults and records, as the vendor's projects do; requests whose token opens no project
    /// are recorded with the first one.
    ///
    /// IDs and public addresses are 32 768 apart from those of the previous project.
    #[must_use]
    pub fn project(&self, token: &str) -> Self {
        let state = |number| World::new(number, &self.options);
        let project = self.cloud.open(bearer(token), state);
        Self {
            handle: self.handle.on(&project),
            project,
            ..self.clone()
        }
    }
}

impl Deref for Hetzner {
    type Target = Handle;

    fn deref(&self) -> &Handle {
        &self.handle
    }
}
