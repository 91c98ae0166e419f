//! The rules for a status: no address that belongs to another object (CVE-2020-8554), and only valid entries (F18,
//! F19). Worked out from the recorded objects, independently of the controllers.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ccm_core::settings::IngressRules;
use ccm_sim::cluster::Write;
use serde_json::Value;

use crate::laws::list;
use crate::service_laws::ServiceRecord;

/// Maximum number of entries in a status.
const MOST: usize = 16;

/// The violations in these entries, which `write` has stored for the Service with this UID.
pub(crate) fn refused(
    ingress: &Value,
    of: &str,
    write: &Write,
    record: &ServiceRecord,
) -> Vec<String> {
    let mut found = Vec::new();
    let entries = list(ingress);
    if entries.len() > MOST {
        found.push(format!("stores {} ways in (F19)", entries.len()));
    }
    let elsewhere = in_use(of, write, record);
    for one in entries {
        match (one["ip"].as_str(), one["hostname"].as_str()) {
            (Some(ip), _) => match ip.parse::<IpAddr>().map(|ip| ip.to_canonical()) {
                Err(_) => found.push(format!("stores {ip:?}, which is no address (F19)")),
                Ok(ip)
                    if is_refused(ip, &record.rules(write.at).ingress)
                        || elsewhere.contains(&ip) =>
                {
                    found.push(format!(
                        "stores {ip}, which is not the cloud's to give (F18)"
                    ));
                }
                Ok(_) => {}
            },
            (None, Some(name)) if is_name(name) => {}
            (None, name) => found.push(format!("stores the name {name:?} (F19)")),
        }
        if one["ip"].is_null() && !one["ipMode"].is_null() {
            found.push("stores a mode without an address (F19)".to_owned());
        }
    }
    found
}

fn is_refused(ip: IpAddr, rules: &IngressRules) -> bool {
    let is_special = match ip {
        IpAddr::V4(ip) => {
            ip.is_loopback()
                || ip.is_link_local()
                || ip.is_multicast()
                || ip.is_broadcast()
                || ip.octets()[0] == 0
        }
        IpAddr::V6(ip) => {
            ip.is_loopback()
                || ip.is_multicast()
                || ip.is_unspecified()
                || ip.segments()[0] & 0xffc0 == 0xfe80
        }
    };
    is_special
        || rules.refused.iter().any(|net| net.contains(&ip))
        || rules.api_server.contains(&ip)
        || !rules.allowed.is_empty() && !rules.allowed.iter().any(|net| net.contains(&ip))
}

/// The addresses of nodes, and of all other Services but those that their authors choose: `externalIPs`.
fn in_use(of: &str, write: &Write, record: &ServiceRecord) -> BTreeSet<IpAddr> {
    let mut found = BTreeSet::new();
    let mut take = |value: &Value| {
        let ip = value.as_str().and_then(|ip| ip.parse::<IpAddr>().ok());
        found.extend(ip.map(|ip| ip.to_canonical()));
    };
    for node in record
        .history
        .iter()
        .filter(|one| one.request.resource == "nodes")
    {
        let now = node.after.as_deref().unwrap_or(&node.body);
        list(&now["status"]["addresses"])
            .iter()
            .for_each(|one| take(&one["address"]));
    }
    // The write's own entries do not count against it.
    for (uid, service) in record.present(write.request.sequence - 1) {
        if uid != of {
            let ingress = list(&service["status"]["loadBalancer"]["ingress"]);
            ingress.iter().for_each(|one| take(&one["ip"]));
            list(&service["spec"]["clusterIPs"])
                .iter()
                .for_each(&mut take);
        }
    }
    found
}

/// RFC 1123, with a dot at the end or without.
fn is_name(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    let is_label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .chars()
                .all(|one| one.is_ascii_lowercase() || one.is_ascii_digit() || one == '-')
    };
    name.len() <= 253 && name.split('.').all(is_label)
}
