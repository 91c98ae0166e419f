//! One granted target while a generation lives: its client, credential, lines, hold and numbers.
//!
//! A target belongs to one provider and one generation; nothing in it is shared with another.

use std::sync::Arc;

use http::header::{ACCEPT_ENCODING, HeaderName, HeaderValue};
use url::Url;

use super::EgressError;
use super::counts::Counts;
use super::credentials::{self, Watch};
use super::dial::{self, Lookup};
use super::limits::EgressLimits;
use super::patience::Patience;
use super::prepare::{Ground, Prepared};
use super::rules::Line;
use crate::manifest::GrantedTarget;

/// See the module's documentation.
pub(super) struct Target {
    /// The granted name.
    pub name: String,
    /// Scheme, host, port, base path.
    pub endpoint: Url,
    /// What may be asked.
    pub lines: Vec<Line>,
    /// Never lets a credential out.
    pub watch: Watch,
    /// The connections.
    pub client: reqwest::Client,
    /// Whether the target wants to be left alone.
    pub patience: Patience,
    /// What happened so far.
    pub counts: Counts,
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
        let client =
            dial::client(&granted.grant, user_agent, limits, lookup).map_err(|source| {
                EgressError::Dial {
                    target: name.clone(),
                    source,
                }
            })?;
        Ok(Target {
            name,
            endpoint: granted.grant.endpoint.clone(),
            lines: granted.lines.clone(),
            watch: Watch::new(&granted.grant.credential),
            client,
            patience: Patience::default(),
            counts: Counts::default(),
            credential,
        })
    }

    /// What requests are checked against.
    pub(super) fn ground(&self, index: usize) -> Ground<'_> {
        Ground {
            index,
            name: &self.name,
            endpoint: &self.endpoint,
            lines: &self.lines,
            credential: self.credential.as_ref().map(|(name, _)| name),
        }
    }

    /// The request as the client takes it: the only place where a credential is written.
    pub(super) fn request(&self, prepared: &Prepared) -> reqwest::Request {
        let mut request = reqwest::Request::new(prepared.method.clone(), prepared.url.clone());
        let headers = request.headers_mut();
        *headers = prepared.headers.clone();
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if let Some((name, value)) = &self.credential {
            headers.insert(name.clone(), value.clone());
        }
        *request.body_mut() = prepared.body.clone().map(reqwest::Body::from);
        request
    }
}
