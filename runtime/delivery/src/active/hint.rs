//! Tags each `pending` hint with its generation. A hint is returned only to the generation that wrote it: its format is
//! private to the guest, and another version may read it differently.

use std::sync::Arc;

use ccm_core::cloud::load_balancer::Pending;

/// Length of the generation's number, which precedes the guest's bytes and does not count towards their length limit.
const TAG: usize = size_of::<u64>();

/// Adds the generation's number to the hint of an answer.
pub(super) fn tagged(generation: u64, pending: Pending) -> Pending {
    let tag = |hint: Arc<[u8]>| -> Arc<[u8]> {
        let number = generation.to_be_bytes();
        number.iter().chain(hint.iter()).copied().collect()
    };
    Pending {
        hint: pending.hint.map(tag),
        ..pending
    }
}

/// The hint without the tag; `None` if another generation wrote it.
pub(super) fn own(generation: u64, hint: Option<&Arc<[u8]>>) -> Option<Arc<[u8]>> {
    let (tag, own) = hint?.split_at_checked(TAG)?;
    (tag == generation.to_be_bytes()).then(|| own.into())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]
    use std::time::Duration;

    use super::*;

    fn pending(hint: Option<&[u8]>) -> Pending {
        Pending {
            retry_after: Duration::from_secs(1),
            hint: hint.map(Into::into),
        }
    }

    #[test]
    fn a_hint_comes_back_whole_to_the_generation_that_wrote_it_and_to_no_other() {
        for hint in [None, Some(&b""[..]), Some(b"x"), Some(&[7; 4096])] {
            let told = tagged(3, pending(hint));
            assert_eq!(own(3, told.hint.as_ref()).as_deref(), hint);
            assert_eq!(own(4, told.hint.as_ref()), None);
        }
    }

    #[test]
    fn what_nobody_tagged_belongs_to_nobody() {
        for hint in [&b""[..], b"short", b"longer than a tag"] {
            assert_eq!(own(0, Some(&hint.into())), None);
        }
    }
}
