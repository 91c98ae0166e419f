//! What the API's answers say about load balancers and certificates: their fields, as far as they are needed.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

use crate::api::actions::ActionError;
use crate::load_balancer::names::SERVICE_UID;

/// A load balancer.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct LoadBalancer {
    /// Unique for ever.
    pub id: u64,
    /// Unique in the project at any one time.
    pub name: String,
    /// The owner's among them.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Its public addresses.
    pub public_net: PublicNet,
    /// Networks it is attached to; the vendor allows one.
    #[serde(default)]
    pub private_net: Vec<PrivateNet>,
    /// What it is, and what it can hold.
    pub load_balancer_type: Type,
    /// What may not be done to it.
    #[serde(default)]
    pub protection: Protection,
    /// Ports that it listens on.
    #[serde(default)]
    pub services: Vec<Service>,
    /// Where it sends traffic.
    #[serde(default)]
    pub targets: Vec<Target>,
    /// How it chooses among them.
    pub algorithm: Algorithm,
}

impl LoadBalancer {
    /// The UID of the Service it belongs to, as far as its label says.
    pub fn owner(&self) -> Option<&str> {
        let owner = self.labels.get(SERVICE_UID)?;
        (!owner.is_empty()).then_some(owner.as_str())
    }
}

/// Public addresses. They stay while the interface is switched off.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct PublicNet {
    /// Whether traffic comes in through them.
    pub enabled: bool,
    /// IPv4.
    pub ipv4: PublicIp,
    /// IPv6.
    pub ipv6: PublicIp,
}

/// One public address.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct PublicIp {
    /// In text form.
    #[serde(default)]
    pub ip: Option<String>,
    /// Its name in the reverse DNS.
    #[serde(default)]
    pub dns_ptr: Option<String>,
}

/// A place in a network.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct PrivateNet {
    /// The network's id.
    pub network: u64,
    /// The address in it.
    #[serde(default)]
    pub ip: Option<String>,
}

/// A load balancer type.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Type {
    /// Such as `lb11`.
    pub name: String,
    /// The most targets. Not said: the API will refuse what is too much.
    #[serde(default)]
    pub max_targets: Option<usize>,
    /// The most services.
    #[serde(default)]
    pub max_services: Option<usize>,
    /// From when on it cannot be had any more.
    #[serde(default)]
    pub deprecated: Option<String>,
}

/// What may not be done to an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Protection {
    /// Delete it.
    #[serde(default)]
    pub delete: bool,
}

/// How targets are chosen.
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
    /// On the targets.
    pub destination_port: u16,
    /// Whether connections begin with a PROXY header.
    #[serde(default)]
    pub proxyprotocol: bool,
    /// Only for `http` and `https`.
    #[serde(default)]
    pub http: Option<Http>,
    /// How targets are watched.
    #[serde(default)]
    pub health_check: Option<HealthCheck>,
}

/// What HTTP needs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Http {
    /// Of the cookie that keeps a client at its target.
    #[serde(default)]
    pub cookie_name: Option<String>,
    /// In seconds.
    #[serde(default)]
    pub cookie_lifetime: Option<u64>,
    /// By id.
    #[serde(default, deserialize_with = "or_default")]
    pub certificates: Vec<u64>,
    /// Whether port 80 sends clients to this one.
    #[serde(default, deserialize_with = "or_default")]
    pub redirect_http: bool,
    /// Whether a client stays at its target.
    #[serde(default, deserialize_with = "or_default")]
    pub sticky_sessions: bool,
    /// In seconds.
    #[serde(default)]
    pub timeout_idle: Option<u64>,
}

/// How targets are watched.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct HealthCheck {
    /// `tcp`, `http` or `https`.
    pub protocol: String,
    /// On the targets.
    pub port: u16,
    /// In seconds.
    #[serde(default)]
    pub interval: Option<u64>,
    /// In seconds.
    #[serde(default)]
    pub timeout: Option<u64>,
    /// How often before a target counts as broken.
    #[serde(default)]
    pub retries: Option<u64>,
    /// Only for `http` and `https`.
    #[serde(default)]
    pub http: Option<HealthCheckHttp>,
}

/// The request that a health check makes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct HealthCheckHttp {
    /// `Host`.
    #[serde(default)]
    pub domain: Option<String>,
    /// Path.
    #[serde(default)]
    pub path: Option<String>,
    /// Good answers, such as `2??`.
    #[serde(default, deserialize_with = "or_default")]
    pub status_codes: Vec<String>,
    /// Whether the certificate has to be valid.
    #[serde(default, deserialize_with = "or_default")]
    pub tls: bool,
}

/// Where traffic is sent.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Target {
    /// `server`, `ip` or `label_selector`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Of `server`.
    #[serde(default)]
    pub server: Option<TargetServer>,
    /// Of `ip`.
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
    /// In text form.
    pub ip: String,
}

/// A certificate.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Certificate {
    /// Unique for ever.
    pub id: u64,
    /// Unique in the project at any one time.
    pub name: String,
    /// `uploaded` or `managed`.
    #[serde(rename = "type", default)]
    pub kind: String,
    /// The owner's among them.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// How far a managed one is.
    #[serde(default)]
    pub status: Option<CertificateStatus>,
    /// What uses it.
    #[serde(default, deserialize_with = "or_default")]
    pub used_by: Vec<User>,
}

/// A load balancer that uses a certificate.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct User {
    /// Its id.
    pub id: u64,
}

/// How far a managed certificate is.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct CertificateStatus {
    /// `pending`, `completed` or `failed`.
    #[serde(default)]
    pub issuance: String,
    /// Why it failed.
    #[serde(default)]
    pub error: Option<ActionError>,
}

/// A value that may be null.
fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    value: D,
) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(value)?.unwrap_or_default())
}
