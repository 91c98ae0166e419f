//! The DigitalOcean provider: droplets of one account as nodes, and its load balancers.
//!
//! This file only exports. In reading order: [`config`], [`api`] (the only file that speaks HTTP about
//! droplets), [`instances`] (converts a droplet to an instance of the contract; pure), [`find`] (selects requests and
//! derives lookups), [`load_balancer`] and [`provider`].
//!
//! Facts about the Go manager are those of digitalocean-cloud-controller-manager 0.1.68.

pub mod api;
pub mod config;
pub mod find;
pub mod instances;
pub mod load_balancer;
pub mod provider;

use provider::DigitalOcean;

ccm_guest::export_provider! {
    provider: DigitalOcean,
    interfaces: [instances, load_balancer, self_check],
    manifest: "manifest.json",
}
