//! The Hetzner provider: machines of one Hetzner Cloud project, and dedicated servers of one Robot account, as nodes.
//!
//! This file exports and nothing else. In reading order: [`config`], [`provider_id`], [`api`] and [`robot`] (the only
//! files that speak HTTP), [`instances`] and [`robot::instance`] (an answer as the contract's instance; pure), [`find`]
//! (which requests answer which nodes) and [`provider`].
//!
//! Not here: load balancers and routes. Unless `ROBOT_ENABLED` is true, a Robot server's node is answered `not-mine`.

pub mod api;
pub mod config;
pub mod find;
pub mod instances;
pub mod provider;
pub mod provider_id;
pub mod robot;

use provider::Hetzner;

ccm_guest::export_provider! {
    provider: Hetzner,
    interfaces: [instances, self_check],
    manifest: "manifest.json",
}
