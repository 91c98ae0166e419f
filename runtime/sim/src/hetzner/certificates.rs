//! The certificate endpoints: uploaded and managed certificates.
//!
//! An uploaded certificate is stored as sent and never parsed, so that its names, times and fingerprint stay unknown.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::actions::{Effect, Failure, Resource};
use super::api::{self, Call, Refusal, Reply};
use super::labels;
use super::query::{self, LabelSelector};
use super::world::{World, in_whole_seconds};

/// Validity period of an issued certificate.
const VALIDITY: Duration = Duration::from_secs(90 * 24 * 3_600);

/// Placeholder for the chain of an issued certificate; it has no key.
const ISSUED: &str = "-----BEGIN CERTIFICATE-----\nc2ltdWxhdGVk\n-----END CERTIFICATE-----\n";

/// A certificate of the project.
pub(super) struct Certificate {
    id: u64,
    name: String,
    labels: BTreeMap<String, String>,
    created: Timestamp,
    kind: Kind,
}

enum Kind {
    Uploaded {
        chain: String,
    },
    Managed {
        domains: Vec<String>,
        state: Issuance,
    },
}

/// State of the issuance of a managed certificate.
enum Issuance {
    Pending,
    Completed(Timestamp),
    Failed(Failure),
}

impl World {
    /// Stores the result of an issuance.
    pub(super) fn issue(&mut self, id: u64, result: Result<(), Failure>) {
        let now = self.timestamp();
        let certificate = self.certificates.get_mut(&id);
        if let Some(Kind::Managed { state, .. }) = certificate.map(|one| &mut one.kind) {
            *state = match result {
                Ok(()) => Issuance::Completed(now),
                Err(failure) => Issuance::Failed(failure),
            };
        }
    }
}

/// Handles everything below `/certificates`.
pub(super) fn answer(
    world: &mut World,
    call: &Call,
    method: &str,
    rest: &[&str],
) -> Result<Reply, Refusal> {
    match (method, rest) {
        ("GET", []) => list(world, call),
        ("POST", []) => create(world, call),
        ("GET", ["actions"]) => api::list_some_actions(world, call, |action| {
            let is_ours = |one: &Resource| matches!(one, Resource::Certificate(_));
            action.resources.iter().any(is_ours)
        }),
        ("GET", ["actions", id] | [_, "actions", id]) => api::get_action(world, id),
        ("GET", [id]) => {
            let certificate = find(world, id)?;
            Ok(Reply::ok(json!({"certificate": show(world, certificate)})))
        }
        ("PUT", [id]) => replace(world, call, id),
        ("DELETE", [id]) => delete(world, id),
        ("GET", [id, "actions"]) => {
            let id = find(world, id)?.id;
            api::list_actions(world, call, Some(Resource::Certificate(id)))
        }
        ("POST", [id, "actions", "retry"]) => retry(world, call, id),
        _ => Err(Refusal::no_endpoint(call)),
    }
}

fn list(world: &World, call: &Call) -> Result<Reply, Refusal> {
    let name = call.query.first("name");
    let types = call.query.all("type");
    let selector = LabelSelector::of(call)?;
    let mut certificates: Vec<&Certificate> = world
        .certificates
        .values()
        .filter(|one| name.is_none_or(|name| one.name == name))
        .filter(|one| types.is_empty() || types.contains(&one.kind.name()))
        .filter(|one| selector.matches(&one.labels))
        .collect();
    query::sort(
        call,
        &mut certificates,
        &[
            ("id", |left, right| left.id.cmp(&right.id)),
            ("name", |left, right| left.name.cmp(&right.name)),
            ("created", |left, right| left.created.cmp(&right.created)),
        ],
    )?;
    query::list(call, "certificates", &certificates, |one| show(world, one))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Creation {
    name: String,
    r#type: Option<String>,
    certificate: Option<String>,
    private_key: Option<String>,
    domain_names: Option<Vec<String>>,
    labels: Option<BTreeMap<String, String>>,
}

fn create(world: &mut World, call: &Call) -> Result<Reply, Refusal> {
    let requested: Creation = api::body(call)?;
    let name = labels::allowed_name(requested.name)?;
    let labels = labels::allowed(requested.labels.unwrap_or_default())?;
    let kind = match requested.r#type.as_deref() {
        None | Some("uploaded") => {
            let chain = pem("certificate", requested.certificate, "CERTIFICATE-----")?;
            pem("private_key", requested.private_key, "PRIVATE KEY-----")?;
            Kind::Uploaded { chain }
        }
        Some("managed") => {
            let domains = requested.domain_names.unwrap_or_default();
            let is_domain = |name: &String| name.contains('.') && !name.contains([' ', '/']);
            if domains.is_empty() || !domains.iter().all(is_domain) {
                return Err(Refusal::invalid("domain_names", "must be domain names"));
            }
            let state = Issuance::Pending;
            Kind::Managed { domains, state }
        }
        Some(_) => return Err(Refusal::invalid("type", "must be uploaded or managed")),
    };
    if is_named(world, &name) {
        return Err(Refusal::not_unique("certificate"));
    }
    let id = world.first_id.saturating_add(world.certificates_made);
    world.certificates_made = world.certificates_made.wrapping_add(1);
    let is_managed = matches!(kind, Kind::Managed { .. });
    let certificate = Certificate {
        id,
        name,
        labels,
        created: world.now(),
        kind,
    };
    world.certificates.insert(id, certificate);
    let action = is_managed.then(|| issue(world, call, id, "create_certificate"));
    let shown = show(world, find(world, &id.to_string())?);
    Ok(Reply::created(
        json!({"certificate": shown, "action": action}),
    ))
}

/// Checks that the text begins like a PEM file of this type.
fn pem(field: &str, requested: Option<String>, sort: &str) -> Result<String, Refusal> {
    let first_line = |text: &String| text.trim_start().lines().next().map(str::to_owned);
    let is_pem = |text: &String| {
        let line = first_line(text).unwrap_or_default();
        line.starts_with("-----BEGIN ") && line.trim_end().ends_with(sort)
    };
    let text = requested.filter(is_pem);
    text.ok_or_else(|| Refusal::invalid(field, "must be in PEM format"))
}

/// Starts the issuance, which a fault may make fail.
fn issue(world: &mut World, call: &Call, id: u64, command: &'static str) -> Value {
    let resources = vec![Resource::Certificate(id)];
    api::start_with(world, call, command, resources, |failure| {
        Effect::Issue(id, failure.cloned().map_or(Ok(()), Err))
    })
}

/// Retries an issuance; allowed only after a failure, as documented.
fn retry(world: &mut World, call: &Call, id: &str) -> Result<Reply, Refusal> {
    let id = find(world, id)?.id;
    let certificate = world.certificates.get_mut(&id).map(|one| &mut one.kind);
    let Some(Kind::Managed {
        state: state @ Issuance::Failed(_),
        ..
    }) = certificate
    else {
        let message = "only a managed certificate whose issuing failed can be retried";
        return Err(Refusal::unprocessable("unsupported_error", message));
    };
    *state = Issuance::Pending;
    let action = issue(world, call, id, "issue_certificate");
    Ok(Reply::created(json!({"action": action})))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Replacement {
    name: Option<String>,
    labels: Option<BTreeMap<String, String>>,
}

fn replace(world: &mut World, call: &Call, id: &str) -> Result<Reply, Refusal> {
    let requested: Replacement = api::body(call)?;
    let known = find(world, id)?;
    let (key, old) = (known.id, known.name.clone());
    let name = requested.name.map(labels::allowed_name).transpose()?;
    let labels = requested.labels.map(labels::allowed).transpose()?;
    let name = name.unwrap_or_else(|| old.clone());
    if name != old && is_named(world, &name) {
        return Err(Refusal::not_unique("certificate"));
    }
    if let Some(certificate) = world.certificates.get_mut(&key) {
        certificate.name = name;
        certificate.labels = labels.unwrap_or_else(|| std::mem::take(&mut certificate.labels));
    }
    let shown = show(world, find(world, id)?);
    Ok(Reply::ok(json!({"certificate": shown})))
}

fn delete(world: &mut World, id: &str) -> Result<Reply, Refusal> {
    let id = find(world, id)?.id;
    if users(world, id).next().is_some() {
        let message = "certificate is in use";
        return Err(Refusal::unprocessable("resource_in_use", message));
    }
    world.certificates.remove(&id);
    Ok(Reply::no_content())
}

fn is_named(world: &World, name: &str) -> bool {
    world.certificates.values().any(|one| one.name == name)
}

fn find<'w>(world: &'w World, id: &str) -> Result<&'w Certificate, Refusal> {
    let all = &world.certificates;
    let certificate = id.parse().ok().and_then(|id: u64| all.get(&id));
    certificate.ok_or_else(|| Refusal::not_found("certificate", id))
}

/// IDs of the load balancers with a service that uses the certificate.
fn users(world: &World, id: u64) -> impl Iterator<Item = u64> {
    let balancers = world.load_balancers.values();
    balancers
        .filter(move |balancer| {
            let mut services = balancer.spec.services.iter();
            services.any(|service| service.http.certificates.contains(&id))
        })
        .map(|balancer| balancer.id)
}

impl Kind {
    fn name(&self) -> &'static str {
        match self {
            Self::Uploaded { .. } => "uploaded",
            Self::Managed { .. } => "managed",
        }
    }
}

/// The certificate with all of the vendor's fields.
fn show(world: &World, certificate: &Certificate) -> Value {
    let used_by: Vec<Value> = users(world, certificate.id)
        .map(|id| json!({"id": id, "type": "load_balancer"}))
        .collect();
    let (chain, domains, status, since) = match &certificate.kind {
        Kind::Uploaded { chain } => (Some(chain.as_str()), [].as_slice(), Value::Null, None),
        Kind::Managed { domains, state } => {
            let (issuance, renewal, error) = match state {
                Issuance::Pending => ("pending", "unavailable", Value::Null),
                Issuance::Completed(_) => ("completed", "scheduled", Value::Null),
                Issuance::Failed(why) => {
                    let error = json!({"code": why.code, "message": why.message});
                    ("failed", "unavailable", error)
                }
            };
            let status = json!({"issuance": issuance, "renewal": renewal, "error": error});
            let since = match state {
                Issuance::Completed(since) => Some(*since),
                Issuance::Pending | Issuance::Failed(_) => None,
            };
            (since.map(|_| ISSUED), domains.as_slice(), status, since)
        }
    };
    let until = since.and_then(|since| since.checked_add(VALIDITY).ok());
    json!({
        "id": certificate.id, "name": certificate.name, "labels": certificate.labels,
        "type": certificate.kind.name(), "certificate": chain, "domain_names": domains,
        "created": in_whole_seconds(certificate.created).to_string(),
        "not_valid_before": since.map(|since| since.to_string()),
        "not_valid_after": until.map(|until| until.to_string()),
        "fingerprint": null, "status": status, "used_by": used_by,
    })
}
