//! How many changes of one dangerous kind may be made in a while. What is right for one object, and harmless
//! for three, is an outage for all: a provider that is wrong about every machine is stopped here. Holds
//! counts; reads no clock and stops nothing by itself.
//!
//! What was spent can be taken out of a [`Budget`] and put back into a new one, so that a restart refills
//! nothing. Whoever does not, gives away at most one more budget at each restart.

mod allowance;
mod budget;
mod cluster;
mod rise;
mod shared;
pub mod targets;

use std::fmt;

pub use allowance::{Allowance, Allowances};
pub use budget::{Budget, BudgetLevel, Budgets};
pub use cluster::{ClusterBudgets, Objects, Spent};
pub use rise::Rise;
pub use shared::SharedBudget;

/// A kind of change that has a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Brake {
    /// Changing or removing an InternalIP of a Ready node: running connections and certificates hang on it.
    InternalIp,
    /// Changing the type, zone or region of a known node: volumes and workloads are placed by them.
    Relabel,
    /// Deleting a node whose machine is gone: its pods are deleted with it. Not where somebody has said on the node that it
    /// is to leave: nobody is surprised then.
    NodeDeletion,
    /// Tainting a node whose machine is shut down: nothing is scheduled there any more.
    ShutdownTaint,
    /// Deleting a load balancer: its address is lost for good.
    LoadBalancerDeletion,
    /// Deleting a route: pods behind it are cut off.
    RouteDeletion,
    /// Removing the addresses from a Service's status: DNS follows, and with it the traffic.
    StatusClear,
    /// Any change at the cloud, of every kind together: what a loop of ours may do to somebody's quota and bill.
    CloudMutations,
}

impl Brake {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Brake; 8] = [
        Brake::InternalIp,
        Brake::Relabel,
        Brake::NodeDeletion,
        Brake::ShutdownTaint,
        Brake::LoadBalancerDeletion,
        Brake::RouteDeletion,
        Brake::StatusClear,
        Brake::CloudMutations,
    ];

    /// A fixed word, for settings, metrics, logs and Events.
    pub fn as_str(self) -> &'static str {
        match self {
            Brake::InternalIp => "internal-ip",
            Brake::Relabel => "relabel",
            Brake::NodeDeletion => "node-deletion",
            Brake::ShutdownTaint => "shutdown-taint",
            Brake::LoadBalancerDeletion => "load-balancer-deletion",
            Brake::RouteDeletion => "route-deletion",
            Brake::StatusClear => "status-clear",
            Brake::CloudMutations => "cloud-mutations",
        }
    }

    /// The brake with this word.
    pub fn named(word: &str) -> Option<Brake> {
        Brake::ALL.into_iter().find(|brake| brake.as_str() == word)
    }

    /// What it holds, for people: the end of "held: …".
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
