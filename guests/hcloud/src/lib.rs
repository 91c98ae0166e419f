//! The Hetzner Cloud provider: machines of one Hetzner Cloud project as nodes.
//!
//! This file exports and nothing else. In reading order: [`config`], [`provider_id`], [`api`] (the only file that speaks
//! HTTP), [`instances`] (an answer of the API as the contract's instance; pure), [`find`] (which requests answer which
//! nodes) and [`provider`].
//!
//! Not here: load balancers, routes and Robot (dedicated) servers. A Robot server's node is answered `not-mine`.

pub mod api;
pub mod config;
pub mod find;
pub mod instances;
pub mod provider;
pub mod provider_id;

use provider::Hetzner;

ccm_guest::export_provider! {
    provider: Hetzner,
    interfaces: [instances, self_check],
    manifest: "manifest.json",
}
