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

pub(in crate::egress) use aws_metadata::instance_metadata;

use super::issuer_client::{IssuerClient, IssuerSettings};
use super::redactor::SecretRedactor;
use super::{filled, issuer_client};
use crate::egress::IssuerReach;
use crate::egress::dial::DialError;
use crate::grant::{AwsKeys, Issuer, KeystoneMethod, OAuth2, Presented, Secret, WebIdentity};

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

/// How a credential is issued, with what the host presents for it.
pub(super) enum Issuance {
    WebIdentity(WebIdentity),
    /// With the token for the `authorization` header, if the service requires one.
    Container(Option<Presented>),
    InstanceMetadata,
    OAuth2(OAuth2),
    Keystone(KeystoneMethod),
}

/// An issuer of credentials.
pub(super) struct Source {
    client: IssuerClient,
    issuance: Issuance,
}

impl Source {
    /// Sets up the client of an issuer; sends nothing yet.
    ///
    /// # Errors
    /// The issuer cannot be dialled.
    pub(super) fn new(
        issuer: &Issuer,
        issuance: Issuance,
        settings: &IssuerSettings<'_>,
    ) -> Result<Source, DialError> {
        let reach = match issuance {
            Issuance::Container(_) | Issuance::InstanceMetadata => IssuerReach::AwsMetadata,
            Issuance::WebIdentity(_) | Issuance::OAuth2(_) | Issuance::Keystone(_) => {
                IssuerReach::Target
            }
        };
        let client = IssuerClient::new(issuer, reach, settings)?;
        Ok(Source { client, issuance })
    }

    /// Ties the issuer's connections to a lease.
    pub(super) fn enter(&self, tenure: &Arc<Tenure>) {
        self.client.enter(tenure);
    }

    /// Requests a credential. Every secret that is read for it is redacted from now on.
    ///
    /// # Errors
    /// Why no credential was issued.
    pub(super) async fn issue(&self, redactor: &SecretRedactor) -> Result<Issued, String> {
        let client = &self.client;
        match &self.issuance {
            Issuance::WebIdentity(identity) => aws_sts::issue(client, identity, redactor).await,
            Issuance::Container(authorization) => {
                aws_metadata::issue_to_container(client, authorization.as_ref(), redactor).await
            }
            Issuance::InstanceMetadata => aws_metadata::issue_to_instance(client, redactor).await,
            Issuance::OAuth2(oauth2) => oauth2::issue(client, oauth2, redactor).await,
            Issuance::Keystone(method) => keystone::issue(client, method).await,
        }
    }
}

/// Kind and place of the issuer, for people.
impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let endpoint = &self.client.endpoint;
        let with = |token: Option<&Presented>| match token {
            Some(Presented::File(path)) => format!(" with the token in {}", path.display()),
            Some(Presented::Text(_)) | None => String::new(),
        };
        match &self.issuance {
            Issuance::WebIdentity(WebIdentity {
                role_arn, token, ..
            }) => {
                let with = with(Some(token));
                write!(f, "web identity for {role_arn}{with} at {endpoint}")
            }
            Issuance::Container(authorization) => {
                let with = with(authorization.as_ref());
                write!(f, "container credentials at {endpoint}{with}")
            }
            Issuance::InstanceMetadata => write!(f, "instance metadata at {endpoint}"),
            Issuance::OAuth2(oauth2) => {
                let with = with(oauth2.grant.presented());
                write!(f, "OAuth 2.0 token endpoint {endpoint}{with}")
            }
            Issuance::Keystone(_) => write!(f, "Keystone at {endpoint}"),
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
