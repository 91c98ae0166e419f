//! For any sequence of node changes, failed writes and changes of the leader: no two nodes get the same block, and no
//! block is lost.
//!
//! The world: an API server, a late watch, reconciliations that have reached any step, and writes in flight. The tenure
//! guarantees that the last writes of an earlier leader arrive before the next one has settled, perhaps after the next
//! one's list; and by then the watch has delivered them (`settle` in the settings).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use ipnet::IpNet;
use proptest::collection::vec;
use proptest::prelude::*;

use super::world::*;
use crate::ipam::{CidrSet, Facts, Holder, IpamEffect, IpamOutcome, Memory, decide, pod_cidrs};
use crate::node::object::PrunedNode;
use crate::reconciliation::effect::{Decision, Performed, When};
use crate::reconciliation::patch::PodCidrsPatch;
use crate::settings::IpamSettings;

/// Seven blocks of IPv4 besides that of the Services, and four of IPv6: fewer than there are nodes.
const FAMILIES: &str = "10.0.0.0/27 /30,fd00::/62 /64";
const SERVICES: &str = "10.0.0.4/30,fd01::/112";
const NAMES: u8 = 6;

#[derive(Debug, Clone)]
enum Step {
    Create(u8),
    /// A node is created with pod CIDRs that another writer has given it.
    CreateWith(u8, &'static str),
    /// One of the existing nodes is deleted.
    Delete(u8),
    /// The watch delivers this many changes.
    Deliver(u8),
    /// A reconciliation begins for one of the nodes that the leader knows.
    Begin(u8),
    /// The next effect of one of the reconciliations is performed.
    Act(u8, Fate),
    /// The write of one of them stays in flight, and its answer is not awaited any more.
    Delay(u8),
    /// One of the writes in flight arrives.
    Land(u8),
    /// Another process becomes leader and lists all nodes; the writes of this one are in flight.
    Change,
    /// So much time passes after the list that every write of the earlier leader has arrived, or never will.
    Settle,
}

fn step() -> impl Strategy<Value = Step> {
    let fate = prop_oneof![
        5 => Just(Fate::Made),
        1 => Just(Fate::Refused),
        1 => Just(Fate::Lost),
        1 => Just(Fate::AnswerLost),
    ];
    let odd = prop_oneof![
        Just("192.168.0.0/24"),
        Just("nonsense"),
        Just("fd00:1::/64,10.9.0.0/30"),
        Just("10.0.0.4/30")
    ];
    prop_oneof![
        6 => (0..NAMES).prop_map(Step::Create),
        1 => (0..NAMES, odd).prop_map(|(name, cidrs)| Step::CreateWith(name, cidrs)),
        3 => any::<u8>().prop_map(Step::Delete),
        6 => (1..6_u8).prop_map(Step::Deliver),
        10 => any::<u8>().prop_map(Step::Begin),
        12 => (any::<u8>(), fate).prop_map(|(which, fate)| Step::Act(which, fate)),
        3 => any::<u8>().prop_map(Step::Delay),
        2 => any::<u8>().prop_map(Step::Land),
        1 => Just(Step::Change),
        3 => Just(Step::Settle),
    ]
}

struct World {
    settings: IpamSettings,
    api: Api,
    uids: u32,
    /// UIDs of nodes with pod CIDRs from another writer.
    odd: BTreeSet<String>,
    memory: Memory,
    is_settled: bool,
    /// The leader's cache, and the changes that the watch has not delivered yet.
    cache: BTreeMap<String, Arc<PrunedNode>>,
    changes: VecDeque<(String, Option<Arc<PrunedNode>>)>,
    running: BTreeMap<String, Facts>,
    on_the_way: Vec<(String, PodCidrsPatch)>,
}

fn name(number: u8) -> String {
    format!("n{number}")
}

/// Picks one of the names.
fn pick<'a>(names: impl Iterator<Item = &'a String>, which: u8) -> Option<String> {
    let names: Vec<&String> = names.collect();
    let which = usize::from(which).checked_rem(names.len())?;
    names.get(which).map(|name| (*name).clone())
}

impl World {
    fn new() -> World {
        let settings = settings(FAMILIES, SERVICES);
        World {
            memory: Memory::new(&settings).unwrap(),
            settings,
            api: Api::default(),
            uids: 0,
            odd: BTreeSet::new(),
            is_settled: true,
            cache: BTreeMap::new(),
            changes: VecDeque::new(),
            running: BTreeMap::new(),
            on_the_way: Vec::new(),
        }
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Create(number) => self.create(&name(*number), ""),
            Step::CreateWith(number, cidrs) => self.create(&name(*number), cidrs),
            Step::Delete(which) => {
                if let Some(name) = pick(self.api.nodes.keys(), *which) {
                    self.api.nodes.remove(&name);
                    self.changes.push_back((name, None));
                }
            }
            Step::Deliver(count) => (0..*count).for_each(|_| self.deliver()),
            Step::Begin(which) => {
                let idle = self
                    .cache
                    .keys()
                    .filter(|name| !self.running.contains_key(*name));
                if let Some(name) = pick(idle, *which) {
                    self.begin(&name);
                }
            }
            Step::Act(which, fate) => {
                if let Some(name) = pick(self.running.keys(), *which) {
                    self.act(&name, *fate);
                }
            }
            Step::Delay(which) => {
                if let Some(name) = pick(self.running.keys(), *which) {
                    self.delay(&name);
                }
            }
            Step::Land(which) => {
                if !self.on_the_way.is_empty() {
                    let which = usize::from(*which) % self.on_the_way.len();
                    let (name, patch) = self.on_the_way.remove(which);
                    self.land(&name, &patch);
                }
            }
            Step::Change => self.change_leader(),
            Step::Settle => self.settle(),
        }
    }

    fn create(&mut self, name: &str, cidrs: &str) {
        if self.api.nodes.contains_key(name) {
            return;
        }
        self.uids += 1;
        let uid = format!("u{}", self.uids);
        if !cidrs.is_empty() {
            self.odd.insert(uid.clone());
        }
        self.api.add(node(name, &uid, cidrs));
        self.changed(name);
    }

    /// The watch will deliver the change.
    fn changed(&mut self, name: &str) {
        self.changes
            .push_back((name.to_owned(), self.api.get(name)));
    }

    fn deliver(&mut self) {
        match self.changes.pop_front() {
            Some((name, Some(node))) => {
                self.memory.see(&node);
                self.cache.insert(name, node);
            }
            Some((name, None)) => {
                self.cache.remove(&name);
                self.memory.forget(&name);
                // A second call frees no block of another node.
                self.memory.forget(&name);
            }
            None => {}
        }
    }

    fn begin(&mut self, name: &str) {
        if !self.is_settled || self.running.contains_key(name) {
            return;
        }
        let facts = self
            .cache
            .get(name)
            .and_then(|node| self.memory.begin(node.clone()));
        if let Some(facts) = facts {
            self.running.insert(name.to_owned(), facts);
        }
    }

    fn act(&mut self, name: &str, fate: Fate) {
        let Some(mut facts) = self.running.remove(name) else {
            return;
        };
        match decide(&facts) {
            Decision::Done(when) => self.conclude(&facts, &when),
            Decision::Do(effects) => {
                for effect in &effects {
                    let outcome = self.api.perform(effect, fate);
                    facts.absorb(effect, outcome);
                    if matches!(effect, IpamEffect::Patch(..)) {
                        self.changed(name);
                    }
                }
                self.running.insert(name.to_owned(), facts);
            }
        }
    }

    fn conclude(&mut self, facts: &Facts, when: &When) {
        self.memory.conclude(facts, when);
    }

    fn delay(&mut self, name: &str) {
        let Some(facts) = self.running.get_mut(name) else {
            return;
        };
        if let Decision::Do(effects) = decide(facts)
            && let [effect @ IpamEffect::Patch(_, patch)] = effects.as_slice()
        {
            self.on_the_way.push((name.to_owned(), patch.clone()));
            facts.absorb(effect, Performed::Ended(IpamOutcome::Node(lost_answer())));
        }
    }

    fn land(&mut self, name: &str, patch: &PodCidrsPatch) {
        if matches!(self.api.patch(name, patch), Ok(Some(_))) {
            self.changed(name);
        }
    }

    /// Also a crash: only the state of the API server is left.
    fn change_leader(&mut self) {
        // The writes of the leader before the last one have all arrived: the last one has settled, or not begun.
        if !self.is_settled {
            self.settle();
        }
        let names: Vec<String> = self.running.keys().cloned().collect();
        names.iter().for_each(|name| self.delay(name));
        self.running.clear();
        self.changes.clear();
        self.memory = Memory::new(&self.settings).unwrap();
        self.cache = self.api.nodes.clone();
        for node in self.cache.values() {
            self.memory.see(node);
        }
        self.is_settled = false;
    }

    fn settle(&mut self) {
        if self.is_settled {
            return;
        }
        for (index, (name, patch)) in std::mem::take(&mut self.on_the_way).into_iter().enumerate() {
            // Some writes are lost.
            if index % 3 != 2 {
                self.land(&name, &patch);
            }
        }
        while !self.changes.is_empty() {
            self.deliver();
        }
        self.is_settled = true;
    }

    /// No failure happens any more, and every node gets a free block.
    fn heal(&mut self) {
        self.settle();
        for (name, patch) in std::mem::take(&mut self.on_the_way) {
            self.land(&name, &patch);
        }
        // A reconciliation ends after a few effects, and its result may require another one.
        for _ in 0..40 {
            while !self.changes.is_empty() {
                self.deliver();
            }
            for number in 0..NAMES {
                self.begin(&name(number));
                self.act(&name(number), Fate::Made);
            }
        }
        for number in 0..NAMES {
            for _ in 0..20 {
                self.act(&name(number), Fate::Made);
            }
        }
        while !self.changes.is_empty() {
            self.deliver();
        }
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let services: &[IpNet] = &self.settings.service_cidrs;
        let mut seen: Vec<(&str, bool, IpNet)> = Vec::new();
        for (name, node) in &self.api.nodes {
            let is_odd = self.odd.contains(node.uid());
            let cidrs = pod_cidrs(node);
            if !is_odd && !cidrs.is_empty() {
                prop_assert_eq!(cidrs.len(), 2, "one of each range: {:?}", cidrs);
            }
            for (index, text) in cidrs.iter().enumerate() {
                let Ok(cidr) = text.parse::<IpNet>() else {
                    continue;
                };
                let overlaps = |other: &IpNet| other.contains(&cidr) || cidr.contains(other);
                if !is_odd {
                    prop_assert!(!services.iter().any(overlaps), "{} is the Services'", cidr);
                    let range = self.settings.families[index].cluster_cidr;
                    prop_assert!(range.contains(&cidr), "{} is not of {}", cidr, range);
                }
                for (other, is_other_odd, theirs) in &seen {
                    let both_odd = is_odd && *is_other_odd;
                    prop_assert!(
                        both_odd || !overlaps(theirs),
                        "{} and {} have {}",
                        name,
                        other,
                        cidr
                    );
                }
                seen.push((name, is_odd, cidr));
            }
        }
        // Every pod CIDR in the leader's cache counts as used.
        for set in self.memory.allocator().families() {
            // A read may have shown already that a node is gone, before the watch delivers it.
            let is_there = |node: &&Arc<PrunedNode>| {
                let there = self.api.nodes.get(node.name());
                there.is_some_and(|there| there.uid() == node.uid())
            };
            for node in self.cache.values().filter(is_there) {
                let cidrs = pod_cidrs(node)
                    .iter()
                    .filter_map(|text| text.parse::<IpNet>().ok());
                for cidr in cidrs.filter(|cidr| set.span(cidr).is_some()) {
                    let nobody = Holder::Node {
                        name: "".into(),
                        uid: "".into(),
                    };
                    prop_assert!(
                        !set.other_holders(&cidr, &nobody).is_empty(),
                        "nobody holds {}",
                        cidr
                    );
                }
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(250))]

    #[test]
    fn no_two_nodes_overlap_and_nothing_leaks(steps in vec(step(), 1..160)) {
        let mut world = World::new();
        for step in &steps {
            world.take(step);
            world.check()?;
        }
        world.heal();
        world.check()?;
        let sets = world.memory.allocator().families();
        let is_full = sets.iter().any(|set| set.used() == set.size());
        for (family, set) in sets.iter().enumerate() {
            prop_assert_eq!(set.used(), world.api.used(&world.settings, family), "{:?}", world.api);
        }
        for (name, node) in &world.api.nodes {
            prop_assert!(is_full || !pod_cidrs(node).is_empty(), "{} has nothing, and there is room", name);
        }
    }

    #[test]
    fn ipam_040_while_others_are_free_none_comes_twice(taken in vec(0..64_usize, 0..60)) {
        let mut set = CidrSet::new("10.0.0.0/24".parse().unwrap(), 30).unwrap();
        let other = Holder::Services;
        for index in taken {
            let block = set.block(index).unwrap();
            set.occupy(&block, &other);
        }
        let holder = Holder::Node { name: "a".into(), uid: "a".into() };
        let mut seen = BTreeSet::new();
        for _ in set.used()..set.size() {
            let block = set.allocate(&holder).unwrap().block;
            prop_assert!(seen.insert(block), "{} again", block);
            set.release(&block, &holder);
        }
    }
}
