//! Which provider speaks for a node. What is written down decides; then the scheme of the provider ID, and the selector
//! where several providers have that scheme; and before anything is written, those whose selector matches are asked.
//! Nobody is an answer. Never changes an owner: a recorded one stays, also when the configuration says otherwise.

mod claim_registry;
mod mistakes;

use k8s_openapi::api::core::v1::Node;

use crate::provider_id::ProviderId;
use crate::selector::Selector;
use crate::well_known::OWNER_LABEL;

pub use claim_registry::{ClaimRegistry, Claimed, Heard, Verdict, Vote};
pub use mistakes::mistakes;

/// What the configuration says about the nodes of a provider.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeClaim {
    /// The provider ID schemes that it owns; none: those of its module.
    pub schemes: Vec<String>,
    /// Which nodes it may speak for; without one any.
    pub selector: Option<Selector>,
}

/// What one provider claims of the nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The provider's name.
    pub name: String,
    /// The provider ID schemes that it owns.
    pub schemes: Vec<String>,
    /// Which nodes it may speak for; without one any.
    pub selector: Option<Selector>,
}

/// Who a provider is, as far as ownership of nodes goes, and who the others are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnershipContext {
    /// The provider's name.
    pub name: String,
    /// The provider ID schemes that it owns.
    pub schemes: Vec<String>,
    /// Which nodes it may speak for; without one any.
    pub selector: Option<Selector>,
    /// Whether it knows machines at all. Who only makes load balancers owns no node.
    pub has_instances: bool,
    /// The other providers that know machines.
    pub others: Vec<Claim>,
    /// The other providers that make routes. Who is not among `others`, too, knows no machines.
    pub routers: Vec<Claim>,
}

/// Who speaks for a node, seen from one provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    /// This provider, by its recorded name.
    Recorded,
    /// This provider, because the provider ID has one of its schemes; not written down yet. So are nodes
    /// that another cloud-controller-manager initialised.
    Implied,
    /// Nobody yet, and nobody but this provider could: no owner and no provider ID.
    Nobody,
    /// Nobody yet, and this provider is one of several that could; these are the others.
    Candidates(Vec<String>),
    /// Somebody else; the text says who.
    Other(String),
    /// Nobody here, although somebody evidently waits for one of us; the text says why.
    Unserved(String),
}

impl Owner {
    /// Whether this provider may do something about the node, or be asked about it alone.
    pub fn is_ours(&self) -> bool {
        matches!(self, Owner::Recorded | Owner::Implied | Owner::Nobody)
    }
}

/// Who a node belongs to, seen from nowhere.
enum Whose<'a> {
    Recorded(&'a str),
    Scheme(&'a str, Vec<&'a str>),
    Unreadable(&'a str),
    Candidates(Vec<&'a str>),
}

impl Claim {
    fn has_scheme(&self, scheme: &str) -> bool {
        self.schemes.iter().any(|ours| ours == scheme)
    }

    fn selects(&self, node: &Node) -> bool {
        selects(self.selector.as_ref(), node)
    }
}

impl OwnershipContext {
    /// The only provider there is.
    pub fn alone(name: impl Into<String>, schemes: Vec<String>) -> OwnershipContext {
        OwnershipContext {
            name: name.into(),
            schemes,
            selector: None,
            has_instances: true,
            others: Vec::new(),
            routers: Vec::new(),
        }
    }

    /// Whether there is something for this provider's controllers to do about `node`: it may speak for it, or it is the
    /// first of all and says what nobody here speaks for.
    pub fn is_concerned(&self, node: &Node) -> bool {
        match owner(node, self) {
            Owner::Recorded | Owner::Implied | Owner::Nobody | Owner::Candidates(_) => true,
            Owner::Other(_) | Owner::Unserved(_) => self.is_first() && !self.is_others(node),
        }
    }

    /// Whether this provider's load balancers may send traffic to `node`. A cloud reaches its own machines; those of
    /// another provider here are not handed to it, since it would look for them in vain or, where numbers are given
    /// twice, find somebody else's. Who has no machines of his own may reach any.
    pub fn reaches(&self, node: &Node) -> bool {
        if !self.has_instances {
            return true;
        }
        match recorded_owner(node) {
            Some(recorded) => recorded == self.name,
            None => !self.is_others(node),
        }
    }

    /// Whether this provider, which knows no machines, makes the routes of `node`, so that nobody else does. A node's
    /// owner makes them, if it makes any, and so does whoever may still become its owner. Of several that know no
    /// machines it is whoever is written down, or the first by name of those whose selectors match.
    pub fn routes_without_machine(&self, node: &Node) -> bool {
        let owners = match self.whose(node) {
            Whose::Recorded(name) if name == self.name => return true,
            // What an owner makes that is not here, but may have its place here, nobody knows.
            Whose::Recorded(name) if !self.others.is_empty() && !self.is_here(name) => {
                return false;
            }
            Whose::Recorded(name) => vec![name],
            Whose::Scheme(_, names) | Whose::Candidates(names) => names,
            Whose::Unreadable(_) => Vec::new(),
        };
        let comes_first = |other: &Claim| {
            let is_owner = owners.contains(&&*other.name);
            let knows_machines = self.others.iter().any(|one| one.name == other.name);
            is_owner || !knows_machines && other.name < self.name && other.selects(node)
        };
        selects(self.selector.as_ref(), node) && !self.routers.iter().any(comes_first)
    }

    fn is_here(&self, name: &str) -> bool {
        let mut all = self.others.iter().chain(&self.routers);
        all.any(|other| other.name == name)
    }

    /// Whether one of the others speaks for `node`, and this one does not.
    fn is_others(&self, node: &Node) -> bool {
        let is_other = |name: &str| self.others.iter().any(|other| other.name == name);
        match self.whose(node) {
            Whose::Recorded(name) => is_other(name),
            Whose::Scheme(_, names) | Whose::Candidates(names) => {
                !names.contains(&&*self.name) && names.iter().any(|name| is_other(name))
            }
            Whose::Unreadable(_) => false,
        }
    }

    /// Who says what concerns all of them equally: one, and always the same one.
    fn is_first(&self) -> bool {
        self.others.iter().all(|other| self.name < other.name)
    }

    fn whose<'a>(&'a self, node: &'a Node) -> Whose<'a> {
        if let Some(recorded) = recorded_owner(node) {
            return Whose::Recorded(recorded);
        }
        let selects = selects(self.selector.as_ref(), node);
        let others = self.others.iter();
        let Some(stored) = stored_provider_id(node) else {
            let others = others.filter(|other| other.selects(node));
            let us = (self.has_instances && selects).then_some(&*self.name);
            let names = us.into_iter().chain(others.map(|other| &*other.name));
            return Whose::Candidates(names.collect());
        };
        let Ok(id) = ProviderId::parse(stored) else {
            return Whose::Unreadable(stored);
        };
        let is_ours = self.schemes.iter().any(|ours| ours == id.scheme);
        let others: Vec<&Claim> = others.filter(|other| other.has_scheme(id.scheme)).collect();
        // The selector decides only where the scheme does not.
        let is_shared = others.len() + usize::from(is_ours) > 1;
        let us = (is_ours && (selects || !is_shared)).then_some(&*self.name);
        let others = others.into_iter();
        let others = others.filter(|other| other.selects(node) || !is_shared);
        let names = us.into_iter().chain(others.map(|other| &*other.name));
        Whose::Scheme(id.scheme, names.collect())
    }
}

/// Who speaks for `node`, as `ownership` has to see it.
pub fn owner(node: &Node, ownership: &OwnershipContext) -> Owner {
    let us = &*ownership.name;
    match ownership.whose(node) {
        Whose::Recorded(name) if name == us => Owner::Recorded,
        Whose::Recorded(name) => {
            let is_here = ownership.others.iter().any(|other| other.name == name);
            // Where there is only one provider here, the other one may well have a manager of its own.
            match is_here || ownership.others.is_empty() {
                true => Owner::Other(format!("the provider {name:?}")),
                false => Owner::Unserved(format!(
                    "the node belongs to the provider {name:?}, which is not here"
                )),
            }
        }
        Whose::Unreadable(stored) => {
            Owner::Other(format!("whoever wrote the provider ID {stored:?}"))
        }
        Whose::Scheme(_, names) if names == [us] => Owner::Implied,
        Whose::Scheme(scheme, names) => match names.as_slice() {
            [] if ownership.schemes.iter().any(|ours| ours == scheme) => Owner::Unserved(format!(
                "several providers have the scheme {scheme:?}, and none of their node selectors matches the node"
            )),
            [one] if *one != us => Owner::Other(format!("the provider {one:?}")),
            _ => Owner::Other(format!("the owner of the scheme {scheme:?}")),
        },
        Whose::Candidates(names) => match names.as_slice() {
            [] => Owner::Unserved("no provider's node selector matches the node".to_owned()),
            [one] if *one == us => Owner::Nobody,
            [first, others @ ..] if *first == us => {
                Owner::Candidates(others.iter().map(|name| (*name).to_owned()).collect())
            }
            [one] => Owner::Other(format!("the provider {one:?}")),
            _ => Owner::Other("other providers, by their node selectors".to_owned()),
        },
    }
}

fn selects(selector: Option<&Selector>, node: &Node) -> bool {
    let labels = node.metadata.labels.as_ref();
    selector.is_none_or(|selector| match labels {
        Some(labels) => selector.matches(labels),
        None => selector.matches(&Default::default()),
    })
}

/// The owner that is written down on `node`. An empty label is none.
pub fn recorded_owner(node: &Node) -> Option<&str> {
    let labels = node.metadata.labels.as_ref()?;
    labels
        .get(OWNER_LABEL)
        .map(String::as_str)
        .filter(|name| !name.is_empty())
}

/// `spec.providerID`, if it is set and not empty.
pub fn stored_provider_id(node: &Node) -> Option<&str> {
    node.spec
        .as_ref()?
        .provider_id
        .as_deref()
        .filter(|id| !id.is_empty())
}

#[cfg(test)]
mod tests;
