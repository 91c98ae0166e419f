//! A small world for the demo and the tests: an in-memory Kubernetes API behind the real kube client,
//! and stateful Hetzner APIs (cloud and Robot) on loopback.
//!
//! It simulates protocols, never our own traits: whoever talks to it talks Kubernetes or HTTP, so the
//! program that runs against it is the program that runs in production. It never decides anything a
//! controller should decide, and it knows nothing of Wasm.
#![forbid(unsafe_code)]

pub mod cluster;
pub mod hetzner;
mod label_selector;
mod loopback;
pub mod robot;
