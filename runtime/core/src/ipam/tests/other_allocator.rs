//! When this manager may allocate, step by step: the answers, the events, and the result.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use crate::ipam::other_allocator::{
    AllocationState, AllocatorChange, GoneCondition, LeaseAnswer, OtherAllocator, Question, Why,
    Writer, WriterAnswer,
};
use crate::moment::Moment;
use crate::settings::OtherAllocatorRules;

const KCM: &str = "kube-controller-manager";
/// How long the holder has held the Lease when a test begins, in seconds.
const HELD: i64 = 600;

fn at(seconds: u64) -> Moment {
    Moment(Duration::from_secs(1_000 + seconds))
}

fn wall(seconds: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(1_000_000 + seconds)
}

/// A cluster of one kube-controller-manager.
struct World {
    other: OtherAllocator,
    now: u64,
    /// The answer to a read of the Lease, which a process may renew or not.
    lease: Lease,
    /// The writer of any node's pod CIDRs.
    writer: Writer,
    created: i64,
    asked: Vec<(u64, Question)>,
}

#[derive(Clone, Copy)]
enum Lease {
    Absent,
    Denied,
    Failed,
    Renewed(&'static str),
    /// Its holder renewed it for the last time at this second.
    Left(&'static str, u64),
}

impl Lease {
    fn answer(self, now: u64) -> LeaseAnswer {
        let (holder, renewed) = match self {
            Lease::Absent => return LeaseAnswer::Absent,
            Lease::Denied => return LeaseAnswer::Denied,
            Lease::Failed => return LeaseAnswer::Failed,
            Lease::Renewed(holder) => (holder, now),
            Lease::Left(holder, renewed) => (holder, renewed),
        };
        LeaseAnswer::Found(LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: Some(15),
            acquire_time: Some(MicroTime(wall(-HELD))),
            renew_time: Some(MicroTime(wall(i64::try_from(renewed).unwrap()))),
            ..LeaseSpec::default()
        })
    }
}

impl World {
    fn new(lease: Lease) -> World {
        World {
            other: OtherAllocator::new(OtherAllocatorRules::default(), at(0)),
            now: 0,
            lease,
            writer: Writer::None,
            created: 0,
            asked: Vec::new(),
        }
    }

    /// Begins with a node that waits, and with another node whose pod CIDRs this writer wrote.
    fn begun(lease: Lease, youngest: Option<Writer>) -> World {
        let mut world = World::new(lease);
        world.other.waits("new", "u", at(0));
        world
            .other
            .begin(youngest.as_ref().map(|_| "old".to_owned()));
        world.writer = youngest.unwrap_or(Writer::None);
        world.answer();
        world.writer = Writer::None;
        world.other.hold("new");
        world
    }

    fn answer(&mut self) {
        while let Some(question) = self.other.question(at(self.now)) {
            self.asked.push((self.now, question.clone()));
            let now = at(self.now);
            match question {
                Question::Lease => self.other.lease_read(self.lease.answer(self.now), now, now),
                Question::Writer(node, why) => {
                    let answer = WriterAnswer {
                        writer: self.writer.clone(),
                        created: Some(wall(self.created)),
                    };
                    self.other.writer_read((&node, why), Ok(Some(answer)), now);
                }
            }
        }
    }

    /// Lets time pass until this second, as a controller that wakes when a question is due.
    fn until(&mut self, second: u64) {
        while self.now < second {
            self.now += 1;
            self.answer();
        }
    }

    /// The second at which allocation begins; `None` if it does not until `most`.
    fn begins(&mut self, most: u64) -> Option<u64> {
        while self.now < most {
            if self.other.may_allocate(at(self.now)) {
                return Some(self.now);
            }
            self.until(self.now + 1);
        }
        None
    }

    fn appears(&mut self, node: &str, manager: &str) {
        self.writer = Writer::Allocator(manager.to_owned());
        self.other.appeared(node, at(self.now));
        self.other.leaves(node);
        self.answer();
        self.writer = Writer::None;
    }

    fn stands_back(&self) -> bool {
        matches!(self.other.state(), AllocationState::StandingBack { .. })
    }

    fn reads(&self) -> usize {
        let leases = self.asked.iter().filter(|(_, one)| *one == Question::Lease);
        leases.count()
    }
}

#[test]
fn a_node_has_to_wait_in_vain_as_long_as_the_lease_demands() {
    let kcm = Some(Writer::Allocator(KCM.to_owned()));
    let of_other = Some(Writer::Allocator("cloud-controller-manager".to_owned()));
    let rows = [
        (Lease::Absent, None, Some(10)),
        (Lease::Absent, kcm.clone(), Some(10)),
        (Lease::Denied, None, Some(30)),
        (Lease::Failed, None, None),
        (Lease::Renewed(""), None, Some(10)),
        (Lease::Renewed("a"), None, Some(30)),
        // The Lease is not renewed: 15 s and the margin of 10 s are over with the next read.
        (Lease::Left("a", 0), None, Some(26)),
        // An earlier leader of ours wrote the pod CIDRs of a node that was created under this holder: no wait at all.
        (Lease::Renewed("a"), Some(Writer::Ours), Some(0)),
        (Lease::Absent, Some(Writer::Ours), Some(10)),
        (Lease::Renewed("a"), Some(Writer::NoAllocator), Some(30)),
        (Lease::Renewed("a"), of_other, Some(30)),
        // kube-controller-manager itself wrote the pod CIDRs of that node.
        (Lease::Renewed("a"), kcm.clone(), None),
        (Lease::Left("a", 0), kcm, Some(26)),
    ];
    for (index, (lease, youngest, expected)) in rows.into_iter().enumerate() {
        let mut world = World::begun(lease, youngest);
        assert_eq!(world.begins(600), expected, "row {index}");
    }
}

#[test]
fn who_served_a_node_that_is_older_than_the_holder_says_nothing_about_the_holder() {
    for (created, expected) in [
        (-HELD - 1, Some(30)),
        // The clocks may differ by a minute.
        (-HELD + 59, Some(30)),
        (-HELD + 60, None),
    ] {
        let mut world = World::new(Lease::Renewed("a"));
        world.created = created;
        world.writer = Writer::Allocator(KCM.to_owned());
        world.other.waits("new", "u", at(0));
        world.other.begin(Some("old".to_owned()));
        world.answer();
        world.writer = Writer::None;
        world.other.hold("new");
        assert_eq!(world.begins(600), expected, "{created}");
    }
}

#[test]
fn pod_cidrs_that_kube_controller_manager_wrote_are_told_once_and_bind_until_its_lease_ends() {
    let mut world = World::begun(Lease::Renewed("a"), None);
    world.until(12);
    world.appears("new", KCM);
    let AllocationState::StandingBack { evidence, .. } = world.other.state() else {
        panic!("{:?}", world.other.state());
    };
    assert_eq!(evidence.condition, GoneCondition::Holder("a".to_owned()));
    let changes = world.other.take_changes();
    let [
        AllocatorChange::Watches(Some(_)),
        AllocatorChange::StandsBack(reported),
    ] = changes.as_slice()
    else {
        panic!("{changes:?}");
    };
    assert_eq!(
        (reported.node.as_str(), reported.manager.as_str()),
        ("new", KCM)
    );
    // No node waits, so no question is asked; and a node that waits for long is no evidence.
    let reads = world.reads();
    world.until(1_000);
    assert_eq!(world.reads(), reads);
    world.other.waits("slow", "u", at(1_000));
    world.other.hold("slow");
    assert_eq!(world.begins(2_000), None);
    assert_eq!(world.reads() - reads, 500, "every other second");
    // Another process leads, and serves that node: nothing new is reported.
    world.lease = Lease::Renewed("b");
    world.until(2_012);
    assert!(!world.stands_back());
    world.appears("slow", KCM);
    assert!(world.stands_back());
    assert_eq!(world.other.take_changes(), []);
    // The holder is gone.
    world.lease = Lease::Left("b", world.now);
    world.other.waits("late", "u", at(world.now));
    world.other.hold("late");
    let begins = world.begins(3_000).unwrap();
    assert!((2_012 + 25..=2_012 + 30).contains(&begins), "{begins}");
    let gone = AllocatorChange::TakesOver(KCM.to_owned(), "late".to_owned());
    assert_eq!(world.other.take_changes(), [gone]);
    assert_eq!(world.other.released(at(world.now)).len(), 1);
}

#[test]
fn a_process_that_takes_the_lease_ends_the_allocation_within_a_second() {
    let mut world = World::begun(Lease::Renewed("a"), Some(Writer::Ours));
    assert_eq!(world.begins(10), Some(0));
    let may_allocate = [1, 2].map(|second| world.other.may_allocate(at(second)));
    assert_eq!(may_allocate, [true, false], "a second after the read");
    world.other.leaves("new");
    world.until(100);
    // No node waits: the Lease is read when one does, before anything is allocated.
    assert_eq!(world.reads(), 1);
    world.lease = Lease::Renewed("b");
    world.other.waits("later", "u", at(100));
    assert!(!world.other.may_allocate(at(100)));
    world.other.hold("later");
    world.answer();
    assert_eq!(world.begins(600), Some(130));
}

#[test]
fn pod_cidrs_that_appear_while_the_lease_is_read_have_it_read_again() {
    let mut world = World::begun(Lease::Renewed("a"), Some(Writer::Ours));
    assert_eq!(world.other.question(at(1)), Some(Question::Lease));
    world.other.appeared("other", at(2));
    world.other.lease_read(world.lease.answer(1), at(1), at(3));
    assert_eq!(world.other.question(at(3)), Some(Question::Lease));
}

#[test]
fn an_allocator_without_a_lease_is_gone_when_a_node_waits_in_vain() {
    for (lease, manager, expected) in [
        // Heartbeats of the nodes make kube-controller-manager retry.
        (Lease::Absent, "k3s", 330),
        (Lease::Denied, KCM, 330),
        (Lease::Absent, "cloud-controller-manager", 10),
        (Lease::Renewed("a"), "cloud-controller-manager", 30),
    ] {
        let mut world = World::begun(lease, None);
        world.until(5);
        world.appears("new", manager);
        assert!(world.stands_back(), "{manager}");
        world.until(100);
        world.other.waits("late", "u", at(100));
        world.other.hold("late");
        assert_eq!(world.begins(900), Some(100 + expected), "{manager}");
    }
}

#[test]
fn who_wrote_while_the_lease_was_handed_over_is_gone_when_nobody_holds_it() {
    // The holder has been known for five seconds only, so that an earlier holder may have been the writer.
    let mut world = World::begun(Lease::Renewed("a"), None);
    world.until(5);
    world.appears("new", KCM);
    world.until(100);
    world.other.waits("late", "u", at(100));
    world.other.hold("late");
    assert_eq!(world.begins(120), None);
    world.lease = Lease::Left("a", 120);
    assert_eq!(world.begins(900), Some(130));
    // Once the writer is known, a node that waits in vain is no evidence.
    let mut world = World::begun(Lease::Renewed("a"), None);
    world.until(5);
    world.appears("new", KCM);
    world.until(12);
    world.appears("next", KCM);
    world.other.waits("late", "u", at(12));
    world.other.hold("late");
    assert_eq!(world.begins(900), None);
}

#[test]
fn persons_nodes_and_earlier_leaders_are_no_other_allocator() {
    for writer in [Writer::NoAllocator, Writer::Ours] {
        let mut world = World::begun(Lease::Absent, None);
        world.until(5);
        world.writer = writer;
        world.other.appeared("other", at(5));
        assert!(!world.other.may_allocate(at(5)));
        world.answer();
        world.writer = Writer::None;
        assert_eq!(world.begins(100), Some(10));
    }
}

#[test]
fn a_watch_that_is_late_is_not_taken_for_a_node_that_waits_in_vain() {
    let mut world = World::begun(Lease::Renewed("a"), None);
    world.writer = Writer::Allocator(KCM.to_owned());
    assert_eq!(world.begins(600), None);
    assert!(world.stands_back());
    let question = Question::Writer("new".to_owned(), Why::Waits);
    assert_eq!(world.asked.last(), Some(&(30, question)));
}

#[test]
fn nothing_follows_from_a_node_that_waits_while_no_block_is_free() {
    let mut world = World::begun(Lease::Renewed("a"), None);
    world.other.observe_blocks(false, at(0));
    assert_eq!(world.begins(1_000), None);
    assert_eq!(world.reads(), 1, "nobody can be served");
    world.other.observe_blocks(true, at(1_000));
    assert_eq!(world.begins(2_000), Some(1_330));
}

#[test]
fn what_cannot_be_read_is_read_again_and_nothing_is_allocated_meanwhile() {
    let mut world = World::begun(Lease::Failed, None);
    world.until(11);
    assert_eq!(world.reads(), 6);
    world.lease = Lease::Absent;
    assert_eq!(world.begins(100), Some(12));
    // A node that is recreated under the same name has not waited.
    let mut world = World::begun(Lease::Absent, None);
    world.until(9);
    world.other.waits("new", "v", at(9));
    assert_eq!(world.begins(100), Some(19));
}
