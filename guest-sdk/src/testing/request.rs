//! The host's checks of a request before it is sent.

use super::fields::Content;
use super::manifest::{Admitted, Manifest};
use super::{headers, path};
use crate::bindings::host::ccm::provider::http::{FetchError, Method, Request};

/// Limits of the contract.
const MAX_QUERY_PAIRS: usize = 64;
const MAX_QUERY_BYTES: usize = 8 << 10;
const MAX_BODY: usize = 1 << 20;

/// Checks a request; without a manifest, all but the rules.
///
/// # Errors
/// The error that the host would return in place of the cloud's answer.
pub(super) fn check(
    manifest: Option<&Manifest>,
    request: &Request,
) -> Result<Admitted, FetchError> {
    if let Some(manifest) = manifest
        && let Some(denied) = manifest.ungranted_target(request)
    {
        return Err(denied);
    }
    let (shown_path, segments) =
        path::canonical(&request.path).map_err(|why| FetchError::Invalid(why.to_owned()))?;
    let query = request.query.iter();
    let query_bytes: usize = query.map(|(name, value)| name.len() + value.len()).sum();
    if request.query.len() > MAX_QUERY_PAIRS || query_bytes > MAX_QUERY_BYTES {
        return Err(FetchError::Invalid(format!(
            "a query has at most {MAX_QUERY_PAIRS} pairs and {MAX_QUERY_BYTES} bytes"
        )));
    }
    let credential = manifest.and_then(|manifest| manifest.credential_header(&request.target));
    headers::check(&request.headers, credential).map_err(FetchError::Invalid)?;
    let body = request.body.as_deref().unwrap_or_default();
    if body.len() > MAX_BODY {
        return Err(FetchError::Invalid(format!(
            "a body has at most {MAX_BODY} bytes"
        )));
    }
    if !body.is_empty() && matches!(request.method, Method::Get | Method::Head) {
        let method = crate::http::method_name(request.method);
        return Err(FetchError::Invalid(format!("{method} carries no body")));
    }
    let content = Content::read(&request.headers, body).map_err(FetchError::Invalid)?;
    let Some(manifest) = manifest else {
        return Ok(Admitted::default());
    };
    manifest
        .check_signature(request, &content)
        .map_err(FetchError::Invalid)?;
    manifest.check(request, &shown_path, &segments, &content)
}
