//! The tag endpoints. A tag is created by its first use, and stays when no object has it any more.

use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::account::Account;
use super::api::{self, Call, Refusal};
use crate::loopback::Reply;

pub(super) fn answer(
    account: &mut Account,
    call: &Call,
    method: &str,
    rest: &[&str],
) -> Result<Reply, Refusal> {
    match (method, rest) {
        ("GET", []) => {
            let shown = account.tags.iter().map(|tag| show(account, tag)).collect();
            api::list(call, "tags", shown)
        }
        ("POST", []) => {
            let requested: Requested = call.json()?;
            check(&requested.name)?;
            account.tags.insert(requested.name.clone());
            Ok(Reply::created(
                json!({"tag": show(account, &requested.name)}),
            ))
        }
        (method, [name, rest @ ..]) => {
            let name = percent_encoding::percent_decode_str(name).decode_utf8_lossy();
            if !account.tags.contains(name.as_ref()) {
                return Err(Refusal::not_found());
            }
            match (method, rest) {
                ("GET", []) => Ok(Reply::ok(json!({"tag": show(account, &name)}))),
                ("DELETE", []) => {
                    account.tags.remove(name.as_ref());
                    for balancer in &mut account.load_balancers {
                        balancer.tags.remove(name.as_ref());
                    }
                    for droplet in account.droplets.values_mut() {
                        droplet.spec.tags.retain(|tag| *tag != name);
                    }
                    Ok(Reply::no_content())
                }
                ("POST", ["resources"]) => mark(account, call, &name, true),
                ("DELETE", ["resources"]) => mark(account, call, &name, false),
                _ => Err(Refusal::not_found()),
            }
        }
        _ => Err(Refusal::not_found()),
    }
}

/// Adds a tag to resources, or removes it from them.
fn mark(account: &mut Account, call: &Call, name: &str, is_on: bool) -> Result<Reply, Refusal> {
    let requested: Resources = call.json()?;
    for one in &requested.resources {
        match one.resource_type.as_str() {
            "load_balancer" => {
                let mut all = account.load_balancers.iter_mut();
                let found = all.find(|balancer| balancer.id == one.resource_id);
                let tags = &mut found.ok_or_else(Refusal::not_found)?.tags;
                match is_on {
                    true => tags.insert(name.to_owned()),
                    false => tags.remove(name),
                };
            }
            "droplet" => {
                let id: u64 = one.resource_id.parse().unwrap_or_default();
                let found = account.droplets.get_mut(&id);
                let tags = &mut found.ok_or_else(Refusal::not_found)?.spec.tags;
                tags.retain(|tag| tag != name);
                tags.extend(is_on.then(|| name.to_owned()));
            }
            other => {
                return Err(Refusal::unprocessable(format!(
                    "{other} cannot be tagged here"
                )));
            }
        }
    }
    Ok(Reply {
        status: StatusCode::NO_CONTENT,
        body: None,
    })
}

/// Checks the vendor's rule for names of tags.
pub(super) fn check(name: &str) -> Result<(), Refusal> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b":-_".contains(&byte);
    match (1..=255).contains(&name.len()) && name.bytes().all(is_allowed) {
        true => Ok(()),
        false => Err(Refusal::unprocessable(format!(
            "{name:?} is not a valid tag"
        ))),
    }
}

fn show(account: &Account, name: &str) -> Value {
    let droplets = account.droplets.values();
    let droplets = droplets.filter(|one| one.spec.tags.iter().any(|tag| tag == name));
    let balancers = account
        .load_balancers
        .iter()
        .filter(|one| one.tags.contains(name));
    let (droplets, balancers) = (droplets.count(), balancers.count());
    json!({
        "name": name,
        "resources": {"count": droplets + balancers, "droplets": {"count": droplets}},
    })
}

#[derive(Deserialize)]
struct Requested {
    name: String,
}

#[derive(Deserialize)]
struct Resources {
    resources: Vec<Resource>,
}

#[derive(Deserialize)]
struct Resource {
    resource_id: String,
    resource_type: String,
}
