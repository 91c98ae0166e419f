//! Credentials: the header or signature that the host adds to a target's requests, and the check that no answer repeats
//! it.
//!
//! A guest never sees a credential: the host adds it below everything that a guest can read, and withholds an answer
//! that repeats it. No text that passed the [`SecretRedactor`] contains one. Credentials that an issuer issues are
//! fetched by the host (`issuers`), renewed (`renewal`) and treated as those of the operator.

mod authentication;
mod aws_refusal;
mod issuer_client;
mod issuers;
mod redactor;
mod renewal;
mod sigv4;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::header::{AUTHORIZATION, HeaderName, HeaderValue};
use thiserror::Error;
use url::form_urlencoded;
use zeroize::Zeroizing;

use crate::grant::{AwsKeys, Credential, Secret};

pub(super) use authentication::{Attachment, Authentication, identity};
pub use issuer_client::WallClock;
pub(super) use issuer_client::{IssuerClient, IssuerSettings};
pub(super) use issuers::instance_metadata;
pub(super) use redactor::SecretRedactor;

/// Longest access key ID of AWS.
const MAX_KEY_ID: usize = 128;

/// Why a credential is unusable. Never contains any part of its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum CredentialError {
    /// The value contains characters that headers cannot carry.
    #[error("the credential is empty or has characters that no header can carry")]
    Value,
    /// RFC 7617: the first colon ends the user name, so it must not contain one.
    #[error("a user name has no colon")]
    User,
    /// Not a header name, or a header reserved for the host.
    #[error("the credential's header name is not a header that a credential can use")]
    Name,
    /// The access key ID has characters that would end its place in a signature.
    #[error("the access key ID has other characters than letters, digits and _ - .")]
    AccessKeyId,
    /// Region or service cannot be part of a signature.
    #[error("the region or the service cannot be part of a signature")]
    SigningScope,
    /// The time cannot be written into a signature.
    #[error("the clock is beyond every calendar")]
    Clock,
}

/// Header that carries the credential; `None` without one, or if it is no fixed header.
///
/// # Errors
/// See [`CredentialError`].
pub(super) fn header(
    credential: &Credential,
) -> Result<Option<(HeaderName, HeaderValue)>, CredentialError> {
    let (name, text) = match credential {
        Credential::None
        | Credential::AwsSigV4(_)
        | Credential::OAuth2(_)
        | Credential::Keystone(_) => return Ok(None),
        Credential::Bearer(token) => (AUTHORIZATION, filled("Bearer ", token)?),
        Credential::Basic { user, password } => {
            if user.contains(':') {
                return Err(CredentialError::User);
            }
            let encoded = Zeroizing::new(basic(user, password));
            (
                AUTHORIZATION,
                Zeroizing::new(format!("Basic {}", encoded.as_str())),
            )
        }
        Credential::Header { name, value } => {
            let name: HeaderName = name.parse().map_err(|_| CredentialError::Name)?;
            // A vendor header; HTTP's own headers would change the meaning of the request.
            if name != AUTHORIZATION && super::headers::is_owned(&name) {
                return Err(CredentialError::Name);
            }
            (name, filled("", value)?)
        }
    };
    Ok(Some((name, sensitive(&text)?)))
}

/// Header value that HTTP/2 keeps out of its compression tables and debug output hides.
///
/// # Errors
/// The text has characters that no header can carry.
fn sensitive(text: &str) -> Result<HeaderValue, CredentialError> {
    let mut value = HeaderValue::from_str(text).map_err(|_| CredentialError::Value)?;
    value.set_sensitive(true);
    Ok(value)
}

fn filled(prefix: &str, secret: &Secret) -> Result<Zeroizing<String>, CredentialError> {
    let text = secret.expose();
    if text.is_empty() || !text.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
        return Err(CredentialError::Value);
    }
    Ok(Zeroizing::new(format!("{prefix}{text}")))
}

/// Keys that can be used for signatures.
///
/// # Errors
/// A part of the keys cannot be written into a request.
fn checked(keys: &AwsKeys) -> Result<AwsKeys, CredentialError> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    let id = &keys.access_key_id;
    if id.is_empty() || id.len() > MAX_KEY_ID || !id.bytes().all(is_part) {
        return Err(CredentialError::AccessKeyId);
    }
    filled("", &keys.secret_access_key)?;
    if let Some(token) = &keys.session_token {
        filled("", token)?;
    }
    Ok(keys.clone())
}

fn basic(user: &str, password: &Secret) -> String {
    BASE64_STANDARD.encode(Zeroizing::new(format!("{user}:{}", password.expose())).as_bytes())
}

/// User and password of an OAuth 2.0 client, which are encoded like fields of a form (RFC 6749, 2.3.1).
fn login_of_client(id: &str, secret: &Secret) -> (String, Secret) {
    let encoded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    (encoded(id), Secret::new(encoded(secret.expose())))
}

#[cfg(test)]
mod tests;
