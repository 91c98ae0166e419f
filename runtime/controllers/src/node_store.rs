//! All nodes of the cluster, as the node watch reports them. Only the watch changes it.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

use ccm_core::node::object::PrunedNode;
use kube::runtime::watcher::Event;
use parking_lot::RwLock;

/// All nodes; clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct NodeStore(Arc<RwLock<Nodes>>);

#[derive(Debug, Default)]
struct Nodes {
    known: BTreeSet<ByName>,
    /// The nodes of a list that is not complete. They replace the known ones at its end.
    listed: BTreeSet<ByName>,
}

/// A node, ordered by its name.
#[derive(Debug)]
struct ByName(Arc<PrunedNode>);

impl NodeStore {
    /// The node of this name.
    pub(crate) fn get(&self, name: &str) -> Option<Arc<PrunedNode>> {
        let nodes = self.0.read();
        nodes.known.get(name).map(|node| node.0.clone())
    }

    /// All nodes, by name: equal states give equal orders.
    pub(crate) fn all(&self) -> Vec<Arc<PrunedNode>> {
        let nodes = self.0.read();
        nodes.known.iter().map(|node| node.0.clone()).collect()
    }

    /// Applies a change. Until a list is complete, the known nodes stay.
    pub(crate) fn apply(&self, event: &Event<Arc<PrunedNode>>) {
        let mut nodes = self.0.write();
        match event {
            Event::Apply(node) => put(&mut nodes.known, node),
            Event::Delete(node) => {
                nodes.known.remove(node.name());
            }
            Event::Init => nodes.listed.clear(),
            Event::InitApply(node) => put(&mut nodes.listed, node),
            Event::InitDone => nodes.known = std::mem::take(&mut nodes.listed),
        }
    }
}

/// Adds the node, in the place of another of its name.
fn put(nodes: &mut BTreeSet<ByName>, node: &Arc<PrunedNode>) {
    nodes.remove(node.name());
    nodes.insert(ByName(node.clone()));
}

impl Borrow<str> for ByName {
    fn borrow(&self) -> &str {
        self.0.name()
    }
}

impl PartialEq for ByName {
    fn eq(&self, other: &ByName) -> bool {
        self.0.name() == other.0.name()
    }
}

impl Eq for ByName {}

impl PartialOrd for ByName {
    fn partial_cmp(&self, other: &ByName) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ByName {
    fn cmp(&self, other: &ByName) -> Ordering {
        self.0.name().cmp(other.0.name())
    }
}

#[cfg(test)]
mod tests {
    use ccm_fixtures::kubernetes::node;

    use super::*;

    #[test]
    fn a_list_replaces_the_nodes_at_its_end() {
        let store = NodeStore::default();
        let named = |name: &str| Arc::new(node(name).build::<PrunedNode>());
        let names = || {
            let all = store.all();
            let names: Vec<&str> = all.iter().map(|node| node.name()).collect();
            names.join(" ")
        };
        for (event, expected) in [
            (Event::Apply(named("b")), "b"),
            (Event::Apply(named("a")), "a b"),
            (Event::Init, "a b"),
            (Event::InitApply(named("d")), "a b"),
            // The list begins again.
            (Event::Init, "a b"),
            (Event::InitApply(named("c")), "a b"),
            (Event::InitApply(named("a")), "a b"),
            (Event::InitDone, "a c"),
            (Event::Delete(named("c")), "a"),
            (Event::Delete(named("c")), "a"),
        ] {
            store.apply(&event);
            assert_eq!(names(), expected, "{event:?}");
        }
        assert!(store.get("a").is_some() && store.get("c").is_none());
    }
}
