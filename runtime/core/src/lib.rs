//! Decides what a cloud-controller-manager should do. Performs nothing itself.
//!
//! One reconciliation is a short loop about one object:
//!
//! ```text
//! facts ──decide──► Do(effects) ──perform──► outcomes ──absorb──► facts ──decide──► … ──► Done(when to come back)
//! ```
//!
//! Only `decide` and `absorb` live here. The crate has no async runtime, no Kubernetes client, no Wasm engine and reads
//! no clock, file or environment variable: its manifest and `clippy.toml` enforce that.
//!
//! Reading order, from the ground up: [`well_known`], [`name_syntax`], [`moment`], [`settings`], [`tenure`], [`lease`],
//! [`brake`], [`audit`], [`permit`], [`cloud`] with [`load_balancer`] and [`cloud_route`] (the port to the clouds),
//! [`failure`], [`provider_id`], [`selector`], [`node_ownership`], [`own_write`], [`patch`], [`effect`], [`event`],
//! [`retry`], [`plan`], [`answer_check`], [`node_index`], [`cloud_node`]; then the controllers' decisions: [`node`],
//! [`node_lifecycle`], [`service`], [`route`], [`ipam`]; and [`rollout`], which decides about the versions of a module.
#![forbid(unsafe_code)]

pub mod answer_check;
pub mod audit;
pub mod brake;
mod budget_reservation;
pub mod cloud;
pub mod cloud_node;
pub mod cloud_route;
pub mod effect;
pub mod event;
pub mod failure;
#[cfg(test)]
pub mod fixtures;
pub mod ipam;
pub mod lease;
pub mod load_balancer;
pub mod moment;
pub mod name_syntax;
pub mod node;
pub mod node_index;
pub mod node_lifecycle;
pub mod node_ownership;
pub mod own_write;
pub mod patch;
pub mod permit;
pub mod plan;
pub mod provider_id;
pub mod retry;
pub mod rollout;
pub mod route;
pub mod selector;
pub mod service;
pub mod settings;
pub mod tenure;
pub mod well_known;
mod write_refusal;
