//! State of a node between two reconciliations, and the filter for changes that need a new one. Keeps no node and
//! starts nothing.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;

use super::confirm::Proposal;
use super::effect::Looked;
use super::facts::{Facts, RetainedState};
use super::object::is_uninitialized;
use super::ownership::OwnershipContext;
use crate::moment::Moment;
use crate::reconciliation::conclusion::{Conclusion, Next};
use crate::reconciliation::effect::When;
use crate::reconciliation::own_write::OwnWrite;
use crate::reconciliation::retry;
use crate::settings::NodeRules;

/// Maximum age of a cloud answer when it is finally stored. A machine does not change in half a minute; and while the
/// API server restarts, the nodes need not ask the cloud again and again.
const FRESH: Duration = Duration::from_secs(30);

/// State of one node between reconciliations. After a restart it begins empty, which only costs calls.
#[derive(Debug, Default)]
pub struct NodeMemory {
    /// Fingerprint at the last wake-up; an equal one wakes nothing.
    fingerprint: Option<u64>,
    /// UID of the node that was reconciled last.
    uid: Option<String>,
    past: RetainedState,
    /// When this process first saw the taint on the node.
    tainted_since: Option<Moment>,
    /// The last obstacle, for logs.
    obstacle: Option<String>,
    last_write: LastWrite,
    /// An answer that could not be stored because the API server was unreachable, with its time and the node's UID.
    answer: Option<(Looked, Moment, Option<String>)>,
}

/// A node that has just been initialised.
#[derive(Debug)]
pub struct Initialised {
    /// The node without its taint.
    pub node: Arc<Node>,
    /// Time since this process first saw the taint.
    pub waited: Duration,
    /// The last obstacle, if there was one.
    pub obstacle: Option<String>,
    /// Number of reconciliations, from 1.
    pub attempts: u32,
}

/// Our last write of a node, and whether the cache has it.
#[derive(Debug, Default, Clone, Copy)]
enum LastWrite {
    /// There was no write, or the cache has it.
    #[default]
    Cached,
    /// The cache may be older than this write.
    Uncached(OwnWrite),
    /// The cache was older than this write, and the next turn only waits for it.
    Awaited(OwnWrite),
}

impl From<Option<OwnWrite>> for LastWrite {
    fn from(written: Option<OwnWrite>) -> LastWrite {
        written.map_or(LastWrite::Cached, LastWrite::Uncached)
    }
}

impl NodeMemory {
    /// Requests a check of the addresses by the periodic pass.
    pub fn wants_refresh(&mut self) {
        self.past.refresh = true;
        self.has_more_to_do();
    }

    /// Records that the next turn does more than wait for our own write.
    pub fn has_more_to_do(&mut self) {
        if let LastWrite::Awaited(written) = self.last_write {
            self.last_write = LastWrite::Uncached(written);
        }
    }

    /// Makes the next wake-up count as a change.
    pub fn reconsider(&mut self) {
        self.fingerprint = None;
    }

    /// Whether `node` differs from the last wake-up in a way that can change a decision.
    pub fn is_relevant_change(&mut self, node: &Node) -> bool {
        let fingerprint = Some(fingerprint(node));
        let is_relevant_change = self.fingerprint != fingerprint;
        self.fingerprint = fingerprint;
        if is_relevant_change {
            self.has_more_to_do();
        }
        is_relevant_change
    }

    /// Whether `node`, in which nothing of interest has changed, is our own write that the next turn waits for: then
    /// the turn has nothing to do. This holds for each new node, since its first write is seen while the second is on
    /// its way.
    pub fn has_caught_up(&mut self, node: &Node) -> bool {
        match self.last_write {
            LastWrite::Awaited(written) if !written.is_newer_than(&node.metadata) => {
                self.last_write = LastWrite::Cached;
                true
            }
            LastWrite::Awaited(_) | LastWrite::Uncached(_) | LastWrite::Cached => false,
        }
    }

    /// How long a reconciliation must wait because the cache does not have our last write yet: it would ask the
    /// provider about work already done.
    pub fn waits_for_cache(&mut self, cached: &Node, now: Moment) -> Option<Moment> {
        let (LastWrite::Uncached(written) | LastWrite::Awaited(written)) = self.last_write else {
            return None;
        };
        let expires_at = written.expires_at();
        if !written.is_newer_than(&cached.metadata) || now >= expires_at {
            self.last_write = LastWrite::Cached;
            return None;
        }
        let has_more_to_do = self.past.refresh || self.past.failures > 0;
        self.last_write = match has_more_to_do || self.fingerprint.is_none() {
            true => LastWrite::Uncached(written),
            false => LastWrite::Awaited(written),
        };
        Some(expires_at)
    }

    /// The initial facts of a reconciliation of `node`.
    pub fn facts(
        &mut self,
        node: Arc<Node>,
        ownership: Arc<OwnershipContext>,
        rules: Arc<NodeRules>,
        now: Moment,
    ) -> Facts {
        // A node that was made again under the same name while the watch was interrupted does not inherit a backoff.
        if self.uid != node.metadata.uid {
            self.uid.clone_from(&node.metadata.uid);
            self.past = RetainedState {
                refresh: self.past.refresh,
                ..RetainedState::default()
            };
            self.tainted_since = None;
            self.obstacle = None;
        }
        if is_uninitialized(&node) {
            self.tainted_since.get_or_insert(now);
        }
        self.answer
            .take_if(|(_, at, uid)| at.after(FRESH) < now || *uid != node.metadata.uid);
        let mut facts = Facts::new(node, ownership, rules, self.past.clone());
        if let Some((answer, _, _)) = &self.answer {
            facts.recall(answer.clone());
        }
        facts
    }

    /// Stores the result of a reconciliation. Returns when the next one is due, and the initialisation if the node has
    /// lost its taint.
    pub fn conclude(
        &mut self,
        conclusion: Conclusion<Facts, Option<Proposal>>,
        now: Moment,
    ) -> (Next, Option<Initialised>) {
        let facts = conclusion.facts;
        if conclusion.has_written {
            self.last_write = OwnWrite::new(&facts.node.metadata, now).into();
            self.fingerprint = Some(fingerprint(&facts.node));
        }
        match facts.unstored_answer() {
            // A stored answer keeps its age.
            Some(answer) => {
                let uid = facts.node.metadata.uid.clone();
                self.answer
                    .get_or_insert_with(|| (answer.clone(), now, uid));
            }
            None => self.answer = None,
        }
        if let Some(next) = conclusion.retained {
            let before = self.past.proposal.take();
            let before = before.filter(|(before, _)| *before == next);
            self.past.proposal = before.or(Some((next, now)));
        }
        self.past.is_unanswered = facts.is_unanswered();
        self.past.reservation = facts.reservation(now);
        let initialised = self.initialised(facts.node, now);
        let next = match conclusion.when {
            When::AwaitChange => self.has_ended(None),
            When::Blocked { why } => self.has_ended(Some(why)),
            When::Retry { after, why } => {
                self.has_failed(now, why);
                Next::At(now.after(after))
            }
            When::NotBefore { after, why } => {
                self.has_failed(now, why);
                Next::NotBefore(now.after(after))
            }
        };
        (next, initialised)
    }

    /// Stores that the reconciliation panicked. Returns when the next one is due.
    pub fn abandon(&mut self, now: Moment) -> Next {
        let after = retry::CLOUD.after(self.past.failures.saturating_add(1));
        self.has_failed(now, "the last reconciliation panicked".to_owned());
        Next::At(now.after(after))
    }

    fn has_ended(&mut self, obstacle: Option<String>) -> Next {
        self.past.failures = 0;
        self.past.waiting_since = None;
        self.past.refresh = false;
        self.obstacle = obstacle;
        Next::OnChange
    }

    fn has_failed(&mut self, now: Moment, obstacle: String) {
        self.past.failures = self.past.failures.saturating_add(1);
        self.past.waiting_since.get_or_insert(now);
        self.obstacle = Some(obstacle);
    }

    /// The initialisation, once `node` has lost its taint.
    fn initialised(&mut self, node: Arc<Node>, now: Moment) -> Option<Initialised> {
        if is_uninitialized(&node) {
            return None;
        }
        Some(Initialised {
            node,
            waited: self.tainted_since.take()?.until(now),
            obstacle: self.obstacle.take(),
            attempts: self.past.failures.saturating_add(1),
        })
    }
}

/// Hash of the parts of a node that can change a decision. Heartbeats, conditions and images cannot. For initialised
/// nodes, neither can annotations and addresses, which the periodic pass checks (NODE-012, NODE-060).
fn fingerprint(node: &Node) -> u64 {
    let mut hasher = DefaultHasher::new();
    let metadata = &node.metadata;
    metadata.uid.hash(&mut hasher);
    metadata.labels.hash(&mut hasher);
    if let Some(spec) = &node.spec {
        spec.provider_id.hash(&mut hasher);
        for taint in spec.taints.iter().flatten() {
            (&taint.key, &taint.value, &taint.effect).hash(&mut hasher);
        }
    }
    if is_uninitialized(node) {
        metadata.annotations.hash(&mut hasher);
        let status = node.status.as_ref();
        for one in status
            .and_then(|status| status.addresses.as_ref())
            .into_iter()
            .flatten()
        {
            (&one.type_, &one.address).hash(&mut hasher);
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use super::*;
    use crate::cloud::instance::Lookup;
    use crate::node::index::Clashes;
    use serde_json::{Value, json};

    fn node(change: fn(&mut Value)) -> Node {
        let mut node = json!({
            "metadata": { "name": "a", "uid": "u", "resourceVersion": "5", "labels": { "l": "1" } },
            "spec": { "taints": [{ "key": "k", "effect": "NoSchedule" }] },
            "status": { "addresses": [{ "type": "Hostname", "address": "a" }] }
        });
        change(&mut node);
        serde_json::from_value(node).unwrap()
    }

    const TAINT: &str = "node.cloudprovider.kubernetes.io/uninitialized";

    #[test]
    fn only_what_can_change_a_decision_is_news() {
        type Change = fn(&mut Value);
        let changes: [(Change, bool); 7] = [
            (
                |node| node["metadata"]["resourceVersion"] = json!("6"),
                false,
            ),
            (
                |node| {
                    node["status"]["conditions"] = json!([{ "type": "Ready", "status": "True" }])
                },
                false,
            ),
            (
                |node| node["metadata"]["annotations"] = json!({ "x": "y" }),
                false,
            ),
            (|node| node["metadata"]["uid"] = json!("v"), true),
            (|node| node["metadata"]["labels"]["l"] = json!("2"), true),
            (|node| node["spec"]["providerID"] = json!("sim://1"), true),
            (
                |node| node["spec"]["taints"] = json!([{ "key": TAINT, "effect": "NoSchedule" }]),
                true,
            ),
        ];
        for (index, (change, is_relevant_change)) in changes.into_iter().enumerate() {
            let mut memory = NodeMemory::default();
            assert!(
                memory.is_relevant_change(&node(|_| {})),
                "the first look is news"
            );
            assert_eq!(
                memory.is_relevant_change(&node(change)),
                is_relevant_change,
                "change {index}"
            );
            assert!(
                !memory.is_relevant_change(&node(change)),
                "change {index} again"
            );
        }
    }

    #[test]
    fn annotations_and_addresses_are_news_while_a_node_waits() {
        let taint = |node: &mut Value| node["spec"]["taints"][0]["key"] = json!(TAINT);
        let mut memory = NodeMemory::default();
        memory.is_relevant_change(&node(taint));
        assert!(memory.is_relevant_change(&node(|node| {
            node["spec"]["taints"][0]["key"] = json!(TAINT);
            node["metadata"]["annotations"] =
                json!({ "alpha.kubernetes.io/provided-node-ip": "10.0.0.1" });
        })));
        assert!(memory.is_relevant_change(&node(|node| {
            node["spec"]["taints"][0]["key"] = json!(TAINT);
            node["status"]["addresses"][0]["address"] = json!("b");
        })));
    }

    #[test]
    fn a_node_that_was_made_again_while_the_watch_was_interrupted_begins_anew() {
        let ownership = Arc::new(OwnershipContext::alone("sim", vec!["sim".to_owned()]));
        let rules = Arc::new(NodeRules::default());
        let at = |seconds| Moment(Duration::from_secs(seconds));
        let taint = |node: &mut Value| node["spec"]["taints"][0]["key"] = json!(TAINT);
        let again = |node: &mut Value| {
            node["spec"]["taints"][0]["key"] = json!(TAINT);
            node["metadata"]["uid"] = json!("v");
        };
        let mut memory = NodeMemory::default();
        let mut facts = |node: Node, now| {
            memory.is_relevant_change(&node);
            let node = Arc::new(node);
            let facts = memory.facts(node, ownership.clone(), rules.clone(), at(now));
            let past = facts.past.clone();
            let conclusion = Conclusion {
                facts,
                when: When::Retry {
                    after: Duration::from_secs(1),
                    why: "not listed".to_owned(),
                },
                retained: None,
                has_written: false,
            };
            memory.conclude(conclusion, at(now));
            past
        };
        facts(node(taint), 0);
        let past = facts(node(taint), 1);
        assert_eq!((past.failures, past.waiting_since), (1, Some(at(0))));
        let past = facts(node(again), 900);
        assert_eq!(past, RetainedState::default());
        let past = facts(node(again), 901);
        assert_eq!((past.failures, past.waiting_since), (1, Some(at(900))));
    }

    #[test]
    fn an_answer_that_could_not_be_stored_is_recalled_for_half_a_minute_and_for_the_same_node() {
        let at = |seconds| Moment(Duration::from_secs(seconds));
        let ownership = Arc::new(OwnershipContext::alone("sim", Vec::new()));
        let answer = Looked {
            lookup: Lookup::Gone,
            events: Vec::new(),
            complete: true,
            clashes: Clashes::default(),
        };
        for (uid, now, is_recalled) in [
            ("u", 100, true),
            ("u", 130, true),
            ("u", 131, false),
            ("v", 100, false),
        ] {
            let mut memory = NodeMemory {
                answer: Some((answer.clone(), at(100), Some(uid.to_owned()))),
                ..NodeMemory::default()
            };
            let node = Arc::new(node(|_| {}));
            let rules = Arc::new(NodeRules::default());
            let facts = memory.facts(node.clone(), ownership.clone(), rules.clone(), at(now));
            let unknowing = NodeMemory::default().facts(node, ownership.clone(), rules, at(now));
            assert_eq!(facts != unknowing, is_recalled, "{uid} at {now}");
        }
    }

    #[test]
    fn a_reconciliation_that_panics_is_held_again() {
        let mut memory = NodeMemory::default();
        let now = Moment(Duration::from_secs(100));
        let next = memory.abandon(now);
        assert_eq!(memory.past.failures, 1);
        assert_eq!(next, Next::At(now.after(Duration::from_secs(1))));
    }

    #[test]
    fn a_cache_that_is_behind_our_own_write_is_waited_for_and_not_for_ever() {
        let at = |seconds| Moment(Duration::from_secs(seconds));
        let cached = node(|_| {});
        let written = |version: u64| {
            let mut answered = cached.metadata.clone();
            answered.resource_version = Some(version.to_string());
            NodeMemory {
                last_write: OwnWrite::new(&answered, at(100)).into(),
                ..NodeMemory::default()
            }
        };
        assert_eq!(written(5).waits_for_cache(&cached, at(100)), None);
        assert_eq!(written(6).waits_for_cache(&cached, at(109)), Some(at(110)));
        assert_eq!(written(6).waits_for_cache(&cached, at(110)), None);
        assert_eq!(NodeMemory::default().waits_for_cache(&cached, at(1)), None);
    }

    #[test]
    fn a_turn_that_only_waits_for_our_own_write_ends_when_the_write_is_seen() {
        type Change = fn(&mut NodeMemory);
        let version = |version: u64, label: &str| {
            let mut seen = node(|_| {});
            seen.metadata.resource_version = Some(version.to_string());
            seen.metadata.labels = Some([("l".to_owned(), label.to_owned())].into());
            seen
        };
        let table: [(&str, Change, u64, bool); 6] = [
            ("the write itself", |_| {}, 7, true),
            ("a later heartbeat", |_| {}, 8, true),
            ("still older", |_| {}, 6, false),
            ("a pass wants it, too", NodeMemory::wants_refresh, 7, false),
            (
                "it failed before",
                |memory| memory.past.failures = 1,
                7,
                false,
            ),
            ("others ask for it", NodeMemory::reconsider, 7, false),
        ];
        for (what, change, seen, expected) in table {
            let now = Moment(Duration::from_secs(100));
            let mut memory = NodeMemory {
                last_write: OwnWrite::new(&version(7, "1").metadata, now).into(),
                ..NodeMemory::default()
            };
            memory.is_relevant_change(&version(7, "1"));
            change(&mut memory);
            assert!(memory.waits_for_cache(&version(5, "1"), now).is_some());
            let seen = version(seen, "1");
            let has_caught_up = !memory.is_relevant_change(&seen) && memory.has_caught_up(&seen);
            assert_eq!(has_caught_up, expected, "{what}");
            assert!(!memory.has_caught_up(&seen), "{what}: once");
            // A change by another writer needs a turn.
            assert!(memory.is_relevant_change(&version(9, "2")), "{what}");
            assert!(!memory.has_caught_up(&version(9, "2")), "{what}");
        }
    }
}
