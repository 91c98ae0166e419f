//! The certificate endpoints.

use serde::Deserialize;
use serde_json::{Value, json};

use super::account::Account;
use super::api::{self, Call, Refusal};
use crate::loopback::Reply;

const CUSTOM: &str = "custom";
const LETS_ENCRYPT: &str = "lets_encrypt";

/// A TLS certificate of the account.
pub(super) struct Certificate {
    pub(super) id: String,
    name: String,
    kind: &'static str,
    created: String,
    dns_names: Vec<String>,
}

pub(super) fn add(account: &mut Account, name: String, kind: &'static str) -> String {
    let (id, created) = (account.uuid(), account.timestamp());
    account.certificates.push(Certificate {
        id: id.clone(),
        dns_names: vec![format!("{name}.example.com")],
        name,
        kind,
        created,
    });
    id
}

pub(super) fn answer(
    account: &mut Account,
    call: &Call,
    method: &str,
    rest: &[&str],
) -> Result<Reply, Refusal> {
    match (method, rest) {
        ("GET", []) => {
            let name = call.first("name");
            let all = account.certificates.iter();
            let all = all.filter(|one| name.iter().all(|name| one.name == *name));
            api::list(call, "certificates", all.map(show).collect())
        }
        ("POST", []) => create(account, call),
        (method, [id]) => {
            let place = account.certificates.iter().position(|one| one.id == *id);
            let place = place.ok_or_else(Refusal::not_found)?;
            match method {
                "GET" => {
                    let shown = account.certificates.get(place).map(show);
                    Ok(Reply::ok(json!({"certificate": shown})))
                }
                "DELETE" => {
                    account.certificates.remove(place);
                    Ok(Reply::no_content())
                }
                _ => Err(Refusal::not_found()),
            }
        }
        _ => Err(Refusal::not_found()),
    }
}

fn create(account: &mut Account, call: &Call) -> Result<Reply, Refusal> {
    let requested: Requested = call.json()?;
    if account
        .certificates
        .iter()
        .any(|one| one.name == requested.name)
    {
        return Err(Refusal::unprocessable("Certificate name already in use."));
    }
    let kind = match (
        requested.kind.as_deref(),
        &requested.private_key,
        &requested.leaf_certificate,
    ) {
        (Some(LETS_ENCRYPT), None, None) if !requested.dns_names.is_empty() => LETS_ENCRYPT,
        (Some(CUSTOM) | None, Some(_), Some(_)) => CUSTOM,
        _ => {
            return Err(Refusal::unprocessable(
                "a certificate needs its key, or names",
            ));
        }
    };
    add(account, requested.name, kind);
    let made = account.certificates.last_mut();
    if let Some(made) = made.filter(|_| !requested.dns_names.is_empty()) {
        made.dns_names = requested.dns_names;
    }
    let shown = account.certificates.last().map(show);
    Ok(Reply::created(json!({"certificate": shown})))
}

#[derive(Deserialize)]
struct Requested {
    name: String,
    #[serde(rename = "type")]
    kind: Option<String>,
    private_key: Option<String>,
    leaf_certificate: Option<String>,
    #[serde(default)]
    dns_names: Vec<String>,
}

fn show(one: &Certificate) -> Value {
    json!({
        "id": one.id, "name": one.name, "not_after": "2027-02-22T00:23:00Z",
        "sha1_fingerprint": "dfcc9f57d86bf58e321c2c6c31c7a971be244ac7", "created_at": one.created,
        "dns_names": one.dns_names, "state": "verified", "type": one.kind,
    })
}
