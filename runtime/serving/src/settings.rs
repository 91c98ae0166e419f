//! The serving flags as types. Reads nothing.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::cipher_suites::TlsSettings;

/// The secure port: where it listens, and with which certificates.
#[derive(Debug, Clone)]
pub struct SecureServing {
    /// `--bind-address`.
    pub bind_address: IpAddr,
    /// `--secure-port`, never 0: without the port there is no server.
    pub port: u16,
    /// `--http2-max-streams-per-connection`; 0: 250, as in Go. `None`: `--disable-http2-serving`.
    pub http2_streams: Option<u32>,
    /// `--permit-port-sharing`.
    pub share_port: bool,
    /// `--cert-dir`: where a self-signed certificate is kept. `None`: in memory only.
    pub certificate_folder: Option<PathBuf>,
    /// `--tls-cert-file` and `--tls-private-key-file`. `None`: self-signed.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// `--tls-sni-cert-key`, in the order of the flags.
    pub sni: Vec<SniCertificate>,
    /// Versions, cipher suites and curves.
    pub tls: TlsSettings,
}

impl SecureServing {
    /// Address to listen on.
    pub(crate) fn address(&self) -> SocketAddr {
        SocketAddr::new(self.bind_address, self.port)
    }
}

/// A certificate for some of the server's names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SniCertificate {
    /// PEM file of the chain.
    pub certificate: PathBuf,
    /// PEM file of the key.
    pub key: PathBuf,
    /// Names such as `ccm.example.com` or `*.example.com`. Empty: those in the certificate.
    pub names: Vec<String>,
}

/// How a request's user is determined.
#[derive(Debug, Clone)]
pub struct Authentication {
    /// The cluster that reviews tokens. `None`: only client certificates authenticate.
    pub cluster: Option<ClusterAccess>,
    /// `--authentication-token-webhook-cache-ttl`: how long an answer about a token is kept.
    pub cache: Duration,
    /// `--client-ca-file`. `None`: the cluster's.
    pub client_ca: Option<PathBuf>,
    /// `--requestheader-client-ca-file` and its companions. `None`: the cluster's.
    pub request_header: Option<RequestHeader>,
    /// `--authentication-skip-lookup`: the cluster's settings are not read.
    pub skips_lookup: bool,
    /// `--authentication-tolerate-lookup-failure`: start even if the cluster's settings cannot be read.
    pub tolerates_failed_lookup: bool,
}

/// A front proxy that names users in headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestHeader {
    /// CA of the proxy's certificate.
    pub ca: PathBuf,
    /// Names of the headers, and of the proxies that may send them.
    pub headers: HeaderNames,
}

/// The headers in which a front proxy names the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderNames {
    /// Common names that the proxy's certificate may have. Empty: any.
    pub allowed_names: Vec<String>,
    /// Headers with the user's name.
    pub user: Vec<String>,
    /// Headers with the user's UID.
    pub uid: Vec<String>,
    /// Headers with the user's groups.
    pub group: Vec<String>,
    /// Prefixes of headers with further attributes.
    pub extra: Vec<String>,
}

/// How it is decided whether a user may read a path.
#[derive(Debug, Clone)]
pub struct Authorization {
    /// The cluster that reviews access. `None`: only the paths below and `system:masters` pass.
    pub cluster: Option<ClusterAccess>,
    /// `--authorization-webhook-cache-authorized-ttl`: how long a permission is kept.
    pub cache_allowed: Duration,
    /// `--authorization-webhook-cache-unauthorized-ttl`: how long a refusal is kept.
    pub cache_denied: Duration,
    /// `--authorization-always-allow-paths`: exact paths, or prefixes that end in `*`.
    pub always_allowed: Vec<String>,
}

/// Creates a client.
type Connect = Arc<dyn Fn(&kube::Config) -> kube::Result<kube::Client> + Send + Sync>;

/// Access to the API server that reviews tokens and requests.
#[derive(Clone)]
pub struct ClusterAccess {
    /// Address of the API server, and the credential for it.
    pub config: kube::Config,
    /// Creates the client, on the thread that uses it.
    pub connect: Connect,
}

impl fmt::Debug for ClusterAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClusterAccess({})", self.config.cluster_url)
    }
}
