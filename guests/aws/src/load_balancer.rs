//! Network load balancers for Services with `service.beta.kubernetes.io/aws-load-balancer-type: nlb`, and classic ones
//! for others.
//!
//! A load balancer's name is made of its Service's UID, as the Go provider makes it, so that the name proves the owner:
//! it never finds the load balancer of another Service, and always that of its own. The names of target groups and of a
//! load balancer's own security group are made of the UID as well, and rules in the nodes' groups carry the load
//! balancer's name as their description. So each call finds what an earlier one left half done, also the call that
//! deletes.
//!
//! [`annotations`] and [`wanted`] say what is wanted and are pure, [`elb`] has the requests, [`listeners`] and
//! [`security_groups`] compare and change, [`classic`] has the parts that only classic load balancers need, [`subnets`]
//! chooses subnets, [`cached_state`] saves requests, [`ensure`] and [`deletion`] are the calls.

pub mod annotations;
pub mod cached_state;
pub mod classic;
pub mod deletion;
pub mod elb;
pub mod ensure;
pub mod listeners;
pub mod security_groups;
pub mod subnets;
pub mod wanted;

#[cfg(test)]
mod tests;
