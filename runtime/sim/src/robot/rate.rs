//! Request limits of an account: a maximum number in a sliding interval, counted per kind of call.
//!
//! The vendor documents a number for each call, not whether calls share one; here the calls of one method on one
//! collection do, which is the stricter reading.

use std::collections::VecDeque;
use std::time::{Duration, SystemTime};

/// A maximum number of requests in an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// The number of requests.
    pub max_request: u32,
    /// The length of the sliding interval.
    pub interval: Duration,
}

impl RateLimit {
    /// A limit of this number of requests per hour.
    #[must_use]
    pub const fn hourly(max_request: u32) -> Self {
        Self {
            max_request,
            interval: Duration::from_secs(3600),
        }
    }
}

/// The limits of an account, one for each kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimits {
    /// Lists and reads of servers.
    pub server_reads: RateLimit,
    /// Requests that rename servers.
    pub server_writes: RateLimit,
    /// Lists and reads of reset options.
    pub reset_reads: RateLimit,
    /// Requests that reset servers.
    pub reset_writes: RateLimit,
}

impl RateLimits {
    /// The vendor's limits per hour: 200 requests about servers, 500 for reset options, 50 resets.
    pub const VENDOR: Self = Self {
        server_reads: RateLimit::hourly(200),
        server_writes: RateLimit::hourly(200),
        reset_reads: RateLimit::hourly(500),
        reset_writes: RateLimit::hourly(50),
    };

    /// The same limit for each kind of call.
    #[must_use]
    pub const fn each(limit: RateLimit) -> Self {
        Self {
            server_reads: limit,
            server_writes: limit,
            reset_reads: limit,
            reset_writes: limit,
        }
    }

    fn of(&self, kind: CallKind) -> RateLimit {
        match kind {
            CallKind::ServerRead => self.server_reads,
            CallKind::ServerWrite => self.server_writes,
            CallKind::ResetRead => self.reset_reads,
            CallKind::ResetWrite => self.reset_writes,
        }
    }
}

/// The calls that share a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallKind {
    ServerRead,
    ServerWrite,
    ResetRead,
    ResetWrite,
}

impl CallKind {
    /// The kind of a call, by its access and its path.
    pub(super) fn of(writes: bool, path: &str) -> Self {
        match (writes, path.starts_with("/reset")) {
            (false, false) => Self::ServerRead,
            (true, false) => Self::ServerWrite,
            (false, true) => Self::ResetRead,
            (true, true) => Self::ResetWrite,
        }
    }
}

/// The requests within the current intervals.
pub(super) struct Windows {
    limits: RateLimits,
    counted: VecDeque<(SystemTime, CallKind)>,
}

impl Windows {
    pub(super) fn new(limits: RateLimits) -> Self {
        Self {
            limits,
            counted: VecDeque::new(),
        }
    }

    /// Counts a request.
    ///
    /// # Errors
    ///
    /// The limit, if it is reached. A refused request does not count.
    pub(super) fn take(&mut self, kind: CallKind, now: SystemTime) -> Result<(), RateLimit> {
        let Self { limits, counted } = self;
        counted.retain(|(at, kind)| {
            // If the clock was set back, the request stays counted.
            let age = now.duration_since(*at).unwrap_or_default();
            age < limits.of(*kind).interval
        });
        let limit = limits.of(kind);
        let used = counted.iter().filter(|(_, counted)| *counted == kind);
        if used.count() as u64 >= u64::from(limit.max_request) {
            return Err(limit);
        }
        counted.push_back((now, kind));
        Ok(())
    }
}
