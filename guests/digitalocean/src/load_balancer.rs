//! Load balancers of DigitalOcean for Services of type LoadBalancer.
//!
//! In reading order: [`annotations`] (what a Service can say, in one table), [`rules`], [`targets`] and [`wanted`] (the
//! desired state; pure), [`changes`] (what differs from the actual one; pure), [`api`] (the only file here that speaks
//! HTTP), [`owner`] (whose a load balancer is), [`certificates`], [`status`], and [`ensure`] and [`deletion`], which combine
//! them.

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
