//! Load balancers of Hetzner Cloud for Services of type LoadBalancer.
//!
//! In reading order: [`wanted`] (the desired state of a Service's load balancer) and the files that read it:
//! [`annotations`], [`names`], [`services`], [`targets`], [`node_selector`], [`wanted_certificates`],
//! [`status_addresses`]; then the files that apply it: [`api`] (the only one here that speaks HTTP), [`owner`],
//! [`changes`], [`request_bodies`], [`send_changes`], [`certificates`], [`hint`], [`status`], and [`ensure`] and
//! [`deletion`], which combine them.

pub mod annotations;
pub mod api;
pub mod certificates;
pub mod changes;
pub mod deletion;
pub mod ensure;
#[cfg(test)]
pub mod fixtures;
pub mod hint;
pub mod names;
pub mod node_selector;
pub mod owner;
pub mod request_bodies;
pub mod send_changes;
pub mod services;
pub mod status;
pub mod status_addresses;
pub mod targets;
pub mod unsupported;
pub mod wanted;
pub mod wanted_certificates;
