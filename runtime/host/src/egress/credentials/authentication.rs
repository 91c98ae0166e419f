//! How the requests of one target are authenticated: with a constant header, with a header that holds an issued token,
//! or with a signature of each request.

use std::sync::Arc;
use std::time::SystemTime;

use ccm_core::safety::tenure::Tenure;
use http::Request;
use http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use tokio::time::Instant;
use zeroize::Zeroizing;

use super::issuers::{Issuance, Material, Source};
use super::renewal::Renewal;
use super::sigv4::{self, SigningScope};
use super::{
    CredentialError, IssuerSettings, SecretRedactor, aws_refusal, checked, header, sensitive,
};
use crate::digest::sha256_of_parts;
use crate::egress::EgressError;
use crate::egress::message::FetchError;
use crate::grant::{AwsSource, Credential, Issuer, KeystoneMethod};

const X_AUTH_TOKEN: HeaderName = HeaderName::from_static("x-auth-token");

/// How the requests of one target are authenticated. Holds secrets: neither printed nor compared.
pub(in crate::egress) enum Authentication {
    /// Requests are sent without authentication.
    None,
    /// The same header in each request.
    Header(HeaderName, HeaderValue),
    /// A header with an issued token.
    Token {
        /// Name of the header.
        header: HeaderName,
        /// Text before the token, such as `Bearer `.
        prefix: &'static str,
        /// Source of the token.
        renewal: Arc<Renewal>,
    },
    /// A signature of each request.
    AwsSigV4 {
        /// Region and service for which a signature is valid.
        scope: SigningScope,
        /// Keys with which requests are signed.
        keys: Keys,
    },
}

/// AWS keys of a target.
pub(in crate::egress) enum Keys {
    /// Keys that the operator has named.
    Named(Arc<Material>),
    /// Temporary keys of an issuer.
    Issued(Arc<Renewal>),
}

/// The authentication of one request.
pub(in crate::egress) enum Attachment<'a> {
    Nothing,
    Header(&'a HeaderName, HeaderValue),
    Signature(&'a SigningScope, Arc<Material>),
}

impl Authentication {
    /// Reads the credential of a grant; sends nothing yet.
    ///
    /// # Errors
    /// The credential is unusable, or the endpoint that issues it.
    pub(in crate::egress) fn new(
        target: &str,
        credential: &Credential,
        redactor: &Arc<SecretRedactor>,
        settings: &IssuerSettings<'_>,
    ) -> Result<Authentication, EgressError> {
        let issued = |issuer: &Issuer, issuance| {
            let source = Source::new(issuer, issuance, settings).map_err(|source| {
                let target = target.to_owned();
                EgressError::Issuer { target, source }
            })?;
            let clock = settings.clock.clone();
            Ok::<_, EgressError>(Renewal::new(source, target, redactor.clone(), clock))
        };
        let unusable = |source| {
            let target = target.to_owned();
            EgressError::Credential { target, source }
        };
        Ok(match credential {
            Credential::AwsSigV4(aws) => {
                let is_scope = aws.check();
                is_scope.map_err(|_| unusable(CredentialError::SigningScope))?;
                let keys = match &aws.source {
                    AwsSource::Keys(keys) => {
                        let keys = checked(keys).map_err(unusable)?;
                        Keys::Named(Arc::new(Material::AwsKeys(keys)))
                    }
                    AwsSource::WebIdentity(identity) => {
                        let issuance = Issuance::WebIdentity(identity.clone());
                        Keys::Issued(issued(&identity.issuer, issuance)?)
                    }
                    AwsSource::Container {
                        issuer,
                        authorization,
                    } => {
                        let issuance = Issuance::Container(authorization.clone());
                        Keys::Issued(issued(issuer, issuance)?)
                    }
                    AwsSource::InstanceMetadata { issuer } => {
                        Keys::Issued(issued(issuer, Issuance::InstanceMetadata)?)
                    }
                };
                let scope = SigningScope {
                    region: aws.region.clone(),
                    service: aws.service.clone(),
                };
                Authentication::AwsSigV4 { scope, keys }
            }
            Credential::OAuth2(oauth2) => Authentication::Token {
                header: AUTHORIZATION,
                prefix: "Bearer ",
                renewal: issued(&oauth2.issuer, Issuance::OAuth2(oauth2.clone()))?,
            },
            Credential::Keystone(keystone) => Authentication::Token {
                header: X_AUTH_TOKEN,
                prefix: "",
                renewal: issued(
                    &keystone.issuer,
                    Issuance::Keystone(keystone.method.clone()),
                )?,
            },
            fixed => match header(fixed).map_err(unusable)? {
                Some((name, value)) => Authentication::Header(name, value),
                None => Authentication::None,
            },
        })
    }

    /// Whether there is a credential.
    pub(in crate::egress) fn is_some(&self) -> bool {
        !matches!(self, Authentication::None)
    }

    /// Whether each request is signed.
    pub(in crate::egress) fn signs(&self) -> bool {
        matches!(self, Authentication::AwsSigV4 { .. })
    }

    /// Header that guests may not set, because it carries the credential.
    pub(in crate::egress) fn header(&self) -> Option<&HeaderName> {
        match self {
            Authentication::None => None,
            Authentication::Header(name, _) | Authentication::Token { header: name, .. } => {
                Some(name)
            }
            Authentication::AwsSigV4 { .. } => Some(&AUTHORIZATION),
        }
    }

    /// The authentication of the next request; waits until `until` for a credential that has to be issued. Issuers are
    /// asked under the same tenure as targets.
    ///
    /// # Errors
    /// The credential was not issued.
    pub(in crate::egress) async fn attachment(
        &self,
        tenure: &Arc<Tenure>,
        until: Instant,
    ) -> Result<Attachment<'_>, FetchError> {
        Ok(match self {
            Authentication::None => Attachment::Nothing,
            Authentication::Header(name, value) => Attachment::Header(name, value.clone()),
            Authentication::Token {
                header,
                prefix,
                renewal,
            } => match &*renewal.material(tenure, until).await? {
                Material::Token(token) => {
                    let text = Zeroizing::new(format!("{prefix}{}", token.expose()));
                    let value = sensitive(&text);
                    let value =
                        value.map_err(|error| FetchError::Unavailable(error.to_string()))?;
                    Attachment::Header(header, value)
                }
                Material::AwsKeys(_) => Attachment::Nothing,
            },
            Authentication::AwsSigV4 { scope, keys } => Attachment::Signature(
                scope,
                match keys {
                    Keys::Named(keys) => keys.clone(),
                    Keys::Issued(renewal) => renewal.material(tenure, until).await?,
                },
            ),
        })
    }

    /// The error of this machine's clock, if an answer refuses a signature because of it.
    pub(in crate::egress) fn clock(
        &self,
        status: u16,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Option<String> {
        let code = aws_refusal::code(status, body).filter(|_| self.signs())?;
        let clock = aws_refusal::clock(headers, SystemTime::now())?;
        Some(format!("the signature is refused ({code}): {clock}"))
    }

    /// Whether an answer refuses the credential, so that another one is needed. 403 alone says nothing about it:
    /// authentication succeeded, authorization failed.
    pub(in crate::egress) fn is_refused(&self, status: u16, body: &[u8]) -> bool {
        let is_refused = status == 401 || self.signs() && aws_refusal::code(status, body).is_some();
        if is_refused {
            match self {
                Authentication::Token { renewal, .. }
                | Authentication::AwsSigV4 {
                    keys: Keys::Issued(renewal),
                    ..
                } => renewal.doubt(),
                _ => {}
            }
        }
        is_refused
    }
}

impl Attachment<'_> {
    /// Adds the authentication to a request that is otherwise final. `at` is the host's time.
    ///
    /// # Errors
    /// The request cannot be signed.
    pub(in crate::egress) fn attach<B>(
        &self,
        request: &mut Request<B>,
        body: &[u8],
        at: SystemTime,
    ) -> Result<(), CredentialError> {
        match self {
            Attachment::Nothing => Ok(()),
            Attachment::Header(name, value) => {
                request.headers_mut().insert(*name, value.clone());
                Ok(())
            }
            Attachment::Signature(scope, keys) => match &**keys {
                Material::AwsKeys(keys) => sigv4::sign(request, body, scope, keys, at),
                Material::Token(_) => Err(CredentialError::SigningScope),
            },
        }
    }
}

/// Hash that tells accounts apart by their credentials, without revealing them: generations with the same hash share
/// the quota.
pub(in crate::egress) fn identity(credential: &Credential) -> [u8; 32] {
    let parts: Vec<&str> = match credential {
        Credential::None => Vec::new(),
        Credential::Bearer(token) => vec![token.expose()],
        Credential::Basic { user, password } => vec![user, password.expose()],
        Credential::Header { name, value } => vec![name, value.expose()],
        Credential::AwsSigV4(aws) => match &aws.source {
            AwsSource::Keys(keys) => vec![&aws.region, &keys.access_key_id],
            AwsSource::WebIdentity(identity) => vec![&aws.region, &identity.role_arn],
            AwsSource::Container { issuer, .. } | AwsSource::InstanceMetadata { issuer } => {
                vec![&aws.region, issuer.endpoint.as_str()]
            }
        },
        Credential::OAuth2(oauth2) => {
            let client = oauth2.client.as_ref();
            let client = client.map_or("", |client| &client.id);
            vec![oauth2.issuer.endpoint.as_str(), client]
        }
        Credential::Keystone(keystone) => {
            let endpoint = keystone.issuer.endpoint.as_str();
            match &keystone.method {
                KeystoneMethod::Password {
                    user,
                    user_domain,
                    project,
                    project_domain,
                    ..
                } => vec![endpoint, user, user_domain, project, project_domain],
                KeystoneMethod::ApplicationCredential { id, .. } => vec![endpoint, id],
            }
        }
    };
    let parts = [credential.kind().as_str()].into_iter().chain(parts);
    sha256_of_parts(parts.map(str::as_bytes))
}
