//! Errors of a registry, before the location is prefixed. Messages contain no text from the registry except words of a
//! known form: the text could reflect a credential that was sent.

use std::error::Error as StdError;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use ccm_host::egress::address_policy::{self, AddressRefused};
use ccm_host::egress::resolve::{NameRefused, WhyRefused};
use ipnet::IpNet;

use crate::source::{RefusedPart, SourceError, SourceErrorKind};

/// Maximum length of a shown media type.
const SHOWN: usize = 100;

/// Maximum length of a request error's text.
const LONGEST: usize = 300;

/// Why content was not fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RegistryError {
    pub(super) kind: SourceErrorKind,
    pub(super) why: String,
    /// Whether the content itself is at fault, so that another request would return the same.
    pub(super) is_lasting: bool,
    /// How long the registry asks not to be contacted.
    pub(super) wait: Option<Duration>,
}

impl RegistryError {
    fn new(kind: SourceErrorKind, why: impl Into<String>) -> Self {
        Self {
            kind,
            why: why.into(),
            is_lasting: false,
            wait: None,
        }
    }

    pub(super) fn absent(why: impl Into<String>) -> Self {
        Self::new(SourceErrorKind::Absent, why)
    }

    pub(super) fn unavailable(why: impl Into<String>) -> Self {
        Self::new(SourceErrorKind::Unavailable, why)
    }

    pub(super) fn denied(why: impl Into<String>) -> Self {
        Self::new(SourceErrorKind::Denied, why)
    }

    pub(super) fn refused(why: impl Into<String>) -> Self {
        Self::new(SourceErrorKind::Refused(RefusedPart::Content), why)
    }

    /// The content is not reached, which says nothing about it.
    pub(super) fn barred(why: impl Into<String>) -> Self {
        Self::new(SourceErrorKind::Refused(RefusedPart::Way), why)
    }

    /// The content of a digest is unusable, permanently.
    pub(super) fn unusable(why: impl Into<String>) -> Self {
        Self {
            is_lasting: true,
            ..Self::refused(why)
        }
    }

    /// The same, before which the registry is not contacted again for this long.
    pub(super) fn waiting(self, wait: Duration) -> Self {
        let wait = Some(wait);
        Self { wait, ..self }
    }

    /// A request without an answer. Omits the URL: a redirect target can hold a signature.
    pub(super) fn of_request(host: &str, error: reqwest::Error) -> Self {
        let error = error.without_url();
        let mut why = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            if let Some(refused) = cause.downcast_ref::<NameRefused>() {
                return Self::of_name(host, &refused.why);
            }
            if let Some(refused) = cause.downcast_ref::<AddressNotGranted>() {
                return Self::barred(format!("{host} is not asked: {refused}"));
            }
            let cause_text = cause.to_string();
            // Some layers repeat the text of the layer below.
            if !why.ends_with(&cause_text) {
                why = format!("{why}: {cause_text}");
            }
            source = cause.source();
        }
        // Some texts contain names from a certificate.
        let is_plain = |letter: &char| letter.is_ascii_graphic() || *letter == ' ';
        let why: String = why.chars().filter(is_plain).take(LONGEST).collect();
        Self::unavailable(format!("{host}: {why}"))
    }

    /// A name that was not dialled. One without an address may get one later.
    fn of_name(host: &str, why: &WhyRefused) -> Self {
        match why {
            WhyRefused::NoAddress => Self::unavailable(format!("{host} has no address")),
            why => Self::barred(format!("{host} is not asked: {why}")),
        }
    }

    /// The error about content that was there before: a refusal that may pass is no reason to give it up.
    pub(super) fn of_known_content(self) -> Self {
        match self.kind {
            SourceErrorKind::Refused(_) if !self.is_lasting => Self {
                kind: SourceErrorKind::Unavailable,
                ..self
            },
            _ => self,
        }
    }

    /// Whether new credentials could resolve it.
    pub(super) fn is_about_credentials(&self) -> bool {
        self.kind == SourceErrorKind::Denied
    }

    pub(super) fn at(self, place: &str) -> SourceError {
        SourceError::new(self.kind, place, self.why)
    }
}

/// Refusal of a registry's address that the operator can allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AddressNotGranted {
    refused: AddressRefused,
    /// The range that allows it.
    range: IpNet,
}

impl AddressNotGranted {
    /// `None` for an address that nothing allows.
    pub(super) fn of(refused: AddressRefused) -> Option<Self> {
        let range = match refused.address.to_canonical() {
            // A name of this machine may resolve to any loopback address.
            IpAddr::V4(address) if address.is_loopback() => {
                IpNet::new(address.into(), 8).ok()?.trunc()
            }
            address => IpNet::from(address),
        };
        let is_allowed = address_policy::check(refused.address, &[range]).is_ok();
        is_allowed.then_some(Self { refused, range })
    }

    /// Replaces a [`NameRefused`] for such an address. Other errors stay.
    pub(super) fn in_place_of(
        error: Box<dyn StdError + Send + Sync>,
    ) -> Box<dyn StdError + Send + Sync> {
        let not_granted = match error.downcast_ref() {
            Some(NameRefused {
                why: WhyRefused::Address(refused),
                ..
            }) => Self::of(*refused),
            _ => None,
        };
        match not_granted {
            Some(not_granted) => Box::new(not_granted),
            None => error,
        }
    }

    /// The reason, with the setting that would grant the address.
    pub(super) fn why(&self) -> String {
        let range = match self.range {
            IpNet::V4(range) => range.to_string(),
            // YAML needs the quotes, because of the colons.
            IpNet::V6(range) => format!("\"{range}\""),
        };
        format!("{}; `registry.addresses: [{range}]` does", self.refused.why)
    }
}

impl fmt::Display for AddressNotGranted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "address {} is refused: {}",
            self.refused.address,
            self.why()
        )
    }
}

impl StdError for AddressNotGranted {}

/// A media type for display, if it has valid characters only.
pub(super) fn shown(media_type: &str) -> &str {
    let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&^_.+-/;= ".contains(&byte);
    match media_type {
        "" => "(none)",
        text if text.len() <= SHOWN && text.bytes().all(is_known) => text,
        _ => "(an unreadable type)",
    }
}
