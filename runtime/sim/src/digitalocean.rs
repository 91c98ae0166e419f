//! A stateful simulator of the DigitalOcean API on loopback, for the tests.
//!
//! It responds with the vendor's objects, envelopes, paging and rate-limit headers (API reference:
//! <https://docs.digitalocean.com/reference/api>): droplets, load balancers whose creation and changes take time,
//! certificates, tags, and the objects that load balancers refer to (regions, VPCs, the project). Faults are injected by
//! the caller, and every request is recorded. The same requests in the same order give the same state.
//!
//! It listens only on 127.0.0.1 and never contacts another server.
//!
//! ```no_run
//! # async fn example() -> Result<(), ccm_sim::digitalocean::StartError> {
//! use ccm_sim::digitalocean::{DigitalOcean, DropletSpec, Fault, Options, Trouble};
//!
//! let cloud = DigitalOcean::start(Options::new("token")).await?;
//! let id = cloud.add_droplet(DropletSpec::named("node-1"));
//! cloud.inject(Fault::new(Trouble::ResetAfter).path("/v2/droplets").times(1));
//! // A client of `cloud.endpoint()` now loses its first answer about droplets.
//! assert!(cloud.requests().is_empty());
//! # let _ = id;
//! # Ok(())
//! # }
//! ```

mod account;
mod api;
mod certificates;
mod control;
mod droplets;
mod exchange;
mod load_balancer_body;
mod load_balancers;
mod places;
mod tags;

use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use account::Account;
use loopback::{Cloud, Tenant, bearer};

use crate::loopback;

pub use droplets::{DropletSpec, DropletStatus};
pub use loopback::{Clock, Fault, Handle, RateLimit, Request, StartError, Tls, TlsError, Trouble};

/// The vendor's budget: 5000 requests an hour.
pub const VENDOR_LIMIT: RateLimit = RateLimit {
    limit: 5000,
    refill_every: Duration::from_millis(720),
};

/// Options of a simulator. Start from [`Options::new`] and change what matters.
///
/// There is no `Debug`: clients must keep the token secret, even if it opens nothing real.
#[derive(Clone)]
pub struct Options {
    /// The bearer token of the account.
    pub token: String,
    /// Serves TLS with this certificate instead of plain HTTP.
    pub tls: Option<Tls>,
    /// The request budget. `None`: unlimited, without `ratelimit-*` headers.
    pub rate_limit: Option<RateLimit>,
    /// Delay before each request is executed.
    pub latency: Duration,
    /// How long a load balancer is `new` after its creation. With zero it is active in the next request.
    pub creation: Duration,
    /// How long a load balancer refuses changes after a change.
    pub change: Duration,
    /// Source of the displayed times.
    pub clock: Clock,
}

impl Options {
    /// Plain HTTP, the vendor's budget, no latency, creations and changes that end at once, the system clock.
    #[must_use]
    pub fn new(token: impl Into<String>) -> Self {
        Self {
            token: token.into(),
            tls: None,
            rate_limit: Some(VENDOR_LIMIT),
            latency: Duration::ZERO,
            creation: Duration::ZERO,
            change: Duration::ZERO,
            clock: Arc::new(SystemTime::now),
        }
    }
}

/// A handle on a running simulator. Clones share it; dropping the last handle stops the simulator. Its endpoint is without
/// the `/v2` of all paths.
#[derive(Clone)]
pub struct DigitalOcean {
    handle: Handle,
    account: Arc<Tenant<Account>>,
}

impl DigitalOcean {
    /// Starts a simulator on a free port of 127.0.0.1, on the current tokio runtime.
    ///
    /// # Errors
    ///
    /// No port is available, or the certificate is unusable.
    pub async fn start(options: Options) -> Result<Self, StartError> {
        let clock = Arc::clone(&options.clock);
        let cloud = Arc::new(Cloud::new(options.rate_limit, options.latency, clock));
        let account = cloud.open(bearer(&options.token), |_| Account::new(&options));
        let handle = Handle::start(cloud, &account, options.tls).await?;
        Ok(Self { handle, account })
    }
}

impl Deref for DigitalOcean {
    type Target = Handle;

    fn deref(&self) -> &Handle {
        &self.handle
    }
}
