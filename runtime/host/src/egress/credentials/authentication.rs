//! How the requests of one target are authenticated: with a header that is always the same, or with a signature of each.

use std::time::SystemTime;

use http::Request;
use http::header::{AUTHORIZATION, HeaderName, HeaderValue};
use sha2::{Digest as _, Sha256};

use super::sigv4::{self, SigningScope};
use super::{CredentialError, filled, header};
use crate::grant::{AwsKeys, AwsSource, Credential};

/// See the module docs. Holds secrets: neither printed nor compared.
pub(in crate::egress) enum Authentication {
    /// None.
    None,
    /// The same header in each request.
    Header(HeaderName, HeaderValue),
    /// A signature of each request.
    AwsSigV4 {
        /// What it is valid for.
        scope: SigningScope,
        /// What it is made with.
        keys: AwsKeys,
    },
}

impl Authentication {
    /// Reads the credential of a grant.
    ///
    /// # Errors
    /// See [`CredentialError`].
    pub(in crate::egress) fn new(
        credential: &Credential,
    ) -> Result<Authentication, CredentialError> {
        if let Credential::AwsSigV4(aws) = credential {
            aws.check().map_err(|_| CredentialError::SigningScope)?;
            let AwsSource::Keys(keys) = &aws.source;
            return Ok(Authentication::AwsSigV4 {
                scope: SigningScope {
                    region: aws.region.clone(),
                    service: aws.service.clone(),
                },
                keys: checked(keys)?,
            });
        }
        Ok(match header(credential)? {
            Some((name, value)) => Authentication::Header(name, value),
            None => Authentication::None,
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

    /// Header that belongs to the host because of it.
    pub(in crate::egress) fn header(&self) -> Option<&HeaderName> {
        match self {
            Authentication::None => None,
            Authentication::Header(name, _) => Some(name),
            Authentication::AwsSigV4 { .. } => Some(&AUTHORIZATION),
        }
    }

    /// Adds the credential to a request that is otherwise final. `at` is the host's time.
    ///
    /// # Errors
    /// It cannot be signed.
    pub(in crate::egress) fn authenticate<B>(
        &self,
        request: &mut Request<B>,
        body: &[u8],
        at: SystemTime,
    ) -> Result<(), CredentialError> {
        match self {
            Authentication::None => Ok(()),
            Authentication::Header(name, value) => {
                request.headers_mut().insert(name.clone(), value.clone());
                Ok(())
            }
            Authentication::AwsSigV4 { scope, keys } => sigv4::sign(request, body, scope, keys, at),
        }
    }
}

/// Keys that can be used for signatures.
fn checked(keys: &AwsKeys) -> Result<AwsKeys, CredentialError> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    let id = &keys.access_key_id;
    if id.is_empty() || !id.bytes().all(is_part) {
        return Err(CredentialError::AccessKeyId);
    }
    filled("", &keys.secret_access_key)?;
    if let Some(token) = &keys.session_token {
        filled("", token)?;
    }
    Ok(keys.clone())
}

/// Tells accounts apart by their credentials, and is no way back to them: generations with the same one share the quota.
pub(in crate::egress) fn identity(credential: &Credential) -> [u8; 32] {
    let parts: Vec<&[u8]> = match credential {
        Credential::None => Vec::new(),
        Credential::Bearer(token) => vec![token.expose().as_bytes()],
        Credential::Basic { user, password } => vec![user.as_bytes(), password.expose().as_bytes()],
        Credential::Header { name, value } => vec![name.as_bytes(), value.expose().as_bytes()],
        Credential::AwsSigV4(aws) => {
            let AwsSource::Keys(keys) = &aws.source;
            vec![aws.region.as_bytes(), keys.access_key_id.as_bytes()]
        }
    };
    let mut hash = Sha256::new();
    for part in [credential.kind().as_bytes()].into_iter().chain(parts) {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}
