//! What the process, and each call to a cloud, may do: leadership, limits on dangerous changes, and records of them.
//! Decides about no object of the cluster, and sends nothing.

pub mod audit;
pub mod brake;
pub(crate) mod budget_reservation;
pub mod lease;
pub mod permit;
pub mod plan;
pub mod tenure;
