//! The Hetzner provider: machines of one Hetzner Cloud project, and dedicated servers of one Robot account, as nodes;
//! and the project's load balancers.
//!
//! This file exports and nothing else. In reading order: [`config`], [`provider_id`], [`api`] and [`robot`] (the only
//! files that speak HTTP about machines), [`instances`] and [`robot::instance`] (an answer as the contract's instance;
//! pure), [`find`] (which requests answer which nodes), [`load_balancer`] and [`provider`].
//!
//! Not here: routes. Unless `ROBOT_ENABLED` is true, a Robot server's node is answered `not-mine`.

pub mod api;
pub mod config;
pub mod find;
pub mod instances;
pub mod load_balancer;
pub mod provider;
pub mod provider_id;
pub mod robot;

use provider::Hetzner;

ccm_guest::export_provider! {
    provider: Hetzner,
    interfaces: [instances, load_balancer, self_check],
    manifest: "manifest.json",
}
