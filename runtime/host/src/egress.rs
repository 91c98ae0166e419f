//! Egress: the only way for guest requests to leave the sandbox.
//!
//! Every guest request, whether through `ccm:provider/http` or through `wasi:http`, takes the same steps:
//!
//! ```text
//! guest → rules (path, prepare) → response cache → rate-limit hold, budget → slots → permit → dial (address) → cloud
//!         denied: 0 connections                    throttled: 0              refused: 0 connections
//! ```
//!
//! An [`Egress`] belongs to one generation of one provider and owns its connections and response cache; a [`CallScope`]
//! belongs to one guest call. Guests name *targets*; only the grant maps a target to a host, a credential and a proxy.
//! The egress never follows redirects, never sends a request twice, reads no environment and keeps no cookies. A
//! credential that has to be issued is fetched before the permit is asked (`credentials`). The permit is asked when
//! everything else is ready; between it and the wire remains only taking a connection from the pool or opening one, at
//! most [`EgressLimits::connect`]. The lease gate (`lease_gate`) checks again on each write whether this process may
//! still send.

pub mod address_policy;
pub mod behind_proxy;
pub mod path;
pub mod resolve;
pub mod rules;
pub mod tls;

mod body_fields;
mod budget;
mod call_record;
mod canonical_request;
mod cloud_quota;
mod cloud_request_id;
mod credential_acceptance;
mod credentials;
mod dial;
mod guest_requests;
mod headers;
mod lease_gate;
mod limits;
mod message;
mod permit;
mod quota;
mod rate_limit_hold;
mod request_identity;
mod resolve_target;
mod response_cache;
mod send;
mod target;
mod token_bucket;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ccm_core::safety::permit::Permit;
use thiserror::Error;
use tokio::sync::Semaphore;
use tokio::time::Instant;

pub use budget::Body;
pub use cloud_quota::CloudQuota;
pub use credentials::{CredentialError, WallClock};
pub use dial::DialError;
pub use guest_requests::CallScope;
pub(crate) use guest_requests::{MAX_TOGETHER, side_by_side};
pub use limits::EgressLimits;
pub use message::{Exchange, ExchangeEnd, FetchError, FetchRequest, FetchResponse};
pub use permit::now;
pub(crate) use quota::QuotaGroups;
pub use rate_limit_hold::retry_after;
pub use resolve::{NameLookup, SystemLookup};
pub use target::TargetLevel;

use ccm_metrics::requests::RequestMetrics;

use crate::grant::{Issuer, ProxyGrant, TargetGrant};
use crate::interceptor::Interceptor;
use crate::manifest::{Contract, Granted};
use crate::sanitize;
use budget::Budget;
use credentials::{IssuerClient, IssuerSettings, instance_metadata};
use guest_requests::SlotShare;
use response_cache::ResponseCache;
use target::Target;

/// Time limit for a metadata service: it is on this machine, and answers at once or never.
const MACHINE_ANSWERS: Duration = Duration::from_secs(3);
/// Maximum length of an error text, in bytes.
const MAX_TEXT: usize = 512;

/// Why an egress cannot be built from a grant.
#[derive(Debug, Error)]
pub enum EgressError {
    /// The endpoint or its TLS settings are unusable.
    #[error("target {target} cannot be dialled")]
    Dial {
        /// Name of the target.
        target: String,
        /// The mistake in the endpoint or its TLS settings.
        #[source]
        source: DialError,
    },
    /// The endpoint that issues the credential, or its TLS settings, are unusable.
    #[error("the endpoint that issues the credential of target {target} cannot be dialled")]
    Issuer {
        /// Name of the target.
        target: String,
        /// The mistake in the issuer's endpoint or its TLS settings.
        #[source]
        source: DialError,
    },
    /// The credential is unusable.
    #[error("the credential of target {target} cannot be used")]
    Credential {
        /// Name of the target.
        target: String,
        /// The mistake in the credential.
        #[source]
        source: CredentialError,
    },
}

/// Checks that an endpoint has a form that requests can go to; its addresses are checked later, against a grant.
///
/// # Errors
/// A human-readable description of the mistake, without user name and password.
pub fn check_endpoint(endpoint: &url::Url) -> Result<(), String> {
    match dial::endpoint(endpoint, &[]) {
        Ok(_) => Ok(()),
        Err(DialError::Endpoint { why, .. }) => Err(why),
        Err(error) => Err(std::error::Error::source(&error)
            .map_or_else(|| error.to_string(), ToString::to_string)),
    }
}

/// Checks that the proxy of a target, if its requests go through one, can be dialled and be asked for it.
///
/// # Errors
/// A human-readable description of the mistake, without user name and password.
pub fn check_proxy(target: &TargetGrant) -> Result<(), String> {
    let Some(proxy) = target.route() else {
        return Ok(());
    };
    match behind_proxy::mistake(&target.endpoint) {
        Some(why) => Err(why.to_owned()),
        None => check_proxy_address(proxy),
    }
}

/// Endpoints that an issuer of credentials may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IssuerReach {
    /// The endpoints that a target may have.
    Target,
    /// Those of a target, and AWS's metadata services at their own addresses.
    AwsMetadata,
}

/// Checks that an issuer of credentials can be dialled.
///
/// # Errors
/// A human-readable description of the mistake, without user name and password.
pub fn check_issuer(issuer: &Issuer, reach: IssuerReach) -> Result<(), String> {
    if reach == IssuerReach::AwsMetadata && dial::is_aws_metadata(&issuer.endpoint) {
        return Ok(());
    }
    check_endpoint(&issuer.endpoint)?;
    check_proxy(&issuer.as_target())
}

/// The region of the EC2 instance that this process runs on, from its metadata service. Takes a few seconds at most.
///
/// # Errors
/// Why the region is not known, with the URL.
pub async fn instance_region(issuer: &Issuer) -> Result<String, String> {
    of_instance(issuer, "latest/meta-data/placement/region").await
}

/// The ID of the EC2 instance that this process runs on, from its metadata service. Takes a few seconds at most.
///
/// # Errors
/// Why the ID is not known, with the URL.
pub async fn instance_id(issuer: &Issuer) -> Result<String, String> {
    of_instance(issuer, "latest/meta-data/instance-id").await
}

async fn of_instance(issuer: &Issuer, path: &str) -> Result<String, String> {
    let settings = IssuerSettings {
        user_agent: concat!("ccm/", env!("CARGO_PKG_VERSION")),
        limits: &EgressLimits::standard(),
        lookup: Arc::new(SystemLookup),
        clock: Arc::new(SystemTime::now),
    };
    let client = IssuerClient::new(issuer, IssuerReach::AwsMetadata, &settings);
    let client = client.map_err(|error| error.to_string())?;
    let answer = tokio::time::timeout(MACHINE_ANSWERS, instance_metadata(&client, path)).await;
    let answer = answer.unwrap_or_else(|_| Err(format!("no answer in {MACHINE_ANSWERS:?}")));
    answer.map_err(|why| format!("{}: {why}", issuer.endpoint))
}

/// Checks that the address of a proxy, if it is written as one, can be granted.
///
/// # Errors
/// A human-readable description of the mistake.
pub fn check_proxy_address(proxy: &ProxyGrant) -> Result<(), String> {
    let ranges = behind_proxy::ranges(proxy);
    ranges.map(drop).map_err(|error| error.to_string())
}

/// Egress of one generation of one provider: its targets, and what all of its calls share.
pub struct Egress {
    provider: String,
    digest: String,
    /// The module's own version; empty without a module.
    version: String,
    /// Version of the contract that the module was built against.
    contract: Contract,
    targets: Vec<Target>,
    /// Names of optional targets that the module requests and was not granted.
    withheld: Vec<String>,
    limits: EgressLimits,
    kept: Arc<ResponseCache>,
    budget: Arc<Budget>,
    slots: Semaphore,
    slots_beside_nodes: Semaphore,
    requests: RequestMetrics,
    interceptor: Option<Arc<dyn Interceptor>>,
}

impl Egress {
    /// Builds the egress; resolves and dials nothing yet.
    ///
    /// # Errors
    /// The part of the grant that is unusable.
    pub fn new(
        provider: &str,
        granted: &Granted,
        limits: EgressLimits,
    ) -> Result<Egress, EgressError> {
        Egress::with_lookup(provider, granted, limits, Arc::new(SystemLookup))
    }

    /// [`Egress::new`] with another name resolver.
    ///
    /// # Errors
    /// The part of the grant that is unusable.
    pub fn with_lookup(
        provider: &str,
        granted: &Granted,
        limits: EgressLimits,
        lookup: Arc<dyn NameLookup>,
    ) -> Result<Egress, EgressError> {
        Egress::with_clock(provider, granted, limits, lookup, Arc::new(SystemTime::now))
    }

    /// [`Egress::with_lookup`] with another clock for credentials that are issued.
    ///
    /// # Errors
    /// The part of the grant that is unusable.
    pub fn with_clock(
        provider: &str,
        granted: &Granted,
        limits: EgressLimits,
        lookup: Arc<dyn NameLookup>,
        clock: WallClock,
    ) -> Result<Egress, EgressError> {
        let user_agent = format!("ccm/{} {provider}", env!("CARGO_PKG_VERSION"));
        let targets = granted.targets.iter().map(|target| {
            let (lookup, clock) = (lookup.clone(), clock.clone());
            Target::new(provider, target, &user_agent, &limits, lookup, clock)
        });
        Ok(Egress {
            provider: provider.to_owned(),
            digest: String::new(),
            version: String::new(),
            contract: Contract::V0_2,
            targets: targets.collect::<Result<_, _>>()?,
            withheld: granted.withheld.clone(),
            kept: ResponseCache::new(limits.kept_bytes),
            budget: Budget::of_provider(limits.held_bytes),
            slots: Semaphore::new(limits.in_flight),
            slots_beside_nodes: Semaphore::new(limits.in_flight_beside_nodes),
            limits,
            requests: RequestMetrics::default(),
            interceptor: None,
        })
    }

    /// Counts the requests in these metrics, which all generations of all providers can share.
    pub fn counting(mut self, requests: RequestMetrics) -> Egress {
        self.requests = requests;
        self
    }

    /// Lets the interceptor watch and disturb the requests.
    pub(crate) fn intercepted_by(mut self, interceptor: Option<Arc<dyn Interceptor>>) -> Egress {
        self.interceptor = interceptor;
        self
    }

    /// Sets the module digest that audit records name, the version that refusals name, and the contract by which
    /// requests are judged: the newest one without this.
    pub fn of_module(mut self, digest: String, version: &str, contract: Contract) -> Egress {
        self.digest = digest;
        self.version = version.to_owned();
        self.contract = contract;
        self
    }

    /// The text of a refusal, with the version that it is about: during a rollout two versions send requests.
    fn of_version(&self, refusal: String) -> String {
        match self.version.as_str() {
            "" => refusal,
            version => format!("{refusal} (module version {version})"),
        }
    }

    /// Shares quotas with the other generations of the provider with this name.
    pub(crate) fn sharing(mut self, quota_groups: &QuotaGroups) -> Egress {
        for target in &mut self.targets {
            quota_groups.share(&self.provider, target);
        }
        self
    }

    /// Sets whether this generation serves. While on trial it gets a tenth of each request budget and rate-limit
    /// holds of its own.
    pub(crate) fn serves(&self, serves: bool) {
        for target in &self.targets {
            target.share.serves(serves);
        }
    }

    /// Drops the cached responses of all targets.
    pub(crate) fn forget_responses(&self) {
        for target in 0..self.targets.len() {
            self.kept.forget(target);
        }
    }

    /// Longest remaining rate-limit hold or budget wait over all targets; `None` if no target waits.
    pub(crate) fn held_for(&self) -> Option<Duration> {
        let now = Instant::now();
        let held = |target: &Target| target.share.held(now).max(target.share.spent(now));
        self.targets.iter().filter_map(held).max()
    }

    /// The current state of each target, for people.
    pub(crate) fn targets(&self) -> impl Iterator<Item = TargetLevel> {
        let now = Instant::now();
        self.targets.iter().map(move |target| target.level(now))
    }

    /// Scope of one guest call: it may send until `deadline` and as far as `permit` allows. A `fresh` call neither
    /// reads from nor writes to the response cache: its answers are independent of every other call's.
    pub fn scope(
        self: &Arc<Egress>,
        permit: Arc<Permit>,
        deadline: Instant,
        fresh: bool,
    ) -> CallScope {
        CallScope::new(self.clone(), permit, deadline, fresh, SlotShare::Whole)
    }

    /// [`Egress::scope`] of a call that is not about nodes: of the provider's slots it leaves some to calls that are.
    pub fn scope_beside_nodes(
        self: &Arc<Egress>,
        permit: Arc<Permit>,
        deadline: Instant,
        fresh: bool,
    ) -> CallScope {
        CallScope::new(
            self.clone(),
            permit,
            deadline,
            fresh,
            SlotShare::BesideNodes,
        )
    }

    /// Name of the provider, as used in permits and logs.
    pub fn provider(&self) -> &str {
        &self.provider
    }

    /// Whether any target is granted.
    pub fn has_targets(&self) -> bool {
        !self.targets.is_empty()
    }

    /// Sanitises a text for display: one line, length-limited, without any target's credential. Redacts before and
    /// after cleaning, because cleaning can reveal a credential.
    fn shown(&self, text: &str) -> String {
        let plain = sanitize::clean(&self.redacted(text), usize::MAX);
        sanitize::clean(&self.redacted(&plain), MAX_TEXT)
    }

    /// Whether one of the strings contains a credential of any target.
    pub(crate) fn finds_credential(&self, names: &[&str]) -> bool {
        let all = names.join("\n");
        let mut targets = self.targets.iter();
        targets.any(|target| target.redactor.finds(all.as_bytes()))
    }

    /// Removes the credentials of all targets from a text.
    pub(crate) fn redacted(&self, text: &str) -> String {
        let targets = self.targets.iter();
        targets.fold(text.to_owned(), |text, target| {
            target.redactor.redact(&text)
        })
    }
}
