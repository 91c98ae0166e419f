//! How long this process may act: while it holds the Lease. The Lease renewer writes the tenure; every request sender
//! reads it, on every thread and without a lock. Reads no clock: the moment is an argument.
//!
//! Two limits, both counted from when the last successful renewal was *sent*, because the other replicas count from
//! when they observed it, which is later: no request begins after `renewDeadline`, and none is waited for longer than
//! `leaseDuration`. Between the two no replica begins anything.
//!
//! A tenure ends in two steps. After [`Tenure::end`] nothing begins, but requests already begun are still written: a
//! stopping process finishes them while it keeps renewing the Lease. After [`Tenure::close`] no further byte is
//! written: the Lease is lost.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::moment::Moment;

/// The two deadlines and the two end flags, as atomics.
#[derive(Default)]
pub struct Tenure {
    /// Nanoseconds on the clock of [`Moment`]: no request begins later.
    begins_until: AtomicU64,
    /// Nanoseconds on the clock of [`Moment`]: every request is over by then.
    ends: AtomicU64,
    /// Set by [`Tenure::end`]; never reset.
    is_over: AtomicBool,
    /// Set by [`Tenure::close`]; never reset.
    is_closed: AtomicBool,
}

impl Tenure {
    /// Without limits: for processes without leader election, and for tests.
    pub fn unlimited() -> Tenure {
        Tenure {
            begins_until: AtomicU64::new(u64::MAX),
            ends: AtomicU64::new(u64::MAX),
            ..Tenure::default()
        }
    }

    /// For a process that does not hold the Lease yet: nothing may begin.
    pub fn pending() -> Tenure {
        Tenure::default()
    }

    /// The Lease was renewed by a request sent at `sent`. Never shortens what was granted before.
    pub fn renewed(&self, sent: Moment, renew_deadline: Duration, lease_duration: Duration) {
        // Order matters: the end is stored first, so that a request that may begin never sees the old end.
        self.ends
            .fetch_max(nanos(sent.after(lease_duration)), Ordering::AcqRel);
        self.begins_until
            .fetch_max(nanos(sent.after(renew_deadline)), Ordering::AcqRel);
    }

    /// The process is stopping: nothing new begins, requests already begun may finish. Irreversible.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Release);
    }

    /// The Lease is lost or released: nothing begins, and requests already begun are not written any further.
    /// Irreversible.
    pub fn close(&self) {
        self.end();
        self.is_closed.store(true, Ordering::Release);
    }

    /// Whether a request may begin at `now`.
    pub fn may_begin(&self, now: Moment) -> bool {
        !self.is_over() && nanos(now) <= self.begins_until.load(Ordering::Acquire)
    }

    /// Whether bytes of a request may be written at `now`. Checked where they are handed to the operating system: a
    /// request that waited for its connection until the deadline passed never reaches the server.
    pub fn may_write(&self, now: Moment) -> bool {
        !self.is_closed() && nanos(now) <= self.begins_until.load(Ordering::Acquire)
    }

    /// Whether [`Tenure::end`] or [`Tenure::close`] was called.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Whether [`Tenure::close`] was called.
    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// The last moment at which a request may begin, as of now. A renewal moves it.
    pub fn begins_until(&self) -> Moment {
        Moment(Duration::from_nanos(
            self.begins_until.load(Ordering::Acquire),
        ))
    }

    /// The moment by which every request has to be over.
    pub fn ends(&self) -> Moment {
        Moment(Duration::from_nanos(self.ends.load(Ordering::Acquire)))
    }
}

impl fmt::Debug for Tenure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tenure")
            .field("ends", &self.ends())
            .field("is_over", &self.is_over())
            .field("is_closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}

/// Saturates; a `u64` holds 584 years in nanoseconds.
fn nanos(moment: Moment) -> u64 {
    u64::try_from(moment.0.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RENEW: Duration = Duration::from_secs(10);
    const LEASE: Duration = Duration::from_secs(15);

    fn at(seconds: u64) -> Moment {
        Moment(Duration::from_secs(seconds))
    }

    #[test]
    fn nothing_begins_before_the_lease_is_held_nor_after_the_renew_deadline() {
        let tenure = Tenure::pending();
        assert!(!tenure.may_begin(at(1)));
        tenure.renewed(at(100), RENEW, LEASE);
        assert!(tenure.may_begin(at(100)));
        assert!(tenure.may_begin(at(110)));
        assert!(!tenure.may_begin(at(111)));
        assert_eq!(tenure.ends(), at(115));
    }

    #[test]
    fn an_answer_that_arrives_late_shortens_nothing() {
        let tenure = Tenure::pending();
        tenure.renewed(at(102), RENEW, LEASE);
        tenure.renewed(at(100), RENEW, LEASE);
        assert!(tenure.may_begin(at(112)));
    }

    #[test]
    fn what_was_begun_before_the_end_is_written_as_long_as_the_lease_is_renewed() {
        let tenure = Tenure::pending();
        assert!(!tenure.may_write(at(1)));
        tenure.renewed(at(100), RENEW, LEASE);
        tenure.end();
        assert!(!tenure.may_begin(at(105)));
        assert!(tenure.may_write(at(105)));
        assert!(!tenure.may_write(at(111)));
        tenure.renewed(at(108), RENEW, LEASE);
        assert!(tenure.may_write(at(111)));
        assert!(!tenure.may_begin(at(111)));
    }

    #[test]
    fn nothing_is_written_once_it_is_closed() {
        let tenure = Tenure::unlimited();
        assert!(tenure.may_write(at(1)));
        tenure.close();
        assert!(!tenure.may_write(at(1)));
        assert!(tenure.is_over());
        tenure.renewed(at(2), RENEW, LEASE);
        assert!(!tenure.may_write(at(2)));
    }

    #[test]
    fn what_has_ended_does_not_come_back() {
        let tenure = Tenure::unlimited();
        assert!(tenure.may_begin(at(1_000_000)));
        tenure.end();
        tenure.renewed(at(2_000_000), RENEW, LEASE);
        assert!(!tenure.may_begin(at(2_000_001)));
    }
}
