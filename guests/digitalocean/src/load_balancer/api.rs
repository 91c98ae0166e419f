//! The requests about load balancers, certificates and tags.
//!
//! A load balancer is kept as the JSON of the answer, because a `PUT` has to send back the fields that it does not
//! change.

use std::collections::BTreeSet;

use ccm_guest::Error;
use ccm_guest::http::CountedListing;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::api::{self, Paging, found, ok, page};

/// A load balancer, as the API returned it.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadBalancer {
    /// The load balancer's UUID.
    pub id: String,
    fields: Map<String, Value>,
    tags: Option<BTreeSet<String>>,
}

/// The state of a load balancer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// `new`: it is being created.
    New,
    /// `active`: it works.
    Active,
    /// Any other status, for a person to look at.
    Other(String),
}

impl LoadBalancer {
    /// Reads the API's object.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when it has no id.
    pub fn read(value: Value) -> Result<LoadBalancer, Error> {
        let Value::Object(fields) = value else {
            return Err(Error::unavailable("a load balancer is no object"));
        };
        let id = fields.get("id").and_then(Value::as_str).unwrap_or_default();
        if !is_id(id) {
            return Err(Error::unavailable("a load balancer has no id"));
        }
        let id = id.to_owned();
        let tags = fields.get("tags").and_then(Value::as_array);
        let tags = tags.map(|tags| {
            tags.iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect()
        });
        Ok(LoadBalancer { id, fields, tags })
    }

    /// All fields of the API's object.
    pub fn fields(&self) -> &Map<String, Value> {
        &self.fields
    }

    /// The tags; `None` if the vendor did not return the field.
    pub fn tags(&self) -> Option<&BTreeSet<String>> {
        self.tags.as_ref()
    }

    /// The name; empty if the vendor did not return it.
    pub fn name(&self) -> &str {
        self.text("name").unwrap_or_default()
    }

    /// The API's `type`.
    pub fn kind(&self) -> Option<&str> {
        self.text("type")
    }

    /// The API's `network`.
    pub fn network(&self) -> Option<&str> {
        self.text("network")
    }

    /// The API's `network_stack`.
    pub fn network_stack(&self) -> Option<&str> {
        self.text("network_stack")
    }

    /// The addresses: IPv4 before IPv6.
    pub fn addresses(&self) -> impl Iterator<Item = &str> {
        ["ip", "ipv6"].into_iter().filter_map(|key| self.text(key))
    }

    /// Whether its droplets are selected by a tag, which this provider never sets.
    pub fn is_by_tag(&self) -> bool {
        self.text("tag").is_some()
    }

    /// The ids of its droplets.
    pub fn droplets(&self) -> BTreeSet<u64> {
        let ids = self.fields.get("droplet_ids").and_then(Value::as_array);
        ids.into_iter()
            .flatten()
            .filter_map(Value::as_u64)
            .collect()
    }

    /// The state of its creation.
    pub fn status(&self) -> Status {
        match self.text("status").unwrap_or_default() {
            "new" => Status::New,
            "active" => Status::Active,
            other => Status::Other(other.to_owned()),
        }
    }

    /// The certificate of the first rule that has one.
    pub fn certificate(&self) -> Option<&str> {
        let rules = self
            .fields
            .get("forwarding_rules")
            .and_then(Value::as_array);
        let mut ids = rules
            .into_iter()
            .flatten()
            .map(|rule| &rule["certificate_id"]);
        ids.find_map(|id| id.as_str().filter(|id| !id.is_empty()))
    }

    fn text(&self, key: &str) -> Option<&str> {
        let text = self.fields.get(key)?.as_str()?;
        (!text.is_empty()).then_some(text)
    }
}

/// Whether the text has the form of a UUID. Tenants write such ids.
pub fn is_id(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    (1..=64).contains(&text.len()) && text.bytes().all(is_allowed)
}

/// The load balancer with this id; `None` if the API answers that it does not exist.
///
/// # Errors
/// The reason why the answer is not known.
pub fn get(id: &str) -> Result<Option<LoadBalancer>, Error> {
    match found(api::get(["load_balancers", id]).send()?)? {
        Some(response) => one(response.json()?).map(Some),
        None => Ok(None),
    }
}

/// The load balancers of the account that `keep` accepts, by a complete list.
///
/// # Errors
/// When the list could not be read to its end.
pub fn list(keep: impl Fn(&LoadBalancer) -> bool) -> Result<Vec<LoadBalancer>, Error> {
    let mut kept = Vec::new();
    let mut number = 0;
    let mut read = |response: ccm_guest::http::Response| {
        number += 1;
        let answer: ManyAnswer = ok(response)?.json()?;
        let page = answer.paging.page(number, answer.load_balancers.len())?;
        for value in answer.load_balancers {
            kept.extend(Some(LoadBalancer::read(value)?).filter(&keep));
        }
        Ok(page)
    };
    let request = |number| page(api::get(["load_balancers"]), number);
    let listing = CountedListing::begin(request, &mut read)?;
    listing.read_on(request, &mut read)?;
    Ok(kept)
}

/// Creates a load balancer.
///
/// # Errors
/// The reason for the refusal. Without an answer it is not known whether the load balancer was created.
pub fn create(body: &Value) -> Result<LoadBalancer, Error> {
    one(ok(api::post(["load_balancers"]).json(body)?.send()?)?.json()?)
}

/// Replaces all settings of a load balancer.
///
/// # Errors
/// The reason for the refusal, or why there was no answer.
pub fn update(id: &str, body: &Value) -> Result<LoadBalancer, Error> {
    one(ok(api::put(["load_balancers", id]).json(body)?.send()?)?.json()?)
}

/// Deletes a load balancer; a missing one counts as deleted.
///
/// # Errors
/// The reason for the refusal, or why there was no answer.
pub fn delete(id: &str) -> Result<(), Error> {
    found(api::delete(["load_balancers", id]).send()?).map(drop)
}

/// Adds droplets to a load balancer, which keeps the others.
///
/// # Errors
/// The reason for the refusal, or why there was no answer.
pub fn add_droplets(id: &str, droplets: &BTreeSet<u64>) -> Result<(), Error> {
    let body = json!({"droplet_ids": droplets});
    ok(api::post(["load_balancers", id, "droplets"])
        .json(&body)?
        .send()?)
    .map(drop)
}

/// Removes droplets from a load balancer.
///
/// # Errors
/// The reason for the refusal, or why there was no answer.
pub fn remove_droplets(id: &str, droplets: &BTreeSet<u64>) -> Result<(), Error> {
    let body = json!({"droplet_ids": droplets});
    ok(api::delete(["load_balancers", id, "droplets"])
        .json(&body)?
        .send()?)
    .map(drop)
}

/// Whether a tag with this name exists.
///
/// # Errors
/// The reason why the answer is not known.
pub fn has_tag(name: &str) -> Result<bool, Error> {
    Ok(found(api::get(["tags", name]).send()?)?.is_some())
}

/// Puts a tag on a load balancer. The tag is created first: one that exists already stays as it is.
///
/// # Errors
/// The reason for the refusal, or why there was no answer.
pub fn tag(id: &str, name: &str) -> Result<(), Error> {
    ok(api::post(["tags"]).json(&json!({"name": name}))?.send()?)?;
    let request = api::post(["tags", name, "resources"]);
    ok(request.json(&resources(id))?.send()?).map(drop)
}

/// Takes a tag off a load balancer; a missing tag counts as taken off.
///
/// # Errors
/// The reason for the refusal, or why there was no answer.
pub fn untag(id: &str, name: &str) -> Result<(), Error> {
    let request = api::delete(["tags", name, "resources"]);
    found(request.json(&resources(id))?.send()?).map(drop)
}

fn resources(id: &str) -> Value {
    json!({"resources": [{"resource_id": id, "resource_type": "load_balancer"}]})
}

/// Deletes a tag, and removes it from all objects that have it.
///
/// # Errors
/// The reason for the refusal, or why there was no answer.
pub fn delete_tag(name: &str) -> Result<(), Error> {
    found(api::delete(["tags", name]).send()?).map(drop)
}

/// A TLS certificate of the account.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Certificate {
    /// The UUID; a renewed certificate of Let's Encrypt has another one.
    pub id: String,
    /// The name, unique in the account.
    pub name: String,
    /// `custom` or `lets_encrypt`.
    #[serde(rename = "type")]
    pub kind: String,
}

/// The certificate with this id; `None` if the API answers that it does not exist.
///
/// # Errors
/// The reason why the answer is not known.
pub fn certificate(id: &str) -> Result<Option<Certificate>, Error> {
    match found(api::get(["certificates", id]).send()?)? {
        Some(response) => Ok(Some(response.json::<CertificateAnswer>()?.certificate)),
        None => Ok(None),
    }
}

/// The certificate with this name.
///
/// # Errors
/// The reason why the answer is not known.
pub fn certificate_by_name(name: &str) -> Result<Option<Certificate>, Error> {
    let request = page(api::get(["certificates"]), 1).query("name", name);
    let answer: CertificatesAnswer = ok(request.send()?)?.json()?;
    Ok(answer.certificates.into_iter().find(|one| one.name == name))
}

fn one(answer: OneAnswer) -> Result<LoadBalancer, Error> {
    LoadBalancer::read(answer.load_balancer)
}

#[derive(Deserialize)]
struct OneAnswer {
    load_balancer: Value,
}

#[derive(Deserialize)]
struct ManyAnswer {
    load_balancers: Vec<Value>,
    #[serde(flatten)]
    paging: Paging,
}

#[derive(Deserialize)]
struct CertificateAnswer {
    certificate: Certificate,
}

#[derive(Deserialize)]
struct CertificatesAnswer {
    certificates: Vec<Certificate>,
}
