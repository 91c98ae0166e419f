//! Tracks the API server's refusals in one reconciliation of one object, and what follows: the object is read again, or
//! the reconciliation has failed. Decides nothing else, and stores no object.

use crate::reconciliation::effect::ClusterError;

/// Refusals so far. After `MOST_CONFLICTS` conflicts the reconciliation fails and is retried later.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Refusals<const MOST_CONFLICTS: u32> {
    conflicts: u32,
    has_to_read_again: bool,
    /// A rejection that counts only if the object turns out to be the same one after a read.
    unconfirmed: Option<ClusterError>,
    trouble: Option<ClusterError>,
}

impl<const MOST_CONFLICTS: u32> Refusals<MOST_CONFLICTS> {
    /// The known state does not suffice: read the object before anything else.
    pub(crate) fn read_first(&mut self) {
        self.has_to_read_again = true;
    }

    /// A write failed, or its result is unknown.
    pub(crate) fn write_failed(&mut self, error: ClusterError) {
        match error {
            ClusterError::Conflict(_) if self.conflicts < MOST_CONFLICTS => {
                self.conflicts += 1;
                self.has_to_read_again = true;
            }
            // A patch with an outdated UID is rejected, too: read the object before believing the rejection.
            ClusterError::Rejected(_) => {
                self.unconfirmed = Some(error);
                self.has_to_read_again = true;
            }
            ClusterError::Conflict(_)
            | ClusterError::Denied(_)
            | ClusterError::Unavailable(_)
            | ClusterError::Busy { .. } => self.fail(error),
        }
    }

    /// The object could not be read.
    pub(crate) fn read_failed(&mut self, error: ClusterError) {
        self.has_to_read_again = false;
        self.fail(error);
    }

    /// The object was read, and is still the same one.
    pub(crate) fn was_read(&mut self) {
        self.has_to_read_again = false;
        self.trouble = self.unconfirmed.take();
    }

    /// The reconciliation has failed with this error; reading again would not help.
    pub(crate) fn fail(&mut self, error: ClusterError) {
        self.trouble = Some(error);
    }

    /// Whether the object has to be read from the API server before anything else.
    pub(crate) fn has_to_read_again(&self) -> bool {
        self.has_to_read_again
    }

    /// The error that the reconciliation failed with, when there is nothing left to try.
    pub(crate) fn trouble(&self) -> Option<&ClusterError> {
        self.trouble.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: u32 = 3;

    type Kind = fn(String) -> ClusterError;

    /// Refusals after this many conflicts that were each followed by a read.
    fn after(conflicts: u32) -> Refusals<MOST> {
        let mut refusals = Refusals::default();
        for _ in 0..conflicts {
            refusals.write_failed(ClusterError::Conflict("before".to_owned()));
            refusals.was_read();
        }
        refusals
    }

    #[test]
    fn what_follows_of_a_refusal() {
        let reads_again = (true, None);
        let kinds: [Kind; 4] = [
            ClusterError::Conflict,
            ClusterError::Rejected,
            ClusterError::Denied,
            ClusterError::Unavailable,
        ];
        for kind in kinds {
            let error = kind("no".to_owned());
            let fails = (false, Some(&error));
            for conflicts in 0..=MOST {
                let mut written = after(conflicts);
                written.write_failed(error.clone());
                let is = (written.has_to_read_again(), written.trouble());
                let expected = match error {
                    ClusterError::Conflict(_) if conflicts < MOST => reads_again,
                    ClusterError::Rejected(_) => reads_again,
                    _ => fails,
                };
                assert_eq!(is, expected, "a write, {error}, {conflicts} conflicts");

                let mut read = after(conflicts);
                read.read_first();
                read.read_failed(error.clone());
                let is = (read.has_to_read_again(), read.trouble());
                assert_eq!(is, fails, "a read, {error}, {conflicts} conflicts");
            }
        }
    }

    #[test]
    fn a_rejection_is_believed_when_the_object_was_read_and_a_conflict_never_is() {
        let rejected = ClusterError::Rejected("no".to_owned());
        for (error, believed) in [
            (rejected.clone(), Some(&rejected)),
            (ClusterError::Conflict("no".to_owned()), None),
        ] {
            let mut refusals = after(0);
            refusals.write_failed(error);
            refusals.was_read();
            let is = (refusals.has_to_read_again(), refusals.trouble());
            assert_eq!(is, (false, believed));
        }
    }

    #[test]
    fn a_rejection_that_could_not_be_looked_into_is_not_what_the_reconciliation_failed_by() {
        let away = ClusterError::Unavailable("away".to_owned());
        let mut refusals = after(0);
        refusals.write_failed(ClusterError::Rejected("no".to_owned()));
        refusals.read_failed(away.clone());
        assert_eq!(refusals.trouble(), Some(&away));
        assert!(!refusals.has_to_read_again());
    }

    #[test]
    fn whoever_reads_first_has_no_trouble() {
        let mut refusals = after(0);
        refusals.read_first();
        assert!(refusals.has_to_read_again());
        refusals.was_read();
        assert_eq!(refusals, Refusals::default());
    }
}
