//! Connections: one HTTP client per target; it dials only checked addresses (`resolve`), of the target or of the proxy
//! before it.
//!
//! Nothing here follows redirects, reads the environment, keeps cookies, retries or decompresses, and nothing knows
//! rules, requests or the targets' credentials.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use ccm_proxy::Connector;
use futures::future::BoxFuture;
use http_body_util::Full;
use hyper_rustls::HttpsConnector;
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use ipnet::IpNet;
use thiserror::Error;
use tower::{BoxError, Service};
use url::{Host, Url};

use super::address_policy::{self, AddressRefused};
use super::behind_proxy;
use super::lease_gate::{Dial, LeaseGate};
use super::limits::EgressLimits;
use super::resolve::{NameLookup, Resolver};
use super::tls::{self, TlsError, Trust};
use crate::grant::{ProxyGrant, TargetGrant};
use crate::manifest::UNNAMED;

/// Maximum number of header fields of an answer, and their bytes for HTTP/2; clouds send about 30 and 4 KiB.
const MAX_ANSWER_HEADERS: usize = 100;
const MAX_ANSWER_HEADER_BYTES: u32 = 32 << 10;
/// Maximum number of addresses of a name that are dialled, one after the other, of each family. The time for connecting is
/// divided among them, so that one that does not answer leaves time for the next; and each gets enough for a second SYN.
const MOST_DIALLED: usize = 4;
/// Time after which an idle connection is closed. Shorter than the idle timeout of load balancers (60 s), so that
/// writes rarely hit a closed connection.
const IDLE_CONNECTION: Duration = Duration::from_secs(30);
/// TCP user timeout: bytes unacknowledged for this long are dropped with their connection, also while this process
/// is stopped. So bytes written until a lease's renew deadline (10 s) arrive before its end (15 s) or never.
const UNACKNOWLEDGED: Duration = Duration::from_secs(5);
/// TCP keepalive: detects a vanished peer before the connection is used again.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// Why a target cannot be dialled at all.
#[derive(Debug, Error)]
pub enum DialError {
    /// The endpoint has an unusable form.
    #[error("endpoint {endpoint}: {why}")]
    Endpoint {
        /// Endpoint, without user and password.
        endpoint: String,
        /// Mistake in the endpoint.
        why: String,
    },
    /// The endpoint is an IP address that cannot be granted.
    #[error("the endpoint cannot be granted")]
    Address(#[source] AddressRefused),
    /// The proxy is an IP address that cannot be granted.
    #[error("the proxy cannot be granted")]
    Proxy(#[source] AddressRefused),
    /// The grant's certificates cannot be read, or TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// HTTP client of a target, with its connection pool.
pub(super) type Client =
    legacy::Client<TimeoutConnector<HttpsConnector<Connector<Dial>>>, Full<Bytes>>;

/// Builds the client of a target. Its pool belongs to this target alone; all writes to its connections pass `gate`.
///
/// # Errors
/// See [`DialError`].
pub(super) fn client(
    grant: &TargetGrant,
    limits: &EgressLimits,
    lookup: Arc<dyn NameLookup>,
    gate: Arc<LeaseGate>,
) -> Result<Client, DialError> {
    let addresses = endpoint(&grant.endpoint, &grant.addresses)?;
    let encrypted = grant.endpoint.scheme() == "https";
    let connector = match grant.route() {
        None => Connector::Direct(sockets(lookup, addresses, !encrypted, limits, gate)),
        Some(proxy) => through(proxy, &grant.endpoint, lookup, limits, gate)?,
    };
    let trust = match encrypted {
        true => Trust::pinned(&grant.fingerprints, grant.ca_pem.as_deref()),
        false => Trust::NoRoots,
    };
    let mut tls = tls::client_config(trust)?;
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let mut https = HttpsConnector::from((connector, tls));
    if encrypted {
        https.enforce_https();
    }
    Ok(pooled(https, limits))
}

/// Whether the URL is one of AWS's metadata services at its own address, by HTTP as these services require.
pub(super) fn is_aws_metadata(url: &Url) -> bool {
    let literal = match url.host() {
        Some(Host::Ipv4(address)) => IpAddr::V4(address),
        Some(Host::Ipv6(address)) => IpAddr::V6(address),
        Some(Host::Domain(_)) | None => return false,
    };
    url.scheme() == "http" && address_policy::AWS_METADATA.contains(&literal)
}

/// Builds the client for a URL for which [`is_aws_metadata`] holds. For the host's own requests only: such a URL is
/// never a target's. The client never uses a proxy, and dials no other name or address.
///
/// # Errors
/// TLS cannot be set up. The client needs its configuration, although it never uses TLS.
pub(super) fn metadata_client(
    limits: &EgressLimits,
    lookup: Arc<dyn NameLookup>,
    gate: Arc<LeaseGate>,
) -> Result<Client, DialError> {
    // The metadata URL has an address, so that no name is ever resolved.
    let direct = Connector::Direct(sockets(lookup, Vec::new(), true, limits, gate));
    let https = HttpsConnector::from((direct, tls::client_config(Trust::NoRoots)?));
    Ok(pooled(https, limits))
}

fn pooled(https: HttpsConnector<Connector<Dial>>, limits: &EgressLimits) -> Client {
    let mut connector = TimeoutConnector::new(https);
    connector.set_connect_timeout(Some(limits.connect));
    legacy::Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_CONNECTION)
        .pool_max_idle_per_host(limits.in_flight)
        .http1_max_headers(MAX_ANSWER_HEADERS)
        .http2_max_header_list_size(MAX_ANSWER_HEADER_BYTES)
        // The TCP peer may be a proxy or a gateway that still acknowledges every byte for a server that is gone.
        .http2_keep_alive_interval(limits.ping_after)
        .http2_keep_alive_timeout(limits.ping_answer)
        .build(connector)
}

/// Connector that opens sockets to addresses that pass, with every write behind the gate.
fn sockets(
    lookup: Arc<dyn NameLookup>,
    addresses: Vec<IpNet>,
    only_loopback: bool,
    limits: &EgressLimits,
    gate: Arc<LeaseGate>,
) -> Dial {
    let resolver = Resolver::new(lookup, addresses, only_loopback);
    let mut http = HttpConnector::new_with_resolver(resolver);
    http.enforce_http(false);
    http.set_nodelay(true);
    http.set_connect_timeout(Some(limits.connect));
    http.set_keepalive(Some(KEEPALIVE));
    http.set_tcp_user_timeout(Some(UNACKNOWLEDGED));
    Dial { http, gate }
}

/// Connector to `target` through a proxy: only the proxy's own name is resolved and its address checked here.
fn through(
    grant: &ProxyGrant,
    target: &Url,
    lookup: Arc<dyn NameLookup>,
    limits: &EgressLimits,
    gate: Arc<LeaseGate>,
) -> Result<Connector<Dial>, DialError> {
    if let Some(why) = behind_proxy::mistake(target) {
        return Err(DialError::Endpoint {
            endpoint: shown(target),
            why: why.to_owned(),
        });
    }
    let addresses = behind_proxy::ranges(grant).map_err(DialError::Proxy)?;
    let trust = match grant.proxy.is_encrypted() {
        true => Trust::given(grant.ca_pem.as_deref()),
        false => Trust::NoRoots,
    };
    let dial = sockets(lookup, addresses, false, limits, gate);
    // No application protocol: the request to a proxy is HTTP/1.1.
    let to_proxy = HttpsConnector::from((dial, tls::client_config(trust)?));
    Ok(Connector::Through(Arc::new(grant.proxy.clone()), to_proxy))
}

/// Checks the endpoint of a grant; returns the ranges that may be dialled beside public addresses.
///
/// # Errors
/// [`DialError::Endpoint`] and [`DialError::Address`].
pub(super) fn endpoint(endpoint: &Url, granted: &[IpNet]) -> Result<Vec<IpNet>, DialError> {
    let bad = |why: &str| {
        Err(DialError::Endpoint {
            endpoint: shown(endpoint),
            why: why.to_owned(),
        })
    };
    if !matches!(endpoint.scheme(), "https" | "http") {
        return bad("expected https, or http to loopback");
    }
    if !endpoint.username().is_empty() || endpoint.password().is_some() {
        return bad("a credential does not belong into a URL");
    }
    if endpoint.query().is_some() || endpoint.fragment().is_some() {
        return bad("expected scheme, host, port and base path only");
    }
    if endpoint.port() == Some(0) {
        return bad("port 0 cannot be dialled");
    }
    let base = endpoint.path().trim_end_matches('/');
    if !base.is_empty()
        && super::path::canonical(base)
            .ok()
            .is_none_or(|path| path.as_str() != base)
    {
        return bad(
            "the base path has to be in its plain form: no empty or dot segments, nothing encoded without need",
        );
    }
    let mut ranges = granted.to_vec();
    let literal = match endpoint.host() {
        Some(Host::Ipv4(address)) => Some(IpAddr::V4(address)),
        Some(Host::Ipv6(address)) => Some(IpAddr::V6(address)),
        Some(Host::Domain(name)) => {
            let labels = name.strip_suffix('.').unwrap_or(name);
            if labels.split('.').any(str::is_empty) {
                return bad("the host is no name: a part of it is empty");
            }
            if labels == UNNAMED {
                return bad("the module names no endpoint, because only you know it: grant one");
            }
            if labels.contains(['{', '}']) {
                return bad("a placeholder stands in the host: put the region in its place");
            }
            None
        }
        None => return bad("no host"),
    };
    if let Some(literal) = literal {
        // The connector never asks the resolver about IP addresses, so this is their only check.
        ranges.push(IpNet::from(literal.to_canonical()));
        address_policy::check(literal, &ranges).map_err(DialError::Address)?;
        if endpoint.scheme() == "http" && !address_policy::is_loopback(literal) {
            return bad("http goes to loopback only; use https");
        }
    }
    Ok(ranges)
}

/// Endpoint for an error text: without user and password.
fn shown(endpoint: &Url) -> String {
    let mut shown = endpoint.clone();
    let _ = shown.set_username("");
    let _ = shown.set_password(None);
    shown.into()
}

/// hyper's connector calls this for every connection to a name, not for IP addresses.
impl Service<Name> for Resolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let found = self.resolve(name.as_str().to_owned());
        Box::pin(async move { Ok(first_ones(found.await?)) })
    }
}

/// The first addresses of each family.
fn first_ones(found: impl Iterator<Item = SocketAddr>) -> std::vec::IntoIter<SocketAddr> {
    let (mut v4, mut v6) = (0, 0);
    let is_dialled = |address: &SocketAddr| {
        let before = match address {
            SocketAddr::V4(_) => &mut v4,
            SocketAddr::V6(_) => &mut v6,
        };
        *before += 1;
        *before <= MOST_DIALLED
    };
    let dialled: Vec<_> = found.filter(is_dialled).collect();
    dialled.into_iter()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use rustix::net::sockopt::tcp_user_timeout;
    use tokio::net::TcpListener;

    use super::super::resolve::SystemLookup;
    use super::*;

    #[tokio::test]
    async fn bytes_that_a_cloud_does_not_acknowledge_in_five_seconds_are_dropped() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url: http::Uri = format!("http://{}", listener.local_addr().unwrap())
            .parse()
            .unwrap();
        let (lookup, limits) = (Arc::new(SystemLookup), EgressLimits::standard());
        let mut dial = sockets(lookup, Vec::new(), true, &limits, Arc::default());
        let stream = dial.http.call(url).await.unwrap();
        assert_eq!(tcp_user_timeout(stream.inner()).unwrap(), 5_000);
    }
}
