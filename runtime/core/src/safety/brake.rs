//! Brakes: limits on how many changes of one dangerous kind may be made in a time window. A change that is right for
//! one object and harmless for three is an outage when made to all, so a provider that is wrong about every machine is
//! stopped here. Only counts; reads no clock and blocks nothing by itself.
//!
//! The spent entries of a [`Budget`] can be saved and restored into a new one, so that a restart refills nothing.
//! Without that, each restart grants at most one extra budget.

mod allowance;
mod budget;
mod cluster;
mod rise;
mod shared;
pub mod target_removal;

use std::fmt;

pub use allowance::{Allowance, Allowances};
pub use budget::{Budget, BudgetLevel};
pub use cluster::{ClusterBudgets, Objects, Spent};
pub use rise::Rise;
pub use shared::{BudgetShare, HeldSpender, SharedBudget, Spender};

crate::named_enum! {
    /// A kind of change that has a budget. Its name is fixed in settings, metrics, logs and Events; `ALL` is the display
    /// order.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Brake {
        /// Changing or removing an InternalIP of a Ready node: running connections and certificates depend on it.
        InternalIp = "internal-ip",
        /// Changing the type, zone or region of an initialised node: volumes and workloads are placed by these labels.
        Relabel = "relabel",
        /// Deleting a node whose machine is gone: its pods are deleted with it. Not charged when the node is marked for
        /// removal, because that deletion is intended.
        NodeDeletion = "node-deletion",
        /// Tainting a node whose machine is shut down: no more pods are scheduled to it.
        ShutdownTaint = "shutdown-taint",
        /// Deleting a load balancer: its address is lost permanently.
        LoadBalancerDeletion = "load-balancer-deletion",
        /// Deleting a route: the pods behind it become unreachable.
        RouteDeletion = "route-deletion",
        /// Removing the addresses from a Service's status: DNS and then traffic follow.
        StatusClear = "status-clear",
        /// Any change at the cloud, of all kinds together: limits what a loop in this manager, or a user who edits a
        /// Service again and again, does to quota and bill.
        CloudMutations = "cloud-mutations",
    }
}

impl Brake {
    /// Says that the brake holds a change, and why.
    pub fn engaged(self) -> String {
        let part = match self {
            Brake::CloudMutations => ", or the part of it for one object or namespace,",
            _ => "",
        };
        format!("the brake {self} is engaged because its budget{part} is exhausted")
    }

    /// Human-readable reason for holding a change: the end of "held: …".
    pub fn danger(self) -> &'static str {
        match self {
            Brake::InternalIp => "the cloud says other InternalIPs than the Ready node has",
            Brake::Relabel => "the cloud says another type, zone or region than the node has",
            Brake::NodeDeletion => "the cloud says that the node's machine is gone",
            Brake::ShutdownTaint => "the cloud says that the node's machine is shut down",
            Brake::LoadBalancerDeletion => "a load balancer is not wanted any more",
            Brake::RouteDeletion => "a route is not wanted any more",
            Brake::StatusClear => "the Service has no load balancer any more",
            Brake::CloudMutations => "the cloud was changed very often",
        }
    }
}

impl fmt::Display for Brake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests;
