//! HTTP basic authentication and the lockout after failed logins.

use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The lockout after failed logins. The vendor blocks the IP address; here all clients share one, and their connections
/// are reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lockout {
    /// Number of consecutive failed logins that causes a lockout.
    pub failures: u32,
    /// Duration of the lockout.
    pub duration: Duration,
}

impl Lockout {
    /// The vendor's lockout: ten minutes after three failed logins.
    pub const VENDOR: Self = Self {
        failures: 3,
        duration: Duration::from_secs(600),
    };
}

/// The failed logins of all clients.
pub(super) struct FailedLogins {
    lockout: Option<Lockout>,
    failures: u32,
    shut_until: Option<SystemTime>,
}

impl FailedLogins {
    pub(super) fn new(lockout: Option<Lockout>) -> Self {
        Self {
            lockout,
            failures: 0,
            shut_until: None,
        }
    }

    /// Whether a lockout is active.
    pub(super) fn is_locked_out(&mut self, now: SystemTime) -> bool {
        if self.shut_until.is_some_and(|until| now >= until) {
            self.shut_until = None;
            self.failures = 0;
        }
        self.shut_until.is_some()
    }

    /// Counts a login attempt.
    pub(super) fn count(&mut self, is_valid: bool, now: SystemTime) {
        self.failures = if is_valid {
            0
        } else {
            self.failures.saturating_add(1)
        };
        let Some(lockout) = self.lockout else { return };
        if self.failures >= lockout.failures {
            self.shut_until = now.checked_add(lockout.duration);
        }
    }
}

/// The `Authorization` header of a client with this login.
pub(super) fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
}
