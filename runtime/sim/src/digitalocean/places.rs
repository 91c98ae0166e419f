//! Objects that others refer to and no request changes: regions, VPCs, the project, and the account itself.

use serde_json::{Value, json};

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

/// The id of the account's only project, which has all objects.
pub(super) const PROJECT: &str = "4e1bfbc3-dc3e-41f2-a18f-1b4d7ba71679";

pub(super) fn answer(call: &Call, rest: &[&str]) -> Result<Reply, Refusal> {
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
        ["projects"] => api::list(call, "projects", vec![show_project()]),
        ["projects", PROJECT | "default"] => Ok(Reply::ok(json!({"project": show_project()}))),
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

fn show_project() -> Value {
    json!({
        "id": PROJECT, "owner_uuid": "99525febec065ca37b2ffe4f852fd2b2581895e7", "owner_id": 258_992,
        "name": "first-project", "description": "", "purpose": "Web Application", "environment": "Production",
        "created_at": CREATED, "updated_at": CREATED, "is_default": true,
    })
}
