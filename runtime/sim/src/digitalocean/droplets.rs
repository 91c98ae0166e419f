//! The droplet endpoints, and the JSON view of a droplet.

use std::net::{Ipv4Addr, Ipv6Addr};

use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::account::Account;
use super::api::{self, Call, Refusal};
use super::places;
use crate::loopback::Reply;

/// The status of a droplet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropletStatus {
    /// Being created.
    New,
    /// Powered on.
    Active,
    /// Powered off.
    Off,
    /// Retained as an image only.
    Archive,
}

impl DropletStatus {
    fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Active => "active",
            Self::Off => "off",
            Self::Archive => "archive",
        }
    }
}

/// The properties of a droplet that a caller may choose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropletSpec {
    /// The name; not unique.
    pub name: String,
    /// The slug of the region, such as `fra1`.
    pub region: String,
    /// The slug of the size, such as `s-2vcpu-4gb`.
    pub size: String,
    /// The status that clients see.
    pub status: DropletStatus,
    /// Whether it has a public IPv4 address.
    pub public_ipv4: bool,
    /// Whether it has a private IPv4 address; every droplet in a VPC has one.
    pub private_ipv4: bool,
    /// Whether it has a public IPv6 address.
    pub ipv6: bool,
    /// Whether it has GPUs: the ordinary list then omits it.
    pub gpu: bool,
    /// The tags of the droplet.
    pub tags: Vec<String>,
}

impl DropletSpec {
    /// A running droplet in `fra1` with both IPv4 addresses.
    #[must_use]
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            region: "fra1".to_owned(),
            size: "s-2vcpu-4gb".to_owned(),
            status: DropletStatus::Active,
            public_ipv4: true,
            private_ipv4: true,
            ipv6: false,
            gpu: false,
            tags: Vec::new(),
        }
    }
}

/// A droplet of the account.
pub(super) struct Droplet {
    pub(super) id: u64,
    /// Number of the droplet in the account; determines its addresses.
    pub(super) number: u32,
    pub(super) created: String,
    pub(super) spec: DropletSpec,
}

pub(super) fn answer(
    account: &mut Account,
    call: &Call,
    method: &str,
    rest: &[&str],
) -> Result<Reply, Refusal> {
    match (method, rest) {
        ("GET", []) => list(account, call),
        ("POST", []) => create(account, call),
        ("GET", [id]) => Ok(Reply::ok(json!({"droplet": show(find(account, id)?)}))),
        ("DELETE", [id]) => {
            let id = find(account, id)?.id;
            account.remove_droplet(id);
            Ok(Reply::no_content())
        }
        _ => Err(Refusal::not_found()),
    }
}

/// Lists droplets. GPU droplets have a list of their own, and names are compared without regard to case.
fn list(account: &Account, call: &Call) -> Result<Reply, Refusal> {
    let (name, tag) = (call.first("name"), call.first("tag_name"));
    if name.is_some() && tag.is_some() {
        return Err(Refusal::unprocessable("name excludes tag_name"));
    }
    let gpu = call.first("type").as_deref() == Some("gpus");
    let named = |one: &&Droplet| {
        let mut name = name.iter();
        name.all(|name| one.spec.name.eq_ignore_ascii_case(name))
    };
    let tagged = |one: &&Droplet| tag.iter().all(|tag| one.spec.tags.contains(tag));
    let all = account.droplets.values().filter(|one| one.spec.gpu == gpu);
    let shown = all.filter(named).filter(tagged).map(show).collect();
    api::list(call, "droplets", shown)
}

fn create(account: &mut Account, call: &Call) -> Result<Reply, Refusal> {
    let requested: Requested = call.json()?;
    places::region(&requested.region)?;
    let spec = DropletSpec {
        region: requested.region,
        size: requested.size,
        status: DropletStatus::New,
        ipv6: requested.ipv6,
        tags: requested.tags,
        ..DropletSpec::named(requested.name)
    };
    let id = account.add_droplet(spec);
    let shown = account.droplets.get(&id).map(show);
    // The response shows it as new; the next request finds it active.
    if let Some(droplet) = account.droplets.get_mut(&id) {
        droplet.spec.status = DropletStatus::Active;
    }
    Ok(Reply {
        status: StatusCode::ACCEPTED,
        body: Some(json!({"droplet": shown, "links": {}})),
    })
}

#[derive(Deserialize)]
struct Requested {
    name: String,
    region: String,
    size: String,
    #[serde(default)]
    ipv6: bool,
    #[serde(default)]
    tags: Vec<String>,
}

fn find<'a>(account: &'a Account, id: &str) -> Result<&'a Droplet, Refusal> {
    let droplet = id.parse().ok().and_then(|id| account.droplets.get(&id));
    droplet.ok_or_else(Refusal::not_found)
}

/// The droplet with the vendor's fields. Its addresses are from the documentation ranges and from RFC 1918.
fn show(droplet: &Droplet) -> Value {
    let Droplet {
        id,
        number,
        created,
        spec,
    } = droplet;
    let v4 = |base: [u8; 4]| Ipv4Addr::from_bits(Ipv4Addr::from(base).to_bits() + number);
    let mut v4s = Vec::new();
    if spec.private_ipv4 {
        let ip = v4([10, 110, 0, 1]);
        v4s.push(json!({"ip_address": ip, "netmask": "255.255.240.0", "gateway": "10.110.0.1", "type": "private"}));
    }
    if spec.public_ipv4 {
        let ip = v4([198, 18, 0, 0]);
        v4s.push(json!({"ip_address": ip, "netmask": "255.254.0.0", "gateway": "198.18.0.1", "type": "public"}));
    }
    let v6 = Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, 0).to_bits() + u128::from(*number);
    let v6s: Vec<Value> = spec
        .ipv6
        .then(|| json!({"ip_address": Ipv6Addr::from_bits(v6), "netmask": 64, "gateway": "2001:db8:0:1::1", "type": "public"}))
        .into_iter()
        .collect();
    json!({
        "id": id,
        "name": spec.name,
        "memory": 4096,
        "vcpus": 2,
        "disk": 80,
        "locked": false,
        "status": spec.status.name(),
        "kernel": null,
        "created_at": created,
        "features": ["private_networking"],
        "backup_ids": [],
        "next_backup_window": null,
        "snapshot_ids": [],
        "image": image(created),
        "volume_ids": [],
        "size": {
            "slug": spec.size, "memory": 4096, "vcpus": 2, "disk": 80, "transfer": 4.0,
            "price_monthly": 24.0, "price_hourly": 0.03571, "regions": [spec.region],
            "available": true, "description": "Basic",
        },
        "size_slug": spec.size,
        "networks": {"v4": v4s, "v6": v6s},
        "region": places::show_region(&spec.region),
        "tags": spec.tags,
        "vpc_uuid": places::default_vpc(&spec.region),
    })
}

fn image(created: &str) -> Value {
    json!({
        "id": 112_929_454, "name": "24.04 (LTS) x64", "distribution": "Ubuntu", "slug": "ubuntu-24-04-x64",
        "public": true, "regions": ["fra1"], "created_at": created, "min_disk_size": 7,
        "type": "base", "size_gigabytes": 2.36, "description": "Ubuntu 24.04 x64", "tags": [],
        "status": "available",
    })
}
