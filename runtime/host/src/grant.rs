//! What the operator allows: targets with endpoint, rules and credential, and annotation prefixes.
//!
//! Nothing here reads a file or a variable, and no secret in here can be printed: neither [`Secret`] nor
//! what holds one has `Debug`, `Display` or `Serialize`.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use url::Url;
use zeroize::Zeroizing;

use crate::egress::rules::Rule;

/// Everything that one provider is granted.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Grants {
    /// The targets, by the names that the provider's manifest uses.
    pub targets: Vec<TargetGrant>,
    /// Prefixes of annotation keys that the provider may set on Services.
    pub annotation_prefixes: Vec<String>,
}

/// One target as granted.
#[derive(Clone, PartialEq, Eq)]
pub struct TargetGrant {
    /// The name that the manifest uses.
    pub name: String,
    /// Scheme, host, port and base path; replaces what the manifest names. `http` only to loopback.
    pub endpoint: Url,
    /// What may be asked for. The access that stands here decides, not the manifest's.
    pub rules: Vec<Rule>,
    /// Added by the host to every request to exactly this target.
    pub credential: Credential,
    /// Loopback and private ranges that the endpoint's name may resolve to. An endpoint that is an IP
    /// address needs no entry for itself. Metadata and link-local addresses cannot be granted.
    pub addresses: Vec<IpNet>,
    /// Certificates in PEM form. If set, these are the only roots, and the platform's are not asked.
    pub ca_pem: Option<String>,
    /// How many requests it may get.
    pub requests: RequestBudget,
}

/// How many requests a provider may send to a target: so many at once, and as many more as `per` gives back evenly. In the
/// form in which clouds state their own limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestBudget {
    /// As many as may be sent without a pause.
    pub requests: NonZeroU32,
    /// How long it takes until all of them may be sent again.
    pub per: Duration,
}

impl Default for RequestBudget {
    /// Three calls that ask for as much as a call may, and a hundred requests in each second: more than a cloud of 5000 nodes
    /// is asked that answers for one node at a time, and more than any public cloud that was looked at answers for long.
    fn default() -> RequestBudget {
        RequestBudget {
            requests: NonZeroU32::MIN.saturating_add(5999),
            per: Duration::from_secs(60),
        }
    }
}

impl RequestBudget {
    /// What a version gets of it that is tried beside the one that serves.
    pub(crate) fn tenth(self) -> RequestBudget {
        let tenth = self.requests.get().div_ceil(10);
        RequestBudget {
            requests: NonZeroU32::new(tenth).unwrap_or(NonZeroU32::MIN),
            ..self
        }
    }
}

/// How requests to a target prove who sends them.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Credential {
    /// Not at all.
    #[default]
    None,
    /// `Authorization: Bearer …` (RFC 6750).
    Bearer(Secret),
    /// `Authorization: Basic …` (RFC 7617).
    Basic {
        /// The user name; no colon.
        user: String,
        /// The password.
        password: Secret,
    },
    /// A header of the vendor's own.
    Header {
        /// The header's name.
        name: String,
        /// Its whole value.
        value: Secret,
    },
}

impl Credential {
    /// The word that a manifest uses for this kind.
    pub fn kind(&self) -> &'static str {
        match self {
            Credential::None => "none",
            Credential::Bearer(_) => "bearer",
            Credential::Basic { .. } => "basic",
            Credential::Header { .. } => "header",
        }
    }
}

/// A text that must not be seen. Overwritten when the last copy is dropped; copies share one place in memory.
/// Equal texts are equal secrets: so a configuration that is read again knows whether one was rotated.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<Zeroizing<String>>);

impl Secret {
    /// Takes the text over.
    pub fn new(text: String) -> Secret {
        Secret(Arc::new(Zeroizing::new(text)))
    }

    /// The text, for the one place that writes it into a request.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}
