//! Connections to registries, each to a checked address: never link-local or metadata addresses; loopback and private
//! ones only if the operator named them. Follows no redirects by itself, reads no environment and knows no credentials.
//! Through a proxy only the proxy's address is checked: it resolves the names of registries and of their redirect
//! targets.
//!
//! The host's egress validates names, addresses and certificates. Its client is not used: it serves one target with one
//! known host and checks the lease before each write, while registries redirect to other hosts and every replica asks
//! them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use ccm_host::egress::resolve::Resolver;
use ccm_host::egress::tls::{TlsError, Trust, client_config};
use ccm_host::egress::{NameLookup, address_policy, behind_proxy};
use ccm_host::grant::ProxyGrant;
use ccm_proxy::NoProxy;
use ipnet::IpNet;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Client, ClientBuilder, Method, Proxy, RequestBuilder};
use rustls::ClientConfig;
use url::{Host, Url};

use super::RegistryAccess;
use super::registry_error::{AddressNotGranted, RegistryError};

/// The name of this machine.
const LOCALHOST: &str = "localhost";
/// Maximum length of a DNS name.
const LONGEST_NAME: usize = 253;
/// Maximum number of header fields of an answer, and their bytes for HTTP/2.
const MOST_HEADERS: usize = 100;
const HEADER_BYTES: u32 = 32 << 10;
/// Time after which an idle connection is closed: shorter than the idle time-out of load balancers (60 s) and than the
/// interval of polls.
const IDLE_CONNECTION: Duration = Duration::from_secs(30);

/// Time limits for a registry.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timeouts {
    /// For a connection, including TLS.
    pub(super) connect: Duration,
    /// For the start of an answer, and between two parts of it.
    pub(super) silence: Duration,
    /// For a whole small answer: a manifest, a token, a piece of evidence.
    pub(super) small: Duration,
    /// For one layer, including all attempts.
    pub(super) layer: Duration,
    /// Length of the intervals in which a layer has to bring `span_bytes`.
    pub(super) span: Duration,
    /// Minimum bytes of a layer in each `span`.
    pub(super) span_bytes: usize,
    /// Pause before an interrupted download is resumed.
    pub(super) pause: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            silence: Duration::from_secs(15),
            small: Duration::from_secs(30),
            // The largest layer at 56 KiB/s.
            layer: Duration::from_secs(600),
            // 1 KiB/s, as for all other downloads of this program.
            span: Duration::from_secs(30),
            span_bytes: 30 << 10,
            pause: Duration::from_millis(500),
        }
    }
}

/// Connections of one source.
pub(super) struct Connections {
    tls: Client,
    plain: Option<Client>,
    named: Vec<(String, u16)>,
    addresses: Vec<IpNet>,
    proxy: Option<ProxyGrant>,
    pub(super) timeouts: Timeouts,
}

impl Connections {
    /// `named`: the hosts and ports that the operator wrote.
    pub(super) fn new(
        access: &RegistryAccess,
        named: Vec<(String, u16)>,
        lookup: &Arc<dyn NameLookup>,
        timeouts: Timeouts,
    ) -> Result<Self, RegistryError> {
        let client = |trust: Trust<'_>, only_loopback: bool| {
            // Connections without TLS stay on this machine.
            let proxy = access.proxy.as_ref().filter(|_| !only_loopback);
            with_proxy(Client::builder(), proxy)?
                .tls_backend_preconfigured(tls(trust)?)
                .dns_resolver(Arc::new(Names::new(access, &named, lookup, only_loopback)))
                .redirect(reqwest::redirect::Policy::none())
                .referer(false)
                .user_agent(concat!("ccm/", env!("CARGO_PKG_VERSION")))
                .connect_timeout(timeouts.connect)
                .read_timeout(timeouts.silence)
                .pool_idle_timeout(IDLE_CONNECTION)
                .http1_max_headers(MOST_HEADERS)
                .http2_max_header_list_size(HEADER_BYTES)
                .build()
                .map_err(|error| RegistryError::of_request("connections", error))
        };
        let plain = match access.plain_http {
            true => Some(client(Trust::NoRoots, true)?),
            false => None,
        };
        Ok(Self {
            tls: client(Trust::given(access.ca_pem.as_deref()), false)?,
            plain,
            named,
            addresses: access.addresses.clone(),
            proxy: access.proxy.clone(),
            timeouts,
        })
    }

    /// The proxy for this URL; `None` for a direct connection.
    fn route(&self, url: &Url) -> Option<&ProxyGrant> {
        let proxy = self.proxy.as_ref().filter(|_| url.scheme() == "https")?;
        is_for(&proxy.except, url).then_some(proxy)
    }

    /// Host and port of a URL, and its proxy, for messages.
    pub(super) fn shown(&self, url: &Url) -> String {
        match self.route(url) {
            Some(route) => format!("{} through the proxy {}", host(url), route.proxy),
            None => host(url),
        }
    }

    /// Builds a request to `url`, if it may be accessed.
    pub(super) fn request(
        &self,
        method: Method,
        url: &Url,
    ) -> Result<RequestBuilder, RegistryError> {
        let no = |why: &str| {
            Err(RegistryError::barred(format!(
                "{} is not asked: {why}",
                host(url)
            )))
        };
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
            if let Err(refused) = address_policy::check(literal, &ranges) {
                return match AddressNotGranted::of(refused) {
                    // The host is the address.
                    Some(not_granted) => no(&not_granted.why()),
                    None => no(refused.why),
                };
            }
        }
        if self.route(url).is_some()
            && let Some(why) = behind_proxy::mistake(url)
        {
            return no(why);
        }
        match (url.scheme(), &self.plain) {
            ("https", _) => Ok(self.tls.request(method, url.clone())),
            ("http", Some(_)) if literal.is_some_and(|ip| !address_policy::is_loopback(ip)) => {
                no("http goes to loopback only")
            }
            ("http", Some(plain)) => Ok(plain.request(method, url.clone())),
            _ => no("expected https"),
        }
    }
}

/// Host and port of a URL, which may be shown. The rest of a redirect target may not.
pub(super) fn host(url: &Url) -> String {
    let host = url.host_str().unwrap_or("(no host)");
    let host = host.get(..LONGEST_NAME).unwrap_or(host);
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

/// Whether a proxy is used for this URL.
fn is_for(except: &NoProxy, url: &Url) -> bool {
    let port = url.port_or_known_default().unwrap_or_default();
    !except.excepts(url.host_str().unwrap_or_default(), port)
}

/// Sets the proxy. Without one, the client is configured to use none, whatever the environment says.
fn with_proxy(
    client: ClientBuilder,
    grant: Option<&ProxyGrant>,
) -> Result<ClientBuilder, RegistryError> {
    let Some(grant) = grant else {
        return Ok(client.no_proxy());
    };
    let wrong = || RegistryError::barred(format!("{} is no proxy for registries", grant.proxy));
    if !grant.proxy.speaks_http() || behind_proxy::ranges(grant).is_err() {
        return Err(wrong());
    }
    let url = Url::parse(&grant.proxy.to_string()).map_err(|_| wrong())?;
    let except = grant.except.clone();
    let mut proxy = Proxy::custom(move |to| is_for(&except, to).then(|| url.clone()));
    if let Some(authorization) = grant.proxy.authorization() {
        proxy = proxy.custom_http_auth(authorization);
    }
    Ok(client.proxy(proxy))
}

/// Name resolver for reqwest, called for every new connection, but only for names.
struct Names {
    all: Resolver,
    /// Set if the operator wrote this name, which then means this machine.
    localhost: Option<Resolver>,
    /// The proxy's name, and the resolver for it.
    proxy: Option<(String, Resolver)>,
}

impl Names {
    fn new(
        access: &RegistryAccess,
        named: &[(String, u16)],
        lookup: &Arc<dyn NameLookup>,
        only_loopback: bool,
    ) -> Names {
        let resolver = |ranges: Vec<IpNet>| Resolver::new(lookup.clone(), ranges, only_loopback);
        let is_named = named.iter().any(|(host, _)| host == LOCALHOST);
        let this_machine = [
            IpNet::from(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            IpNet::from(IpAddr::V6(Ipv6Addr::LOCALHOST)),
        ];
        Names {
            all: resolver(access.addresses.clone()),
            localhost: is_named
                .then(|| resolver([access.addresses.as_slice(), &this_machine].concat())),
            proxy: access.proxy.as_ref().map(|grant| {
                let name = grant.proxy.host().to_owned();
                (name, resolver(grant.addresses.clone()))
            }),
        }
    }
}

impl Resolve for Names {
    fn resolve(&self, name: Name) -> Resolving {
        let mut is_proxy = false;
        let resolver = match &self.localhost {
            Some(localhost) if name.as_str() == LOCALHOST => localhost,
            _ => match &self.proxy {
                Some((proxy, resolver)) if proxy == name.as_str() => {
                    is_proxy = true;
                    resolver
                }
                _ => &self.all,
            },
        };
        let found = resolver.resolve(name.as_str().to_owned());
        Box::pin(async move {
            match found.await {
                Ok(addresses) => Ok::<Addrs, _>(Box::new(addresses)),
                // A proxy's address is granted by another setting than a registry's, so the refusal does not name one.
                Err(error) if is_proxy => Err(error),
                Err(error) => Err(AddressNotGranted::in_place_of(error)),
            }
        })
    }
}

/// TLS configuration of the guests' egress, but without HTTP/2: no application protocol is offered.
fn tls(trust: Trust<'_>) -> Result<ClientConfig, RegistryError> {
    client_config(trust).map_err(|error| match error {
        TlsError::Certificates(why) => {
            RegistryError::barred(format!("the CA certificates cannot be read: {why}"))
        }
        TlsError::Setup(why) => RegistryError::unavailable(format!("TLS cannot be set up: {why}")),
    })
}
