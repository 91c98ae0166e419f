//! Compiles the shipped guests whose features are on to components.

use std::env;

use guest_build::Guest;

/// The Cargo features. Each embeds the package `guest-…` in the folder `guests/…` of the same name.
const SHIPPED: &[&str] = &["aws", "digitalocean", "hcloud", "proxmox", "static"];

fn main() {
    let chosen = SHIPPED.iter().filter(|name| is_on(name));
    let chosen: Vec<(String, String)> = chosen
        .map(|name| (format!("guest-{name}"), format!("guests/{name}")))
        .collect();
    let guests: Vec<Guest<'_>> = chosen
        .iter()
        .map(|(package, folder)| Guest { package, folder })
        .collect();
    if !guests.is_empty() {
        guest_build::compile(&guests);
    }
}

fn is_on(feature: &str) -> bool {
    env::var_os(format!("CARGO_FEATURE_{}", feature.to_uppercase())).is_some()
}
