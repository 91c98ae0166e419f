//! Whether a target accepts the credential that it is sent: heard from its answers, and told whenever that changes. Knows
//! no credential.

use std::sync::atomic::{AtomicBool, Ordering};

/// What has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum News {
    /// It refuses the credential.
    Refused,
    /// It accepts it again.
    Accepted,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Acceptance {
    is_refused: AtomicBool,
}

impl Acceptance {
    /// An answer with this status came.
    pub(super) fn hear(&self, status: u16) -> Option<News> {
        match status {
            // Whoever may not do something is known all the same: 403 says nothing about the credential.
            401 => (!self.is_refused.swap(true, Ordering::AcqRel)).then_some(News::Refused),
            200..=299 => (self.is_refused.swap(false, Ordering::AcqRel)).then_some(News::Accepted),
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
        for (status, news) in [
            (200, None),
            (403, None),
            (401, Some(News::Refused)),
            (401, None),
            (500, None),
            (401, None),
            (204, Some(News::Accepted)),
            (200, None),
            (401, Some(News::Refused)),
        ] {
            assert_eq!(acceptance.hear(status), news, "{status}");
        }
    }
}
