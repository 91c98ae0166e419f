//! Connections: a client per target whose every dial goes to an address that was checked.
//!
//! A name is resolved once per connection, every address of the answer has to pass, and exactly those are
//! handed to the connector: there is no second look-up in which the answer could change. Nothing here follows
//! redirects, uses proxies, keeps cookies, repeats what was begun or decompresses, and nothing knows rules, requests
//! or credentials.

use std::error::Error as StdError;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http_body_util::Full;
use hyper_rustls::HttpsConnector;
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use ipnet::IpNet;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use thiserror::Error;
use tower::{BoxError, Service};
use url::{Host, Url};

use super::address::{self, AddressRefused};
use super::limits::EgressLimits;
use super::wire::{Dial, Gate};
use crate::grant::TargetGrant;

/// More than any working name has, and few enough to check.
const MAX_ADDRESSES: usize = 64;
/// Header fields of an answer, and their bytes for HTTP/2; clouds send about 30 and 4 KiB.
const MAX_ANSWER_HEADERS: usize = 100;
const MAX_ANSWER_HEADER_BYTES: u32 = 32 << 10;
/// Below what load balancers close idle connections after (60 s), so that we rarely write into a closed one.
const IDLE_CONNECTION: Duration = Duration::from_secs(30);
/// Bytes that nobody has acknowledged for this long are dropped with their connection, also while this process stands
/// still. What was written until the renew deadline of a lease (10 s) is so delivered before its end (15 s) or never.
const UNACKNOWLEDGED: Duration = Duration::from_secs(5);
/// A peer that went away without a word is noticed before the connection is used again.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// Finds the addresses of a name. Injected, so that tests can answer.
pub trait Lookup: Send + Sync {
    /// All addresses of `name`. The name is one that a grant holds, never one that a guest chose.
    fn lookup(&self, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;
}

/// The system's resolver.
#[derive(Debug, Clone, Copy)]
pub struct SystemLookup;

impl Lookup for SystemLookup {
    fn lookup(&self, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

/// Why a target cannot be dialled at all.
#[derive(Debug, Error)]
pub enum DialError {
    /// The endpoint is not one that requests can go to.
    #[error("endpoint {endpoint}: {why}")]
    Endpoint {
        /// The endpoint.
        endpoint: String,
        /// What is wrong with it.
        why: String,
    },
    /// The endpoint is an IP address that nobody may grant.
    #[error("the endpoint cannot be granted")]
    Address(#[source] AddressRefused),
    /// The grant's certificates cannot be read.
    #[error("the CA certificates cannot be read")]
    Certificates(#[source] Box<dyn StdError + Send + Sync>),
    /// TLS cannot be set up, for example because the platform has no root certificates.
    #[error("TLS cannot be set up")]
    Tls(#[source] rustls::Error),
}

/// A target's connections.
pub(super) type Client = legacy::Client<TimeoutConnector<HttpsConnector<Dial>>, Full<Bytes>>;

/// Builds the client of a target. Its pool is this target's alone; what is written to its connections passes `gate`.
///
/// # Errors
/// See [`DialError`].
pub(super) fn client(
    grant: &TargetGrant,
    limits: &EgressLimits,
    lookup: Arc<dyn Lookup>,
    gate: Arc<Gate>,
) -> Result<Client, DialError> {
    let addresses = endpoint(&grant.endpoint, &grant.addresses)?;
    let encrypted = grant.endpoint.scheme() == "https";
    let mut http = HttpConnector::new_with_resolver(Checked {
        lookup,
        addresses: addresses.into(),
        only_loopback: !encrypted,
    });
    http.enforce_http(false);
    http.set_nodelay(true);
    http.set_keepalive(Some(KEEPALIVE));
    http.set_tcp_user_timeout(Some(UNACKNOWLEDGED));
    // The default would read the platform's roots also where no TLS is spoken.
    let tls = if encrypted {
        tls(grant.ca_pem.as_deref())?
    } else {
        no_tls()?
    };
    let mut https = HttpsConnector::from((Dial { http, gate }, tls));
    if encrypted {
        https.enforce_https();
    }
    let mut connector = TimeoutConnector::new(https);
    connector.set_connect_timeout(Some(limits.connect));
    Ok(legacy::Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_CONNECTION)
        .pool_max_idle_per_host(limits.in_flight)
        .http1_max_headers(MAX_ANSWER_HEADERS)
        .http2_max_header_list_size(MAX_ANSWER_HEADER_BYTES)
        .build(connector))
}

/// Checks the endpoint of a grant; the answer is the ranges that may be dialled beside public addresses.
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
        Some(Host::Domain(_)) => None,
        None => return bad("no host"),
    };
    if let Some(literal) = literal {
        // The connector does not ask the resolver about IP addresses, so they are checked here, for good.
        ranges.push(IpNet::from(literal.to_canonical()));
        address::check(literal, &ranges).map_err(DialError::Address)?;
        if endpoint.scheme() == "http" && !address::is_loopback(literal) {
            return bad("http goes to loopback only; use https");
        }
    }
    Ok(ranges)
}

/// An endpoint for an error text: without user and password.
fn shown(endpoint: &Url) -> String {
    let mut shown = endpoint.clone();
    let _ = shown.set_username("");
    let _ = shown.set_password(None);
    shown.into()
}

/// Resolves a name once and lets the answer through only whole.
#[derive(Clone)]
pub(super) struct Checked {
    lookup: Arc<dyn Lookup>,
    addresses: Arc<[IpNet]>,
    only_loopback: bool,
}

/// Why a name is not dialled.
#[derive(Debug, Error)]
pub(super) enum NameRefused {
    #[error("{name} has {count} addresses, more than {MAX_ADDRESSES}")]
    TooMany { name: String, count: usize },
    #[error("{name} has no address")]
    None { name: String },
    #[error("{name}: {why}")]
    Address { name: String, why: AddressRefused },
    #[error("{name} is {address}, and http goes to loopback only")]
    NotLoopback { name: String, address: IpAddr },
}

impl Service<Name> for Checked {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let name = name.as_str().to_owned();
        let found = self.lookup.lookup(name.clone());
        let ranges = self.addresses.clone();
        let only_loopback = self.only_loopback;
        Box::pin(async move {
            let found = found.await?;
            let passed = pass(name, &found, &ranges, only_loopback)?;
            // Port 0 is replaced by the URL's.
            let dialled: Vec<_> = passed
                .iter()
                .map(|address| SocketAddr::new(*address, 0))
                .collect();
            Ok(dialled.into_iter())
        })
    }
}

/// All of the addresses or none.
fn pass<'a>(
    name: String,
    found: &'a [IpAddr],
    ranges: &[IpNet],
    only_loopback: bool,
) -> Result<&'a [IpAddr], NameRefused> {
    if found.is_empty() {
        return Err(NameRefused::None { name });
    }
    if found.len() > MAX_ADDRESSES {
        return Err(NameRefused::TooMany {
            name,
            count: found.len(),
        });
    }
    for address in found {
        if let Err(why) = address::check(*address, ranges) {
            return Err(NameRefused::Address { name, why });
        }
        if only_loopback && !address::is_loopback(*address) {
            return Err(NameRefused::NotLoopback {
                name,
                address: *address,
            });
        }
    }
    Ok(found)
}

fn tls(ca_pem: Option<&str>) -> Result<ClientConfig, DialError> {
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ClientConfig::builder_with_provider(ring.clone())
        .with_safe_default_protocol_versions()
        .map_err(DialError::Tls)?;
    let mut config = match ca_pem {
        Some(pem) => versions
            .with_root_certificates(roots(pem)?)
            .with_no_client_auth(),
        None => {
            let verifier = rustls_platform_verifier::Verifier::new(ring).map_err(DialError::Tls)?;
            versions
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(verifier))
                .with_no_client_auth()
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// A configuration that trusts nobody, for a client that never speaks TLS.
fn no_tls() -> Result<ClientConfig, DialError> {
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ClientConfig::builder_with_provider(ring)
        .with_safe_default_protocol_versions()
        .map_err(DialError::Tls)?;
    Ok(versions
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth())
}

fn roots(pem: &str) -> Result<RootCertStore, DialError> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let certificate =
            certificate.map_err(|error| DialError::Certificates(error.to_string().into()))?;
        roots
            .add(certificate)
            .map_err(|error| DialError::Certificates(error.into()))?;
    }
    if roots.is_empty() {
        return Err(DialError::Certificates("no certificate in the text".into()));
    }
    Ok(roots)
}
