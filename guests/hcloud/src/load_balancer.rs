//! Load balancers of Hetzner Cloud for Services of type LoadBalancer.
//!
//! In reading order: [`wanted`] (the desired state of a Service's load balancer) and the files that read it:
//! [`annotations`], [`names`], [`services`], [`targets`], [`node_selector`], [`wanted_certificates`], [`shown`]; then
//! the files that apply it: [`api`] (the only one here that speaks HTTP), [`owner`], [`changes`], [`bodies`],
//! [`carry_out`], [`certificates`], [`hint`], [`status`], and [`ensure`] and [`deletion`], which combine them.

pub mod annotations;
pub mod api;
pub mod bodies;
pub mod carry_out;
pub mod certificates;
pub mod changes;
pub mod deletion;
pub mod ensure;
pub mod hint;
pub mod names;
pub mod node_selector;
pub mod owner;
#[cfg(test)]
pub mod project;
#[cfg(test)]
pub mod samples;
pub mod services;
pub mod shown;
pub mod status;
pub mod targets;
pub mod unsupported;
pub mod wanted;
pub mod wanted_certificates;
