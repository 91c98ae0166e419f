//! Selects the target of a request: by its name, or by the URL of a `wasi:http` request.
//!
//! A URL only selects among granted targets; nothing of it is resolved. Nothing here waits or sends.

use bytes::Bytes;
use url::{Url, form_urlencoded};

use super::Egress;
use super::canonical_request::{Prepared, prepare};
use super::headers::Source;
use super::message::{FetchError, FetchRequest};

/// Prepares a request for the target that it names.
///
/// # Errors
/// No such target, or an error of [`prepare`].
pub(super) fn by_name(
    egress: &Egress,
    request: FetchRequest,
    fresh: bool,
) -> Result<Prepared, FetchError> {
    let mut targets = egress.targets.iter().enumerate();
    match targets.find(|(_, target)| target.name == request.target) {
        Some((index, target)) => {
            let context = target.context(index, egress.contract);
            prepare(&context, request, Source::Fetch, fresh, &egress.limits)
        }
        None => {
            let why = match egress.withheld.contains(&request.target) {
                true => {
                    "the module's manifest requests this target, and the grants have none of this name"
                }
                false => "the module's own manifest requests no such target",
            };
            let FetchRequest { method, target, .. } = request;
            Err(FetchError::Denied(format!(
                "{method} on target {target}: {why}"
            )))
        }
    }
}

/// Prepares a request for the target that its URL lies in: the one with the longest base path that admits it.
///
/// # Errors
/// Invalid URL, no matching target, or the error of [`prepare`] for the last target tried.
pub(super) fn by_url(
    egress: &Egress,
    request: http::Request<Bytes>,
    fresh: bool,
) -> Result<Prepared, FetchError> {
    let (head, body) = request.into_parts();
    let origin = origin(&head.uri)?;
    let mut refusal = FetchError::Denied(format!("{} {origin}: not a granted target", head.method));
    let mut headers = Vec::with_capacity(head.headers.len());
    for (name, value) in &head.headers {
        let text = value
            .to_str()
            .map_err(|_| FetchError::Invalid(format!("the value of header {name} is not ASCII")))?;
        headers.push((name.as_str().to_owned(), text.to_owned()));
    }
    let query = head.uri.query().unwrap_or_default();
    let query: Vec<_> = form_urlencoded::parse(query.as_bytes())
        .into_owned()
        .collect();
    let mut near: Vec<_> = egress
        .targets
        .iter()
        .enumerate()
        .filter(|(_, target)| target.endpoint.origin() == origin.origin())
        .filter_map(|(index, target)| {
            let rest = below(&target.endpoint, head.uri.path())?;
            Some((target.context(index, egress.contract), rest))
        })
        .collect();
    // The shorter the rest, the longer the base path; ties stay in the order of the grant.
    near.sort_by_key(|(_, rest)| rest.len());
    for (context, path) in near {
        let request = FetchRequest {
            target: context.name.to_owned(),
            method: head.method.clone(),
            path,
            query: query.clone(),
            headers: headers.clone(),
            body: Some(body.clone()).filter(|body| !body.is_empty()),
            supplementary: false,
        };
        match prepare(&context, request, Source::Wasi, fresh, &egress.limits) {
            Ok(prepared) => return Ok(prepared),
            Err(error) => refusal = error,
        }
    }
    Err(refusal)
}

/// Name under which an exchange by URL is recorded: the first target with the same origin.
pub(super) fn name_of(egress: &Egress, uri: &http::Uri) -> String {
    let origin = origin(uri).map(|url| url.origin());
    let mut targets = egress.targets.iter();
    let known = targets.find(|target| Ok(target.endpoint.origin()) == origin);
    known.map_or_else(|| "(not granted)".to_owned(), |target| target.name.clone())
}

/// Normalised scheme, host and port of a URL: names in lower case, every notation of an IPv4 address as four
/// numbers. The path is ignored here: parsing it would resolve its dots.
fn origin(uri: &http::Uri) -> Result<Url, FetchError> {
    let invalid = || {
        FetchError::Invalid("expected an absolute URL: http or https, a host, no user".to_owned())
    };
    let (Some(scheme @ ("http" | "https")), Some(authority)) = (uri.scheme_str(), uri.authority())
    else {
        return Err(invalid());
    };
    if authority.as_str().contains('@') {
        return Err(invalid());
    }
    Url::parse(&format!("{scheme}://{authority}/")).map_err(|_| invalid())
}

/// Part of a path below a target's base path.
fn below(endpoint: &Url, path: &str) -> Option<String> {
    let rest = path.strip_prefix(endpoint.path().trim_end_matches('/'))?;
    match rest {
        "" => Some("/".to_owned()),
        rest => rest.starts_with('/').then(|| rest.to_owned()),
    }
}
