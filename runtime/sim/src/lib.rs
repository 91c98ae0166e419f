//! Simulators for the demo and the tests: an in-memory Kubernetes API behind the real kube client, and stateful APIs of
//! Hetzner (Cloud and Robot) and DigitalOcean on loopback.
//!
//! They simulate protocols, never the project's own traits: clients speak Kubernetes or HTTP, so that the program under
//! test is the production program. They make no controller decisions and know nothing of Wasm.
#![forbid(unsafe_code)]

pub mod cluster;
pub mod digitalocean;
pub mod hetzner;
mod label_selector;
mod loopback;
pub mod robot;
