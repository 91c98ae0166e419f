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
//! From the ground up, each standing on those before it: [`well_known`], [`name_syntax`], [`string_map`], [`selector`],
//! [`go_text`], [`moment`] and [`failure`]; [`cloud`], the types of the port to the clouds; [`reconciliation`], what the
//! controllers have in common; [`safety`], what may be done, and until when; [`settings`] and [`cloud_provider`], the
//! port itself; [`node`], with what all controllers ask about nodes; then the other controllers' decisions:
//! [`node_lifecycle`], [`service`], [`route`], [`ipam`]; [`rollout`], which decides about the versions of a module; and
//! [`status_report`], what people read about the process.
#![forbid(unsafe_code)]

pub mod cloud;
pub mod cloud_provider;
pub mod failure;
mod fixed_names;
#[cfg(test)]
pub mod fixtures;
pub mod go_text;
pub mod ipam;
pub mod moment;
pub mod name_syntax;
pub mod node;
pub mod node_lifecycle;
pub mod reconciliation;
pub mod rollout;
pub mod route;
pub mod safety;
pub mod selector;
pub mod service;
pub mod settings;
pub mod status_report;
pub mod string_map;
pub mod well_known;
