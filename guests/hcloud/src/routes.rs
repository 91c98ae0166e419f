//! Routes on the private network that lead pod traffic to the nodes.
//!
//! In reading order: [`gateway`] (the network's address ranges, and the address of a node that routes use), [`members`]
//! (owners of addresses), [`list`] and [`change`]. The requests are in [`crate::api`].
//!
//! # Guarantees
//! - A delete request contains only the route's own data: its gateway is never looked up again, so that no other route
//!   can be affected.
//! - Only hints are kept between calls: a call's knowledge of the network comes from that call, or from the host's
//!   state where that cannot change the meaning of a request.
//! - A route is reported as a blackhole only after the cloud listed all members of the network and none has its
//!   gateway.

pub mod change;
#[cfg(test)]
pub mod fixtures;
pub mod gateway;
pub mod list;
pub mod members;
#[cfg(test)]
mod tests;
