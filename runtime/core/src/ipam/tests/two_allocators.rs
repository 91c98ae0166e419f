//! With kube-controller-managers that come, allocate or not, and go, however slow all processes are: no two nodes
//! overlap, every node gets pod CIDRs in the end, and each change is reported once.
//!
//! Assumptions: a kube-controller-manager renews its Lease every 2 s and lists the nodes at the earliest 2 s after it
//! has taken the Lease; it serves one of the waiting nodes within 3 s. A watch is at most a second late, and a request
//! takes at most half a second. The clocks of the cluster agree. A kube-controller-manager without leader election does
//! not start while ours allocates.

mod kube_controller_manager;
mod ours;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use proptest::collection::vec;
use proptest::prelude::*;

use super::world::{self, Api};
use crate::ipam::other_allocator::{
    AllocationState, AllocatorChange, GoneCondition, LeaseAnswer, OtherAllocator, Question, Writer,
    WriterAnswer,
};
use crate::ipam::{Facts, IpamEffect, IpamOutcome, Memory, decide, pod_cidrs};
use crate::moment::Moment;
use crate::node::object::PrunedNode;
use crate::reconciliation::effect::{Decision, Performed, When};
use crate::reconciliation::patch::PodCidrsPatch;
use crate::settings::OtherAllocatorRules;
use kube_controller_manager::Controller;
use ours::Ours;

const TICK: u64 = 50;
const KCM: &str = "kube-controller-manager";
/// 128 blocks are enough for all nodes: another test covers an allocator without a free block, which rarely retries.
const FAMILY: &str = "10.0.0.0/24 /31";
const MOST_NODES: usize = 120;
/// How long this manager waits for the writes of an earlier leader.
const SETTLE: u64 = 5_000;

#[derive(Debug, Clone)]
enum Step {
    /// This many nodes join at the same moment.
    Join(u8),
    Delete(u8),
    /// A kube-controller-manager joins the election, with `--allocate-node-cidrs` or without.
    Start(bool),
    /// One of the kube-controller-managers ends, and releases its Lease or not.
    End(u8, bool),
    /// Another process of this manager becomes leader.
    Restart,
}

fn step() -> impl Strategy<Value = (u64, Step)> {
    let what = prop_oneof![
        5 => (1..20_u8).prop_map(Step::Join),
        2 => any::<u8>().prop_map(Step::Delete),
        3 => any::<bool>().prop_map(Step::Start),
        3 => (any::<u8>(), any::<bool>()).prop_map(|(which, releases)| Step::End(which, releases)),
        1 => Just(Step::Restart),
    ];
    let pause = prop_oneof![Just(0_u64), 0..3_000_u64, 3_000..90_000_u64];
    (pause, what)
}

/// A late view of the nodes.
#[derive(Default)]
struct Late {
    changes: Vec<(u64, String, Option<Arc<PrunedNode>>)>,
}

impl Late {
    /// Takes the changes that have arrived by now, in order.
    fn arrived(&mut self, now: u64) -> Vec<(String, Option<Arc<PrunedNode>>)> {
        let count = self
            .changes
            .iter()
            .take_while(|(at, ..)| *at <= now)
            .count();
        let arrived = self.changes.drain(..count);
        arrived.map(|(_, name, node)| (name, node)).collect()
    }
}

struct World {
    now: u64,
    random: u64,
    api: Api,
    writers: BTreeMap<String, (Writer, Timestamp)>,
    lease: Option<LeaseSpec>,
    controllers: Vec<Controller>,
    ours: Ours,
    /// Writes in flight: time of arrival, writer, node and patch.
    writes: Vec<(u64, Writer, String, PodCidrsPatch)>,
    nodes: usize,
    processes: usize,
    is_without_election: bool,
    is_careless: bool,
}

fn moment(now: u64) -> Moment {
    Moment(Duration::from_millis(now))
}

fn wall(now: u64) -> Timestamp {
    let since = SignedDuration::from_millis(i64::try_from(now).unwrap());
    Timestamp::UNIX_EPOCH + since
}

impl World {
    fn new(seed: u64, without_election: bool, is_careless: bool) -> World {
        let mut world = World {
            now: 1_000_000,
            random: seed | 1,
            api: Api::default(),
            writers: BTreeMap::new(),
            lease: None,
            controllers: Vec::new(),
            ours: Ours::new(1_000_000),
            writes: Vec::new(),
            nodes: 0,
            processes: 0,
            is_without_election: without_election,
            is_careless,
        };
        if without_election {
            world.start(true, false);
        }
        world.lead();
        world
    }

    /// A random number of at most `most` milliseconds.
    fn up_to(&mut self, most: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % (most + 1)
    }

    fn changed(&mut self, name: &str) {
        let node = self.api.get(name);
        let now = self.now;
        let mut late: Vec<&mut Late> = vec![&mut self.ours.late];
        late.extend(self.controllers.iter_mut().map(|one| &mut one.late));
        let mut random = self.random;
        for late in late {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let earliest = late.changes.last().map_or(0, |(at, ..)| *at);
            let at = earliest.max(now + (random >> 33) % 1_000);
            late.changes.push((at, name.to_owned(), node.clone()));
        }
    }

    fn start(&mut self, allocates: bool, has_election: bool) {
        self.processes += 1;
        let lists_at = (!has_election).then_some(self.now);
        self.controllers.push(Controller {
            identity: format!("kcm-{}", self.processes),
            allocates,
            has_election,
            is_leader: !has_election,
            tries_at: self.now,
            seen: None,
            lists_at,
            late: Late::default(),
            nodes: BTreeMap::new(),
            serves_at: 0,
        });
    }

    /// A process of this manager begins with the state of the API server.
    fn lead(&mut self) {
        self.ours = Ours::new(self.now);
        self.ours.cache = self.api.nodes.clone();
        for (name, node) in &self.ours.cache {
            self.ours.memory.see(node);
            self.ours.queue.insert(name.clone());
            if pod_cidrs(node).is_empty() {
                let uid = node.uid();
                self.ours.other.waits(name, uid, moment(self.now));
            }
        }
        let with = self
            .ours
            .cache
            .iter()
            .filter(|(_, node)| !pod_cidrs(node).is_empty());
        let youngest = with.max_by_key(|(name, _)| self.writers[*name].1);
        let youngest = youngest.map(|(name, _)| name.clone());
        self.ours.other.begin(youngest);
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Join(count) => {
                for _ in 0..*count {
                    if self.nodes < MOST_NODES {
                        self.nodes += 1;
                        let name = format!("n{:03}", self.nodes);
                        self.api.add(world::node(&name, &name, ""));
                        self.writers
                            .insert(name.clone(), (Writer::None, wall(self.now)));
                        self.changed(&name);
                    }
                }
            }
            Step::Delete(which) => {
                let count = self.api.nodes.len();
                let which = usize::from(*which).checked_rem(count);
                let name = which.and_then(|which| self.api.nodes.keys().nth(which).cloned());
                if let Some(name) = name {
                    self.api.nodes.remove(&name);
                    self.changed(&name);
                }
            }
            // A cluster has kube-controller-managers with election, or a single one without.
            Step::Start(allocates) if !self.is_without_election => self.start(*allocates, true),
            Step::Start(_) => {}
            Step::End(which, releases) => {
                if let Some(which) = usize::from(*which).checked_rem(self.controllers.len()) {
                    let gone = self.controllers.remove(which);
                    if let Some(lease) = self.lease.as_mut().filter(|_| *releases && gone.is_leader)
                        && lease.holder_identity.as_ref() == Some(&gone.identity)
                    {
                        lease.holder_identity = Some(String::new());
                    }
                }
            }
            Step::Restart => self.lead(),
        }
    }

    fn run(&mut self, time: u64) -> Result<(), TestCaseError> {
        let ends = self.now + time;
        while self.now < ends {
            self.now += TICK;
            self.land()?;
            for index in 0..self.controllers.len() {
                self.elect(index);
                self.control(index);
            }
            self.lead_on()?;
        }
        Ok(())
    }

    /// Performs the writes that have arrived by now.
    fn land(&mut self) -> Result<(), TestCaseError> {
        let now = self.now;
        let (landing, later) = std::mem::take(&mut self.writes)
            .into_iter()
            .partition(|(at, ..)| *at <= now);
        self.writes = later;
        let landing: Vec<(u64, Writer, String, PodCidrsPatch)> = landing;
        for (_, writer, name, patch) in landing {
            let had = self
                .api
                .get(&name)
                .is_some_and(|node| !pod_cidrs(&node).is_empty());
            let result = self.api.patch(&name, &patch);
            if matches!(result, Ok(Some(_))) && !had {
                self.writers.get_mut(&name).unwrap().0 = writer.clone();
                self.changed(&name);
                self.check(&name)?;
            }
            if writer == Writer::Ours
                && let Some(facts) = self.ours.running.get_mut(&name)
            {
                let node = facts.node.node_ref();
                let performed = Performed::Ended(IpamOutcome::Node(result));
                facts.absorb(&IpamEffect::Patch(node, patch), performed);
            }
        }
        Ok(())
    }

    fn check(&self, name: &str) -> Result<(), TestCaseError> {
        let given = pod_cidrs(&self.api.nodes[name]);
        for (other, node) in self.api.nodes.iter().filter(|(other, _)| *other != name) {
            prop_assert!(
                pod_cidrs(node) != given,
                "{} ({:?}) and {} ({:?}) have {:?}; ours: {:?}",
                name,
                self.writers[name].0,
                other,
                self.writers[other].0,
                given,
                self.ours.other.state()
            );
        }
        Ok(())
    }
}

/// Shows that allocators collide in this world unless they watch.
#[test]
fn an_allocator_that_does_not_watch_is_caught() {
    let caught = (0..20).filter(|seed| {
        let mut world = World::new(*seed, false, true);
        world.take(&Step::Join(100));
        world.take(&Step::Start(true));
        world.run(20_000).is_err()
    });
    assert!(caught.count() > 10);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn two_allocators_never_give_two_nodes_the_same(
        seed in any::<u64>(),
        without_election in prop::bool::weighted(0.2),
        steps in vec(step(), 1..25),
    ) {
        let mut world = World::new(seed, without_election, false);
        for (pause, step) in &steps {
            world.run(*pause)?;
            world.take(step);
        }
        // Longer than the longest wait for another allocator.
        world.run(400_000)?;
        for (name, node) in &world.api.nodes {
            prop_assert!(
                !pod_cidrs(node).is_empty(),
                "{} has nothing: {:?}", name, world.ours.other
            );
        }
        // A manager that stands back does so for a process that exists.
        if let AllocationState::StandingBack { evidence, .. } = world.ours.other.state()
            && let GoneCondition::Holder(holder) = &evidence.condition
        {
            let holder = world.controllers.iter().find(|one| one.identity == *holder);
            prop_assert!(holder.is_none_or(|one| one.allocates), "{:?}", evidence);
        }
    }
}
