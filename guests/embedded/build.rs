//! Compiles the shipped guests whose features are on to components.

use std::env;

use guest_build::Guest;

/// Each Cargo feature, and the guest that it embeds.
const SHIPPED: &[(&str, Guest<'_>)] = &[
    (
        "AWS",
        Guest {
            package: "guest-aws",
            folder: "guests/aws",
        },
    ),
    (
        "DIGITALOCEAN",
        Guest {
            package: "guest-digitalocean",
            folder: "guests/digitalocean",
        },
    ),
    (
        "HCLOUD",
        Guest {
            package: "guest-hcloud",
            folder: "guests/hcloud",
        },
    ),
    (
        "PROXMOX",
        Guest {
            package: "guest-proxmox",
            folder: "guests/proxmox",
        },
    ),
    (
        "STATIC",
        Guest {
            package: "guest-static",
            folder: "guests/static",
        },
    ),
];

fn main() {
    let chosen = SHIPPED.iter().filter(|(feature, _)| is_on(feature));
    let guests: Vec<Guest<'_>> = chosen.map(|(_, guest)| *guest).collect();
    if !guests.is_empty() {
        guest_build::compile(&guests);
    }
}

fn is_on(feature: &str) -> bool {
    env::var_os(format!("CARGO_FEATURE_{feature}")).is_some()
}
