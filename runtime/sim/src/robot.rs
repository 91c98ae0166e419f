//! A stateful simulator of Hetzner's Robot web service (dedicated servers) on loopback, for the tests.
//!
//! It responds with the vendor's objects, envelopes and error codes (reference:
//! <https://robot.hetzner.com/doc/webservice/en.html>): lists and reads of servers and of their reset options, renaming
//! and resetting. Like the vendor it uses HTTP basic authentication, counts requests against hourly limits, and blocks
//! a client after failed logins. Faults are injected by the caller, and every request is recorded. Addresses come from
//! the order of creation, and time only from the clock, which the caller may supply.
//!
//! It listens only on 127.0.0.1 and never contacts another server.
//!
//! ```no_run
//! # async fn example() -> Result<(), ccm_sim::robot::StartError> {
//! use ccm_sim::robot::{Fault, Options, Robot, ServerSpec, Trouble};
//!
//! let robot = Robot::start(Options::new("#ws+user", "password")).await?;
//! let number = robot.add_server(ServerSpec::named("bare-1"));
//! robot.inject(Fault::new(Trouble::RateLimited).path("/server").every(2));
//! // Every second request of a client of `robot.endpoint()` is now one too many.
//! # let _ = number;
//! # Ok(())
//! # }
//! ```

mod api;
mod control;
mod exchange;
mod faults;
mod login;
mod rate;
mod resets;
mod servers;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use exchange::Shared;
use loopback::Loopback;

use crate::loopback;

pub use faults::{Fault, Trouble};
pub use login::Lockout;
pub use loopback::{Clock, Request, StartError, Tls, TlsError};
pub use rate::{RateLimit, RateLimits};
pub use resets::{OperatingStatus, ResetType};
pub use servers::{ServerSpec, ServerStatus};

/// Options of a simulator. Start from [`Options::new`] and change what matters.
///
/// There is no `Debug`: clients must keep the password secret, even if it opens nothing real.
#[derive(Clone)]
pub struct Options {
    /// The web service user; at the vendor `#ws+` and eight characters.
    pub user: String,
    /// The password of that user.
    pub password: String,
    /// Serves TLS with this certificate instead of plain HTTP.
    pub tls: Option<Tls>,
    /// The request limits. `None`: unlimited.
    pub rate_limits: Option<RateLimits>,
    /// The lockout after failed logins. `None`: never.
    pub lockout: Option<Lockout>,
    /// Delay before each request is executed.
    pub latency: Duration,
    /// The clock for rate limits and lockouts.
    pub clock: Clock,
}

impl Options {
    /// Plain HTTP, the vendor's limits and lockout, no latency, the system clock.
    #[must_use]
    pub fn new(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self {
            user: user.into(),
            password: password.into(),
            tls: None,
            rate_limits: Some(RateLimits::VENDOR),
            lockout: Some(Lockout::VENDOR),
            latency: Duration::ZERO,
            clock: Arc::new(SystemTime::now),
        }
    }
}

/// A handle on a running simulator. Clones share it; dropping the last handle stops the simulator.
#[derive(Clone)]
pub struct Robot {
    shared: Arc<Shared>,
    loopback: Arc<Loopback>,
}

impl Robot {
    /// Starts a simulator on a free port of 127.0.0.1, on the current tokio runtime.
    ///
    /// # Errors
    ///
    /// No port is available, or the certificate is unusable.
    pub async fn start(options: Options) -> Result<Self, StartError> {
        let tls = options.tls.clone();
        let shared = Arc::new(Shared::new(options));
        let loopback = Loopback::start(Arc::clone(&shared), tls).await?;
        Ok(Self {
            shared,
            loopback: Arc::new(loopback),
        })
    }

    /// The base URL for clients: `http://127.0.0.1:PORT`, with TLS `https://localhost:PORT`.
    #[must_use]
    pub fn endpoint(&self) -> String {
        self.loopback.origin()
    }

    /// The address it listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.loopback.address()
    }

    /// The CA that clients must trust, as PEM; `None` without TLS.
    #[must_use]
    pub fn ca_pem(&self) -> Option<&str> {
        self.loopback.ca_pem()
    }

    /// Stops listening, drops all connections and waits until that is done. The records remain readable.
    pub async fn stop(&self) {
        self.loopback.stop().await;
    }
}
