//! The oldest version that may run: an old one with a known hole stays signed for ever.

use semver::Version;

use super::{Distrust, Misread, Provenance};

/// The oldest version that may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MinimumVersion(Version);

impl MinimumVersion {
    /// Reads a version like `1.2.3` or `1.2.3-rc.1`.
    ///
    /// # Errors
    /// When it is something else.
    pub fn parse(text: &str) -> Result<MinimumVersion, Misread> {
        Version::parse(text)
            .map(MinimumVersion)
            .map_err(|why| Misread::new(format!("a version is written like 1.2.3: {why}")))
    }

    /// Compares by precedence: a candidate for 1.2.3 is older than 1.2.3, and what was built is not looked at.
    pub(super) fn check(
        &self,
        version: &str,
        provenance: Provenance,
    ) -> Result<Provenance, Distrust> {
        let found = Version::parse(version).map_err(|_| Distrust::VersionUnreadable {
            version: version.to_owned(),
        })?;
        if found.cmp_precedence(&self.0).is_lt() {
            return Err(Distrust::TooOld {
                version: version.to_owned(),
                minimum: self.0.to_string(),
                provenance,
            });
        }
        Ok(provenance)
    }
}
