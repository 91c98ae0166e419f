//! Tracks from the answers of a target whether it accepts its credential, and reports each change once. Holds no
//! credential.

use std::sync::atomic::{AtomicBool, Ordering};

/// Change of the acceptance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AcceptanceChange {
    /// The target now refuses the credential.
    Refused,
    /// The target knows the credential, and refuses a request with 403: a right is missing, or a limit is reached.
    /// Reported once for each generation: the same credential still works for other requests.
    Forbidden,
    /// The target accepts the credential again.
    Accepted,
}

/// Whether a target accepts its credential, as its last answers said.
#[derive(Debug, Default)]
pub(super) struct Acceptance {
    is_refused: AtomicBool,
    was_forbidden: AtomicBool,
}

impl Acceptance {
    /// Processes the status of an answer, and whether it refuses the credential; returns a change, if any.
    pub(super) fn observe(&self, status: u16, is_refused: bool) -> Option<AcceptanceChange> {
        match status {
            _ if is_refused => {
                (!self.is_refused.swap(true, Ordering::AcqRel)).then_some(AcceptanceChange::Refused)
            }
            403 => (!self.was_forbidden.swap(true, Ordering::AcqRel))
                .then_some(AcceptanceChange::Forbidden),
            200..=299 => (self.is_refused.swap(false, Ordering::AcqRel))
                .then_some(AcceptanceChange::Accepted),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_told_once() {
        let acceptance = Acceptance::default();
        for (status, change) in [
            (200, None),
            (403, Some(AcceptanceChange::Forbidden)),
            (401, Some(AcceptanceChange::Refused)),
            (403, None),
            (401, None),
            (500, None),
            (401, None),
            (204, Some(AcceptanceChange::Accepted)),
            (200, None),
            (401, Some(AcceptanceChange::Refused)),
        ] {
            assert_eq!(
                acceptance.observe(status, status == 401),
                change,
                "{status}"
            );
        }
    }
}
