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
//! let refusal = Trouble::TooManyRequests { retry_after: None };
//! robot.inject(Fault::new(refusal).path("/server").every(2));
//! // Every second request of a client of `robot.endpoint()` is now one too many.
//! # let _ = number;
//! # Ok(())
//! # }
//! ```

mod api;
mod control;
mod exchange;
mod login;
mod rate;
mod resets;
mod servers;

use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use exchange::State;
use login::basic;
use loopback::{Cloud, Tenant};

use crate::loopback;

pub use login::Lockout;
pub use loopback::{Clock, Fault, Handle, Request, StartError, Tls, TlsError, Trouble};
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
    handle: Handle,
    account: Arc<Tenant<State>>,
}

impl Robot {
    /// Starts a simulator on a free port of 127.0.0.1, on the current tokio runtime.
    ///
    /// # Errors
    ///
    /// No port is available, or the certificate is unusable.
    pub async fn start(options: Options) -> Result<Self, StartError> {
        let clock = Arc::clone(&options.clock);
        let cloud = Arc::new(Cloud::new(None, options.latency, clock));
        let login = basic(&options.user, &options.password);
        let account = cloud.open(login, |_| State::new(&options));
        let handle = Handle::start(cloud, &account, options.tls).await?;
        Ok(Self { handle, account })
    }
}

impl Deref for Robot {
    type Target = Handle;

    fn deref(&self) -> &Handle {
        &self.handle
    }
}
