//! Which changes of nodes providers see, and which of them begin a pass.
#![allow(clippy::unwrap_used, reason = "tests")]

use ccm_core::node::ownership::Claim;
use ccm_fixtures::kubernetes::node;
use serde_json::{Value, json};

use super::*;

type Change = fn(&mut Value);

/// A target, and its changes, as the API server tells of them.
struct WatchedTarget {
    object: Value,
    store: NodeStore,
    filter: NodeChangeFilter,
    count: watch::Receiver<ChangeCount>,
}

impl WatchedTarget {
    fn new(difference: Change) -> WatchedTarget {
        let target = node("a").uid("u").resource_version("1").label("x", "y");
        let target = target.annotation("x", "y").provider_id("sim://1");
        let target = target.address("InternalIP", "10.0.0.1").ready();
        let mut object = target.json();
        difference(&mut object);
        let ownership = OwnershipContext::alone("sim", vec!["sim".to_owned()]);
        let (filter, count) = node_changes(Arc::new(ownership));
        let mut watched = WatchedTarget {
            object,
            store: NodeStore::default(),
            filter,
            count,
        };
        let listed = Event::InitApply(watched.node());
        for event in [Event::Init, listed, Event::InitDone] {
            watched.see(event);
        }
        watched
    }

    fn node(&self) -> Arc<PrunedNode> {
        Arc::new(serde_json::from_value(self.object.clone()).unwrap())
    }

    /// Whether providers see other targets after the event, and whether it begins a pass.
    fn see(&mut self, event: Event<Arc<PrunedNode>>) -> (bool, bool) {
        let before = self.count.borrow_and_update().changes;
        self.store.apply(&event);
        self.filter.see(&event, &self.store);
        let wakes = self.count.has_changed().unwrap();
        (self.count.borrow().changes != before, wakes)
    }

    /// The same, after this change.
    fn change(&mut self, change: Change) -> (bool, bool) {
        change(&mut self.object);
        self.see(Event::Apply(self.node()))
    }
}

const NOTHING: (bool, bool) = (false, false);
const IS_SEEN: (bool, bool) = (true, false);
const WAKES: (bool, bool) = (false, true);
const BOTH: (bool, bool) = (true, true);

#[test]
fn what_no_provider_sees_of_a_target_counts_for_nothing() {
    let table: [(&str, Change, (bool, bool)); 11] = [
        ("nothing", |_| {}, NOTHING),
        (
            "a report of the kubelet",
            |node| {
                node["metadata"]["resourceVersion"] = json!("2");
                let conditions = &mut node["status"]["conditions"];
                conditions[0]["lastTransitionTime"] = json!("2026-01-01T00:00:00Z");
            },
            NOTHING,
        ),
        (
            "a taint of another component",
            |node| node["spec"]["taints"] = json!([{ "key": "a", "effect": "NoSchedule" }]),
            NOTHING,
        ),
        (
            "an annotation",
            |node| node["metadata"]["annotations"]["x"] = json!("z"),
            IS_SEEN,
        ),
        (
            "a label",
            |node| node["metadata"]["labels"]["x"] = json!("z"),
            IS_SEEN,
        ),
        (
            "readiness",
            |node| node["status"]["conditions"][0]["status"] = json!("False"),
            IS_SEEN,
        ),
        (
            "a planned removal",
            |node| {
                let key = "ToBeDeletedByClusterAutoscaler";
                node["spec"]["taints"] = json!([{ "key": key, "effect": "NoSchedule" }]);
            },
            IS_SEEN,
        ),
        (
            "an exclusion",
            |node| {
                let key = "node.kubernetes.io/exclude-from-external-load-balancers";
                node["metadata"]["labels"][key] = json!("");
            },
            BOTH,
        ),
        (
            "another machine",
            |node| node["spec"]["providerID"] = json!("sim://2"),
            BOTH,
        ),
        (
            "another address",
            |node| node["status"]["addresses"][0]["address"] = json!("10.0.0.2"),
            BOTH,
        ),
        (
            "another provider's node",
            |node| node["metadata"]["labels"]["wasm-ccm.dev/provider"] = json!("east"),
            BOTH,
        ),
    ];
    for (what, change, expected) in table {
        assert_eq!(
            WatchedTarget::new(|_| {}).change(change),
            expected,
            "{what}"
        );
    }
}

#[test]
fn a_node_that_is_no_target_counts_for_nothing_but_an_address_and_its_end() {
    let no_machine: Change = |node| node["spec"]["providerID"] = json!("");
    let anothers: Change =
        |node| node["metadata"]["labels"]["wasm-ccm.dev/provider"] = json!("east");
    let target: Change = |_| {};
    let label: Change = |node| node["metadata"]["labels"]["x"] = json!("z");
    let address: Change = |node| node["status"]["addresses"][0]["address"] = json!("10.0.0.2");
    for (difference, change, changed, gone) in [
        (target, label, IS_SEEN, BOTH),
        (no_machine, label, NOTHING, WAKES),
        (no_machine, address, WAKES, WAKES),
        (anothers, address, NOTHING, NOTHING),
    ] {
        let mut watched = WatchedTarget::new(difference);
        assert_eq!(watched.change(change), changed);
        let node = watched.node();
        assert_eq!(watched.see(Event::Delete(node)), gone);
        // A list after a break of the watch shows that, too.
        let mut watched = WatchedTarget::new(difference);
        watched.see(Event::Init);
        assert_eq!(watched.see(Event::InitDone), gone);
    }
}

#[test]
fn another_set_of_providers_counts_only_if_a_target_changes_hands() {
    let claim = |name: &str, schemes: &[&str]| Claim {
        name: name.to_owned(),
        schemes: schemes.iter().map(|scheme| (*scheme).to_owned()).collect(),
        selector: None,
    };
    let among = |others: Vec<Claim>| {
        Arc::new(OwnershipContext {
            others,
            ..OwnershipContext::alone("sim", Vec::new())
        })
    };
    let mut watched = WatchedTarget::new(|_| {});
    for (others, is_other) in [
        (vec![claim("east", &["east"])], false),
        (vec![claim("east", &["sim"])], true),
        (vec![claim("east", &["sim", "east"])], false),
    ] {
        watched.count.mark_unchanged();
        watched.filter.reassign(among(others));
        assert_eq!(watched.count.has_changed().unwrap(), is_other);
    }
}
