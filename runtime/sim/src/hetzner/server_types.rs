//! The vendor's offers as constants: server types with their prices, and the system image.

use serde_json::{Value, json};

use super::locations::Location;

/// A server type. The default is the smallest shared x86 one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ServerType {
    /// 2 shared x86 cores, 4 GB.
    #[default]
    Cx23,
    /// 4 shared x86 cores, 8 GB.
    Cx33,
    /// 2 shared arm cores, 4 GB.
    Cax11,
    /// 2 dedicated x86 cores, 8 GB.
    Ccx13,
}

/// The vendor's data about one server type; memory and disk in GB, price in euro per month.
struct ServerTypeFacts {
    id: u64,
    name: &'static str,
    description: &'static str,
    category: &'static str,
    cores: u32,
    memory: f64,
    disk: u32,
    cpu_type: &'static str,
    architecture: &'static str,
    monthly: f64,
}

impl ServerType {
    /// Every server type, in the order of their ids.
    pub const ALL: [Self; 4] = [Self::Cax11, Self::Ccx13, Self::Cx23, Self::Cx33];

    /// The vendor's name, for example `cx23`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.facts().name
    }

    pub(super) fn id(self) -> u64 {
        self.facts().id
    }

    pub(super) fn architecture(self) -> &'static str {
        self.facts().architecture
    }

    pub(super) fn disk_gb(self) -> u32 {
        self.facts().disk
    }

    /// Finds a server type by its ID or name, as the vendor's write requests allow.
    pub(super) fn find(id_or_name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|size| size.name() == id_or_name || size.id().to_string() == id_or_name)
    }

    pub(super) fn json(self) -> Value {
        let facts = self.facts();
        let locations: Vec<Value> = Location::ALL
            .into_iter()
            .map(|place| {
                json!({
                    "id": place.id(), "name": place.name(), "deprecation": null,
                    "available": true, "recommended": true,
                })
            })
            .collect();
        json!({
            "id": facts.id, "name": facts.name, "description": facts.description,
            "category": facts.category, "cores": facts.cores, "memory": facts.memory,
            "disk": facts.disk, "storage_type": "local", "cpu_type": facts.cpu_type,
            "architecture": facts.architecture, "deprecated": false, "deprecation": null,
            "prices": prices(facts.monthly), "locations": locations,
        })
    }

    fn facts(self) -> ServerTypeFacts {
        match self {
            Self::Cx23 => ServerTypeFacts {
                id: 114,
                name: "cx23",
                description: "CX23",
                category: "cost_optimized",
                cores: 2,
                memory: 4.0,
                disk: 40,
                cpu_type: "shared",
                architecture: "x86",
                monthly: 2.99,
            },
            Self::Cx33 => ServerTypeFacts {
                id: 115,
                name: "cx33",
                description: "CX33",
                category: "cost_optimized",
                cores: 4,
                memory: 8.0,
                disk: 80,
                cpu_type: "shared",
                architecture: "x86",
                monthly: 4.99,
            },
            Self::Cax11 => ServerTypeFacts {
                id: 45,
                name: "cax11",
                description: "CAX11",
                category: "cost_optimized",
                cores: 2,
                memory: 4.0,
                disk: 40,
                cpu_type: "shared",
                architecture: "arm",
                monthly: 3.29,
            },
            Self::Ccx13 => ServerTypeFacts {
                id: 96,
                name: "ccx13",
                description: "CCX13 Dedicated CPU",
                category: "general_purpose",
                cores: 2,
                memory: 8.0,
                disk: 80,
                cpu_type: "dedicated",
                architecture: "x86",
                monthly: 12.49,
            },
        }
    }
}

/// Outgoing traffic per month included in a server's price, in bytes.
pub(super) fn included_traffic(place: Location) -> u64 {
    const TB: u64 = 1_099_511_627_776;
    if place.network_zone() == "eu-central" {
        20 * TB
    } else {
        TB
    }
}

/// The only system image, with the vendor's name.
pub(super) const IMAGE: &str = "debian-13";

pub(super) fn image_json(architecture: &str) -> Value {
    let id = if architecture == "arm" {
        310_557_661
    } else {
        310_557_660
    };
    json!({
        "id": id, "name": IMAGE, "description": "Debian 13", "type": "system",
        "status": "available", "architecture": architecture,
        "os_flavor": "debian", "os_version": "13", "disk_size": 5, "image_size": null,
        "bound_to": null, "created": "2025-08-12T05:16:20Z", "created_from": null,
        "deleted": null, "deprecated": null, "labels": {}, "protection": {"delete": false},
        "rapid_deploy": true,
    })
}

/// The prices of a type in every location, in euro per month.
pub(super) fn prices(monthly: f64) -> Vec<Value> {
    Location::ALL
        .into_iter()
        .map(|place| {
            json!({
                "location": place.name(),
                "included_traffic": included_traffic(place),
                "price_hourly": price(monthly / 624.0),
                "price_monthly": price(monthly),
                "price_per_tb_traffic": price(1.0),
            })
        })
        .collect()
}

/// A price as decimal text, without and with value-added tax.
fn price(euro: f64) -> Value {
    json!({"net": format!("{euro:.10}"), "gross": format!("{:.16}", euro * 1.19)})
}
