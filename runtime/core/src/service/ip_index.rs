//! Index of the IPs of all Services. A provider's answer is checked against it, so that it cannot hijack the traffic of
//! another Service (CVE-2020-8554). Decides nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;

use super::effect::ServiceRef;
use super::stored_state::{load_balancer_status, service_ref, spec};
use crate::cloud::load_balancer::Ingress;
use crate::reconciliation::effect::InUse;

/// Index of IPs by Service and of Services by IP. The key is namespace and name; a recreated Service replaces the old
/// one.
#[derive(Debug, Default)]
pub struct Addresses {
    services: BTreeMap<Arc<str>, Holder>,
    by_ip: HashMap<IpAddr, BTreeSet<Arc<str>>>,
}

#[derive(Debug, PartialEq, Eq)]
struct Holder {
    uid: String,
    ips: BTreeSet<IpAddr>,
}

impl Addresses {
    /// Inserts or updates `service`.
    pub fn apply(&mut self, service: &Service) {
        let named = service_ref(service);
        let name: Arc<str> = named.to_string().into();
        let next = Holder {
            uid: named.uid,
            ips: ips(service),
        };
        if self.services.get(&name) == Some(&next) {
            return;
        }
        self.remove(&name);
        for ip in &next.ips {
            self.by_ip.entry(*ip).or_default().insert(name.clone());
        }
        self.services.insert(name, next);
    }

    /// Removes the Service with this namespace and name.
    pub fn forget(&mut self, service: &ServiceRef) {
        self.remove(&service.to_string());
    }

    /// The `ips` that a Service with another UID uses.
    pub fn in_use(&self, uid: &str, ips: impl IntoIterator<Item = IpAddr>) -> Vec<InUse> {
        let used = ips.into_iter().filter_map(|ip| {
            let ip = ip.to_canonical();
            let mut holders = self.by_ip.get(&ip)?.iter();
            let other = holders.find(|name| {
                let holder = self.services.get(&***name);
                holder.is_some_and(|holder| holder.uid != uid)
            })?;
            Some(InUse {
                ip,
                by: other.to_string(),
            })
        });
        used.collect()
    }

    fn remove(&mut self, name: &str) {
        let Some(old) = self.services.remove(name) else {
            return;
        };
        for ip in old.ips {
            if let Some(names) = self.by_ip.get_mut(&ip) {
                names.remove(name);
                if names.is_empty() {
                    self.by_ip.remove(&ip);
                }
            }
        }
    }
}

/// Cluster IPs and status IPs, which the API server and controllers write. Not `externalIPs`: whoever may write Services
/// could keep the address of any load balancer from the other ones. A headless Service's `None` is not an IP.
fn ips(service: &Service) -> BTreeSet<IpAddr> {
    let spec = spec(service);
    let cluster = spec.and_then(|spec| spec.cluster_ips.as_deref());
    let first = spec.and_then(|spec| spec.cluster_ip.as_ref());
    let written = cluster.unwrap_or_default().iter().chain(first);
    let parsed = written.filter_map(|text| text.parse::<IpAddr>().ok());
    let status = load_balancer_status(service);
    parsed
        .map(|ip| ip.to_canonical())
        .chain(status.ingress.iter().filter_map(Ingress::canonical_ip))
        .collect()
}
