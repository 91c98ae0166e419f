//! Objects that others refer to and no request changes: regions, VPCs, projects, and the account itself.

use serde_json::{Value, json};

use super::account::Account;
use super::api::{self, Call, Refusal};
use crate::loopback::Reply;

/// The simulated regions, with the ranges of their VPCs.
const REGIONS: &[(&str, &str, &str)] = &[
    ("fra1", "Frankfurt 1", "10.110.0.0/20"),
    ("nyc3", "New York 3", "10.108.0.0/20"),
    ("ams3", "Amsterdam 3", "10.133.0.0/20"),
];

/// Creation time of all these objects.
const CREATED: &str = "2020-03-13T19:20:47Z";

/// A project of the account.
pub(super) struct Project {
    pub(super) id: String,
    name: String,
    is_default: bool,
}

impl Project {
    /// The default project, which has all objects that no other project has.
    pub(super) fn default_one() -> Self {
        Self {
            id: "4e1bfbc3-dc3e-41f2-a18f-1b4d7ba71679".to_owned(),
            name: "first-project".to_owned(),
            is_default: true,
        }
    }
}

pub(super) fn add_project(account: &mut Account, name: String) -> String {
    let id = account.uuid();
    account.projects.push(Project {
        id: id.clone(),
        name,
        is_default: false,
    });
    id
}

pub(super) fn answer(account: &Account, call: &Call, rest: &[&str]) -> Result<Reply, Refusal> {
    match rest {
        ["account"] => Ok(Reply::ok(json!({"account": {
            "droplet_limit": 25, "floating_ip_limit": 5, "email": "sammy@example.com", "name": "Sammy",
            "uuid": "b6fr89dbf6d9156cace5f3c78dc9851d957381ef", "email_verified": true,
            "status": "active", "status_message": "",
        }}))),
        ["regions"] => {
            let shown = REGIONS.iter().map(|(slug, ..)| show_region(slug)).collect();
            api::list(call, "regions", shown)
        }
        ["vpcs"] => {
            let shown = REGIONS
                .iter()
                .filter_map(|(slug, ..)| show_vpc(slug))
                .collect();
            api::list(call, "vpcs", shown)
        }
        ["vpcs", id] => {
            let mut vpcs = REGIONS.iter().filter_map(|(slug, ..)| show_vpc(slug));
            let vpc = vpcs.find(|vpc| vpc["id"] == *id);
            let vpc = vpc.ok_or_else(Refusal::not_found)?;
            Ok(Reply::ok(json!({"vpc": vpc})))
        }
        ["projects"] => {
            let shown = account.projects.iter().map(show_project).collect();
            api::list(call, "projects", shown)
        }
        ["projects", id] => {
            let is_it = |one: &&Project| one.id == *id || one.is_default && *id == "default";
            let project = account.projects.iter().find(is_it);
            let project = project.ok_or_else(Refusal::not_found)?;
            Ok(Reply::ok(json!({"project": show_project(project)})))
        }
        _ => Err(Refusal::not_found()),
    }
}

/// Checks that the region exists.
pub(super) fn region(slug: &str) -> Result<(), Refusal> {
    match REGIONS.iter().any(|(one, ..)| *one == slug) {
        true => Ok(()),
        false => Err(Refusal::unprocessable(
            "You specified an invalid region for this resource.",
        )),
    }
}

/// The id of a region's default VPC.
pub(super) fn default_vpc(region: &str) -> Option<String> {
    let place = REGIONS.iter().position(|(slug, ..)| *slug == region)?;
    Some(format!("760e09ef-dc84-11e8-981e-3cfdfeaa{place:04x}"))
}

pub(super) fn show_region(slug: &str) -> Value {
    let found = REGIONS.iter().find(|(one, ..)| *one == slug);
    let name = found.map_or(slug, |(_, name, _)| name);
    json!({
        "name": name, "slug": slug, "features": ["private_networking", "backups", "ipv6", "metadata"],
        "available": true, "sizes": ["s-1vcpu-1gb", "s-2vcpu-4gb"],
    })
}

fn show_vpc(region: &str) -> Option<Value> {
    let (slug, _, range) = REGIONS.iter().find(|(slug, ..)| *slug == region)?;
    let id = default_vpc(slug)?;
    Some(json!({
        "id": id, "urn": format!("do:vpc:{id}"), "name": format!("default-{slug}"), "description": "",
        "region": slug, "ip_range": range, "created_at": CREATED, "default": true,
    }))
}

fn show_project(project: &Project) -> Value {
    json!({
        "id": project.id, "owner_uuid": "99525febec065ca37b2ffe4f852fd2b2581895e7", "owner_id": 258_992,
        "name": project.name, "description": "", "purpose": "Web Application", "environment": "Production",
        "created_at": CREATED, "updated_at": CREATED, "is_default": project.is_default,
    })
}
