//! Turns a guest's request into the request to send: parsed, checked, matched, canonical.
//!
//! Afterwards the host only adds its own headers, so the matched request is the one sent. Nothing here waits or
//! sends.

use std::time::Duration;

use bytes::Bytes;
use ccm_core::safety::permit::Access;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{HeaderName, Method};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use url::{Url, form_urlencoded};

use super::body_fields::{Content, FORM, Looked};
use super::headers::{self, Source};
use super::limits::EgressLimits;
use super::message::{FetchError, FetchRequest};
use super::path::{self, CanonicalPath};
use super::rules::{self, Asked, Line, METHODS};
use crate::manifest::Contract;

/// Limits of the contract.
const MAX_QUERY_PAIRS: usize = 64;
const MAX_QUERY_BYTES: usize = 8 << 10;
/// RFC 3986's `unreserved` stay, everything else is encoded: such a query has only one reading.
pub(super) const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Request that a line of the grant admits.
#[derive(Debug)]
pub(super) struct Prepared {
    /// Index of the target in its egress.
    pub target: usize,
    /// Line that admits the request; its access is `write` if the operator's grant calls the request a change.
    pub line: Line,
    /// One of the methods that a rule can name.
    pub method: Method,
    /// Path below the base path.
    pub path: CanonicalPath,
    /// Scheme, host, port, base path, path and query, all in canonical form.
    pub url: Url,
    /// Headers of the guest.
    pub headers: HeaderMap,
    /// Body, re-encoded if it is a form.
    pub body: Option<Bytes>,
    /// Whether its answer may be shared. Every other request drops the cached answers of its target.
    pub is_shareable: bool,
    /// Maximum age of a cached answer that the guest accepts; `None` if the response cache is not used.
    pub max_age: Option<Duration>,
}

/// The part of a target that requests are checked against.
#[derive(Debug, Clone, Copy)]
pub(super) struct MatchContext<'a> {
    /// Version of the contract that the guest was built against.
    pub contract: Contract,
    /// Index of the target in its egress.
    pub index: usize,
    /// Name of the target in the grant and in the manifest.
    pub name: &'a str,
    /// Scheme, host, port, base path.
    pub endpoint: &'a Url,
    /// Requests that the grant admits.
    pub lines: &'a [Line],
    /// Requests that count as changes, whichever line admits them.
    pub changes: &'a [Line],
    /// Requests that the grant would admit if the module's manifest requested them.
    pub given: &'a [Line],
    /// Header that carries the credential.
    pub credential: Option<&'a HeaderName>,
    /// Whether the host signs requests: then no field of a guest's may be a part of a signature.
    pub is_signed: bool,
}

/// Checks a request against a target. With `fresh`, neither this host nor caches on the way may serve a cached
/// answer.
///
/// # Errors
/// [`FetchError::Invalid`] for a malformed request, [`FetchError::Denied`] for one that is not granted.
pub(super) fn prepare(
    context: &MatchContext<'_>,
    request: FetchRequest,
    source: Source,
    fresh: bool,
    limits: &EgressLimits,
) -> Result<Prepared, FetchError> {
    let FetchRequest {
        target: _,
        method,
        path,
        query,
        headers,
        body,
        supplementary: _,
    } = request;
    if !METHODS.contains(&method) {
        return Err(FetchError::Denied(format!(
            "{method} on target {}: this method cannot be granted",
            context.name
        )));
    }
    let path = path::canonical(&path).map_err(|error| FetchError::Invalid(error.to_string()))?;
    check_query(&query)?;
    let mut headers =
        headers::request(&headers, context.credential, source).map_err(FetchError::Invalid)?;
    let mut body = body.filter(|body| !body.is_empty() || !is_bodiless(&method));
    if let Some(body) = &body {
        check_body(&method, body, limits)?;
    }
    let content = Content::read(&headers, body.as_deref())?;
    if context.is_signed {
        let fields = query.iter().chain(content.form().into_iter().flatten());
        if let Some((name, _)) = fields.into_iter().find(|(name, _)| is_of_a_signature(name)) {
            return Err(FetchError::Invalid(format!(
                "field {name} belongs to the host, which signs requests to target {}",
                context.name
            )));
        }
    }
    let asked = Asked {
        method: &method,
        path: &path,
        query: &query,
        form: content.form(),
    };
    let mut line = rules::first(context.lines, &asked)
        .ok_or_else(|| unrequested(context, &asked))?
        .clone();
    if rules::first(context.changes, &asked).is_some() {
        line.access = Access::Write;
    }
    // A change must not pass as something else because it is spelled so that only the cloud recognises it.
    let near = context.changes.iter().filter(|change| change.is_at(&asked));
    let looked = Looked::at(near.chain([&line]));
    looked
        .check(&query, &content, body.as_deref())
        .map_err(|why| {
            let (path, name) = (path.as_str(), context.name);
            FetchError::Denied(format!("{method} {path} on target {name}: {why}"))
        })?;
    if let (false, Some(fields)) = (looked.is_empty(), content.form()) {
        body = Some(anew(fields));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(FORM));
    }
    let url = url(context.endpoint, &path, &query)?;
    let honours_age = match method {
        Method::GET => true,
        // Contract 0.1 shares answers to `GET` alone.
        Method::POST => line.access == Access::Read && context.contract != Contract::V0_1,
        _ => false,
    };
    let is_shareable = honours_age && line.access == Access::Read;
    let max_age = match honours_age {
        true => max_age(&mut headers),
        false => None,
    };
    if fresh && method == Method::GET {
        // Caches between this host and the cloud must not defeat the caller's request for fresh answers.
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    }
    let max_age = max_age.filter(|age| is_shareable && !fresh && !age.is_zero());
    Ok(Prepared {
        target: context.index,
        line,
        method,
        path,
        url,
        headers,
        body,
        is_shareable,
        max_age,
    })
}

fn check_query(query: &[(String, String)]) -> Result<(), FetchError> {
    let lengths = query.iter().map(|(name, value)| name.len() + value.len());
    if query.len() > MAX_QUERY_PAIRS || lengths.sum::<usize>() > MAX_QUERY_BYTES {
        return Err(FetchError::Invalid(format!(
            "a query has at most {MAX_QUERY_PAIRS} pairs and {MAX_QUERY_BYTES} bytes"
        )));
    }
    Ok(())
}

fn check_body(method: &Method, body: &Bytes, limits: &EgressLimits) -> Result<(), FetchError> {
    if body.len() > limits.request_bytes {
        return Err(FetchError::Invalid(format!(
            "a body has at most {} bytes",
            limits.request_bytes
        )));
    }
    if is_bodiless(method) {
        return Err(FetchError::Invalid(format!("{method} carries no body")));
    }
    Ok(())
}

/// Error for a request that no line of the module's manifest requests. Every requested line is granted: otherwise the
/// module would not be loaded.
fn unrequested(context: &MatchContext<'_>, asked: &Asked<'_>) -> FetchError {
    let (method, path, name) = (asked.method, asked.path.as_str(), context.name);
    let grants = match rules::first(context.given, asked) {
        Some(_) => "although the grants allow it",
        None => "and the grants do not allow it either",
    };
    FetchError::Denied(format!(
        "{method} {path} on target {name}: the module's own manifest does not request it, {grants}"
    ))
}

/// Whether AWS reads an identity or a signature from a query or form field of this name: those of version 4, and of
/// version 2, which some services still know.
fn is_of_a_signature(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let of_version_2 = [
        "awsaccesskeyid",
        "securitytoken",
        "signature",
        "signaturemethod",
        "signatureversion",
    ];
    name.starts_with("x-amz-") || of_version_2.contains(&name.as_str())
}

fn is_bodiless(method: &Method) -> bool {
    [Method::GET, Method::HEAD].contains(method)
}

/// Re-encodes a form, so that no server finds other fields in the guest's bytes than the rules did.
fn anew(fields: &[(String, String)]) -> Bytes {
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.extend_pairs(fields).finish().into()
}

/// Builds the URL and checks that it still has the matched path.
fn url(
    endpoint: &Url,
    path: &CanonicalPath,
    query: &[(String, String)],
) -> Result<Url, FetchError> {
    let expected = format!("{}{}", endpoint.path().trim_end_matches('/'), path.as_str());
    let mut url = endpoint.clone();
    url.set_path(&expected);
    if !query.is_empty() {
        let pairs: Vec<_> = query
            .iter()
            .map(|(name, value)| {
                format!(
                    "{}={}",
                    utf8_percent_encode(name, ENCODED),
                    utf8_percent_encode(value, ENCODED)
                )
            })
            .collect();
        url.set_query(Some(&pairs.join("&")));
    }
    if url.path() != expected {
        return Err(FetchError::Invalid(
            "the path does not survive being put into a URL".to_owned(),
        ));
    }
    Ok(url)
}

/// Removes `Cache-Control: max-age=N` and returns N, if the header says nothing else: the host itself honours it.
fn max_age(headers: &mut HeaderMap) -> Option<Duration> {
    let mut values = headers.get_all(CACHE_CONTROL).iter();
    let text = values.next()?.to_str().ok()?.trim().to_ascii_lowercase();
    if values.next().is_some() {
        return None;
    }
    let digits = text.strip_prefix("max-age=")?;
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    headers.remove(CACHE_CONTROL);
    Some(
        digits
            .parse()
            .map_or(super::response_cache::OLDEST, Duration::from_secs),
    )
}
