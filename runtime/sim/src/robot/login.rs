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

/// The account's login and its failed attempts.
pub(super) struct Login {
    /// The expected text after `Basic `.
    expected: String,
    lockout: Option<Lockout>,
    failures: u32,
    shut_until: Option<SystemTime>,
}

impl Login {
    pub(super) fn new(user: &str, password: &str, lockout: Option<Lockout>) -> Self {
        Self {
            expected: encoded(user, password),
            lockout,
            failures: 0,
            shut_until: None,
        }
    }

    pub(super) fn change(&mut self, user: &str, password: &str) {
        self.expected = encoded(user, password);
    }

    /// Whether an `Authorization` header holds the right login.
    pub(super) fn fits(&self, header: Option<&str>) -> bool {
        header.and_then(|value| value.strip_prefix("Basic ")) == Some(self.expected.as_str())
    }

    /// Whether a lockout is active.
    pub(super) fn is_shut(&mut self, now: SystemTime) -> bool {
        if self.shut_until.is_some_and(|until| now >= until) {
            self.shut_until = None;
            self.failures = 0;
        }
        self.shut_until.is_some()
    }

    /// Counts a login attempt.
    pub(super) fn count(&mut self, fits: bool, now: SystemTime) {
        self.failures = if fits {
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

fn encoded(user: &str, password: &str) -> String {
    STANDARD.encode(format!("{user}:{password}"))
}
