//! Version limits: an old version with a known vulnerability keeps its valid signature for ever.

use ccm_core::rollout::Endorsement;
use semver::Version;

use super::{Distrust, Misread, Provenance};

/// The oldest version that may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MinimumVersion(Version);

impl MinimumVersion {
    /// Parses a version like `1.2.3` or `1.2.3-rc.1`.
    ///
    /// # Errors
    /// The text has another form.
    pub fn parse(text: &str) -> Result<MinimumVersion, Misread> {
        Version::parse(text)
            .map(MinimumVersion)
            .map_err(|why| Misread::new(format!("a version is written like 1.2.3: {why}")))
    }

    /// Compares by precedence: a release candidate of 1.2.3 is older than 1.2.3, and build metadata is ignored.
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
            });
        }
        Ok(provenance)
    }
}

/// The highest version that has served.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Highest(Option<Version>);

impl Highest {
    /// Parses the recorded text. An invalid version counts as none.
    pub fn read(text: Option<&str>) -> Highest {
        Highest(text.and_then(|text| Version::parse(text).ok()))
    }

    /// The text to record.
    pub fn write(&self) -> Option<String> {
        self.0.as_ref().map(ToString::to_string)
    }

    /// The highest version once this one has served under the endorsement `word`. A lower version may serve only if it
    /// is endorsed; it becomes the highest then, unless it is endorsed only as the recorded active version.
    ///
    /// # Errors
    /// It may not serve: [`Distrust::Downgrade`].
    pub(super) fn followed_by(
        &self,
        version: &str,
        word: Endorsement,
    ) -> Result<Highest, Distrust> {
        let found = Version::parse(version).ok();
        let is_lower = self.0.as_ref().is_some_and(|highest| {
            let found = found.as_ref();
            found.is_none_or(|found| found.cmp_precedence(highest).is_lt())
        });
        match word {
            Endorsement::Unendorsed if is_lower => Err(Distrust::Downgrade {
                version: version.to_owned(),
                highest: self.write().unwrap_or_default(),
            }),
            Endorsement::Recorded if is_lower => Ok(self.clone()),
            _ => Ok(Highest(found.or_else(|| self.0.clone()))),
        }
    }
}
