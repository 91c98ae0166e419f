//! Request bodies for the desired state. Pure.
//!
//! A field without a desired value is omitted: the API then uses its default or keeps the current value.

use ccm_guest::{Error, hint};
use serde_json::{Value, json};

use super::wanted::{
    Certificates, ManagedCertificate, Place, Target, TypeSource, Wanted, WantedService,
    WantedTargets,
};

/// Data for the desired state that must be looked up in the cloud.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Known {
    /// The id of the wanted network.
    pub network: Option<u64>,
    /// The ids of the wanted certificates. `None`: certificates are not specified.
    pub certificates: Option<Vec<u64>>,
}

/// Creates a load balancer with everything that one request can contain.
pub fn create(wanted: &Wanted, place: &Place, known: &Known, with_targets: bool) -> Value {
    let (location, network_zone) = match place {
        Place::Location(name) => (Some(name), None),
        Place::NetworkZone(name) => (None, Some(name)),
    };
    let algorithm = wanted.algorithm.map(|one| json!({"type": one.as_str()}));
    // A create request cannot contain an address or a subnet. If either is wanted, the network is attached afterwards,
    // and private targets are added then.
    let attached = wanted.network.as_ref().is_some_and(is_plain);
    let services = wanted.services.iter();
    let services = services.map(|(port, one)| service(*port, one, known));
    let targets = wanted.targets.targets.keys();
    let possible = targets.filter(|one| attached || !one.is_private());
    let possible = possible.map(|one| target(one, true));
    specified(json!({
        "name": wanted.name,
        "load_balancer_type": wanted.type_name,
        "location": location,
        "network_zone": network_zone,
        "labels": wanted.labels,
        "algorithm": algorithm,
        "public_interface": wanted.public_interface,
        "network": known.network.filter(|_| attached),
        "services": services.collect::<Value>(),
        "targets": with_targets.then(|| possible.collect::<Value>()),
    }))
}

fn is_plain(network: &super::wanted::WantedNetwork) -> bool {
    network.ip.is_none() && network.ip_range.is_none()
}

/// Adds a service, or updates the one on the same port.
pub fn service(port: u16, wanted: &WantedService, known: &Known) -> Value {
    let mut body = json!(wanted);
    body["listen_port"] = json!(port);
    if wanted.http.is_some() {
        body["http"]["certificates"] = json!(known.certificates);
    }
    specified(body)
}

/// The body without the fields that are null.
pub fn specified(body: Value) -> Value {
    match body {
        Value::Object(fields) => {
            let fields = fields.into_iter().filter(|(_, value)| !value.is_null());
            fields.map(|(key, value)| (key, specified(value))).collect()
        }
        other => other,
    }
}

/// Adds or removes a target. A removal does not depend on `use_private_ip`.
pub fn target(target: &Target, add: bool) -> Value {
    match target {
        Target::Server { id, use_private_ip } => specified(json!({
            "type": "server",
            "server": {"id": id},
            "use_private_ip": add.then_some(use_private_ip),
        })),
        Target::Ip(ip) => json!({"type": "ip", "ip": {"ip": ip.to_string()}}),
    }
}

/// Creates a managed certificate.
pub fn certificate(wanted: &ManagedCertificate) -> Value {
    json!({
        "name": wanted.name,
        "type": "managed",
        "domain_names": wanted.domains,
        "labels": wanted.labels,
    })
}

/// A hash of the desired state. It only shows whether a started change is still wanted: a collision skips one
/// comparison, until the next one.
///
/// # Errors
/// See [`hint::digest`].
pub fn digest(wanted: &Wanted) -> Result<u64, Error> {
    let nowhere = Place::Location(String::new());
    let network = wanted.network.as_ref();
    let certificates = match &wanted.certificates {
        Certificates::None => Value::Null,
        Certificates::Uploaded(some) => some
            .iter()
            .map(|one| match one {
                super::wanted::Certificate::Id(id) => json!(id),
                super::wanted::Certificate::Name(name) => json!(name),
            })
            .collect(),
        Certificates::Managed(one) => certificate(one),
    };
    let all = json!([
        create(wanted, &nowhere, &Known::default(), false),
        targets(&wanted.targets),
        wanted.is_named,
        wanted.rdns_ipv4,
        wanted.rdns_ipv6,
        network.map(|one| json!([one.network, one.ip.map(|ip| ip.to_string()), one.ip_range])),
        certificates,
        wanted.keep_foreign,
        matches!(wanted.type_source, TypeSource::Default),
    ]);
    hint::digest(&all)
}

/// As [`digest`], for targets only.
///
/// # Errors
/// As [`digest`].
pub fn digest_of_targets(wanted: &WantedTargets) -> Result<u64, Error> {
    hint::digest(&targets(wanted))
}

fn targets(wanted: &WantedTargets) -> Value {
    wanted.targets.keys().map(|one| target(one, true)).collect()
}
