//! The only way out of the sandbox.
//!
//! Every request of a guest, whether through `ccm:provider/http` or through `wasi:http`, takes the same steps:
//!
//! ```text
//! guest → rules (path, prepare) → kept answers → slots → patience, budget → permit → dial (address) → cloud
//!         denied: 0 connections                          throttled: 0      refused: 0 connections
//! ```
//!
//! An [`Egress`] belongs to one generation of one provider and owns its connections and kept answers; a
//! [`CallScope`] belongs to one guest call. Guests name *targets*; which host a target is, and which credential goes
//! there, only the grant says. Redirects are never followed, nothing is sent twice, proxies are not used,
//! cookies do not exist. The permit is asked when everything else is ready; what remains between it and the wire
//! is taking a connection from the pool or, at most for [`EgressLimits::connect`], making one. Whether this process
//! may still send is asked again behind all that, for each write (`wire`).

pub mod address;
pub mod path;
pub mod resolve;
pub mod rules;
pub mod tls;

mod body_fields;
mod budget;
mod call_record;
mod credential_acceptance;
mod credentials;
mod dial;
mod headers;
mod limits;
mod message;
mod permit;
mod quota;
mod rate_limit_hold;
mod request_counts;
mod request_identity;
mod request_matching;
mod resolve_target;
mod response_cache;
mod scope;
mod send;
mod target;
mod token_bucket;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use ccm_core::permit::Permit;
use thiserror::Error;
use tokio::sync::Semaphore;
use tokio::time::Instant;

pub use budget::Body;
pub use credentials::CredentialError;
pub use dial::DialError;
pub use limits::EgressLimits;
pub use message::{Exchange, ExchangeEnd, FetchError, FetchRequest, FetchResponse};
pub use permit::now;
pub(crate) use quota::QuotaGroups;
pub use request_counts::Count;
pub use resolve::{Lookup, SystemLookup};
pub use scope::CallScope;
pub(crate) use scope::{MAX_TOGETHER, side_by_side};

use crate::manifest::Granted;
use crate::sanitize;
use budget::Budget;
use response_cache::ResponseCache;
use target::Target;

/// Texts of errors are cut after this many bytes.
const MAX_TEXT: usize = 512;

/// Why the way out of a provider cannot be built from its grant.
#[derive(Debug, Error)]
pub enum EgressError {
    /// The endpoint or its TLS cannot be used.
    #[error("target {target} cannot be dialled")]
    Dial {
        /// The target's name.
        target: String,
        /// The reason.
        #[source]
        source: DialError,
    },
    /// The credential cannot be used.
    #[error("the credential of target {target} cannot be used")]
    Credential {
        /// The target's name.
        target: String,
        /// The reason.
        #[source]
        source: CredentialError,
    },
}

/// Whether an endpoint has the form that requests can go to; addresses are judged later, against a grant.
///
/// # Errors
/// What is wrong, for people; shows neither user nor password.
pub fn check_endpoint(endpoint: &url::Url) -> Result<(), String> {
    match dial::endpoint(endpoint, &[]) {
        Ok(_) => Ok(()),
        Err(DialError::Endpoint { why, .. }) => Err(why),
        Err(error) => Err(std::error::Error::source(&error)
            .map_or_else(|| error.to_string(), ToString::to_string)),
    }
}

/// The way out of one generation of one provider. See the module's documentation.
pub struct Egress {
    provider: String,
    digest: String,
    targets: Vec<Target>,
    limits: EgressLimits,
    kept: Arc<ResponseCache>,
    budget: Arc<Budget>,
    slots: Semaphore,
}

impl Egress {
    /// Builds the way out; nothing is resolved or dialled yet.
    ///
    /// # Errors
    /// What about a grant cannot be used.
    pub fn new(
        provider: &str,
        granted: &Granted,
        limits: EgressLimits,
    ) -> Result<Egress, EgressError> {
        Egress::with_lookup(provider, granted, limits, Arc::new(SystemLookup))
    }

    /// The same with another way to find the addresses of names.
    ///
    /// # Errors
    /// What about a grant cannot be used.
    pub fn with_lookup(
        provider: &str,
        granted: &Granted,
        limits: EgressLimits,
        lookup: Arc<dyn Lookup>,
    ) -> Result<Egress, EgressError> {
        let user_agent = format!("ccm/{} {provider}", env!("CARGO_PKG_VERSION"));
        let targets = granted.targets.iter();
        Ok(Egress {
            provider: provider.to_owned(),
            digest: String::new(),
            targets: targets
                .map(|target| Target::new(target, &user_agent, &limits, lookup.clone()))
                .collect::<Result<_, _>>()?,
            kept: ResponseCache::new(limits.kept_bytes),
            budget: Budget::of_provider(limits.held_bytes),
            slots: Semaphore::new(limits.in_flight),
            limits,
        })
    }

    /// The same for a module with this digest, which audit records name.
    pub fn of_module(mut self, digest: String) -> Egress {
        self.digest = digest;
        self
    }

    /// The same, that shares accounts with its predecessors and successors of this name.
    pub(crate) fn sharing(mut self, quota_groups: &QuotaGroups) -> Egress {
        for target in &mut self.targets {
            quota_groups.share(&self.provider, target);
        }
        self
    }

    /// It is tried from now on, with a tenth of each budget and holds of its own; or it `serves`.
    pub(crate) fn serves(&self, serves: bool) {
        for target in &self.targets {
            target.share.serves(serves);
        }
    }

    /// How long a target still wants to be left alone, or has spent its budget: the longest of all.
    pub(crate) fn held_for(&self) -> Option<Duration> {
        let now = Instant::now();
        let held = |target: &Target| target.share.held(now).max(target.share.spent(now));
        self.targets.iter().filter_map(held).max()
    }

    /// What one guest call may send, until `deadline` and as far as `permit` allows. A `fresh` call neither
    /// gets kept answers nor leaves any: its answers are independent of every other call's.
    pub fn scope(
        self: &Arc<Egress>,
        permit: Arc<Permit>,
        deadline: Instant,
        fresh: bool,
    ) -> CallScope {
        CallScope::new(self.clone(), permit, deadline, fresh)
    }

    /// The provider's name, as the permits and logs say it.
    pub fn provider(&self) -> &str {
        &self.provider
    }

    /// Whether anything can be reached at all.
    pub fn has_targets(&self) -> bool {
        !self.targets.is_empty()
    }

    /// How many requests were made since the generation began, per target, method and end.
    pub fn counts(&self) -> Vec<Count> {
        self.targets
            .iter()
            .flat_map(|target| target.counts.read(&target.name))
            .collect()
    }

    /// A text as it may be shown: in one line, not too long, without a credential of any target, neither as it was given
    /// nor as it looks when it is clean.
    fn shown(&self, text: &str) -> String {
        let plain = sanitize::clean(&self.redacted(text), usize::MAX);
        sanitize::clean(&self.redacted(&plain), MAX_TEXT)
    }

    /// Whether one of these holds a credential of any target.
    pub(crate) fn finds_credential(&self, names: &[&str]) -> bool {
        let all = names.join("\n");
        let mut targets = self.targets.iter();
        targets.any(|target| target.watch.finds(all.as_bytes()))
    }

    /// A text without a credential of any target.
    pub(crate) fn redacted(&self, text: &str) -> String {
        let targets = self.targets.iter();
        targets.fold(text.to_owned(), |text, target| target.watch.redact(&text))
    }
}
