//! Allocates the cluster IPs and node ports, which Services must not share. Never takes one away by itself; a value
//! that no stored Service holds is free.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use serde_json::{Value, json};

use super::field_error::FieldError;
use super::service::{has_health_port, has_node_ports, ports, spec};
use super::store::Store;

/// The node port range: kube-apiserver's default.
const NODE_PORTS: std::ops::RangeInclusive<i64> = 30_000..=32_767;
/// The first two octets of the Service range, 10.0.0.0/16.
const NETWORK: (u8, u8) = (10, 0);
/// Lower addresses are not allocated: the network's own and that of the API server's Service.
const FIRST_HOST: u16 = 10;

/// Keeps the values of the stored Service, then allocates missing ones. `key` is the Service's own key.
pub(super) fn allocate(
    store: &Store,
    key: &str,
    service: &mut Value,
    old: Option<&Value>,
) -> Vec<FieldError> {
    if let Some(old) = old {
        inherit(service, old);
    }
    let mut errors = Vec::new();
    let taken = Taken::by_others(store, key);
    errors.extend(cluster_ip(service, &taken));
    errors.extend(node_ports(service, &taken, old));
    errors
}

/// Copies addresses and ports that an update omitted.
pub(super) fn inherit(service: &mut Value, old: &Value) {
    if spec(service, "type") != "ExternalName" && spec(old, "type") != "ExternalName" {
        for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            if service["spec"].get(field).is_none()
                && let Some(value) = old["spec"].get(field)
            {
                service["spec"][field] = value.clone();
            }
        }
    }
    if has_node_ports(service) && has_node_ports(old) {
        let kept: Vec<Value> = ports(service)
            .iter()
            .map(|port| port["nodePort"].clone())
            .collect();
        let known = ports(old).to_vec();
        if let Some(Value::Array(list)) = service.pointer_mut("/spec/ports") {
            for port in list
                .iter_mut()
                .filter(|port| port.get("nodePort").is_none())
            {
                let same_name = known.iter().find(|one| one.get("name") == port.get("name"));
                if let Some(number) = same_name.and_then(|one| one.get("nodePort"))
                    && !kept.contains(number)
                {
                    port["nodePort"] = number.clone();
                }
            }
        }
    }
    if has_health_port(service)
        && has_health_port(old)
        && service["spec"].get("healthCheckNodePort").is_none()
    {
        service["spec"]["healthCheckNodePort"] = old["spec"]["healthCheckNodePort"].clone();
    }
}

/// Addresses and ports that all other Services hold.
struct Taken {
    addresses: BTreeSet<String>,
    ports: BTreeSet<i64>,
}

impl Taken {
    fn by_others(store: &Store, own: &str) -> Self {
        let mut taken = Self {
            addresses: BTreeSet::new(),
            ports: BTreeSet::new(),
        };
        for (_, service) in store.scan("services", "").filter(|(key, _)| *key != own) {
            taken
                .addresses
                .insert(spec(service, "clusterIP").to_owned());
            taken.ports.extend(held_ports(service));
        }
        taken
    }
}

fn held_ports(service: &Value) -> impl Iterator<Item = i64> + '_ {
    let health = service.pointer("/spec/healthCheckNodePort");
    ports(service)
        .iter()
        .filter_map(|port| port.get("nodePort"))
        .chain(health)
        .filter_map(Value::as_i64)
}

fn cluster_ip(service: &mut Value, taken: &Taken) -> Option<FieldError> {
    if spec(service, "type") == "ExternalName" {
        return None;
    }
    let asked = spec(service, "clusterIP").to_owned();
    let address = match asked.as_str() {
        "None" => asked.clone(),
        "" => match (FIRST_HOST..u16::MAX)
            .map(address)
            .find(|one| !taken.addresses.contains(one))
        {
            Some(free) => free,
            None => return Some(refused(&asked, "failed to allocate IP: range is full")),
        },
        _ => {
            let Ok(parsed) = asked.parse::<Ipv4Addr>() else {
                return Some(refused(
                    &asked,
                    "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
                ));
            };
            let octets = parsed.octets();
            if (octets[0], octets[1]) != NETWORK {
                let detail =
                    "failed to allocate IP: the provided network does not match the current range";
                return Some(refused(&asked, detail));
            }
            if taken.addresses.contains(&asked) {
                return Some(refused(
                    &asked,
                    "failed to allocate IP: provided IP is already allocated",
                ));
            }
            asked.clone()
        }
    };
    let spec = &mut service["spec"];
    spec["clusterIP"] = json!(address);
    spec["clusterIPs"] = json!([address]);
    if spec.get("ipFamilies").is_none() {
        spec["ipFamilies"] = json!(["IPv4"]);
    }
    if spec.get("ipFamilyPolicy").is_none() {
        spec["ipFamilyPolicy"] = json!("SingleStack");
    }
    None
}

fn address(host: u16) -> String {
    let [high, low] = host.to_be_bytes();
    Ipv4Addr::new(NETWORK.0, NETWORK.1, high, low).to_string()
}

fn refused(asked: &str, detail: &str) -> FieldError {
    FieldError::invalid("spec.clusterIPs", &json!([asked]), detail)
}

fn node_ports(service: &mut Value, taken: &Taken, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut used = taken.ports.clone();
    let own: Vec<i64> = old.into_iter().flat_map(held_ports).collect();
    let exposed = has_node_ports(service) || spec(service, "type") == "LoadBalancer";
    for (index, port) in ports(service).iter().enumerate() {
        let Some(asked) = port.get("nodePort").and_then(Value::as_i64) else {
            continue;
        };
        let detail = if !NODE_PORTS.contains(&asked) {
            "provided port is not in the valid range. The range of valid ports is 30000-32767"
        } else if exposed && taken.ports.contains(&asked) && !own.contains(&asked) {
            "provided port is already allocated"
        } else {
            used.insert(asked);
            continue;
        };
        let path = format!("spec.ports[{index}].nodePort");
        errors.push(FieldError::invalid(path, &asked.into(), detail));
    }
    if !errors.is_empty() {
        return errors;
    }
    let mut next = || {
        let free = NODE_PORTS.clone().find(|port| !used.contains(port));
        used.extend(free);
        free
    };
    if has_node_ports(service)
        && let Some(Value::Array(list)) = service.pointer_mut("/spec/ports")
    {
        for port in list
            .iter_mut()
            .filter(|port| port.get("nodePort").is_none())
        {
            port["nodePort"] = json!(next());
        }
    }
    if has_health_port(service) && service["spec"].get("healthCheckNodePort").is_none() {
        service["spec"]["healthCheckNodePort"] = json!(next());
    }
    errors
}
