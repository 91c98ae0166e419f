//! Exchanges with the issuers of credentials, one file for each kind. What they have in common is here: what is issued, and
//! what is presented.

mod aws_metadata;
mod aws_sts;
mod keystone;
mod oauth2;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use ccm_core::tenure::Tenure;
use tokio::io::AsyncReadExt as _;
use zeroize::Zeroizing;

pub(in crate::egress) use aws_metadata::InstanceMetadata;

use super::issuer_client::IssuerSettings;
use super::redactor::SecretRedactor;
use super::{filled, issuer_client};
use crate::egress::IssuerReach;
use crate::egress::dial::DialError;
use crate::grant::{AwsKeys, AwsSource, Keystone, OAuth2, Presented, Secret};

/// Largest token that is presented or taken, in bytes. Tokens of ServiceAccounts have some 2 KiB.
const MAX_TOKEN: usize = 16 << 10;

/// What was issued.
pub(super) struct Issued {
    pub(super) material: Material,
    /// When it ends, by the host's clock.
    pub(super) expires: SystemTime,
}

/// What requests are authenticated with.
pub(in crate::egress) enum Material {
    /// Keys that requests are signed with.
    AwsKeys(AwsKeys),
    /// A token that stands in a header.
    Token(Secret),
}

impl Material {
    /// The secrets in it.
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

/// An issuer, and what it is asked for.
pub(in crate::egress) enum Source {
    WebIdentity(aws_sts::AssumeRole),
    Container(aws_metadata::ContainerCredentials),
    InstanceMetadata(InstanceMetadata),
    OAuth2(Box<oauth2::TokenRequest>),
    Keystone(keystone::TokenRequest),
}

impl Source {
    /// The source of keys of AWS; `None` if the operator named the keys themselves.
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

    /// An OAuth 2.0 token endpoint.
    ///
    /// # Errors
    /// It cannot be dialled.
    pub(super) fn oauth2(
        oauth2: &OAuth2,
        settings: &IssuerSettings<'_>,
    ) -> Result<Source, DialError> {
        oauth2::TokenRequest::new(oauth2, settings).map(|request| Source::OAuth2(Box::new(request)))
    }

    /// A Keystone.
    ///
    /// # Errors
    /// It cannot be dialled.
    pub(super) fn keystone(
        keystone: &Keystone,
        settings: &IssuerSettings<'_>,
    ) -> Result<Source, DialError> {
        keystone::TokenRequest::new(keystone, settings).map(Source::Keystone)
    }

    /// Ties its connections to a lease.
    pub(super) fn enter(&self, tenure: &Arc<Tenure>) {
        match self {
            Source::WebIdentity(role) => role.client.enter(tenure),
            Source::Container(container) => container.client.enter(tenure),
            Source::InstanceMetadata(metadata) => metadata.client.enter(tenure),
            Source::OAuth2(request) => request.client.enter(tenure),
            Source::Keystone(request) => request.client.enter(tenure),
        }
    }

    /// Asks for a credential; tells `redactor` what it presents.
    ///
    /// # Errors
    /// Why there is none.
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

/// Which source it is, and where: for people.
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

/// Reads a token that is presented, and has it watched for.
///
/// # Errors
/// It cannot be read, or is none; with the file, never with a part of it.
async fn presented(token: &Presented, redactor: &SecretRedactor) -> Result<Secret, String> {
    match token {
        Presented::Text(secret) => Ok(secret.clone()),
        Presented::File(path) => {
            let text = read(path).await;
            let secret = text.and_then(|text| taken(&text));
            let secret = secret.map_err(|why| format!("{}: {why}", path.display()))?;
            redactor.learn(vec![secret.clone()]);
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

/// A token of somebody else, without the white space around it.
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

/// A time in the form of RFC 3339.
fn time(text: &str) -> Result<SystemTime, String> {
    let time: Result<jiff::Timestamp, _> = text.parse();
    time.map(SystemTime::from)
        .map_err(|_| "the time of expiry cannot be read".to_owned())
}

/// Keys that were issued, checked as those of an operator.
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
