//! Request bodies for the desired state. Pure.
//!
//! A field without a desired value is omitted: the API then uses its default or keeps the current value.

use ccm_guest::hint;
use serde_json::{Map, Value, json};

use super::wanted::{
    Certificates, HealthCheckHttp, ManagedCertificate, Place, Target, TypeSource, Wanted,
    WantedHealthCheck, WantedHttp, WantedService, WantedTargets,
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
    let mut body = Fields::new();
    body.set("name", &wanted.name);
    body.set("load_balancer_type", &wanted.type_name);
    match place {
        Place::Location(name) => body.set("location", name),
        Place::NetworkZone(name) => body.set("network_zone", name),
    }
    body.put("labels", json!(wanted.labels));
    if let Some(algorithm) = wanted.algorithm {
        body.put("algorithm", json!({"type": algorithm.as_str()}));
    }
    body.maybe("public_interface", wanted.public_interface);
    // A create request cannot contain an address or a subnet. If either is wanted, the network is attached afterwards,
    // and private targets are added then.
    let attached = wanted.network.as_ref().is_some_and(is_plain);
    if attached {
        body.maybe("network", known.network);
    }
    let services = wanted
        .services
        .iter()
        .map(|(port, one)| service(*port, one, known));
    body.put("services", services.collect());
    if with_targets {
        let possible = wanted.targets.targets.keys().filter(|target| {
            attached
                || !matches!(
                    target,
                    Target::Server {
                        use_private_ip: true,
                        ..
                    }
                )
        });
        body.put("targets", possible.map(|one| target(one, true)).collect());
    }
    body.into()
}

fn is_plain(network: &super::wanted::WantedNetwork) -> bool {
    network.ip.is_none() && network.ip_range.is_none()
}

/// Adds a service, or updates the one on the same port.
pub fn service(port: u16, wanted: &WantedService, known: &Known) -> Value {
    let mut body = Fields::new();
    body.put("listen_port", port.into());
    body.put("destination_port", wanted.destination_port.into());
    body.set("protocol", wanted.protocol.as_str());
    body.maybe("proxyprotocol", wanted.proxy_protocol);
    if let Some(options) = &wanted.http {
        body.put("http", http(options, known));
    }
    body.put("health_check", health_check(&wanted.health_check));
    body.into()
}

fn http(wanted: &WantedHttp, known: &Known) -> Value {
    let mut body = Fields::new();
    body.maybe("cookie_name", wanted.cookie_name.as_deref());
    body.maybe("cookie_lifetime", wanted.cookie_lifetime);
    body.maybe("redirect_http", wanted.redirect_http);
    body.maybe("sticky_sessions", wanted.sticky_sessions);
    body.maybe("timeout_idle", wanted.timeout_idle);
    body.maybe("certificates", known.certificates.clone());
    body.into()
}

fn health_check(wanted: &WantedHealthCheck) -> Value {
    let mut body = Fields::new();
    body.set("protocol", wanted.protocol.as_str());
    body.put("port", wanted.port.into());
    body.maybe("interval", wanted.interval);
    body.maybe("timeout", wanted.timeout);
    body.maybe("retries", wanted.retries);
    if let Some(options) = &wanted.http {
        let HealthCheckHttp {
            domain,
            path,
            status_codes,
            tls,
        } = options;
        let mut http = Fields::new();
        http.maybe("domain", domain.as_deref());
        http.maybe("path", path.as_deref());
        http.maybe("status_codes", status_codes.clone());
        http.maybe("tls", *tls);
        body.put("http", http.into());
    }
    body.into()
}

/// Adds or removes a target. A removal does not depend on `use_private_ip`.
pub fn target(target: &Target, add: bool) -> Value {
    match target {
        Target::Server { id, use_private_ip } => {
            let mut body = Fields::new();
            body.set("type", "server");
            body.put("server", json!({"id": id}));
            body.maybe("use_private_ip", add.then_some(*use_private_ip));
            body.into()
        }
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
pub fn digest(wanted: &Wanted) -> u64 {
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
pub fn digest_of_targets(wanted: &WantedTargets) -> u64 {
    hint::digest(&targets(wanted))
}

fn targets(wanted: &WantedTargets) -> Value {
    wanted.targets.keys().map(|one| target(one, true)).collect()
}

/// The fields of a body.
struct Fields(Map<String, Value>);

impl Fields {
    fn new() -> Fields {
        Fields(Map::new())
    }

    fn put(&mut self, key: &str, value: Value) {
        self.0.insert(key.to_owned(), value);
    }

    fn set(&mut self, key: &str, text: &str) {
        self.put(key, text.into());
    }

    fn maybe<T: Into<Value>>(&mut self, key: &str, value: Option<T>) {
        if let Some(value) = value {
            self.put(key, value.into());
        }
    }
}

impl From<Fields> for Value {
    fn from(fields: Fields) -> Value {
        Value::Object(fields.0)
    }
}
