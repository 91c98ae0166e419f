//! One granted target during a generation: HTTP client, credential, rule lines and quota share.
//!
//! A target belongs to one provider and one generation; generations share only its quota group.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::Request;
use http::header::{ACCEPT, ACCEPT_ENCODING, HeaderMap, HeaderValue, USER_AGENT};
use http_body_util::Full;
use tokio::time::Instant;
use url::Url;

use super::EgressError;
use super::canonical_request::{MatchContext, Prepared};
use super::cloud_quota::CloudQuota;
use super::credential_acceptance::{Acceptance, AcceptanceChange};
use super::credentials::{
    Attachment, Authentication, IssuerSettings, SecretRedactor, WallClock, identity,
};
use super::dial::{self, Client};
use super::lease_gate::LeaseGate;
use super::limits::EgressLimits;
use super::message::FetchError;
use super::quota::QuotaShare;
use super::resolve::NameLookup;
use super::rules::{Line, Rule};
use crate::grant::RequestBudget;
use crate::manifest::{Contract, GrantedTarget};

/// A granted target: its endpoint, its credential, and the state that all requests to it share.
pub(super) struct Target {
    /// Name of the target in the grant and in the manifest.
    pub name: String,
    /// Scheme, host, port, base path.
    pub endpoint: Url,
    /// Requests that the grant admits.
    pub lines: Vec<Line>,
    /// Requests that count as changes, whichever line admits them.
    pub changes: Vec<Line>,
    /// Requests that the grant would admit if the module's manifest requested them.
    given: Vec<Line>,
    /// Redacts the credential of this target from texts.
    pub redactor: Arc<SecretRedactor>,
    /// HTTP client with its connection pool.
    pub client: Client,
    /// Lease gate that all writes to the connections pass.
    pub gate: Arc<LeaseGate>,
    /// Rate-limit hold and request budget. The only state that generations of a provider share, because the cloud
    /// counts their requests together.
    pub share: QuotaShare,
    /// The proxy that requests go through, without its login.
    pub proxy: Option<String>,
    /// Whether the target accepts the credential.
    pub acceptance: Acceptance,
    /// How requests are authenticated; never visible to guests.
    pub authentication: Authentication,
    /// Identity of the credential, by which the quota is shared.
    pub identity: [u8; 32],
    /// Name of the provider, for logs.
    provider: String,
    /// Where the credential was read, for people.
    credential_origin: Option<String>,
    user_agent: Option<HeaderValue>,
}

/// State of a target at one moment, for people: its grant and the requests that it still admits. Holds no credential.
#[derive(Debug, Clone)]
pub struct TargetLevel {
    /// Name of the target in the grant and in the manifest.
    pub name: String,
    /// Scheme, host, port, base path.
    pub endpoint: Url,
    /// The proxy that requests go through, without its login.
    pub proxy: Option<String>,
    /// Requests that the grant admits.
    pub lines: Vec<Line>,
    /// Request budget of the generation.
    pub budget: RequestBudget,
    /// Requests of the budget that may be sent now.
    pub left: u32,
    /// Remaining rate-limit hold; `None` if there is no hold.
    pub held: Option<Duration>,
    /// The cloud's last statement about its own rate limit; `None` if it made none.
    pub cloud: Option<CloudQuota>,
}

impl Target {
    /// The state of the target at `now`.
    pub(super) fn level(&self, now: Instant) -> TargetLevel {
        let (budget, left) = self.share.left(now);
        TargetLevel {
            name: self.name.clone(),
            endpoint: self.endpoint.clone(),
            proxy: self.proxy.clone(),
            lines: self.lines.clone(),
            budget,
            left,
            held: self.share.held(now),
            cloud: self.share.stated(now),
        }
    }

    /// Sets up a target; resolves and dials nothing yet.
    ///
    /// # Errors
    /// The part of the grant that is unusable.
    pub(super) fn new(
        provider: &str,
        granted: &GrantedTarget,
        user_agent: &str,
        limits: &EgressLimits,
        lookup: Arc<dyn NameLookup>,
        clock: WallClock,
    ) -> Result<Target, EgressError> {
        let name = granted.grant.name.clone();
        let credential = &granted.grant.credential;
        let redactor = Arc::new(SecretRedactor::new(credential));
        let settings = IssuerSettings {
            user_agent,
            limits,
            lookup: lookup.clone(),
            clock,
        };
        let authentication = Authentication::new(&name, credential, &redactor, &settings)?;
        let gate = Arc::<LeaseGate>::default();
        let client =
            dial::client(&granted.grant, limits, lookup, gate.clone()).map_err(|source| {
                EgressError::Dial {
                    target: name.clone(),
                    source,
                }
            })?;
        Ok(Target {
            provider: provider.to_owned(),
            name,
            endpoint: granted.grant.endpoint.clone(),
            lines: granted.lines.clone(),
            changes: granted.changes.clone(),
            given: granted.grant.rules.iter().flat_map(Rule::lines).collect(),
            redactor,
            client,
            gate,
            user_agent: HeaderValue::from_str(user_agent).ok(),
            proxy: granted.grant.route().map(|route| route.proxy.to_string()),
            share: QuotaShare::new(granted.grant.requests),
            acceptance: Acceptance::default(),
            authentication,
            identity: identity(credential),
            credential_origin: credential.origin(),
        })
    }

    /// Names the proxy in an error text; empty without a proxy.
    pub(super) fn through(&self) -> String {
        let proxy = self.proxy.as_deref();
        proxy.map_or_else(String::new, |proxy| format!(", through the proxy {proxy}"))
    }

    /// Logs when the target starts or stops refusing the credential: a provider can do nothing without one, and only
    /// the operator can replace it. `body` is empty if it cannot be read.
    ///
    /// Returns the reason for withholding an answer that refuses a signature because of the clock: only the operator can
    /// correct the clock, and AWS's text about it may repeat the session token.
    pub(super) fn observe_acceptance(
        &self,
        status: u16,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Option<String> {
        if !self.authentication.is_some() {
            return None;
        }
        let clock = self.authentication.clock(status, headers, body);
        let is_refused = self.authentication.is_refused(status, body);
        let (endpoint, name) = (&self.endpoint, &self.name);
        let origin = self.credential_origin.as_deref();
        let origin = origin.map_or_else(String::new, |origin| format!(" from {origin}"));
        match self.acceptance.observe(status, is_refused) {
            Some(AcceptanceChange::Refused) => {
                let why = clock.as_deref();
                let why = why.unwrap_or("is it the right one, and still valid?");
                tracing::error!(
                    target: "egress",
                    provider = self.provider,
                    "{endpoint} refuses the credential of target {name}{origin} ({status}): {why}"
                );
            }
            Some(AcceptanceChange::Forbidden) => tracing::warn!(
                target: "egress",
                provider = self.provider,
                "{endpoint} refuses a request with the credential of target {name}{origin} ({status}): does it lack a right, or is a limit of the account reached? The object's Event or the log has the cloud's text"
            ),
            Some(AcceptanceChange::Accepted) => tracing::info!(
                target: "egress",
                provider = self.provider,
                "{endpoint} accepts the credential of target {name} again"
            ),
            None => {}
        }
        clock
    }

    /// The parts of the target that requests are checked against.
    pub(super) fn context(&self, index: usize, contract: Contract) -> MatchContext<'_> {
        MatchContext {
            contract,
            index,
            name: &self.name,
            endpoint: &self.endpoint,
            lines: &self.lines,
            changes: &self.changes,
            given: &self.given,
            credential: self.authentication.header(),
            is_signed: self.authentication.signs(),
        }
    }

    /// Builds the request for the HTTP client; the only place that writes the credential.
    ///
    /// # Errors
    /// The URL cannot be sent, or the request cannot be signed.
    pub(super) fn request(
        &self,
        prepared: &Prepared,
        attachment: &Attachment<'_>,
    ) -> Result<Request<Full<Bytes>>, FetchError> {
        let body = prepared.body.clone().unwrap_or_default();
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = prepared.method.clone();
        *request.uri_mut() = prepared
            .url
            .as_str()
            .parse()
            .map_err(|_| FetchError::Invalid("the URL cannot be sent".to_owned()))?;
        let headers = request.headers_mut();
        *headers = prepared.headers.clone();
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        headers
            .entry(ACCEPT)
            .or_insert(HeaderValue::from_static("*/*"));
        if let Some(user_agent) = &self.user_agent {
            headers
                .entry(USER_AGENT)
                .or_insert_with(|| user_agent.clone());
        }
        let body = prepared.body.as_deref().unwrap_or_default();
        let attached = attachment.attach(&mut request, body, SystemTime::now());
        attached.map_err(|error| FetchError::Unavailable(error.to_string()))?;
        Ok(request)
    }
}
