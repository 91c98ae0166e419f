//! Checks the status that a provider reports for a load balancer before it is written. kube-proxy captures traffic to
//! these IPs on every node, so that a wrong one hijacks the traffic of others (CVE-2020-8554). One invalid part
//! invalidates the whole status: a partial one would be false. Never repairs a value.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use thiserror::Error;

use crate::cloud::load_balancer::{Ingress, LoadBalancerStatus, PortStatus};
use crate::name_syntax;
use crate::node::answer_check::{address, quoted};
use crate::reconciliation::effect::InUse;
use crate::settings::IngressRules;

/// Maximum number of ingress entries; real load balancers have fewer.
pub(super) const MOST: usize = 16;
/// Maximum number of ports; more than a Service has in practice.
const MOST_PORTS: usize = 256;
/// Maximum length of a port error, in bytes; Kubernetes' own limit.
const LONGEST_ERROR: usize = 316;

/// Metadata addresses of clouds outside of the link-local range.
const METADATA: [IpAddr; 4] = [
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
];

/// Why a status may not be written.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum Unusable {
    /// Too many ingress entries.
    #[error("it has {0} ingress entries, and {MOST} are allowed")]
    TooMany(usize),
    /// Neither a valid IP nor a valid hostname.
    #[error("ingress {index}: {problem}")]
    Malformed {
        /// Index of the entry.
        index: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// An IP that no load balancer can have.
    #[error("ingress {index}: the IP {ip} is not a load balancer's: {problem}")]
    Misplaced {
        /// Index of the entry.
        index: usize,
        /// The IP that is refused.
        ip: IpAddr,
        /// Why it is refused.
        problem: String,
    },
    /// An IP that is in use elsewhere in the cluster.
    #[error("ingress {index}: the IP {ip} is that of {by}")]
    InUse {
        /// Index of the entry.
        index: usize,
        /// The IP that is refused.
        ip: IpAddr,
        /// The object that uses it.
        by: String,
    },
}

impl Unusable {
    /// Message for everyone who may read the Service; without names of other objects.
    pub(super) fn public_message(&self) -> String {
        match self {
            Unusable::InUse { index, ip, by } => {
                let by = match by.starts_with("node/") {
                    true => "a node",
                    false => "another Service",
                };
                format!("ingress {index}: the IP {ip} is that of {by}")
            }
            _ => self.to_string(),
        }
    }
}

/// Checks `status` as the answer for a Service whose current status is `stored`.
///
/// # Errors
/// The first problem found.
pub(super) fn check(
    status: &LoadBalancerStatus,
    stored: &LoadBalancerStatus,
    in_use: &[InUse],
    rules: &IngressRules,
) -> Result<(), Unusable> {
    if status.ingress.len() > MOST {
        return Err(Unusable::TooMany(status.ingress.len()));
    }
    for (index, ingress) in status.ingress.iter().enumerate() {
        if let Some(problem) = malformed(ingress) {
            return Err(Unusable::Malformed { index, problem });
        }
        let Some(ip) = ingress.canonical_ip() else {
            continue;
        };
        if let Some(problem) = misplaced(ip, rules) {
            return Err(Unusable::Misplaced { index, ip, problem });
        }
        // A stored IP is kept even if another object claims it.
        let mut before = stored.ingress.iter();
        let is_stored = before.any(|stored| stored.canonical_ip() == Some(ip));
        if !is_stored && let Some(holder) = in_use.iter().find(|holder| holder.ip == ip) {
            let by = holder.by.clone();
            return Err(Unusable::InUse { index, ip, by });
        }
    }
    Ok(())
}

fn malformed(ingress: &Ingress) -> Option<String> {
    match &ingress.ip {
        Some(ip) => match ip.parse::<IpAddr>() {
            Err(_) => return Some(format!("{} is not an IP address", quoted(ip))),
            Ok(parsed) if parsed.to_canonical() != parsed => {
                return Some(format!("{} is IPv4 written as IPv6", quoted(ip)));
            }
            Ok(_) => {}
        },
        None if ingress.hostname.is_none() => return Some("it is empty".to_owned()),
        None if ingress.ip_mode.is_some() => {
            return Some("it has an IP mode and no IP".to_owned());
        }
        None => {}
    }
    let hostname = ingress.hostname.as_deref();
    if let Some(name) = hostname.filter(|name| !is_hostname(name)) {
        return Some(format!("{} is not a DNS name", quoted(name)));
    }
    if ingress.ports.len() > MOST_PORTS {
        return Some(format!("it has {} ports", ingress.ports.len()));
    }
    ingress.ports.iter().find_map(bad_port)
}

/// Kubernetes' rule: lower-case, and not an IP.
fn is_hostname(name: &str) -> bool {
    name_syntax::is_dns_name(name)
        && !name.bytes().any(|byte| byte.is_ascii_uppercase())
        && name.parse::<IpAddr>().is_err()
}

fn bad_port(port: &PortStatus) -> Option<String> {
    if port.port == 0 {
        return Some("it has the port 0".to_owned());
    }
    let error = port.error.as_ref()?;
    let is_error = error.len() <= LONGEST_ERROR && name_syntax::is_label_key(error);
    (!is_error).then(|| format!("{} is not a port's error", quoted(error)))
}

fn misplaced(ip: IpAddr, rules: &IngressRules) -> Option<String> {
    if let Some(problem) = address::forbidden_range(ip) {
        return Some(problem.to_owned());
    }
    if METADATA.contains(&ip) {
        return Some("it is a metadata address".to_owned());
    }
    if let Some(network) = rules.refused.iter().find(|network| network.contains(&ip)) {
        return Some(format!("{network} is inside the cluster"));
    }
    if rules.api_server.contains(&ip) {
        return Some("it is the API server's".to_owned());
    }
    let is_outside =
        !rules.allowed.is_empty() && !rules.allowed.iter().any(|network| network.contains(&ip));
    is_outside.then(|| "it is outside of ingressCIDRs".to_owned())
}
