//! One granted target while a generation lives: its client, credential, lines, share and numbers.
//!
//! A target belongs to one provider and one generation; nothing in it is shared with another but its account.

use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use http::header::{ACCEPT, ACCEPT_ENCODING, HeaderName, HeaderValue, USER_AGENT};
use http_body_util::Full;
use url::Url;

use super::EgressError;
use super::credential_acceptance::Acceptance;
use super::credentials::{self, SecretRedactor};
use super::dial::{self, Client};
use super::limits::EgressLimits;
use super::message::FetchError;
use super::quota::QuotaShare;
use super::request_counts::Counts;
use super::request_matching::{MatchContext, Prepared};
use super::resolve::Lookup;
use super::rules::Line;
use super::wire::LeaseGate;
use crate::manifest::GrantedTarget;

/// See the module's documentation.
pub(super) struct Target {
    /// The granted name.
    pub name: String,
    /// Scheme, host, port, base path.
    pub endpoint: Url,
    /// What may be asked.
    pub lines: Vec<Line>,
    /// What of it changes something, whichever line it came under.
    pub changes: Vec<Line>,
    /// Never lets a credential out.
    pub watch: SecretRedactor,
    /// The connections.
    pub client: Client,
    /// What is written to them passes here.
    pub gate: Arc<LeaseGate>,
    /// Whether the target wants to be left alone, and what may still be sent. The one thing that generations of a
    /// provider share: the cloud counts their requests together.
    pub share: QuotaShare,
    /// Whether it accepts the credential.
    pub acceptance: Acceptance,
    /// What happened so far.
    pub counts: Counts,
    user_agent: Option<HeaderValue>,
    credential: Option<(HeaderName, HeaderValue)>,
}

impl Target {
    /// Sets a target up; nothing is resolved or dialled yet.
    ///
    /// # Errors
    /// What about the grant cannot be used.
    pub(super) fn new(
        granted: &GrantedTarget,
        user_agent: &str,
        limits: &EgressLimits,
        lookup: Arc<dyn Lookup>,
    ) -> Result<Target, EgressError> {
        let name = granted.grant.name.clone();
        let credential = credentials::header(&granted.grant.credential).map_err(|source| {
            EgressError::Credential {
                target: name.clone(),
                source,
            }
        })?;
        let gate = Arc::<LeaseGate>::default();
        let client =
            dial::client(&granted.grant, limits, lookup, gate.clone()).map_err(|source| {
                EgressError::Dial {
                    target: name.clone(),
                    source,
                }
            })?;
        Ok(Target {
            name,
            endpoint: granted.grant.endpoint.clone(),
            lines: granted.lines.clone(),
            changes: granted.changes.clone(),
            watch: SecretRedactor::new(&granted.grant.credential),
            client,
            gate,
            user_agent: HeaderValue::from_str(user_agent).ok(),
            share: QuotaShare::new(granted.grant.requests),
            acceptance: Acceptance::default(),
            counts: Counts::default(),
            credential,
        })
    }

    /// The header that proves who sends, which no guest sees.
    pub(super) fn credential(&self) -> Option<(&str, &[u8])> {
        let (name, value) = self.credential.as_ref()?;
        Some((name.as_str(), value.as_bytes()))
    }

    /// What requests are checked against.
    pub(super) fn context(&self, index: usize) -> MatchContext<'_> {
        MatchContext {
            index,
            name: &self.name,
            endpoint: &self.endpoint,
            lines: &self.lines,
            changes: &self.changes,
            credential: self.credential.as_ref().map(|(name, _)| name),
        }
    }

    /// The request as the client takes it: the only place where a credential is written.
    ///
    /// # Errors
    /// The URL is one that cannot be asked for.
    pub(super) fn request(&self, prepared: &Prepared) -> Result<Request<Full<Bytes>>, FetchError> {
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
        if let Some((name, value)) = &self.credential {
            headers.insert(name.clone(), value.clone());
        }
        Ok(request)
    }
}
