//! The data types that cross the port between controllers and clouds,
//! [`CloudProvider`](crate::cloud_provider::CloudProvider).
//!
//! The types mirror the contract in `wit/`, but are defined here, independent of Wasm and Kubernetes types. This module
//! decides nothing and calls nothing.

pub mod error;
pub mod instance;
pub mod load_balancer;
pub mod provider_id;
pub mod route;

pub use error::{CallFailure, Owner, ProviderError};
pub use instance::{
    Address, AddressType, Capabilities, CloudEvent, CloudNode, EventType, FindReply, Instance,
    Lookup, Readiness,
};
