//! Determines the user of a request, as upstream's delegating authentication does (PROC-075): by a front proxy's
//! headers, a client certificate or a bearer token, in this order; otherwise the request is anonymous. Wrong
//! credentials are refused; they never make a request anonymous.

mod client_certificate;
mod request_header;
mod token_review;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use kube::Client;
use rustls::pki_types::CertificateDer;

use crate::ServingError;
use crate::cluster_settings::{ClusterSettings, FrontProxy};
use crate::settings::Authentication;

pub(crate) use client_certificate::CertificateAuthority;
use token_review::TokenReviewer;

/// How often the files and the cluster's settings are read again.
const LOOK: Duration = Duration::from_secs(60);
/// How often they are read while they could not be read at all.
const RETRY: Duration = Duration::from_secs(5);

/// The name and the group of a client without credentials.
const ANONYMOUS: &str = "system:anonymous";
const UNAUTHENTICATED: &str = "system:unauthenticated";

/// An authenticated or anonymous user.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct User {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    pub(crate) fn anonymous() -> User {
        User {
            name: ANONYMOUS.to_owned(),
            groups: vec![UNAUTHENTICATED.to_owned()],
            ..User::default()
        }
    }

    /// Adds the group of all users that were authenticated; as upstream, not if the front proxy or the API server calls
    /// the client nobody.
    fn authenticated(mut self) -> User {
        let group = "system:authenticated";
        let is_either = |known: &String| [group, UNAUTHENTICATED].contains(&known.as_str());
        if self.name != ANONYMOUS && !self.groups.iter().any(is_either) {
            self.groups.push(group.to_owned());
        }
        self
    }
}

/// Why a request that carries credentials has no user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unauthorized {
    Invalid,
    /// The API server did not review them.
    NotReviewed,
}

/// Certificates that the client presented, its own first.
#[derive(Clone, Default)]
pub(crate) struct PeerCertificates(pub(crate) Arc<[CertificateDer<'static>]>);

/// Determines the user of each request.
pub(crate) struct Authenticator {
    settings: Authentication,
    cluster: ClusterSettings,
    reviewer: Option<TokenReviewer>,
}

impl Authenticator {
    /// Reads the files and the cluster's own settings.
    ///
    /// # Errors
    /// They cannot be read, and are required (PROC-076).
    pub(crate) async fn new(
        settings: Authentication,
        client: Option<Client>,
    ) -> Result<Authenticator, ServingError> {
        let cluster = ClusterSettings::read(&settings, client.clone()).await?;
        Ok(Authenticator {
            reviewer: client.map(|client| TokenReviewer::new(client, settings.cache)),
            settings,
            cluster,
        })
    }

    /// Reads the files and settings again at intervals, for ever.
    pub(crate) async fn follow(self: Arc<Self>) {
        loop {
            let is_complete = self.cluster.trusted().is_complete;
            tokio::time::sleep(if is_complete { LOOK } else { RETRY }).await;
            self.cluster.look(&self.settings).await;
        }
    }

    /// The user of a request.
    ///
    /// # Errors
    /// Its credentials are invalid, or could not be reviewed.
    pub(crate) async fn user(
        &self,
        peer: &PeerCertificates,
        headers: &HeaderMap,
    ) -> Result<User, Unauthorized> {
        let trusted = self.cluster.trusted();
        // Each way is tried until one names a user, as upstream: what is invalid in one may be valid in another.
        let proxied = match &trusted.front_proxy {
            None => Ok(None),
            Some(FrontProxy {
                authority,
                headers: names,
            }) => request_header::user(authority, names, peer, headers),
        };
        if let Ok(Some(user)) = proxied {
            return Ok(user.authenticated());
        }
        let named = trusted.client_authority.as_ref();
        let named = named.map_or(Ok(None), |authority| authority.user(peer));
        if let Ok(Some(user)) = named {
            return Ok(user.authenticated());
        }
        match (bearer(headers), &self.reviewer) {
            (Some(token), Some(reviewer)) => Ok(reviewer.user(token).await?.authenticated()),
            (Some(_), None) => Err(Unauthorized::Invalid),
            (None, _) => proxied.and(named).map(|_| User::anonymous()),
        }
    }
}

/// The bearer token of a request, as Go reads it: the scheme in any case, one or more spaces, no empty token.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?.trim();
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests;
