//! Computes the writes that make a load balancer match the desired state, in the Go manager's order, except where the
//! cloud refuses a write until another one is done. Pure.
//!
//! Only specified fields are compared; others stay unchanged. So a Service that has not changed causes no write.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ccm_guest::compare;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::api::{self, LoadBalancer};
use super::certificates::ORDERED;
use super::request_bodies::{self, Known, specified};
use super::wanted::{ServiceProtocol, Target, TypeSource, Wanted, WantedService, WantedTargets};

#[cfg(test)]
mod tests;

/// The change of name or labels: no action, takes effect with the response.
pub const UPDATE: &str = "update";
/// The action that adds a target.
pub const ADD_TARGET: &str = "add_target";
/// The action that disables the public interface.
const DISABLE_PUBLIC_INTERFACE: &str = "disable_public_interface";

/// The port that a redirect to HTTPS uses, beside that of its service.
const HTTP_PORT: u16 = 80;

/// One write of the load balancer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// The action's name in the API path, or [`UPDATE`].
    pub action: String,
    /// The JSON body of the request.
    pub body: Value,
    /// The reason, for the log.
    pub why: String,
    /// The node of a target. A refusal for one node does not concern others.
    pub node: Option<String>,
    /// Whether it has side effects, so that only a new read shows the remaining work.
    pub unsettles: bool,
}

impl Change {
    fn new(action: &str, body: Value, why: String) -> Change {
        Change {
            action: action.to_owned(),
            body,
            why,
            node: None,
            unsettles: false,
        }
    }

    fn unsettling(self) -> Change {
        Change {
            unsettles: true,
            ..self
        }
    }
}

/// All changes except those of services and targets.
pub fn of_itself(wanted: &Wanted, known: &Known, found: &LoadBalancer) -> Vec<Change> {
    let mut changes = Vec::new();
    changes.extend(name_and_labels(wanted, found));
    let unfinished = is_unfinished(found);
    if unfinished && wanted.public_interface.is_none() {
        changes.push(public_interface("enable_public_interface"));
    }
    let public = &found.public_net;
    for (rdns, address) in [
        (&wanted.rdns_ipv4, &public.ipv4),
        (&wanted.rdns_ipv6, &public.ipv6),
    ] {
        if let (Some(rdns), Some(ip)) = (rdns, &address.ip)
            && address.dns_ptr.as_ref() != Some(rdns)
        {
            changes.push(Change::new(
                "change_dns_ptr",
                json!({"ip": ip, "dns_ptr": rdns}),
                format!("{ip} is to resolve to {rdns}"),
            ));
        }
    }
    if let Some(algorithm) = wanted.algorithm
        && algorithm.as_str() != found.algorithm.kind
    {
        let (is, word) = (&found.algorithm.kind, algorithm.as_str());
        changes.push(Change::new(
            "change_algorithm",
            json!({"type": word}),
            format!("the algorithm is {is} and is to be {word}"),
        ));
    }
    let (is, name) = (&found.load_balancer_type.name, &wanted.type_name);
    // Removing the annotation does not ask for a smaller type.
    if !matches!(wanted.type_source, TypeSource::Default) && is != name {
        changes.push(
            Change::new(
                "change_type",
                json!({"load_balancer_type": name}),
                format!("the type is {is} and is to be {name}"),
            )
            .unsettling(),
        );
    }
    changes.extend(networks(wanted, known, found));
    match wanted.public_interface {
        Some(true) if !public.enabled => changes.push(public_interface("enable_public_interface")),
        Some(false) if public.enabled => changes.push(public_interface(DISABLE_PUBLIC_INTERFACE)),
        // Nobody could reach it. Targets that need the interface do not count: a person may have disabled it to close
        // the Service to the internet, and then the cloud refuses those targets.
        None if !public.enabled && !unfinished && wanted.network.is_none() => {
            changes.push(public_interface("enable_public_interface"));
        }
        _ => {}
    }
    changes
}

/// Whether the load balancer is the result of a failed create action: it has only a name. The public interface is then
/// enabled first, because later it could not be told that no person has disabled it.
fn is_unfinished(found: &LoadBalancer) -> bool {
    let is_bare = found.services.is_empty() && found.targets.is_empty();
    is_bare && found.private_net.is_empty() && !found.public_net.enabled
}

fn public_interface(action: &'static str) -> Change {
    let why = "the public interface is not as it is to be".to_owned();
    Change::new(action, json!({}), why).unsettling()
}

/// The label about a managed certificate causes no write of its own while the load balancer shows a certificate, by
/// which its deletion finds it, too. The Go manager sets no such label, and replacing it must change nothing.
fn name_and_labels(wanted: &Wanted, found: &LoadBalancer) -> Option<Change> {
    let renamed = wanted.is_named && wanted.name != found.name;
    let is_due = |(key, value): (&String, &String)| {
        found.labels.get(key) != Some(value) && !(key == ORDERED && found.shows_certificates())
    };
    let labelled = wanted.labels.iter().any(is_due);
    let mut labels = found.labels.clone();
    labels.extend(wanted.labels.clone());
    let body = json!({
        "name": renamed.then_some(&wanted.name),
        "labels": labelled.then_some(labels),
    });
    let why = match renamed {
        true => format!("it is called {} and is to be {}", found.name, wanted.name),
        false => "its labels do not say whose it is".to_owned(),
    };
    (renamed || labelled).then(|| Change::new(UPDATE, specified(body), why))
}

/// Detaches from wrong networks; attaches if there are none.
fn networks(wanted: &Wanted, known: &Known, found: &LoadBalancer) -> Vec<Change> {
    let address = wanted.network.as_ref().and_then(|network| network.ip);
    let is_right = |net: &&api::PrivateNet| {
        let same = |ip: IpAddr| net.ip.as_deref().and_then(parsed) == Some(ip);
        known.network == Some(net.network) && address.is_none_or(|ip| same(ip.into()))
    };
    let detach = found.private_net.iter().filter(|net| !is_right(net));
    let detach: Vec<Change> = detach
        .map(|net| {
            let network = net.network;
            Change::new(
                "detach_from_network",
                json!({"network": network}),
                format!("it is in network {network}, or has an address there, as it is not to"),
            )
            .unsettling()
        })
        .collect();
    let (Some(network), Some(id)) = (&wanted.network, known.network) else {
        return detach;
    };
    if !detach.is_empty() || found.private_net.iter().any(|net| is_right(&net)) {
        return detach;
    }
    let body = json!({"network": id, "ip": network.ip, "ip_range": network.ip_range});
    let why = format!("it is to be in network {id}");
    vec![Change::new("attach_to_network", specified(body), why).unsettling()]
}

/// The changes to services. A port is free before another service takes it.
pub fn of_services(wanted: &Wanted, known: &Known, found: &LoadBalancer) -> Vec<Change> {
    let shown = found.services.iter().map(|one| (one.listen_port, one));
    let shown: BTreeMap<u16, &api::Service> = shown.collect();
    let body = |port: &u16, service| request_bodies::service(*port, service, known);
    let mut changes = Vec::new();
    let mut ends_of_redirects = Vec::new();
    let mut deletions = Vec::new();
    let mut added = 0_usize;
    let mut takes_http_port = false;
    let found_changes = compare::changes(&wanted.services, &shown, |wanted, shown| {
        difference(wanted, known, shown)
    });
    for change in found_changes {
        match change {
            compare::Change::Missing(port, service) => {
                added += 1;
                takes_http_port |= *port == HTTP_PORT || will_redirect(service, None);
                let why = format!("port {port} is missing");
                changes.push(Change::new("add_service", body(port, service), why));
            }
            compare::Change::Differs(port, service, &shown, what) => {
                let why = format!("port {port} has another {what}");
                let update = Change::new("update_service", body(port, service), why);
                let redirects = shown.http.redirect_http;
                let will = will_redirect(service, Some(shown));
                takes_http_port |= will && !redirects;
                match redirects && !will {
                    true => ends_of_redirects.push(update),
                    false => changes.push(update),
                }
            }
            compare::Change::Extra(port, &shown) if !wanted.keep_foreign => {
                let frees_http_port = *port == HTTP_PORT || shown.http.redirect_http;
                let why = format!("the Service has no port {port}");
                let body = json!({"listen_port": port});
                let deletion = Change::new("delete_service", body, why);
                deletions.push((frees_http_port, deletion));
            }
            compare::Change::Extra(..) => {}
        }
    }
    // New services come first, to keep listening without a gap, unless the maximum does not allow both, or an old one
    // uses the port 80 that a new one or its redirect needs.
    let limit = found.load_balancer_type.max_services;
    let is_full = limit.is_some_and(|limit| found.services.len() + added > limit);
    let (first, last): (Vec<_>, Vec<_>) = deletions
        .into_iter()
        .partition(|(frees_http_port, _)| is_full || (*frees_http_port && takes_http_port));
    let deletion = |(_, change): (bool, Change)| change;
    let first = first.into_iter().map(deletion);
    let last = last.into_iter().map(deletion);
    first
        .chain(ends_of_redirects)
        .chain(changes)
        .chain(last)
        .collect()
}

/// Whether port 80 redirects to the service after it is added or updated. An unspecified redirect stays as it is.
fn will_redirect(wanted: &WantedService, shown: Option<&api::Service>) -> bool {
    let redirect = wanted.http.as_ref().and_then(|http| http.redirect_http);
    let stays = || shown.is_some_and(|shown| shown.http.redirect_http);
    wanted.protocol == ServiceProtocol::Https && redirect.unwrap_or_else(stays)
}

/// The first field in which a service differs from the request for it; other fields are the cloud's.
fn difference(wanted: &WantedService, known: &Known, found: &api::Service) -> Option<String> {
    let mut request = request_bodies::service(found.listen_port, wanted, known);
    // The cloud does not store the HTTP options of a TCP service.
    if let (ServiceProtocol::Tcp, Value::Object(fields)) = (wanted.protocol, &mut request) {
        fields.remove("http");
    }
    compare::difference(&in_order(request), &in_order(json!(found)))
}

/// The service with its lists as sets: their order does not count.
fn in_order(mut service: Value) -> Value {
    for list in ["/http/certificates", "/health_check/http/status_codes"] {
        if let Some(Value::Array(items)) = service.pointer_mut(list) {
            items.sort_by_key(Value::to_string);
            items.dedup();
        }
    }
    service
}

/// The changes to targets.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TargetChanges {
    /// The writes, in the order in which they are sent.
    pub changes: Vec<Change>,
    /// Nodes beyond the maximum number of targets.
    pub without_capacity: Vec<String>,
    /// Whether a target is removed that is reached through the public interface.
    pub removes_public: bool,
}

impl TargetChanges {
    /// Takes the disabling of the public interface out of `changes` while targets that are reached through it have still
    /// to be removed: the cloud refuses it before. Returns whether it did: then a new read shows the remaining work.
    pub fn hold_back(&self, changes: &mut Vec<Change>) -> bool {
        let all = changes.len();
        if self.removes_public {
            changes.retain(|change| change.action != DISABLE_PUBLIC_INTERFACE);
        }
        changes.len() < all
    }
}

/// The changes to targets. Label selector targets belong to others and stay; so do IP targets, if `keep_addresses`.
pub fn of_targets(
    wanted: &WantedTargets,
    keep_addresses: bool,
    found: &LoadBalancer,
) -> TargetChanges {
    let mut all = TargetChanges::default();
    let mut there = Vec::new();
    let mut again = Vec::new();
    let mut used = found.targets.len();
    for target in found.targets.iter().filter_map(read_target) {
        if wanted.targets.contains_key(&target) {
            there.push(target);
            continue;
        }
        let same_server =
            reached_otherwise(target).filter(|other| wanted.targets.contains_key(other));
        if keep_addresses && matches!(target, Target::Ip(_)) {
            continue;
        }
        let why = match same_server {
            Some(_) => format!("{} is to be reached by its other address", name_of(target)),
            None => format!("{} is no target of the Service", name_of(target)),
        };
        let change = Change::new("remove_target", request_bodies::target(&target, false), why);
        all.removes_public |= !target.is_private();
        // The slot stays occupied: the server is added again after its removal.
        match same_server {
            Some(other) => again.push(other),
            None => used = used.saturating_sub(1),
        }
        all.changes.push(Change {
            unsettles: same_server.is_some(),
            ..change
        });
    }
    let limit = found.load_balancer_type.max_targets.unwrap_or(usize::MAX);
    let missing = wanted
        .targets
        .iter()
        .filter(|(target, _)| !there.contains(target) && !again.contains(target));
    for (target, node) in missing {
        if used >= limit {
            all.without_capacity.push(node.clone());
            continue;
        }
        used += 1;
        let why = format!("node {node} is to be a target, as {}", name_of(*target));
        all.changes.push(Change {
            node: Some(node.clone()),
            ..Change::new(ADD_TARGET, request_bodies::target(target, true), why)
        });
    }
    all
}

/// Whether it sends traffic to machines that are not wanted: other servers, other addresses, or those of a label
/// selector.
pub fn serves_others(wanted: &WantedTargets, found: &LoadBalancer) -> bool {
    let is_wanted = |target: Target| {
        let otherwise = reached_otherwise(target);
        wanted.targets.contains_key(&target)
            || otherwise.is_some_and(|other| wanted.targets.contains_key(&other))
    };
    let mut targets = found.targets.iter();
    targets.any(|target| !read_target(target).is_some_and(is_wanted))
}

fn read_target(target: &api::Target) -> Option<Target> {
    match target.kind.as_str() {
        "server" => Some(Target::Server {
            id: target.server.as_ref()?.id,
            use_private_ip: target.use_private_ip,
        }),
        "ip" => parsed(&target.ip.as_ref()?.ip).map(Target::Ip),
        _ => None,
    }
}

fn reached_otherwise(target: Target) -> Option<Target> {
    match target {
        Target::Server { id, use_private_ip } => Some(Target::Server {
            id,
            use_private_ip: !use_private_ip,
        }),
        Target::Ip(_) => None,
    }
}

fn name_of(target: Target) -> String {
    match target {
        Target::Server { id, .. } => format!("server {id}"),
        Target::Ip(ip) => ip.to_string(),
    }
}

fn parsed(ip: &str) -> Option<IpAddr> {
    ip.parse().ok()
}
