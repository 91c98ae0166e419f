//! Brings modules: where they come from, who vouches for them, and which of them serves. Never decides what the
//! controllers do, and gives a module no rights: those are the operator's grants.
//!
//! ```text
//! source ──► store ──► trust ──► difference ──► host::Host::load ──► active ──► controllers
//!    └────────────────── stage performs what core::rollout decides ──┘
//!                                        └─ record: what is written down, for every replica
//! ```
#![forbid(unsafe_code)]

pub mod active;
pub mod artifact;
pub mod difference;
pub mod load_policy;
pub mod metrics;
pub mod record;
pub mod rollout_controller;
pub mod source;
pub mod store;
pub mod trust;
