//! The record that other processes write into a Lease, and how long it is valid. Compares no timestamps of the record:
//! it ends when it has not changed for the duration that it states, counted from when it was first seen.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::LeaseSpec;

use super::holder;
use crate::moment::Moment;

/// The record of a Lease, and when it was first seen in this form.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    record: LeaseSpec,
    since: Moment,
}

impl Observation {
    /// `record`, seen for the first time.
    pub fn new(record: LeaseSpec, now: Moment) -> Observation {
        Observation { record, since: now }
    }

    /// Only a changed record restarts the clock.
    pub fn see(&mut self, record: LeaseSpec, now: Moment) {
        if self.record != record {
            *self = Observation::new(record, now);
        }
    }

    /// The record as it was seen last.
    pub fn record(&self) -> &LeaseSpec {
        &self.record
    }

    /// The holder of the Lease; `""` if it has none.
    pub fn holder(&self) -> &str {
        holder(&self.record)
    }

    /// When the Lease ends unless it is renewed before; `unstated` applies if the record states no duration.
    pub fn ends(&self, unstated: Duration) -> Moment {
        let seconds = self.record.lease_duration_seconds;
        let lasts = seconds.map_or(unstated, |seconds| {
            Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
        });
        self.since.after(lasts)
    }
}
