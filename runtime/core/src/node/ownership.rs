//! Which provider owns a node. The recorded owner label decides; without one, the scheme of the provider ID, and the
//! node selectors where several providers share that scheme; without a provider ID, all providers whose selector
//! matches are candidates and are asked. A node may have no owner. Never changes an owner: a recorded one stays even
//! when the configuration contradicts it.

mod claim_registry;
mod mistakes;

use crate::node::object::PrunedNode;

use crate::cloud::provider_id::ProviderId;
use crate::selector::Selector;
use crate::well_known::OWNER_LABEL;

pub use claim_registry::{ClaimRegistry, Claimed, OtherVote, Verdict, Vote};
pub use mistakes::mistakes;

/// The node-related part of a provider's configuration.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeClaim {
    /// The provider ID schemes that the provider owns; empty: those of its module.
    pub schemes: Vec<String>,
    /// Nodes that the provider may own; `None`: any.
    pub selector: Option<Selector>,
}

/// The nodes that one provider claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The provider's name, which the owner label records.
    pub name: String,
    /// The provider ID schemes that it owns.
    pub schemes: Vec<String>,
    /// Nodes that it may own; `None`: any.
    pub selector: Option<Selector>,
}

/// One provider's view of node ownership: its own claim and those of the other providers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnershipContext {
    /// The provider's own claim.
    pub claim: Claim,
    /// Whether it implements instances. A provider that only makes load balancers owns no node.
    pub has_instances: bool,
    /// The other providers that implement instances.
    pub others: Vec<Claim>,
    /// The other providers that make routes. Those that are not also in `others` do not implement instances.
    pub routers: Vec<Claim>,
}

/// The owner of a node, seen from one provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    /// This provider, by the recorded owner label.
    Recorded,
    /// This provider, because it owns the scheme of the provider ID; not recorded yet. Includes nodes that another
    /// cloud-controller-manager initialised.
    Implied,
    /// No owner and no provider ID yet, and only this provider is a candidate.
    SoleCandidate,
    /// No owner and no provider ID yet, and this provider is one of several candidates; contains the others.
    Candidates(Vec<String>),
    /// Another owner; the text names it.
    Other(String),
    /// No provider here, by the provider ID, which may be another manager's; the text says why.
    Foreign(String),
    /// No provider here, although the node waits for one; the text says why.
    Unserved(String),
}

impl Owner {
    /// Whether this provider may act on the node, and needs to ask no other candidate.
    pub fn is_ours(&self) -> bool {
        matches!(
            self,
            Owner::Recorded | Owner::Implied | Owner::SoleCandidate
        )
    }
}

/// The owner of a node, independent of any one provider's view.
enum NodeOwner<'a> {
    Recorded(&'a str),
    Scheme(&'a str, Vec<&'a str>),
    Unreadable(&'a str),
    Candidates(Vec<&'a str>),
}

impl Claim {
    fn has_scheme(&self, scheme: &str) -> bool {
        self.schemes.iter().any(|ours| ours == scheme)
    }

    fn selects(&self, node: &PrunedNode) -> bool {
        let selector = self.selector.as_ref();
        selector.is_none_or(|selector| selector.matches(node.labels()))
    }
}

impl OwnershipContext {
    /// The context of the only provider.
    pub fn alone(name: impl Into<String>, schemes: Vec<String>) -> OwnershipContext {
        OwnershipContext {
            claim: Claim {
                name: name.into(),
                schemes,
                selector: None,
            },
            has_instances: true,
            others: Vec::new(),
            routers: Vec::new(),
        }
    }

    /// Whether this provider's controllers have to look at `node`: either the provider may own it, or it is the first
    /// provider by name, which reports nodes that no provider here serves.
    pub fn is_concerned(&self, node: &PrunedNode) -> bool {
        match owner(node, self) {
            Owner::Recorded | Owner::Implied | Owner::SoleCandidate | Owner::Candidates(_) => true,
            Owner::Other(_) | Owner::Foreign(_) | Owner::Unserved(_) => {
                self.is_first() && !self.belongs_to_others(node)
            }
        }
    }

    /// Whether this provider's load balancers may send traffic to `node`. A cloud reaches its own machines. Machines of
    /// another recorded owner, whether it serves here or not, and of another provider here are left out: the cloud would
    /// not find them or, where IDs overlap, would find a different machine. A provider without instances may reach any
    /// node.
    pub fn reaches(&self, node: &PrunedNode) -> bool {
        if !self.has_instances {
            return true;
        }
        match recorded_owner(node) {
            Some(recorded) => recorded == self.claim.name,
            None => !self.belongs_to_others(node),
        }
    }

    /// Whether this provider, which does not implement instances, makes the routes of `node`. If the node's owner, or a
    /// provider that may still become its owner, makes routes, that one does. Among several providers without instances
    /// it is the recorded one, or else the first by name whose selector matches.
    pub fn routes_without_machine(&self, node: &PrunedNode) -> bool {
        let owners = match self.node_owner(node) {
            NodeOwner::Recorded(name) if name == self.claim.name => return true,
            // The recorded owner is not here but may exist elsewhere, and may make routes itself.
            NodeOwner::Recorded(name) if !self.others.is_empty() && !self.is_here(name) => {
                return false;
            }
            NodeOwner::Recorded(name) => vec![name],
            NodeOwner::Scheme(_, names) | NodeOwner::Candidates(names) => names,
            NodeOwner::Unreadable(_) => Vec::new(),
        };
        let comes_first = |other: &Claim| {
            let is_owner = owners.contains(&&*other.name);
            let knows_machines = self.others.iter().any(|one| one.name == other.name);
            is_owner || !knows_machines && other.name < self.claim.name && other.selects(node)
        };
        self.claim.selects(node) && !self.routers.iter().any(comes_first)
    }

    fn is_here(&self, name: &str) -> bool {
        let mut all = self.others.iter().chain(&self.routers);
        all.any(|other| other.name == name)
    }

    /// Whether another provider here owns `node` or is a candidate for it, and this one is not.
    fn belongs_to_others(&self, node: &PrunedNode) -> bool {
        let is_other = |name: &str| self.others.iter().any(|other| other.name == name);
        match self.node_owner(node) {
            NodeOwner::Recorded(name) => is_other(name),
            NodeOwner::Scheme(_, names) | NodeOwner::Candidates(names) => {
                !names.contains(&&*self.claim.name) && names.iter().any(|name| is_other(name))
            }
            NodeOwner::Unreadable(_) => false,
        }
    }

    /// Whether this provider reports problems that concern all providers: always the same one, the first by name.
    fn is_first(&self) -> bool {
        self.others.iter().all(|other| self.claim.name < other.name)
    }

    fn node_owner<'a>(&'a self, node: &'a PrunedNode) -> NodeOwner<'a> {
        if let Some(recorded) = recorded_owner(node) {
            return NodeOwner::Recorded(recorded);
        }
        let selects = self.claim.selects(node);
        let others = self.others.iter();
        let Some(stored) = node.provider_id() else {
            let others = others.filter(|other| other.selects(node));
            let us = (self.has_instances && selects).then_some(&*self.claim.name);
            let names = us.into_iter().chain(others.map(|other| &*other.name));
            return NodeOwner::Candidates(names.collect());
        };
        let Ok(id) = ProviderId::parse(stored) else {
            return NodeOwner::Unreadable(stored);
        };
        let is_ours = self.claim.has_scheme(id.scheme);
        let others: Vec<&Claim> = others.filter(|other| other.has_scheme(id.scheme)).collect();
        // The selector only decides where several providers share the scheme.
        let is_shared = others.len() + usize::from(is_ours) > 1;
        let us = (is_ours && (selects || !is_shared)).then_some(&*self.claim.name);
        let others = others.into_iter();
        let others = others.filter(|other| other.selects(node) || !is_shared);
        let names = us.into_iter().chain(others.map(|other| &*other.name));
        NodeOwner::Scheme(id.scheme, names.collect())
    }
}

/// The owner of `node`, seen from the provider of `ownership`.
pub fn owner(node: &PrunedNode, ownership: &OwnershipContext) -> Owner {
    let us = &*ownership.claim.name;
    match ownership.node_owner(node) {
        NodeOwner::Recorded(name) if name == us => Owner::Recorded,
        NodeOwner::Recorded(name) => {
            let is_here = ownership.others.iter().any(|other| other.name == name);
            // With a single provider here, the other one may have a manager of its own.
            match is_here || ownership.others.is_empty() {
                true => Owner::Other(format!("the provider {name:?}")),
                false => Owner::Unserved(format!(
                    "the node belongs to the provider {name:?}, which does not serve here: it is not configured, no version of it serves, or it contradicts another provider"
                )),
            }
        }
        NodeOwner::Unreadable(stored) => Owner::Foreign(format!(
            "the node's provider ID {stored:?} is not of the form SCHEME://ID"
        )),
        NodeOwner::Scheme(_, names) if names == [us] => Owner::Implied,
        NodeOwner::Scheme(scheme, names) => match names.as_slice() {
            // The first provider reports it, whether it has the scheme or not.
            [] if ownership.claim.has_scheme(scheme)
                || ownership
                    .others
                    .iter()
                    .any(|other| other.has_scheme(scheme)) =>
            {
                Owner::Unserved(format!(
                    "several providers have the scheme {scheme:?}, and none of their node selectors matches the node"
                ))
            }
            [] => Owner::Foreign(format!(
                "no provider that serves here has the scheme {scheme:?} of the node's provider ID"
            )),
            [one] if *one != us => Owner::Other(format!("the provider {one:?}")),
            _ => Owner::Other(format!("the owner of the scheme {scheme:?}")),
        },
        NodeOwner::Candidates(names) => match names.as_slice() {
            [] => Owner::Unserved("no provider's node selector matches the node".to_owned()),
            [one] if *one == us => Owner::SoleCandidate,
            [first, others @ ..] if *first == us => {
                Owner::Candidates(others.iter().map(|name| (*name).to_owned()).collect())
            }
            [one] => Owner::Other(format!("the provider {one:?}")),
            _ => Owner::Other("other providers, by their node selectors".to_owned()),
        },
    }
}

/// The owner label of `node`. An empty label counts as absent.
pub fn recorded_owner(node: &PrunedNode) -> Option<&str> {
    let owner = node.labels().get(OWNER_LABEL);
    owner.filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests;
