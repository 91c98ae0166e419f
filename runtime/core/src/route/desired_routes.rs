//! Which routes the nodes want: those of the provider's nodes that are initialised, one for each pod network that lies
//! in the cluster's. What is wrong with a pod network keeps this one from having a route, and nothing else (F25).

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use ipnet::IpNet;
use k8s_openapi::api::core::v1::Node;

use super::name;
use super::network::{has_family, is_inside, pod_cidrs, read};
use crate::answer_check::quoted;
use crate::node::object::is_uninitialized;
use crate::ownership::{Owner, OwnershipContext, owner};

/// What one node wants.
#[derive(Debug, Clone)]
pub(super) struct NodeRoutes {
    pub(super) node: Arc<Node>,
    /// Each once, in the order in which they stand.
    pub(super) destinations: Vec<IpNet>,
    /// Its other pod networks, for which nothing is made.
    pub(super) faults: Vec<Fault>,
}

/// Why nothing is made for a pod network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fault {
    /// It is no network.
    Unreadable(String),
    /// It lies outside of the cluster's.
    Outside(IpNet),
    /// This other node has some of its addresses.
    Overlaps(IpNet, String),
}

impl Fault {
    /// The reason of its Event.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Fault::Unreadable(_) | Fault::Outside(_) => "ClusterCIDRMisconfigured",
            Fault::Overlaps(..) => "PodCIDROverlaps",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Unreadable(text) => {
                write!(f, "no route is made: the pod CIDR {} is none", quoted(text))
            }
            Fault::Outside(network) => write!(
                f,
                "no route is made: the pod CIDR {network} lies outside of --cluster-cidr"
            ),
            Fault::Overlaps(network, other) => write!(
                f,
                "no route is made: the pod CIDR {network} overlaps one of the node {other:?}"
            ),
        }
    }
}

/// Whether the provider makes routes for `node` at all.
pub(super) fn is_served(node: &Node, ownership: &OwnershipContext) -> bool {
    let is_ours = match ownership.has_instances {
        true => matches!(owner(node, ownership), Owner::Recorded | Owner::Implied),
        false => ownership.routes_without_machine(node),
    };
    // Before that it has no addresses that somebody has checked.
    is_ours && !is_uninitialized(node)
}

/// Whether the provider is told about `node` when it lists routes.
pub(super) fn is_told(node: &Node, ownership: &OwnershipContext) -> bool {
    match ownership.has_instances {
        true => owner(node, ownership).is_ours(),
        false => ownership.routes_without_machine(node),
    }
}

/// What speaks for a node's having a network.
#[derive(Debug, Clone, Copy)]
pub(super) struct NetworkEvidence {
    /// It had it when that was looked at last.
    pub(super) has_held: bool,
    /// There is a route that was made for it.
    pub(super) is_led_to: bool,
    /// There is a route to it.
    pub(super) is_right: bool,
}

/// What the nodes want.
#[derive(Debug)]
pub(super) struct DesiredRoutes {
    /// By name.
    pub(super) desired_routes: Vec<NodeRoutes>,
    /// The UIDs of the nodes that have each network.
    pub(super) holders: BTreeMap<IpNet, String>,
}

/// What the nodes want; `nodes` are all of the cluster, by name. `standing` says what speaks for a node's having a
/// network.
pub(super) fn desired_routes(
    nodes: &[Arc<Node>],
    ownership: &OwnershipContext,
    cluster: &[IpNet],
    standing: impl Fn(&Node, &IpNet) -> NetworkEvidence,
) -> DesiredRoutes {
    let losers = losers(nodes, cluster, &standing);
    let mut holders = BTreeMap::new();
    let served = nodes.iter().enumerate();
    let served = served.filter(|(_, node)| is_served(node, ownership));
    let desired_routes = served.map(|(index, node)| {
        let mut wish = NodeRoutes {
            node: node.clone(),
            destinations: Vec::new(),
            faults: Vec::new(),
        };
        for text in pod_cidrs(node) {
            let Some(network) = read(text) else {
                wish.faults.push(Fault::Unreadable(text.clone()));
                continue;
            };
            if !has_family(&network, cluster) {
                // Somebody else's business: a cluster may have routes for one of its two families.
                continue;
            }
            if !is_inside(&network, cluster) {
                wish.faults.push(Fault::Outside(network));
                continue;
            }
            let winner = losers.get(&(index, network));
            if winner.is_none() {
                let uid = node.metadata.uid.clone().unwrap_or_default();
                holders.insert(network, uid);
            }
            // Whoever has a route has it, whatever else is written down.
            let winner = winner.filter(|_| !standing(node, &network).is_right);
            if let Some(winner) = winner {
                let winner = nodes.get(*winner).map(|node| name(node).to_owned());
                let fault = Fault::Overlaps(network, winner.unwrap_or_default());
                wish.faults.push(fault);
            } else if !wish.destinations.contains(&network) {
                // ROUTE-033: once, however often it stands there.
                wish.destinations.push(network);
            }
        }
        wish
    });
    let desired_routes = desired_routes.collect();
    DesiredRoutes {
        desired_routes,
        holders,
    }
}

/// Who comes first among those that want the same addresses: whoever had them; then whoever has a route to them; then
/// the narrower network, so that one node cannot take everybody's; then the older node; then by name.
type Rank = (bool, bool, Reverse<u8>, i64, usize);

/// The pod networks, by node, that overlap one of another node that comes first; and that node.
fn losers(
    nodes: &[Arc<Node>],
    cluster: &[IpNet],
    standing: &impl Fn(&Node, &IpNet) -> NetworkEvidence,
) -> HashMap<(usize, IpNet), usize> {
    let mut claims: BTreeMap<IpNet, Vec<Rank>> = BTreeMap::new();
    for (index, node) in nodes.iter().enumerate() {
        let networks = pod_cidrs(node).iter().filter_map(|text| read(text));
        for network in networks.filter(|network| is_inside(network, cluster)) {
            let created = node.metadata.creation_timestamp.as_ref();
            let created = created.map_or(i64::MAX, |time| time.0.as_second());
            let standing = standing(node, &network);
            let rank = (
                !standing.has_held,
                !standing.is_led_to,
                Reverse(network.prefix_len()),
                created,
                index,
            );
            claims.entry(network).or_default().push(rank);
        }
    }
    let mut losers = HashMap::new();
    // Networks are disjoint or one lies in the other, and in this order the wider one comes first.
    let mut around: Vec<(IpNet, Rank)> = Vec::new();
    for (network, mut ranks) in claims {
        ranks.sort_unstable();
        let Some(first) = ranks.first().copied() else {
            continue;
        };
        for rank in ranks.iter().filter(|rank| rank.4 != first.4) {
            losers.insert((rank.4, network), first.4);
        }
        while around
            .last()
            .is_some_and(|(wider, _)| !wider.contains(&network))
        {
            around.pop();
        }
        for (wider, other) in around.iter().filter(|(_, other)| other.4 != first.4) {
            match *other < first {
                true => losers.insert((first.4, network), other.4),
                false => losers.insert((other.4, *wider), first.4),
            };
        }
        around.push((network, first));
    }
    losers
}
