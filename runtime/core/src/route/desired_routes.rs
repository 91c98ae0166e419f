//! Computes the desired routes: for each initialised node of the provider, one per pod network inside the cluster's. A
//! faulty pod network loses its own route only (F25).

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use ipnet::IpNet;
use k8s_openapi::jiff::Timestamp;

use super::network::{has_family, is_inside, read};
use crate::node::answer_check::quoted;
use crate::node::object::PrunedNode;
use crate::node::ownership::{Owner, OwnershipContext, owner};
use crate::reconciliation::event::reasons::{self, EventReason};

/// Desired routes of one node.
#[derive(Debug, Clone)]
pub(super) struct NodeRoutes {
    pub(super) node: Arc<PrunedNode>,
    /// Without duplicates, in the order of the spec.
    pub(super) destinations: Vec<IpNet>,
    /// Pod networks that get no route.
    pub(super) faults: Vec<Fault>,
}

/// Why a pod network gets no route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fault {
    /// Not a network, as written in the spec.
    Unreadable(String),
    /// Outside of the cluster's networks.
    Outside(IpNet),
    /// It shares addresses with a pod network of this other node.
    Overlaps(IpNet, String),
}

impl Fault {
    /// Reason of the Event.
    pub(super) fn reason(&self) -> &'static EventReason {
        match self {
            Fault::Unreadable(_) | Fault::Outside(_) => reasons::CLUSTER_CIDR_MISCONFIGURED,
            Fault::Overlaps(..) => reasons::POD_CIDR_OVERLAPS,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Unreadable(text) => {
                write!(
                    f,
                    "no route is created: pod CIDR {} is invalid",
                    quoted(text)
                )
            }
            Fault::Outside(network) => write!(
                f,
                "no route is created: pod CIDR {network} lies outside of --cluster-cidr"
            ),
            Fault::Overlaps(network, other) => write!(
                f,
                "no route is created: pod CIDR {network} overlaps one of the node {other:?}"
            ),
        }
    }
}

/// Whether the provider makes routes for `node` at all.
pub(super) fn is_served(node: &PrunedNode, ownership: &OwnershipContext) -> bool {
    let is_ours = match ownership.has_instances {
        true => matches!(owner(node, ownership), Owner::Recorded | Owner::Implied),
        false => ownership.routes_without_machine(node),
    };
    // Before initialisation no addresses have been verified.
    is_ours && !node.is_uninitialized()
}

/// Whether `node` is sent to the provider when it lists routes.
pub(super) fn is_sent_to_provider(node: &PrunedNode, ownership: &OwnershipContext) -> bool {
    match ownership.has_instances {
        true => owner(node, ownership).is_ours(),
        false => ownership.routes_without_machine(node),
    }
}

/// Evidence that a node owns a network.
#[derive(Debug, Clone, Copy)]
pub(super) struct NetworkEvidence {
    /// It owned the network at the last pass.
    pub(super) has_held: bool,
    /// A route was made for it.
    pub(super) is_led_to: bool,
    /// A correct route leads to it.
    pub(super) is_right: bool,
}

/// Desired routes of all nodes.
#[derive(Debug)]
pub(super) struct DesiredRoutes {
    /// Sorted by node name.
    pub(super) desired_routes: Vec<NodeRoutes>,
    /// UID of the node that owns each network.
    pub(super) holders: BTreeMap<IpNet, String>,
}

/// Computes the desired routes. `nodes` are all nodes of the cluster, sorted by name. `evidence` returns the evidence
/// that a node owns a network.
pub(super) fn desired_routes(
    nodes: &[Arc<PrunedNode>],
    ownership: &OwnershipContext,
    cluster: &[IpNet],
    evidence: impl Fn(&PrunedNode, &IpNet) -> NetworkEvidence,
) -> DesiredRoutes {
    let outranked = outranked(nodes, cluster, &evidence);
    let mut holders = BTreeMap::new();
    let served = nodes.iter().enumerate();
    let served = served.filter(|(_, node)| is_served(node, ownership));
    let desired_routes = served.map(|(index, node)| {
        let mut desired = NodeRoutes {
            node: node.clone(),
            destinations: Vec::new(),
            faults: Vec::new(),
        };
        for text in node.pod_cidrs() {
            let Some(network) = read(text) else {
                desired.faults.push(Fault::Unreadable(text.clone()));
                continue;
            };
            if !has_family(&network, cluster) {
                // Not an error: a cluster may have routes for only one of its two families.
                continue;
            }
            if !is_inside(&network, cluster) {
                desired.faults.push(Fault::Outside(network));
                continue;
            }
            let winner = outranked.get(&(index, network));
            if winner.is_none() {
                holders.insert(network, node.uid().to_owned());
            }
            // A node with a correct route keeps it, whatever the specs say.
            let winner = winner.filter(|_| !evidence(node, &network).is_right);
            if let Some(winner) = winner {
                let winner = nodes.get(*winner).map(|node| node.name().to_owned());
                let fault = Fault::Overlaps(network, winner.unwrap_or_default());
                desired.faults.push(fault);
            } else if !desired.destinations.contains(&network) {
                // ROUTE-033: once, even if the spec repeats it.
                desired.destinations.push(network);
            }
        }
        desired
    });
    let desired_routes = desired_routes.collect();
    DesiredRoutes {
        desired_routes,
        holders,
    }
}

/// Order among nodes that claim the same addresses; the smallest wins: the previous holder, then a node with a route,
/// then the narrower network, so that one node cannot claim every address, then the older node, then the name.
type Rank = (bool, bool, Reverse<u8>, i64, usize);

/// Pod networks, by node index, that overlap a network of a better-ranked node; the value is that node's index.
fn outranked(
    nodes: &[Arc<PrunedNode>],
    cluster: &[IpNet],
    evidence: &impl Fn(&PrunedNode, &IpNet) -> NetworkEvidence,
) -> HashMap<(usize, IpNet), usize> {
    let mut claims: BTreeMap<IpNet, Vec<Rank>> = BTreeMap::new();
    for (index, node) in nodes.iter().enumerate() {
        let networks = node.pod_cidrs().iter().filter_map(|text| read(text));
        for network in networks.filter(|network| is_inside(network, cluster)) {
            let created = node.created().map_or(i64::MAX, Timestamp::as_second);
            let evidence = evidence(node, &network);
            let rank = (
                !evidence.has_held,
                !evidence.is_led_to,
                Reverse(network.prefix_len()),
                created,
                index,
            );
            claims.entry(network).or_default().push(rank);
        }
    }
    let mut outranked = HashMap::new();
    // Two networks are disjoint or nested, and this order puts the wider one first.
    let mut around: Vec<(IpNet, Rank)> = Vec::new();
    for (network, mut ranks) in claims {
        ranks.sort_unstable();
        let Some(first) = ranks.first().copied() else {
            continue;
        };
        for rank in ranks.iter().filter(|rank| rank.4 != first.4) {
            outranked.insert((rank.4, network), first.4);
        }
        while around
            .last()
            .is_some_and(|(wider, _)| !wider.contains(&network))
        {
            around.pop();
        }
        for (wider, other) in around.iter().filter(|(_, other)| other.4 != first.4) {
            match *other < first {
                true => outranked.insert((first.4, network), other.4),
                false => outranked.insert((other.4, *wider), first.4),
            };
        }
        around.push((network, first));
    }
    outranked
}
