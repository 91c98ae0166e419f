//! Delivery of modules: fetches them from a source, verifies their signatures and chooses the version that serves.
//! Never decides what the controllers do, and grants a module no rights: those come from the operator's grants.
//!
//! ```text
//! source ──► store ──► trust ──► difference ──► host::Host::load ──► active ──► controllers
//!    └── rollout_controller performs what core::rollout decides ─────┘
//!                                        └─ record: the state written for every replica
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
