//! Load balancers of DigitalOcean for Services of type LoadBalancer.
//!
//! In reading order: [`annotations`] (the supported annotations, in one table), [`rules`], [`targets`] and [`wanted`]
//! (the desired state; pure), [`changes`] (its differences from the actual state; pure), [`api`] (the only file here
//! that speaks HTTP), [`owner`] (the owner of a load balancer), [`certificates`], [`status`], and [`ensure`] and
//! [`deletion`], which combine them.

pub mod annotations;
pub mod api;
pub mod certificates;
pub mod changes;
pub mod deletion;
pub mod ensure;
pub mod owner;
pub mod rules;
pub mod status;
pub mod targets;
pub mod wanted;

#[cfg(test)]
pub mod fixtures;
