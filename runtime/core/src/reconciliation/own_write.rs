//! Read-your-writes: recognises a cached object that is older than this process's last write to it, from which the
//! controllers would repeat work.

use std::time::Duration;

use crate::moment::Moment;

/// How long a cached object older than our own write is not believed. After that it is: an etcd restored from a backup
/// stays behind for good.
const CATCH_UP: Duration = Duration::from_secs(10);

/// The last write of this process to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnWrite {
    version: u64,
    at: Moment,
}

impl OwnWrite {
    /// The write that the API server answered at `now` with an object of this resource version. `None`: its resource version
    /// is not a number, so that nothing can be compared with it.
    pub fn new(answered: &str, now: Moment) -> Option<OwnWrite> {
        let version = version(answered)?;
        Some(OwnWrite { version, at: now })
    }

    /// Whether the cached object is from before the write. An object without a numeric resource version never is.
    pub fn is_newer_than(&self, cached: &str) -> bool {
        version(cached).is_some_and(|cached| cached < self.version)
    }

    /// When an object from before the write is believed.
    pub fn expires_at(&self) -> Moment {
        self.at.after(CATCH_UP)
    }
}

/// The resource version as a number, which Kubernetes permits since 1.35.
pub fn version(resource_version: &str) -> Option<u64> {
    resource_version.parse().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn only_numbers_are_compared() {
        let now = Moment(Duration::from_secs(100));
        let written = OwnWrite::new("10", now).unwrap();
        assert!(written.is_newer_than("9"));
        for cached in ["10", "11", "x", ""] {
            assert!(!written.is_newer_than(cached), "{cached}");
        }
        assert_eq!(written.expires_at(), Moment(Duration::from_secs(110)));
        assert_eq!(OwnWrite::new("x", now), None);
    }
}
