//! What goes wrong with a registry, before the place's name is put before it. No text of the other side gets into a
//! message, except words of a known form: it could hold back a credential that it was sent.

use std::error::Error as _;
use std::time::Duration;

use ccm_host::egress::resolve::{NameRefused, WhyRefused};

use crate::source::SourceError;

/// The longest media type that is shown.
const SHOWN: usize = 100;

/// The longest text of a failed request.
const LONGEST: usize = 300;

/// What kind of trouble it is; the kinds of [`SourceError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Absent,
    Unavailable,
    Denied,
    Refused,
}

/// Why something was not had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RegistryError {
    pub(super) kind: Kind,
    pub(super) why: String,
    /// Whether these very bytes are at fault, so that asking again would bring the same.
    pub(super) is_lasting: bool,
    /// For how long the registry does not want to be asked.
    pub(super) wait: Option<Duration>,
}

impl RegistryError {
    fn new(kind: Kind, why: impl Into<String>) -> Self {
        Self {
            kind,
            why: why.into(),
            is_lasting: false,
            wait: None,
        }
    }

    pub(super) fn absent(why: impl Into<String>) -> Self {
        Self::new(Kind::Absent, why)
    }

    pub(super) fn unavailable(why: impl Into<String>) -> Self {
        Self::new(Kind::Unavailable, why)
    }

    pub(super) fn denied(why: impl Into<String>) -> Self {
        Self::new(Kind::Denied, why)
    }

    pub(super) fn refused(why: impl Into<String>) -> Self {
        Self::new(Kind::Refused, why)
    }

    /// The content that a digest names cannot be used: it never will be.
    pub(super) fn unusable(why: impl Into<String>) -> Self {
        Self {
            is_lasting: true,
            ..Self::new(Kind::Refused, why)
        }
    }

    /// A request that got no answer. Without its address: one that a registry redirected to can hold a signature.
    pub(super) fn of_request(host: &str, error: reqwest::Error) -> Self {
        let error = error.without_url();
        let mut why = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            if let Some(refused) = cause.downcast_ref::<NameRefused>() {
                return Self::of_name(host, &refused.why);
            }
            let cause_text = cause.to_string();
            // Some layers repeat the text of the one below them.
            if !why.ends_with(&cause_text) {
                why = format!("{why}: {cause_text}");
            }
            source = cause.source();
        }
        // A certificate's names are part of some texts.
        let is_plain = |letter: &char| letter.is_ascii_graphic() || *letter == ' ';
        let why: String = why.chars().filter(is_plain).take(LONGEST).collect();
        Self::unavailable(format!("{host}: {why}"))
    }

    /// A name that was not dialled. One without an address may have one tomorrow.
    fn of_name(host: &str, why: &WhyRefused) -> Self {
        match why {
            WhyRefused::NoAddress => Self::unavailable(format!("{host} has no address")),
            why => Self::refused(format!("{host} is not asked: {why}")),
        }
    }

    /// Whether new credentials could end it.
    pub(super) fn is_about_credentials(&self) -> bool {
        self.kind == Kind::Denied
    }

    pub(super) fn at(self, place: &str) -> SourceError {
        let (place, why) = (place.to_owned(), self.why);
        match self.kind {
            Kind::Absent => SourceError::Absent { place, why },
            Kind::Unavailable => SourceError::Unavailable { place, why },
            Kind::Denied => SourceError::Denied { place, why },
            Kind::Refused => SourceError::Refused { place, why },
        }
    }
}

/// A media type as it is shown to people: the letters that one can have, or nothing of it.
pub(super) fn shown(media_type: &str) -> &str {
    let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&^_.+-/;= ".contains(&byte);
    match media_type {
        "" => "(none)",
        text if text.len() <= SHOWN && text.bytes().all(is_known) => text,
        _ => "(an unreadable type)",
    }
}
