//! Network load balancers for Services with `service.beta.kubernetes.io/aws-load-balancer-type: nlb`, and classic ones for others.
//!
//! A load balancer's name is made of its Service's UID, as the Go provider makes it, so that the name is the owner: nobody
//! else's can be found by it, and none of ours is lost. Target groups and a group of its own have names made of the UID as
//! well, rules in node groups carry the load balancer's name as their description. So what a call left half done is found
//! by the next one, also by the one that deletes.
//!
//! [`annotations`] and [`wanted`] say what is wanted and are pure, [`elb`] has the requests, [`listeners`] and [`groups`]
//! compare and change, [`classic`] has what is about classic load balancers alone, [`subnets`] chooses where, [`remembered`] spares requests, [`ensure`] and [`deletion`] are the calls.

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
