//! Sends one request and reads its whole response, within limits.
//!
//! Sends once: there is no retry here or below. Dropping the future drops the request, and over HTTP/1.1 its
//! connection; over HTTP/2 other requests go on with the connection, and new ones do not begin on it after a time-out.
//! The caller has asked the permit immediately before; its tenure is checked again on each write (`lease_gate`), and
//! the request ends with the permit, renewals until then included.

use std::error::Error as StdError;
use std::io;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::{Bytes, BytesMut};
use ccm_core::safety::permit::Permit;
use ccm_proxy::ProxyError;
use http::header::{CONTENT_ENCODING, HeaderMap};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Incoming};
use hyper_util::client::legacy::connect::capture_connection;
use rustls::CertificateError;
use tokio::time::{Instant, timeout_at};

use super::budget::{Body, Budget};
use super::headers;
use super::lease_gate::NotLeader;
use super::limits::EgressLimits;
use super::message::{FetchError, FetchResponse};
use super::permit::over;
use super::resolve::NameRefused;
use super::target::Target;

/// Maximum bytes of response headers; clouds send about 4 KiB.
const MAX_HEADER_BYTES: usize = 64 << 10;
/// Initial buffer for a body; it grows only as bytes arrive.
const INITIAL_CAPACITY: usize = 64 << 10;

/// Sends `request` and reads the response, until `until` and while `permit` is valid.
///
/// # Errors
/// Why there is no complete response.
pub(super) async fn send(
    target: &Target,
    mut request: Request<Full<Bytes>>,
    limits: &EgressLimits,
    until: Instant,
    permit: &Permit,
    budget: &Arc<Budget>,
) -> Result<FetchResponse, FetchError> {
    target.gate.enter(permit.tenure());
    let used = capture_connection(&mut request);
    let answer = tokio::select! {
        answer = exchange(target, request, limits, until, budget) => answer,
        () = over(permit) => Err(FetchError::TimedOut(format!(
            "the permit of this call ended before target {} had answered",
            target.name
        ))),
    };
    if matches!(answer, Err(FetchError::TimedOut(_)))
        && let Some(connection) = &*used.connection_metadata()
    {
        // Only the stream of the request has ended, and the pool would use the connection for as long as requests keep
        // coming.
        connection.poison();
    }
    answer
}

async fn exchange(
    target: &Target,
    request: Request<Full<Bytes>>,
    limits: &EgressLimits,
    until: Instant,
    budget: &Arc<Budget>,
) -> Result<FetchResponse, FetchError> {
    let method = request.method().clone();
    let mut response = head(target, request, limits, until).await?;
    let status = response.status().as_u16();
    target.share.observe(
        status,
        response.headers(),
        Instant::now(),
        SystemTime::now(),
    );
    let body = body(&mut response, &method, limits, until, budget).await;
    // Also of an answer that the guest does not get: the credential is refused all the same. Not of one whose call ends
    // before its body has come: the next request meets the same answer.
    let text = body.as_deref().unwrap_or_default();
    let clock = target.observe_acceptance(status, response.headers(), text);
    let body = body?;
    if let Some(why) = clock {
        return Err(FetchError::Unavailable(why));
    }
    let headers = headers::answer(response.headers());
    let repeats = headers
        .iter()
        .any(|(_, value)| target.redactor.finds(value.as_bytes()))
        || target.redactor.finds(&body);
    if repeats {
        return Err(FetchError::Unavailable(
            "the answer repeats the credential and is withheld".to_owned(),
        ));
    }
    Ok(FetchResponse {
        status,
        headers,
        body,
    })
}

/// Sends the request and waits for the head of the response.
async fn head(
    target: &Target,
    request: Request<Full<Bytes>>,
    limits: &EgressLimits,
    until: Instant,
) -> Result<Response<Incoming>, FetchError> {
    let started = Instant::now();
    let head_by = started
        .checked_add(limits.first_byte)
        .map_or(until, |first| first.min(until));
    match timeout_at(head_by, target.client.request(request)).await {
        Ok(Ok(response)) => Ok(response),
        Ok(Err(error)) if refuses_connections(&error) => Err(FetchError::Unavailable(format!(
            "{} refuses connections",
            target.endpoint.origin().ascii_serialization()
        ))),
        Ok(Err(error)) => Err(match broken(&error) {
            // The client's error says only that the time is over.
            FetchError::TimedOut(_) if error.is_connect() => FetchError::TimedOut(format!(
                "no connection to {} in {:?}: its name was not resolved, nobody answered, or TLS was not set up (DNS, firewall, route, proxy){}",
                target.endpoint.origin().ascii_serialization(),
                limits.connect,
                target.through()
            )),
            FetchError::TimedOut(text) => FetchError::TimedOut(text + &target.through()),
            other => other,
        }),
        Err(_) => Err(FetchError::TimedOut(format!(
            "no answer from target {} in {:.1?}{}",
            target.name,
            started.elapsed(),
            target.through()
        ))),
    }
}

/// Checks status and headers; returns the number of header bytes.
fn check_head(status: StatusCode, headers: &HeaderMap) -> Result<usize, FetchError> {
    if !(200..=599).contains(&status.as_u16()) {
        return Err(FetchError::Unavailable(format!(
            "status {} is no answer",
            status.as_u16()
        )));
    }
    // A partial response may end in the middle of a secret and so hide it from the check.
    if status == StatusCode::PARTIAL_CONTENT {
        return Err(FetchError::Unavailable(
            "status 206: a partial response, which was not requested".to_owned(),
        ));
    }
    let bytes: usize = headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len())
        .sum();
    if bytes > MAX_HEADER_BYTES {
        return Err(FetchError::TooLarge(format!("{bytes} bytes of headers")));
    }
    // The request accepts only `identity`; a decompressor would add attack surface.
    let is_plain = |value: &http::HeaderValue| {
        value.as_bytes().eq_ignore_ascii_case(b"identity") || value.is_empty()
    };
    if !headers.get_all(CONTENT_ENCODING).iter().all(is_plain) {
        return Err(FetchError::Unavailable(
            "the response is compressed, which was not requested".to_owned(),
        ));
    }
    Ok(bytes)
}

/// Checks the head of the response and reads its body.
async fn body(
    response: &mut Response<Incoming>,
    method: &Method,
    limits: &EgressLimits,
    until: Instant,
    budget: &Arc<Budget>,
) -> Result<Body, FetchError> {
    let mut held = budget.hold();
    held.grow(check_head(response.status(), response.headers())?)?;
    if *method == Method::HEAD {
        return Ok(Bytes::new().into());
    }
    let cap = limits.response_bytes;
    let large = || FetchError::TooLarge(format!("more than {cap} bytes"));
    let announced = response.body().size_hint().exact();
    if announced.is_some_and(|length| length > cap as u64) {
        return Err(large());
    }
    let started = Instant::now();
    // Reserves the announced length at once: a body that does not fit is not read at all.
    let mut paid = announced
        .and_then(|length| usize::try_from(length).ok())
        .unwrap_or_default();
    held.grow(paid)?;
    let mut body = BytesMut::with_capacity(paid.min(INITIAL_CAPACITY));
    loop {
        let piece_by = Instant::now()
            .checked_add(limits.idle)
            .map_or(until, |idle| idle.min(until));
        let piece = match timeout_at(piece_by, response.frame()).await {
            // Trailers are ignored.
            Ok(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
            Ok(None) => return Ok(held.body(body.freeze())),
            Ok(Some(Err(error))) => return Err(broken(&error)),
            Err(_) => {
                return Err(FetchError::TimedOut(format!(
                    "the answer stopped after {} bytes",
                    body.len()
                )));
            }
        };
        if body.len() + piece.len() > cap {
            return Err(large());
        }
        let more = (body.len() + piece.len()).saturating_sub(paid);
        held.grow(more)?;
        paid += more;
        body.extend_from_slice(&piece);
        let elapsed = started.elapsed();
        let expected = limits.pace as f64 * elapsed.as_secs_f64();
        let is_whole = response.body().is_end_stream();
        if !is_whole && elapsed >= limits.pace_after && (body.len() as f64) < expected {
            return Err(FetchError::TimedOut(format!(
                "{} bytes in {elapsed:.1?} are too slow",
                body.len()
            )));
        }
    }
}

/// Whether the connection was refused because no process listens at the endpoint.
fn refuses_connections(error: &(dyn StdError + 'static)) -> bool {
    let mut causes = std::iter::successors(Some(error), |error| StdError::source(*error));
    let mut before_proxy = causes
        .by_ref()
        .take_while(|cause| !cause.is::<ProxyError>());
    before_proxy.any(|cause| {
        let error = cause.downcast_ref::<io::Error>();
        error.is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
    })
}

/// Appended to a TLS error about a certificate with an unknown issuer.
const UNSIGNED: &str =
    "no trusted authority has signed the certificate; caFile or caPem names a private one";

/// Whether TLS does not know the certificate's issuer. The layers between wrap one `io::Error` into another.
fn is_unsigned_by_all(error: &(dyn StdError + Send + Sync + 'static)) -> bool {
    let unknown = rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer);
    match error.downcast_ref::<io::Error>() {
        Some(wrapped) => wrapped.get_ref().is_some_and(is_unsigned_by_all),
        None => error.downcast_ref() == Some(&unknown),
    }
}

/// Maps a failure of the HTTP client to a [`FetchError`].
pub(super) fn broken(error: &(dyn StdError + 'static)) -> FetchError {
    let (mut is_timeout, mut is_proxys, mut is_unsigned) = (false, false, false);
    let mut texts: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(cause) = next {
        if let Some(refused) = cause.downcast_ref::<NameRefused>() {
            texts.retain(|_| is_proxys);
            texts.push(refused.to_string());
            return FetchError::Denied(texts.join(": "));
        }
        if let Some(error) = cause.downcast_ref::<io::Error>() {
            // An `io::Error` that wraps a cause exposes only the cause's sources, not the cause.
            if error.get_ref().is_some_and(|cause| cause.is::<NotLeader>()) {
                return FetchError::Denied(NotLeader.to_string());
            }
            is_unsigned |= error.get_ref().is_some_and(is_unsigned_by_all);
            is_timeout |= error.kind() == io::ErrorKind::TimedOut;
        }
        // The answer to a ping did not come.
        is_timeout |= cause
            .downcast_ref::<hyper::Error>()
            .is_some_and(hyper::Error::is_timeout);
        if cause.is::<ProxyError>() {
            // The proxy's error contains everything that the layers above it say.
            is_proxys = true;
            texts.clear();
        }
        let text = cause.to_string();
        // Some layers already print their source.
        if !texts.iter().any(|known| known.contains(&text)) {
            texts.push(text);
        }
        next = cause.source();
    }
    if is_unsigned {
        texts.push(UNSIGNED.to_owned());
    }
    let text = texts.join(": ");
    if is_timeout {
        FetchError::TimedOut(text)
    } else {
        FetchError::Unavailable(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_listens_is_told_from_other_failures() {
        let error = |kind| io::Error::other(io::Error::from(kind));
        // `io::Error` exposes only the sources of what it wraps, so it is wrapped as hyper does.
        #[derive(Debug, thiserror::Error)]
        #[error("client error")]
        struct Client(#[source] io::Error);
        let refused = Client(io::Error::from_raw_os_error(111));
        assert!(refuses_connections(&refused));
        assert!(!refuses_connections(&Client(error(
            io::ErrorKind::TimedOut
        ))));
    }
}
