//! Whether another allocator gives nodes their pod CIDRs, such as kube-controller-manager with its own
//! `--allocate-node-cidrs`: two allocators at once can give two nodes the same block. States the questions to the API
//! server, takes the answers and decides whether this manager may allocate. Sends nothing and reads no clock.
//!
//! ```text
//!            a node waits in vain                a process takes the Lease
//! Watching ───────────────────────► Alone ─────────────────────────────────► Watching
//!     │                               │
//!     └──── pod CIDRs appear that another allocator wrote ────► StandingBack ── it is gone ──► Watching
//! ```
//!
//! kube-controller-manager starts allocating only when it starts, and a process that starts takes its Lease first. So
//! the holder of the Lease allocates, or never will: a holder that leaves a node without pod CIDRs does not allocate,
//! and a holder under which kube-controller-manager wrote pod CIDRs does until the Lease has another holder or none.
//! Nothing is allocated but within [`FRESH`] of a read of the Lease that says who holds it.
//!
//! An allocator without a Lease is known by its writes, and counts as gone when a node waits in vain for long enough.
//! Pod CIDRs from a person or the node itself prove nothing. Requests are made only while a node lacks pod CIDRs.

mod cidr_writer;
mod controller_lease;
mod observations;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::moment::Moment;
use crate::settings::OtherAllocatorRules;
use cidr_writer::is_kube_controller_manager;
use controller_lease::ControllerLease;

pub use cidr_writer::{Writer, WriterAnswer};
pub use controller_lease::LeaseAnswer;
pub use observations::{
    AllocationState, AllocatorChange, AllocatorEvidence, GoneCondition, Question, Why,
};

/// For how long after a read of the Lease blocks may be allocated: less than a kube-controller-manager needs to start.
pub const FRESH: Duration = Duration::from_secs(1);
/// Time between two reads of the Lease while a node waits for another allocator's pod CIDRs, and before a failed
/// request is repeated.
const EVERY: Duration = Duration::from_secs(2);
/// Time between two reads of a Lease that may not be read: rights change seldom.
const EVERY_IF_DENIED: Duration = Duration::from_secs(600);

/// The evidence about other allocators, and the decision whether this manager may allocate.
#[derive(Debug, Clone)]
pub struct OtherAllocator {
    rules: OtherAllocatorRules,
    state: AllocationState,
    lease: ControllerLease,
    /// When the last read of the Lease was answered.
    read_at: Option<Moment>,
    /// A read of the Lease has to be sent after this moment, because pod CIDRs appeared.
    read_after: Option<Moment>,
    has_begun: bool,
    is_asking: bool,
    /// No question is asked before this moment, because the last one failed.
    retry_at: Option<Moment>,
    youngest: Option<String>,
    /// Nodes without pod CIDRs: UID, and since when they are known to have none.
    waiting: BTreeMap<String, (String, Moment)>,
    /// Waiting nodes whose turn came while nothing could be allocated.
    held: BTreeSet<String>,
    /// Nodes whose new pod CIDRs have a writer that is not known yet.
    appeared: BTreeSet<String>,
    blocks: Blocks,
    changes: Vec<AllocatorChange>,
    /// The field manager of the allocator reported last; `None` before, and once its end is reported.
    reported: Option<String>,
    has_reported_watch: bool,
}

/// Whether another allocator would have a block for a waiting node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Blocks {
    /// Every range has a free block, since this moment.
    Free(Moment),
    /// A range has no free block, so that a waiting node proves nothing.
    Exhausted,
    /// Every range has a free block again, since this moment. An allocator that has failed for long rarely retries.
    FreeAgain(Moment),
}

impl OtherAllocator {
    /// Watches from `now`; asks nothing before [`OtherAllocator::begin`].
    pub fn new(rules: OtherAllocatorRules, now: Moment) -> OtherAllocator {
        OtherAllocator {
            rules,
            state: AllocationState::Watching {
                since: now,
                holder: None,
            },
            lease: ControllerLease::Unread,
            read_at: None,
            read_after: None,
            has_begun: false,
            is_asking: false,
            retry_at: None,
            youngest: None,
            waiting: BTreeMap::new(),
            held: BTreeSet::new(),
            appeared: BTreeSet::new(),
            blocks: Blocks::Free(now),
            changes: Vec::new(),
            reported: None,
            has_reported_watch: false,
        }
    }

    /// All nodes are known. `youngest` is the node that was created last of those that have pod CIDRs.
    pub fn begin(&mut self, youngest: Option<String>) {
        self.has_begun = true;
        self.youngest = youngest;
    }

    /// Whether this manager may allocate.
    pub fn state(&self) -> &AllocationState {
        &self.state
    }

    /// Whether a block may be allocated now.
    pub fn may_allocate(&self, now: Moment) -> bool {
        let is_fresh = self
            .read_at
            .is_some_and(|read| now <= read.after(self.freshness()));
        matches!(self.state, AllocationState::Alone { .. }) && self.appeared.is_empty() && is_fresh
    }

    fn freshness(&self) -> Duration {
        match self.lease {
            ControllerLease::Denied => EVERY_IF_DENIED,
            _ => FRESH,
        }
    }

    /// This node has no pod CIDRs.
    pub fn waits(&mut self, node: &str, uid: &str, now: Moment) {
        let known = self.waiting.get(node);
        if known.is_none_or(|(known, _)| known != uid) {
            self.waiting.insert(node.to_owned(), (uid.to_owned(), now));
        }
    }

    /// This node has pod CIDRs, or is gone.
    pub fn leaves(&mut self, node: &str) {
        self.waiting.remove(node);
        self.held.remove(node);
    }

    /// It is this node's turn, and [`OtherAllocator::may_allocate`] is false.
    pub fn hold(&mut self, node: &str) {
        self.held.insert(node.to_owned());
        self.report_watch();
    }

    /// Reports, once, that nodes have to wait.
    fn report_watch(&mut self) {
        let has_looked =
            self.read_at.is_some() && (self.youngest.is_none() || self.lease.holder().is_none());
        let is_watching = matches!(self.state, AllocationState::Watching { .. });
        if is_watching && has_looked && !self.held.is_empty() && !self.has_reported_watch {
            self.has_reported_watch = true;
            let holder = self.lease.holder().map(str::to_owned);
            self.changes.push(AllocatorChange::Watches(holder));
        }
    }

    /// Takes all nodes that were held, if blocks may be allocated now.
    pub fn released(&mut self, now: Moment) -> BTreeSet<String> {
        match self.may_allocate(now) {
            true => std::mem::take(&mut self.held),
            false => BTreeSet::new(),
        }
    }

    /// Pod CIDRs that this process did not write have appeared on this node, which was known to have none.
    pub fn appeared(&mut self, node: &str, now: Moment) {
        if let AllocationState::StandingBack { evidence, since } = &mut self.state {
            *since = now;
            let is_bound = matches!(evidence.condition, GoneCondition::Holder(_));
            if is_bound || self.lease.holder().is_none() {
                return;
            }
        }
        self.read_after = Some(now);
        self.appeared.insert(node.to_owned());
    }

    /// Whether every range has a free block.
    pub fn observe_blocks(&mut self, are_free: bool, now: Moment) {
        let is_alone = matches!(self.state, AllocationState::Alone { .. });
        self.blocks = match (are_free, self.blocks) {
            (false, _) => Blocks::Exhausted,
            (true, Blocks::Exhausted | Blocks::FreeAgain(_)) if is_alone => Blocks::Free(now),
            (true, Blocks::Exhausted) => Blocks::FreeAgain(now),
            (true, blocks) => blocks,
        };
    }

    /// Takes the changes found since the last call, to be reported.
    pub fn take_changes(&mut self) -> Vec<AllocatorChange> {
        std::mem::take(&mut self.changes)
    }

    /// Takes the question that is due, if there is one. The next one is asked when it is answered.
    pub fn question(&mut self, now: Moment) -> Option<Question> {
        let (_, question) = self.due().filter(|(at, _)| *at <= now)?;
        self.is_asking = true;
        Some(question)
    }

    /// When the next question is due.
    pub fn next(&self) -> Option<Moment> {
        self.due().map(|(at, _)| at)
    }

    fn due(&self) -> Option<(Moment, Question)> {
        if !self.has_begun || self.is_asking {
            return None;
        }
        let lease = self.lease_due().map(|at| (at, Question::Lease));
        // Of two questions due at the same moment, the Lease comes first: the meaning of a writer depends on it.
        let questions = lease.into_iter().chain(self.writer_due());
        let (at, question) = questions.min_by_key(|(at, _)| *at)?;
        Some((self.retry_at.map_or(at, |retry| at.max(retry)), question))
    }

    fn lease_due(&self) -> Option<Moment> {
        let Some(read) = self.read_at else {
            return Some(Moment(Duration::ZERO));
        };
        if self.lease == ControllerLease::Denied {
            let is_wanted = !self.held.is_empty();
            return is_wanted.then(|| read.after(EVERY_IF_DENIED));
        }
        if let Some(after) = self.read_after {
            return Some(after);
        }
        match self.state {
            AllocationState::Alone { .. } => (!self.held.is_empty()).then(|| read.after(FRESH)),
            AllocationState::Watching { .. } | AllocationState::StandingBack { .. } => {
                let is_wanted = !self.waiting.is_empty() && self.blocks != Blocks::Exhausted;
                is_wanted.then(|| read.after(EVERY))
            }
        }
    }

    fn writer_due(&self) -> Option<(Moment, Question)> {
        let at_once = Moment(Duration::ZERO);
        if let Some(node) = self.appeared.first() {
            let question = Question::Writer(node.clone(), Why::Appeared);
            return Some((self.read_after.unwrap_or(at_once), question));
        }
        let is_watching = matches!(self.state, AllocationState::Watching { .. });
        if let Some(node) = self.youngest.as_ref().filter(|_| is_watching)
            && self.lease.holder().is_some()
        {
            return Some((at_once, Question::Writer(node.clone(), Why::Youngest)));
        }
        let (at, node) = self.longest_waiting()?;
        Some((at, Question::Writer(node.to_owned(), Why::Waits)))
    }

    /// The node that has waited longest, and the moment from which another allocator would have served it.
    fn longest_waiting(&self) -> Option<(Moment, &str)> {
        let (since, quiet_period) = match &self.state {
            AllocationState::Alone { .. } => return None,
            AllocationState::Watching { since, .. } => (*since, self.settle()),
            AllocationState::StandingBack { evidence, since } => match evidence.condition {
                GoneCondition::Holder(_) => return None,
                GoneCondition::NoLease => (*since, self.rules.quiet_period),
                GoneCondition::AnyHolder | GoneCondition::Unknown => (*since, self.settle()),
            },
        };
        let (since, quiet_period) = match self.blocks {
            Blocks::Exhausted => return None,
            Blocks::Free(free) => (since.max(free), quiet_period),
            Blocks::FreeAgain(free) => (since.max(free), quiet_period.max(self.rules.quiet_period)),
        };
        let (node, (_, waits)) = self.waiting.iter().min_by_key(|(_, (_, waits))| *waits)?;
        Some((since.max(*waits).after(quiet_period), node))
    }

    fn settle(&self) -> Duration {
        match &self.lease {
            ControllerLease::Unread | ControllerLease::Denied => self.rules.settle,
            ControllerLease::Absent => self.rules.settle_without_lease,
            ControllerLease::Found { .. } if self.lease.holder().is_some() => self.rules.settle,
            ControllerLease::Found { .. } => self.rules.settle_without_lease,
        }
    }

    /// Takes the answer to [`Question::Lease`], which was sent at `sent`.
    pub fn lease_read(&mut self, answer: LeaseAnswer, sent: Moment, now: Moment) {
        self.is_asking = false;
        let was_denied = self.lease == ControllerLease::Denied;
        if !self.lease.read(answer, sent, now) {
            self.retry_at = Some(now.after(EVERY));
            return;
        }
        self.retry_at = None;
        self.read_at = Some(now);
        self.read_after.take_if(|after| *after <= sent);
        if self.lease == ControllerLease::Denied && !was_denied {
            self.changes.push(AllocatorChange::LeaseDenied);
        }
        let holder = self.lease.holder().map(str::to_owned);
        match &mut self.state {
            AllocationState::Alone { beside } if holder.is_none() || *beside == holder => {
                *beside = holder
            }
            AllocationState::Watching { holder: known, .. }
                if holder.is_none() || *known == holder => {}
            AllocationState::StandingBack { evidence, .. }
                if !evidence.condition.is_broken(&holder) => {}
            // The Lease has ended. Nodes that have waited in vain need not wait again.
            AllocationState::StandingBack { since, .. } if holder.is_none() => {
                let since = *since;
                self.state = AllocationState::Watching { since, holder };
            }
            // Another process holds the Lease; whether it allocates is unknown.
            _ => {
                self.has_reported_watch = self.reported.is_some();
                self.state = AllocationState::Watching { since: now, holder };
            }
        }
        self.report_watch();
    }

    /// Takes the answer to [`Question::Writer`] about this node: `Ok(None)` if the node is gone, an error if there was
    /// no answer.
    pub fn writer_read(
        &mut self,
        (node, why): (&str, Why),
        answer: Result<Option<WriterAnswer>, ()>,
        now: Moment,
    ) {
        self.is_asking = false;
        let Ok(answer) = answer else {
            self.retry_at = Some(now.after(EVERY));
            return;
        };
        self.retry_at = None;
        match why {
            Why::Appeared => drop(self.appeared.remove(node)),
            Why::Youngest => self.youngest = None,
            Why::Waits => {}
        }
        let Some(WriterAnswer { writer, created }) = answer else {
            self.leaves(node);
            return;
        };
        let holder = self.lease.holder().map(str::to_owned);
        if why == Why::Youngest {
            let is_under_holder = created.is_some_and(|created| self.lease.is_older_than(created));
            match (writer, holder) {
                (Writer::Allocator(manager), Some(holder))
                    if is_under_holder && is_kube_controller_manager(&manager) =>
                {
                    self.stand_back(node, manager, GoneCondition::Holder(holder), now);
                }
                (Writer::Ours, beside) if is_under_holder => {
                    self.state = AllocationState::Alone { beside };
                }
                _ => self.report_watch(),
            }
            return;
        }
        match writer {
            Writer::Allocator(manager) => {
                let condition = match (self.lease.author(now), self.lease.holder()) {
                    _ if !is_kube_controller_manager(&manager) => GoneCondition::Unknown,
                    (Some(author), _) => GoneCondition::Holder(author.to_owned()),
                    (None, Some(_)) => GoneCondition::AnyHolder,
                    (None, None) => GoneCondition::NoLease,
                };
                self.stand_back(node, manager, condition, now);
            }
            Writer::None if why == Why::Waits => {
                if let Some(gone) = self.reported.take() {
                    self.changes
                        .push(AllocatorChange::TakesOver(gone, node.to_owned()));
                }
                self.state = AllocationState::Alone { beside: holder };
            }
            // The watch is late and will deliver the pod CIDRs.
            Writer::Ours | Writer::NoAllocator if why == Why::Waits => self.leaves(node),
            Writer::Ours | Writer::NoAllocator | Writer::None => {}
        }
    }

    fn stand_back(&mut self, node: &str, manager: String, condition: GoneCondition, now: Moment) {
        self.leaves(node);
        self.appeared.clear();
        let evidence = AllocatorEvidence {
            node: node.to_owned(),
            manager,
            condition,
        };
        // The same allocator again, such as after a change of its leader, is not reported again.
        if self.reported.as_ref() != Some(&evidence.manager) {
            self.reported = Some(evidence.manager.clone());
            self.changes
                .push(AllocatorChange::StandsBack(evidence.clone()));
        }
        self.has_reported_watch = true;
        self.state = AllocationState::StandingBack {
            evidence,
            since: now,
        };
    }
}
