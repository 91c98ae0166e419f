//! Connections to registries, each to an address that was checked: link-local and metadata addresses never, loopback
//! and private ones only when the operator named them. Follows no redirect by itself, uses no proxy and knows no
//! credential.
//!
//! A name is resolved once per connection, every address of the answer has to pass, and exactly those are dialled.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use ccm_host::egress::{Lookup, address};
use ipnet::IpNet;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Client, Method, RequestBuilder};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use url::{Host, Url};

use super::trouble::Trouble;

/// By this, an error of a request is told to be a refusal of ours.
pub(super) const REFUSED: &str = "is not asked";
/// More than any working name has, and few enough to check.
const MOST_ADDRESSES: usize = 64;
/// No name in use is longer.
const LONGEST_NAME: usize = 253;
/// Header fields of an answer, and their bytes for HTTP/2.
const MOST_HEADERS: usize = 100;
const HEADER_BYTES: u32 = 32 << 10;
/// Below what load balancers close idle connections after (60 s). A poll comes later than this in any case.
const IDLE_CONNECTION: Duration = Duration::from_secs(30);

/// How long a registry may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// For a connection, with TLS.
    pub(crate) connect: Duration,
    /// For the beginning of an answer, and between two parts of it.
    pub(crate) silence: Duration,
    /// For a whole answer that is small: a manifest, a token, a piece of evidence.
    pub(crate) small: Duration,
    /// For one layer, with all its attempts.
    pub(crate) layer: Duration,
    /// In each of these spans of a layer …
    pub(crate) span: Duration,
    /// … at least so many bytes have to come.
    pub(crate) span_bytes: usize,
    /// Before a cut download is gone on with.
    pub(crate) pause: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            silence: Duration::from_secs(15),
            small: Duration::from_secs(30),
            // The largest layer at 56 KiB/s.
            layer: Duration::from_secs(600),
            // 1 KiB/s, as for everything else that this program fetches.
            span: Duration::from_secs(30),
            span_bytes: 30 << 10,
            pause: Duration::from_millis(500),
        }
    }
}

/// What may be dialled, and with which certificates.
pub(super) struct Reach<'a> {
    /// Hosts and ports that the operator wrote.
    pub(super) named: Vec<(String, u16)>,
    /// Address ranges that the operator allows beside public addresses.
    pub(super) addresses: &'a [IpNet],
    /// The only certificates that are trusted; without them, those of the platform.
    pub(super) ca_pem: Option<&'a str>,
    /// Whether loopback may be spoken to without TLS.
    pub(super) plain_http: bool,
    pub(super) lookup: Arc<dyn Lookup>,
}

/// Connections of one source.
pub(crate) struct Connections {
    tls: Client,
    plain: Option<Client>,
    named: Vec<(String, u16)>,
    addresses: Vec<IpNet>,
    pub(super) patience: Patience,
}

impl Connections {
    pub(super) fn new(reach: Reach<'_>, patience: Patience) -> Result<Self, Trouble> {
        let client = |tls: ClientConfig, only_loopback: bool| {
            Client::builder()
                .tls_backend_preconfigured(tls)
                .dns_resolver(Arc::new(Checked {
                    lookup: reach.lookup.clone(),
                    addresses: reach.addresses.into(),
                    names_localhost: reach.named.iter().any(|(host, _)| host == "localhost"),
                    only_loopback,
                }))
                .redirect(reqwest::redirect::Policy::none())
                .no_proxy()
                .referer(false)
                .user_agent(concat!("ccm/", env!("CARGO_PKG_VERSION")))
                .connect_timeout(patience.connect)
                .read_timeout(patience.silence)
                .pool_idle_timeout(IDLE_CONNECTION)
                .http1_max_headers(MOST_HEADERS)
                .http2_max_header_list_size(HEADER_BYTES)
                .build()
                .map_err(|error| Trouble::of_request("connections", error))
        };
        let plain = match reach.plain_http {
            true => Some(client(tls(Some(""))?, true)?),
            false => None,
        };
        Ok(Self {
            tls: client(tls(reach.ca_pem)?, false)?,
            plain,
            named: reach.named.clone(),
            addresses: reach.addresses.to_vec(),
            patience,
        })
    }

    /// A request to `url`, if that may be asked at all.
    pub(super) fn request(&self, method: Method, url: &Url) -> Result<RequestBuilder, Trouble> {
        let no = |why: &str| Err(Trouble::refused(format!("{} {REFUSED}: {why}", host(url))));
        if !url.username().is_empty() || url.password().is_some() {
            return no("its address holds a credential");
        }
        let literal = match url.host() {
            Some(Host::Ipv4(address)) => Some(IpAddr::V4(address)),
            Some(Host::Ipv6(address)) => Some(IpAddr::V6(address)),
            Some(Host::Domain(_)) => None,
            None => return no("its address has no host"),
        };
        // The connector does not ask the resolver about IP addresses.
        if let Some(literal) = literal {
            let mut ranges = self.addresses.clone();
            let is_named = |(name, port): &(String, u16)| {
                url.host_str() == Some(name) && url.port_or_known_default() == Some(*port)
            };
            if self.named.iter().any(is_named) {
                ranges.push(IpNet::from(literal.to_canonical()));
            }
            if let Err(refused) = address::check(literal, &ranges) {
                return no(refused.why);
            }
        }
        match (url.scheme(), &self.plain) {
            ("https", _) => Ok(self.tls.request(method, url.clone())),
            ("http", Some(_)) if literal.is_some_and(|ip| !address::is_loopback(ip)) => {
                no("http goes to loopback only")
            }
            ("http", Some(plain)) => Ok(plain.request(method, url.clone())),
            _ => no("expected https"),
        }
    }
}

/// Host and port of an address, which may be shown; the rest of one that was redirected to may not.
pub(super) fn host(url: &Url) -> String {
    let host = url.host_str().unwrap_or("(no host)");
    let host = host.get(..LONGEST_NAME).unwrap_or(host);
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

/// Resolves a name once and lets the answer through only whole.
struct Checked {
    lookup: Arc<dyn Lookup>,
    addresses: Arc<[IpNet]>,
    names_localhost: bool,
    only_loopback: bool,
}

impl Resolve for Checked {
    fn resolve(&self, name: Name) -> Resolving {
        let name = name.as_str().to_owned();
        let found = self.lookup.lookup(name.clone());
        let mut ranges = self.addresses.to_vec();
        // Whoever writes this name means this machine.
        if self.names_localhost && name == "localhost" {
            ranges.extend([
                IpNet::from(IpAddr::V4(Ipv4Addr::LOCALHOST)),
                IpNet::from(IpAddr::V6(Ipv6Addr::LOCALHOST)),
            ]);
        }
        let only_loopback = self.only_loopback;
        Box::pin(async move {
            let found = found.await?;
            pass(&name, &found, &ranges, only_loopback)?;
            // Port 0 is replaced by the URL's.
            let dialled = found.into_iter().map(|ip| SocketAddr::new(ip, 0));
            Ok::<Addrs, _>(Box::new(dialled))
        })
    }
}

/// All of the addresses or none.
fn pass(name: &str, found: &[IpAddr], ranges: &[IpNet], only_loopback: bool) -> Result<(), String> {
    if found.is_empty() {
        return Err(format!("{name} has no address"));
    }
    if found.len() > MOST_ADDRESSES {
        return Err(format!("{name} {REFUSED}: it has too many addresses"));
    }
    for ip in found {
        if let Err(refused) = address::check(*ip, ranges) {
            return Err(format!("{name} {REFUSED}: {refused}"));
        }
        if only_loopback && !address::is_loopback(*ip) {
            return Err(format!("{name} {REFUSED}: http goes to loopback only"));
        }
    }
    Ok(())
}

/// With `ca_pem` only those certificates count; the empty text trusts nobody.
fn tls(ca_pem: Option<&str>) -> Result<ClientConfig, Trouble> {
    let failed =
        |error: rustls::Error| Trouble::unavailable(format!("TLS cannot be set up: {error}"));
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ClientConfig::builder_with_provider(ring.clone())
        .with_safe_default_protocol_versions()
        .map_err(failed)?;
    Ok(match ca_pem {
        Some(pem) => versions
            .with_root_certificates(roots(pem)?)
            .with_no_client_auth(),
        None => {
            let verifier = rustls_platform_verifier::Verifier::new(ring).map_err(failed)?;
            versions
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(verifier))
                .with_no_client_auth()
        }
    })
}

fn roots(pem: &str) -> Result<RootCertStore, Trouble> {
    let unreadable =
        |why: String| Trouble::refused(format!("the CA certificates cannot be read: {why}"));
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let certificate = certificate.map_err(|error| unreadable(error.to_string()))?;
        roots
            .add(certificate)
            .map_err(|error| unreadable(error.to_string()))?;
    }
    if roots.is_empty() && !pem.is_empty() {
        return Err(unreadable("there is none in the text".to_owned()));
    }
    Ok(roots)
}
