//! Exchanges with the issuers of credentials, one file for each kind. Here: the types of issued and presented
//! credentials, and the checks that all kinds share.

mod aws_metadata;
mod aws_sts;
mod keystone;
mod oauth2;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use ccm_core::safety::tenure::Tenure;
use tokio::io::AsyncReadExt as _;
use zeroize::Zeroizing;

pub(in crate::egress) use aws_metadata::InstanceMetadata;

use super::issuer_client::IssuerSettings;
use super::redactor::SecretRedactor;
use super::{filled, issuer_client};
use crate::egress::IssuerReach;
use crate::egress::dial::DialError;
use crate::grant::{AwsKeys, AwsSource, Keystone, OAuth2, Presented, Secret};

/// Largest token that is presented or accepted, in bytes. Tokens of ServiceAccounts have some 2 KiB.
const MAX_TOKEN: usize = 16 << 10;

/// An issued credential.
pub(super) struct Issued {
    pub(super) material: Material,
    /// Time of expiry, by the host's clock.
    pub(super) expires: SystemTime,
}

/// Secret part of a credential, with which requests are authenticated.
pub(in crate::egress) enum Material {
    /// Keys that requests are signed with.
    AwsKeys(AwsKeys),
    /// A token that is sent in a header.
    Token(Secret),
}

impl Material {
    /// The secrets in it, for the redactor.
    pub(super) fn secrets(&self) -> Vec<Secret> {
        match self {
            Material::Token(token) => vec![token.clone()],
            Material::AwsKeys(keys) => {
                let token = keys.session_token.iter().cloned();
                token.chain([keys.secret_access_key.clone()]).collect()
            }
        }
    }
}

/// An issuer and its client, by the kind of credential.
pub(in crate::egress) enum Source {
    WebIdentity(aws_sts::AssumeRole),
    Container(aws_metadata::ContainerCredentials),
    InstanceMetadata(InstanceMetadata),
    OAuth2(Box<oauth2::TokenRequest>),
    Keystone(keystone::TokenRequest),
}

impl Source {
    /// The issuer of AWS keys; `None` if the operator named the keys themselves.
    ///
    /// # Errors
    /// The issuer cannot be dialled.
    pub(super) fn aws(
        source: &AwsSource,
        settings: &IssuerSettings<'_>,
    ) -> Result<Option<Source>, DialError> {
        Ok(Some(match source {
            AwsSource::Keys(_) => return Ok(None),
            AwsSource::WebIdentity(identity) => {
                Source::WebIdentity(aws_sts::AssumeRole::new(identity, settings)?)
            }
            AwsSource::Container {
                issuer,
                authorization,
            } => Source::Container(aws_metadata::ContainerCredentials::new(
                issuer,
                authorization.as_ref(),
                settings,
            )?),
            AwsSource::InstanceMetadata { issuer } => {
                Source::InstanceMetadata(InstanceMetadata::new(issuer, settings)?)
            }
        }))
    }

    /// The client of an OAuth 2.0 token endpoint.
    ///
    /// # Errors
    /// The endpoint cannot be dialled.
    pub(super) fn oauth2(
        oauth2: &OAuth2,
        settings: &IssuerSettings<'_>,
    ) -> Result<Source, DialError> {
        oauth2::TokenRequest::new(oauth2, settings).map(|request| Source::OAuth2(Box::new(request)))
    }

    /// The client of a Keystone.
    ///
    /// # Errors
    /// The Keystone cannot be dialled.
    pub(super) fn keystone(
        keystone: &Keystone,
        settings: &IssuerSettings<'_>,
    ) -> Result<Source, DialError> {
        keystone::TokenRequest::new(keystone, settings).map(Source::Keystone)
    }

    /// Ties the issuer's connections to a lease.
    pub(super) fn enter(&self, tenure: &Arc<Tenure>) {
        match self {
            Source::WebIdentity(role) => role.client.enter(tenure),
            Source::Container(container) => container.client.enter(tenure),
            Source::InstanceMetadata(metadata) => metadata.client.enter(tenure),
            Source::OAuth2(request) => request.client.enter(tenure),
            Source::Keystone(request) => request.client.enter(tenure),
        }
    }

    /// Requests a credential. Every secret that is read for it is redacted from now on.
    ///
    /// # Errors
    /// Why no credential was issued.
    pub(super) async fn issue(&self, redactor: &SecretRedactor) -> Result<Issued, String> {
        match self {
            Source::WebIdentity(role) => role.issue(redactor).await,
            Source::Container(container) => container.issue(redactor).await,
            Source::InstanceMetadata(metadata) => metadata.issue(redactor).await,
            Source::OAuth2(request) => request.issue(redactor).await,
            Source::Keystone(request) => request.issue().await,
        }
    }
}

/// Kind and place of the issuer, for people.
impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::WebIdentity(role) => write!(f, "{role}"),
            Source::Container(container) => write!(f, "{container}"),
            Source::InstanceMetadata(metadata) => {
                write!(f, "instance metadata at {}", metadata.client.endpoint)
            }
            Source::OAuth2(request) => write!(f, "{request}"),
            Source::Keystone(request) => write!(f, "Keystone at {}", request.client.endpoint),
        }
    }
}

/// Returns a token to present to an issuer; the token of a file is redacted from now on.
///
/// # Errors
/// The file cannot be read, or holds no token. Names the file, and no part of the token.
async fn presented(token: &Presented, redactor: &SecretRedactor) -> Result<Secret, String> {
    match token {
        Presented::Text(secret) => Ok(secret.clone()),
        Presented::File(path) => {
            let text = read(path).await;
            let secret = text.and_then(|text| taken(&text));
            let secret = secret.map_err(|why| format!("{}: {why}", path.display()))?;
            redactor.learn_presented(vec![secret.clone()]);
            Ok(secret)
        }
    }
}

async fn read(path: &Path) -> Result<Zeroizing<String>, String> {
    let file = tokio::fs::File::open(path).await;
    let file = file.map_err(|error| error.to_string())?;
    let mut text = Zeroizing::new(String::new());
    let most = MAX_TOKEN as u64 + 1;
    let read = file.take(most).read_to_string(&mut text).await;
    read.map_err(|error| error.to_string())?;
    Ok(text)
}

/// Checks a token that was read from a file or issued, and removes the white space around it.
///
/// # Errors
/// No header can carry it, or it is too long.
fn taken(text: &str) -> Result<Secret, String> {
    let secret = Secret::new(text.trim().to_owned());
    if secret.expose().len() > MAX_TOKEN {
        return Err(format!("a token of more than {MAX_TOKEN} bytes"));
    }
    filled("", &secret)
        .map_err(|_| "a token that is empty, or that no header can carry".to_owned())?;
    Ok(secret)
}

/// Parses a time in the form of RFC 3339.
fn time(text: &str) -> Result<SystemTime, String> {
    let time: Result<jiff::Timestamp, _> = text.parse();
    time.map(SystemTime::from)
        .map_err(|_| "the time of expiry cannot be read".to_owned())
}

/// Checks issued keys as if they were an operator's.
fn issued_keys(id: String, secret: String, token: String, expires: &str) -> Result<Issued, String> {
    let keys = AwsKeys {
        access_key_id: id,
        secret_access_key: taken(&Zeroizing::new(secret))?,
        session_token: Some(taken(&Zeroizing::new(token))?),
    };
    Ok(Issued {
        material: Material::AwsKeys(super::checked(&keys).map_err(|error| error.to_string())?),
        expires: time(expires)?,
    })
}
