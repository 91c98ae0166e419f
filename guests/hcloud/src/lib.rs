//! The Hetzner provider: machines of one Hetzner Cloud project and dedicated servers of one Robot account as nodes;
//! the project's load balancers; and routes to the nodes' pods on a private network.
//!
//! This file only exports. In reading order: [`address_range`], [`config`], [`provider_id`], [`api`] and [`robot`] (the
//! only files that speak HTTP about machines), [`instances`] and [`robot::instance`] (convert responses to instances of
//! the contract; pure), [`find`] (selects requests and derives lookups), [`load_balancer`], [`routes`],
//! [`pending_actions`] (status of running actions) and [`provider`].
//!
//! Unless `ROBOT_ENABLED` is true, the lookup of a Robot server's node is `not-mine`.

pub mod address_range;
pub mod api;
pub mod config;
pub mod find;
pub mod instances;
pub mod load_balancer;
pub mod pending_actions;
pub mod provider;
pub mod provider_id;
pub mod robot;
pub mod routes;

use provider::Hetzner;

ccm_guest::export_provider! {
    provider: Hetzner,
    interfaces: [instances, load_balancer, routes, self_check],
    manifest: "manifest.json",
}
