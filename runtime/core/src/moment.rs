//! Moments and the clocks that they are on. Reads no clock: callers pass the moment in.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Deserializer};

/// A moment on a monotonic clock that goes on during suspend (Linux: `CLOCK_BOOTTIME`), counted from an unspecified
/// start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub Duration);

impl Moment {
    /// The moment `duration` later; saturates.
    pub fn after(self, duration: Duration) -> Moment {
        Moment(self.0.saturating_add(duration))
    }

    /// The time from `self` to `later`; zero if `later` has passed.
    pub fn until(self, later: Moment) -> Duration {
        later.0.saturating_sub(self.0)
    }
}

/// A duration as people want to read it: whole milliseconds below one second, tenths below ten, seconds above.
pub fn rounded(duration: Duration) -> Duration {
    let step = match duration {
        short if short < Duration::from_secs(1) => Duration::from_millis(1),
        middle if middle < Duration::from_secs(10) => Duration::from_millis(100),
        _ => Duration::from_secs(1),
    };
    let steps = duration.saturating_add(step / 2).as_millis() / step.as_millis();
    let steps = u32::try_from(steps).unwrap_or(u32::MAX);
    step.saturating_mul(steps)
}

/// A date in the form of RFC 3339 and in whole seconds, as the API server has it.
pub fn rfc3339(date: Timestamp) -> String {
    date.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A time of an API object. Kubernetes stores times up to the end of the year 9999, of which the last two days cannot be
/// represented. They are none: an error would keep the whole list that has the object from being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredTime(Option<Timestamp>);

impl StoredTime {
    /// The time, if it can be represented.
    pub fn time(self) -> Option<Time> {
        self.0.map(Time)
    }
}

impl<'de> Deserialize<'de> for StoredTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<StoredTime, D::Error> {
        let text = String::deserialize(deserializer)?;
        Ok(StoredTime(text.parse().ok()))
    }
}

/// The moment of a decision, on both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// The monotonic clock: for everything but ages and dates.
    pub moment: Moment,
    /// The wall clock: for ages and dates only.
    pub wall: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_read_is_rounded() {
        for (exact, shown) in [
            (Duration::ZERO, "0ns"),
            (Duration::from_micros(400), "0ns"),
            (Duration::from_micros(52_341), "52ms"),
            (Duration::from_millis(5), "5ms"),
            (Duration::from_micros(999_700), "1s"),
            (Duration::from_millis(1_449), "1.4s"),
            (Duration::from_millis(8_990), "9s"),
            (Duration::from_nanos(29_956_349_593), "30s"),
            (Duration::from_secs(300), "300s"),
        ] {
            assert_eq!(format!("{:?}", rounded(exact)), shown, "{exact:?}");
        }
        assert!(rounded(Duration::MAX) >= Duration::from_secs(u32::MAX.into()));
    }
}
