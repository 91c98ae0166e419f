//! AWS Signature Version 4 in its header form: canonical request, string to sign, signature, `authorization`.
//!
//! Pure: the time is an argument, and nothing is requested. Region and service come from the grant. The signing key is
//! derived for each request, which takes microseconds, and is wiped afterwards. Services that sign in another way (S3,
//! which encodes paths once and wants the hash of the body in a header) are not supported.
//!
//! Source: "Create a signed AWS API request" in AWS's IAM User Guide.

use std::fmt::Write as _;
use std::time::SystemTime;

use hmac::{Hmac, Mac as _};
use http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request};
use percent_encoding::{percent_decode_str, utf8_percent_encode};
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use super::CredentialError;
use crate::egress::canonical_request::ENCODED;
use crate::grant::AwsKeys;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
const X_AMZ_DATE: HeaderName = HeaderName::from_static("x-amz-date");
const X_AMZ_SECURITY_TOKEN: HeaderName = HeaderName::from_static("x-amz-security-token");

/// Headers that are not signed: a proxy or the HTTP library may change them on the way.
const UNSIGNED: [&str; 7] = [
    "authorization",
    "connection",
    "content-length",
    "expect",
    "transfer-encoding",
    "user-agent",
    "x-amzn-trace-id",
];

/// Region and service that a signature is valid for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::egress) struct SigningScope {
    /// Region, such as `eu-central-1`.
    pub region: String,
    /// Service as AWS names it in signatures, such as `ec2`.
    pub service: String,
}

/// Adds `x-amz-date`, `x-amz-security-token` if the keys have one, and `authorization`. Everything else of the request
/// has to be final; the host is taken from its URL.
///
/// # Errors
/// The keys cannot be written into a header, or the time cannot be written as a date.
pub(in crate::egress) fn sign<B>(
    request: &mut Request<B>,
    body: &[u8],
    scope: &SigningScope,
    keys: &AwsKeys,
    at: SystemTime,
) -> Result<(), CredentialError> {
    let time = basic_format(at)?;
    let date = time.get(..8).ok_or(CredentialError::Clock)?;
    let headers = request.headers_mut();
    let stamp = HeaderValue::from_str(&time).map_err(|_| CredentialError::Clock)?;
    headers.insert(X_AMZ_DATE, stamp);
    if let Some(token) = &keys.session_token {
        headers.insert(X_AMZ_SECURITY_TOKEN, super::sensitive(token.expose())?);
    }
    let authority = request.uri().authority();
    let message = Message {
        method: request.method(),
        host: authority.map_or("", |authority| authority.as_str()),
        path: request.uri().path(),
        query: request.uri().query().unwrap_or_default(),
        headers: request.headers(),
        body,
    };
    let signed = signed_headers(&message);
    let canonical = canonical_request(&message, &signed);
    let scope_text = format!("{date}/{}/{}/aws4_request", scope.region, scope.service);
    let hash = hex::encode(Sha256::digest(canonical.as_bytes()));
    let to_sign = format!("{ALGORITHM}\n{time}\n{scope_text}\n{hash}");
    let key = signing_key(keys, date, scope);
    let signature = hex::encode(hmac(key.as_slice(), &to_sign).as_slice());
    let names = names(&signed);
    let id = &keys.access_key_id;
    let value = Zeroizing::new(format!(
        "{ALGORITHM} Credential={id}/{scope_text}, SignedHeaders={names}, Signature={signature}"
    ));
    let value = super::sensitive(&value)?;
    request.headers_mut().insert(AUTHORIZATION, value);
    Ok(())
}

/// Formats a time in ISO 8601's basic format, in UTC: `20150830T123600Z`.
fn basic_format(at: SystemTime) -> Result<String, CredentialError> {
    let at = jiff::Timestamp::try_from(at).map_err(|_| CredentialError::Clock)?;
    Ok(at.strftime("%Y%m%dT%H%M%SZ").to_string())
}

/// The parts of a request that are signed.
struct Message<'a> {
    method: &'a Method,
    /// Host, with the port unless it is the scheme's own.
    host: &'a str,
    /// Path as sent: percent-encoded once.
    path: &'a str,
    /// Query as sent; empty without one.
    query: &'a str,
    headers: &'a HeaderMap,
    body: &'a [u8],
}

/// Signed headers: names in order, each with its values joined by commas.
type Signed = Vec<(String, Zeroizing<String>)>;

fn signed_headers(message: &Message<'_>) -> Signed {
    let mut signed = vec![("host".to_owned(), Zeroizing::new(message.host.to_owned()))];
    for name in message.headers.keys() {
        if name != "host" && !UNSIGNED.contains(&name.as_str()) {
            let values = message.headers.get_all(name).iter();
            let values: Vec<_> = values.map(|value| trimmed(value.as_bytes())).collect();
            let joined = values.iter().map(|value| value.as_str());
            let joined = Zeroizing::new(joined.collect::<Vec<_>>().join(","));
            signed.push((name.as_str().to_owned(), joined));
        }
    }
    signed.sort_by(|(one, _), (other, _)| one.cmp(other));
    signed
}

/// Removes spaces at the ends, and replaces several in a row by one.
fn trimmed(value: &[u8]) -> Zeroizing<String> {
    let mut text = Zeroizing::new(String::with_capacity(value.len()));
    for word in String::from_utf8_lossy(value).split_ascii_whitespace() {
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(word);
    }
    text
}

fn names(signed: &Signed) -> String {
    let names: Vec<_> = signed.iter().map(|(name, _)| name.as_str()).collect();
    names.join(";")
}

/// The canonical request. It contains the session token.
fn canonical_request(message: &Message<'_>, signed: &Signed) -> Zeroizing<String> {
    let mut text = Zeroizing::new(String::with_capacity(1024));
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{}", message.method);
    for (at, segment) in message.path.split('/').enumerate() {
        if at > 0 {
            text.push('/');
        }
        text.extend(utf8_percent_encode(segment, ENCODED));
    }
    let _ = writeln!(text, "\n{}", canonical_query(message.query));
    for (name, value) in signed {
        let _ = writeln!(text, "{name}:{}", value.as_str());
    }
    let hash = hex::encode(Sha256::digest(message.body));
    let _ = write!(text, "\n{}\n{hash}", names(signed));
    text
}

/// Sorts the pairs by their encoded names, then by their encoded values.
fn canonical_query(query: &str) -> String {
    let again = |part: &str| {
        let plain: Vec<u8> = percent_decode_str(part).collect();
        percent_encoding::percent_encode(&plain, ENCODED).to_string()
    };
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let mut pairs: Vec<_> = pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (again(name), again(value))
        })
        .collect();
    pairs.sort();
    let pairs: Vec<_> = pairs
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    pairs.join("&")
}

/// A key, wiped when it is dropped.
type Key = Zeroizing<[u8; 32]>;

fn signing_key(keys: &AwsKeys, date: &str, scope: &SigningScope) -> Key {
    let secret = Zeroizing::new(format!("AWS4{}", keys.secret_access_key.expose()));
    let of_date = hmac(secret.as_bytes(), date);
    let of_region = hmac(of_date.as_slice(), &scope.region);
    let of_service = hmac(of_region.as_slice(), &scope.service);
    hmac(of_service.as_slice(), "aws4_request")
}

fn hmac(key: &[u8], text: &str) -> Key {
    // HMAC takes keys of every length; `new` exists for algorithms that do not.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else {
        return Key::default();
    };
    mac.update(text.as_bytes());
    Zeroizing::new(mac.finalize().into_bytes().into())
}

#[cfg(test)]
mod tests;
