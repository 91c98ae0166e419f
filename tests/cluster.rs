//! `ccm run` as a process, on a real kube-apiserver, with the shipped guest in its sandbox before a simulated
//! Hetzner API. Everywhere it acts as the service account of `deploy/`, with the rights that are granted there.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

#[path = "cluster/initialise.rs"]
mod initialise;
#[path = "cluster/outage.rs"]
mod outage;
#[path = "cluster/refused.rs"]
mod refused;
#[path = "cluster/rights.rs"]
mod rights;
#[path = "cluster/world.rs"]
mod world;
