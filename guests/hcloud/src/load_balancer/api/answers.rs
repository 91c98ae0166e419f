//! The API's response types for load balancers and certificates, limited to the required fields.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

use crate::api::actions::ActionError;
use crate::load_balancer::names::SERVICE_UID;

/// A load balancer.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct LoadBalancer {
    /// Unique; never reused.
    pub id: u64,
    /// Unique in the project at any one time.
    pub name: String,
    /// Labels, including the owner's.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Its public addresses.
    pub public_net: PublicNet,
    /// Attached networks; the vendor allows one.
    #[serde(default)]
    pub private_net: Vec<PrivateNet>,
    /// The type and its limits.
    pub load_balancer_type: Type,
    /// Protected operations.
    #[serde(default)]
    pub protection: Protection,
    /// Ports that it listens on.
    #[serde(default)]
    pub services: Vec<Service>,
    /// The targets.
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
        let mut options = self.services.iter().filter_map(|one| one.http.as_ref());
        options.any(|http| !http.certificates.is_empty())
    }
}

/// Public addresses. They stay while the public interface is disabled.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct PublicNet {
    /// Whether the public interface is enabled.
    pub enabled: bool,
    /// IPv4.
    pub ipv4: PublicIp,
    /// IPv6.
    pub ipv6: PublicIp,
}

/// One public address.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct PublicIp {
    /// The address as text.
    #[serde(default)]
    pub ip: Option<String>,
    /// The reverse DNS name.
    #[serde(default)]
    pub dns_ptr: Option<String>,
}

/// A network attachment.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct PrivateNet {
    /// The network's id.
    pub network: u64,
    /// The address in the network.
    #[serde(default)]
    pub ip: Option<String>,
}

/// A load balancer type.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Type {
    /// Such as `lb11`.
    pub name: String,
    /// Maximum number of targets. `None`: unknown; the API refuses too many.
    #[serde(default)]
    pub max_targets: Option<usize>,
    /// Maximum number of services.
    #[serde(default)]
    pub max_services: Option<usize>,
    /// Date from which it is no longer available.
    #[serde(default)]
    pub deprecated: Option<String>,
}

/// Protected operations of an object.
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

/// One port that a load balancer listens on.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Service {
    /// `tcp`, `http` or `https`.
    pub protocol: String,
    /// Unique within the load balancer.
    pub listen_port: u16,
    /// The targets' port.
    pub destination_port: u16,
    /// Whether connections begin with a PROXY header.
    #[serde(default)]
    pub proxyprotocol: bool,
    /// Only for `http` and `https`.
    #[serde(default)]
    pub http: Option<Http>,
    /// The health check of targets.
    #[serde(default)]
    pub health_check: Option<HealthCheck>,
}

/// HTTP options.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Http {
    /// Name of the sticky session cookie.
    #[serde(default)]
    pub cookie_name: Option<String>,
    /// In seconds.
    #[serde(default)]
    pub cookie_lifetime: Option<u64>,
    /// Certificate ids.
    #[serde(default, deserialize_with = "or_default")]
    pub certificates: Vec<u64>,
    /// Whether port 80 redirects to this port.
    #[serde(default, deserialize_with = "or_default")]
    pub redirect_http: bool,
    /// Whether sessions are sticky.
    #[serde(default, deserialize_with = "or_default")]
    pub sticky_sessions: bool,
    /// In seconds.
    #[serde(default)]
    pub timeout_idle: Option<u64>,
}

/// The health check of targets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct HealthCheck {
    /// `tcp`, `http` or `https`.
    pub protocol: String,
    /// The targets' port.
    pub port: u16,
    /// In seconds.
    #[serde(default)]
    pub interval: Option<u64>,
    /// In seconds.
    #[serde(default)]
    pub timeout: Option<u64>,
    /// Number of failures before a target counts as unhealthy.
    #[serde(default)]
    pub retries: Option<u64>,
    /// Only for `http` and `https`.
    #[serde(default)]
    pub http: Option<HealthCheckHttp>,
}

/// The HTTP request of a health check.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct HealthCheckHttp {
    /// The `Host` header.
    #[serde(default)]
    pub domain: Option<String>,
    /// The path.
    #[serde(default)]
    pub path: Option<String>,
    /// Status codes of a healthy target, such as `2??`.
    #[serde(default, deserialize_with = "or_default")]
    pub status_codes: Vec<String>,
    /// Whether the target needs a valid certificate.
    #[serde(default, deserialize_with = "or_default")]
    pub tls: bool,
}

/// A target.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Target {
    /// `server`, `ip` or `label_selector`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Set for `server`.
    #[serde(default)]
    pub server: Option<TargetServer>,
    /// Set for `ip`.
    #[serde(default)]
    pub ip: Option<TargetIp>,
    /// Whether the server is reached by its private address.
    #[serde(default, deserialize_with = "or_default")]
    pub use_private_ip: bool,
}

/// A server that is a target.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct TargetServer {
    /// Its id.
    pub id: u64,
}

/// An address that is a target.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct TargetIp {
    /// The address as text.
    pub ip: String,
}

/// A certificate.
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
    #[serde(default)]
    pub status: Option<CertificateStatus>,
    /// Load balancers that use it.
    #[serde(default, deserialize_with = "or_default")]
    pub used_by: Vec<User>,
}

/// A load balancer that uses a certificate.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct User {
    /// Its id.
    pub id: u64,
}

/// Issuance status of a managed certificate.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct CertificateStatus {
    /// `pending`, `completed` or `failed`.
    #[serde(default)]
    pub issuance: String,
    /// The reason of the failure.
    #[serde(default)]
    pub error: Option<ActionError>,
}

/// Deserializes a value that may be null.
fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    value: D,
) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(value)?.unwrap_or_default())
}
