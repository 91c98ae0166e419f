//! A stateful simulator of Hetzner's Robot web service (dedicated servers) on loopback, for the tests.
//!
//! It answers with the vendor's objects, envelopes and error codes (reference:
//! <https://robot.hetzner.com/doc/webservice/en.html>): the lists and reads of servers and of their
//! reset options, renaming and resetting. Like the vendor it takes HTTP basic authentication, counts
//! requests against hourly limits, and shuts an address out after failed logins. Faults are injected on
//! purpose, and every request is recorded. Addresses come from the order of creation, and time only
//! from the clock that the caller may give.
//!
//! It never listens anywhere but on 127.0.0.1, and it never asks another server for anything.
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

/// How a simulator is set up. Start from [`Options::new`] and change what matters.
///
/// There is no `Debug`: the password is one a client must keep secret, even if it opens nothing real.
#[derive(Clone)]
pub struct Options {
    /// The web service user, at the vendor `#ws+` and eight characters.
    pub user: String,
    /// The user's password.
    pub password: String,
    /// TLS with this certificate in place of plain HTTP.
    pub tls: Option<Tls>,
    /// How many requests are answered in which time. `None` means any number.
    pub rate_limits: Option<RateLimits>,
    /// When failed logins shut the client out. `None` means never.
    pub lockout: Option<Lockout>,
    /// How long every request waits before it is carried out.
    pub latency: Duration,
    /// What rate limits and lockouts are measured with.
    pub clock: Clock,
}

impl Options {
    /// Plain HTTP, the vendor's limits and lockout, no latency, the system's clock.
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

/// A handle on a running simulator. Clones are handles on the same one; the last one to be dropped
/// stops it.
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
    /// When no port can be had, or the certificate cannot be used.
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

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.loopback.address()
    }

    /// The authority that clients must trust, as PEM; `None` without TLS.
    #[must_use]
    pub fn ca_pem(&self) -> Option<&str> {
        self.loopback.ca_pem()
    }

    /// Stops listening, drops all connections and waits until that is done. The handle stays usable
    /// for reading the records.
    pub async fn stop(&self) {
        self.loopback.stop().await;
    }
}
