//! Routes on the private network, so that what is sent to a node's pods reaches the node.
//!
//! In reading order: [`layout`] (what is where in the network, and through which address a node is reached),
//! [`members`] (whose an address is), [`list`] and [`change`]. Requests stand in [`crate::api`].
//!
//! # Guarantees
//! - Only what a route says of itself is sent when it is deleted: its gateway is never looked up again, so that no other
//!   route can be meant.
//! - Nothing is kept between calls but hints: what a call knows about the network, it was told in that call, or by the
//!   host's state as far as it never changes the meaning of a request.
//! - A route is said to lead nowhere only after the cloud named all members of the network and none of them has its
//!   gateway.

pub mod change;
pub mod layout;
pub mod list;
pub mod members;
#[cfg(test)]
pub mod samples;
