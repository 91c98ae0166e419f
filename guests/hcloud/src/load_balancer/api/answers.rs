//! The API's response types for load balancers and certificates, limited to the required fields.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

use crate::api::actions::ActionError;
use crate::load_balancer::names::SERVICE_UID;

/// A load balancer of the project.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct LoadBalancer {
    /// Unique; never reused.
    pub id: u64,
    /// Unique in the project at any one time.
    pub name: String,
    /// Labels, including the owner's.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// The public addresses.
    pub public_net: PublicNet,
    /// Attached networks; the vendor allows one.
    #[serde(default)]
    pub private_net: Vec<PrivateNet>,
    /// The type and its limits.
    pub load_balancer_type: Type,
    /// The operations that the API refuses.
    #[serde(default)]
    pub protection: Protection,
    /// The ports that it listens on.
    #[serde(default)]
    pub services: Vec<Service>,
    /// The servers and addresses that receive traffic.
    #[serde(default)]
    pub targets: Vec<Target>,
    /// The algorithm that selects a target.
    pub algorithm: Algorithm,
}

impl LoadBalancer {
    /// The owner's Service UID, from the label.
    pub fn owner(&self) -> Option<&str> {
        let owner = self.labels.get(SERVICE_UID)?;
        (!owner.is_empty()).then_some(owner.as_str())
    }

    /// Whether one of its ports has a certificate.
    pub fn shows_certificates(&self) -> bool {
        let mut services = self.services.iter();
        services.any(|one| !one.http.certificates.is_empty())
    }
}

/// Public addresses. They stay while the public interface is disabled.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct PublicNet {
    /// Whether the public interface is enabled.
    pub enabled: bool,
    /// The IPv4 address.
    pub ipv4: PublicIp,
    /// The IPv6 address.
    pub ipv6: PublicIp,
}

/// A public address with its reverse DNS name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct PublicIp {
    /// The address as text.
    pub ip: Option<String>,
    /// The reverse DNS name.
    pub dns_ptr: Option<String>,
}

/// A load balancer's attachment to a network.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct PrivateNet {
    /// The network's id.
    pub network: u64,
    /// The address in the network.
    pub ip: Option<String>,
}

/// A load balancer type.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Type {
    /// The type's name, such as `lb11`.
    pub name: String,
    /// Maximum number of targets. `None`: unknown; the API refuses too many.
    pub max_targets: Option<usize>,
    /// Maximum number of listening ports.
    pub max_services: Option<usize>,
    /// When it was announced that the type will not be available for new load balancers; `None`: it was not.
    pub deprecated: Option<String>,
    /// The same announcement, with its end.
    pub deprecation: Option<Deprecation>,
}

/// The announcement that a type will not be available for new load balancers.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Deprecation {
    /// The last time at which it is available.
    pub unavailable_after: Option<String>,
}

/// The operations of an object that the API refuses.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Protection {
    /// Whether deletion is refused.
    #[serde(default)]
    pub delete: bool,
}

/// The algorithm that selects a target.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Algorithm {
    /// `round_robin` or `least_connections`.
    #[serde(rename = "type")]
    pub kind: String,
}

/// One port that a load balancer listens on. As JSON it is compared with the request for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Service {
    /// `tcp`, `http` or `https`.
    pub protocol: String,
    /// The port that it listens on, unique within the load balancer.
    pub listen_port: u16,
    /// The targets' port.
    pub destination_port: u16,
    /// Whether connections begin with a PROXY header.
    #[serde(default)]
    pub proxyprotocol: bool,
    /// HTTP options; only for `http` and `https`.
    #[serde(default, deserialize_with = "or_default")]
    pub http: Http,
    /// The health check of targets.
    pub health_check: Option<HealthCheck>,
}

/// The HTTP options of a port. The API returns an unset text as null or as empty text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Http {
    /// Name of the sticky session cookie.
    #[serde(default, deserialize_with = "or_default")]
    pub cookie_name: String,
    /// Lifetime of the cookie in seconds.
    pub cookie_lifetime: Option<u64>,
    /// Ids of the certificates for TLS.
    #[serde(default, deserialize_with = "or_default")]
    pub certificates: Vec<u64>,
    /// Whether port 80 redirects to this port. It then uses that port, too.
    #[serde(default, deserialize_with = "or_default")]
    pub redirect_http: bool,
    /// Whether sessions are sticky.
    #[serde(default, deserialize_with = "or_default")]
    pub sticky_sessions: bool,
    /// Seconds until an idle connection is closed.
    pub timeout_idle: Option<u64>,
}

/// The health check of targets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthCheck {
    /// `tcp`, `http` or `https`.
    pub protocol: String,
    /// The port of the targets.
    pub port: u16,
    /// Seconds between two checks.
    pub interval: Option<u64>,
    /// Seconds until a check without an answer fails.
    pub timeout: Option<u64>,
    /// Number of failures before a target counts as unhealthy.
    pub retries: Option<u64>,
    /// The check's HTTP request; only for `http` and `https`.
    #[serde(default, deserialize_with = "or_default")]
    pub http: HealthCheckHttp,
}

/// The HTTP request of a health check. Unset texts are as in [`Http`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthCheckHttp {
    /// The request's `Host` header.
    #[serde(default, deserialize_with = "or_default")]
    pub domain: String,
    /// The request's path.
    #[serde(default, deserialize_with = "or_default")]
    pub path: String,
    /// Status codes of a healthy target, such as `2??`.
    #[serde(default, deserialize_with = "or_default")]
    pub status_codes: Vec<String>,
    /// Whether the target's certificate must be valid.
    #[serde(default, deserialize_with = "or_default")]
    pub tls: bool,
}

/// A target of a load balancer.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Target {
    /// `server`, `ip` or `label_selector`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The server; only for the kind `server`.
    pub server: Option<TargetServer>,
    /// The address; only for the kind `ip`.
    pub ip: Option<TargetIp>,
    /// Whether the server is reached by its private address.
    #[serde(default, deserialize_with = "or_default")]
    pub use_private_ip: bool,
}

/// A server that is a target.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct TargetServer {
    /// The server's id.
    pub id: u64,
}

/// An address that is a target.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct TargetIp {
    /// The address as text.
    pub ip: String,
}

/// A TLS certificate of the project.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Certificate {
    /// Unique; never reused.
    pub id: u64,
    /// Unique in the project at any one time.
    pub name: String,
    /// `uploaded` or `managed`.
    #[serde(rename = "type", default)]
    pub kind: String,
    /// Labels, including the owner's.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Issuance status of a managed certificate.
    pub status: Option<CertificateStatus>,
    /// The load balancers that use it.
    #[serde(default, deserialize_with = "or_default")]
    pub used_by: Vec<User>,
}

/// A load balancer that uses a certificate.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct User {
    /// The load balancer's id.
    pub id: u64,
}

/// Issuance status of a managed certificate.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct CertificateStatus {
    /// `pending`, `completed` or `failed`.
    #[serde(default)]
    pub issuance: String,
    /// Why the issuance failed.
    pub error: Option<ActionError>,
}

/// Deserializes a value that may be null.
fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    value: D,
) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(value)?.unwrap_or_default())
}
