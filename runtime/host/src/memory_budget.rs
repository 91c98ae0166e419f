//! Budget for the memory of all guests of this process: a part of the memory of the machine or of the container's
//! limit. Calls that do not fit wait until others end; otherwise the kernel would end the process with all its
//! providers. Reads limits, and allocates nothing.
//!
//! Two providers whose clouds are slow could have all of it for a minute. So free memory goes first to providers that
//! have no call under way, and a part of it only to them.

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::limits;

/// Budget of this process.
pub(crate) static GUESTS: LazyLock<MemoryBudget> = LazyLock::new(|| {
    let known = [
        "/sys/fs/cgroup/memory.max",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
    ];
    let mut texts: Vec<String> = known.into_iter().filter_map(read).collect();
    // Outside of a container, the limit is in the folder of the process's own cgroup.
    if let Some(group) = read("/proc/self/cgroup") {
        let own = group.lines().find_map(|line| line.strip_prefix("0::"));
        texts.extend(own.and_then(|own| read(format!("/sys/fs/cgroup{own}/memory.max"))));
    }
    let machine = read("/proc/meminfo");
    MemoryBudget::new(available(&texts, machine.as_deref()))
});

fn read(path: impl AsRef<Path>) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// Available memory in bytes: the smallest limit, or half of the machine's memory if that is less (other processes use
/// the rest). `None`: unknown.
fn available(limits: &[String], machine: Option<&str>) -> Option<u64> {
    // cgroup v1 reports "no limit" as a huge number.
    const NO_LIMIT: u64 = 1 << 60;
    let limits = limits.iter().filter_map(|text| text.trim().parse().ok());
    let limit = limits.filter(|limit| *limit < NO_LIMIT).min();
    let total = machine.and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
        let kib: u64 = line?.trim().trim_end_matches(" kB").parse().ok()?;
        Some(kib * 1024 / 2)
    });
    limit.into_iter().chain(total).min()
}

/// Memory for guests, in MiB.
pub(crate) struct MemoryBudget {
    /// The whole budget, used or not. `None`: the available memory is unknown.
    all: Option<u32>,
    room: Mutex<Room>,
}

/// The calls of one generation of a provider, as one user of the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct MemoryUser(u64);

impl MemoryUser {
    /// Another user than all before.
    pub(crate) fn new() -> MemoryUser {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        MemoryUser(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl MemoryBudget {
    /// Budget of three quarters of these bytes. The rest is for the controllers and a concurrent compilation.
    fn new(available: Option<u64>) -> MemoryBudget {
        let mebibytes = available.map(|bytes| bytes / 4 * 3 / (1 << 20));
        MemoryBudget::of(mebibytes.map(|all| u32::try_from(all).unwrap_or(u32::MAX)))
    }

    /// Budget of this many MiB. `None`: the available memory is unknown.
    pub(crate) fn of(all: Option<u32>) -> MemoryBudget {
        let all = all.map(|all| all.max(1));
        let free = all.unwrap_or(u32::MAX);
        MemoryBudget {
            all,
            room: Mutex::new(Room {
                free,
                kept: free / 4,
                under_way: HashMap::new(),
                waiting: VecDeque::new(),
                arrivals: 0,
            }),
        }
    }

    /// Share of one provider in MiB, from which the number of its calls follows: at most half, so that no other provider
    /// waits for all of them. The arguments of these calls come on top, as far as free memory that is not kept for
    /// others has room. `None`: the available memory is unknown.
    pub(crate) fn share_mib(&self) -> Option<u32> {
        self.all.map(|all| all / 2)
    }

    /// Number of calls with this much guest memory that fit into the share of one provider; at least one.
    pub(crate) fn calls_of_one(&self, guest_bytes: usize) -> usize {
        let share = self.share_mib().unwrap_or(u32::MAX);
        (share / needed_mib(guest_bytes)).max(1) as usize
    }

    /// Waits until there is room for a call of this user with this much memory for guest and arguments. A call larger
    /// than the whole budget takes the whole budget.
    pub(crate) async fn take(&self, user: MemoryUser, bytes: usize) -> MemoryHold<'_> {
        let mib = needed_mib(bytes).min(self.all.unwrap_or(u32::MAX));
        let (turn, comes) = oneshot::channel();
        let number = self.room.lock().enter(user, mib, turn);
        let hold = MemoryHold {
            budget: self,
            number,
            user,
            mib,
        };
        // The sender waits in the queue for as long as `hold` lives.
        let _ = comes.await;
        hold
    }
}

/// Memory of one call, or its place in the queue for it. Given back on drop.
pub(crate) struct MemoryHold<'a> {
    budget: &'a MemoryBudget,
    number: u64,
    user: MemoryUser,
    mib: u32,
}

impl Drop for MemoryHold<'_> {
    fn drop(&mut self) {
        let mut room = self.budget.room.lock();
        let place = room
            .waiting
            .iter()
            .position(|call| call.number == self.number);
        match place {
            Some(place) => drop(room.waiting.remove(place)),
            None => room.leave(self.user, self.mib),
        }
        room.admit();
    }
}

/// The free memory, and who waits for it.
struct Room {
    /// MiB that no call has.
    free: u32,
    /// As many MiB of these are for users that have no call under way: a quarter of all.
    kept: u32,
    /// The number of calls under way of each user that has any.
    under_way: HashMap<MemoryUser, u32>,
    /// In the order of arrival.
    waiting: VecDeque<WaitingCall>,
    arrivals: u64,
}

struct WaitingCall {
    number: u64,
    user: MemoryUser,
    mib: u32,
    turn: oneshot::Sender<()>,
}

impl Room {
    /// Queues a call; returns its number.
    fn enter(&mut self, user: MemoryUser, mib: u32, turn: oneshot::Sender<()>) -> u64 {
        let number = self.arrivals;
        self.arrivals += 1;
        self.waiting.push_back(WaitingCall {
            number,
            user,
            mib,
            turn,
        });
        self.admit();
        number
    }

    /// Ends a call that was admitted.
    fn leave(&mut self, user: MemoryUser, mib: u32) {
        self.free += mib;
        if let Some(calls) = self.under_way.get_mut(&user) {
            *calls -= 1;
            if *calls == 0 {
                self.under_way.remove(&user);
            }
        }
    }

    /// Admits waiting calls, as many as fit.
    fn admit(&mut self) {
        while let Some(next) = self.next()
            && let Some(call) = self.waiting.remove(next)
        {
            self.free -= call.mib;
            *self.under_way.entry(call.user).or_default() += 1;
            // Fails only for a call that stops waiting now, whose hold then gives the memory back.
            let _ = call.turn.send(());
        }
    }

    /// The place in the queue of the call whose turn it is, if it fits. None overtakes it: otherwise a large one would
    /// wait for ever.
    fn next(&self) -> Option<usize> {
        let has_none = |call: &WaitingCall| !self.under_way.contains_key(&call.user);
        let (place, kept) = match self.waiting.iter().position(has_none) {
            Some(place) => (place, 0),
            None => (0, self.kept),
        };
        let fits = self.waiting.get(place)?.mib <= self.free.saturating_sub(kept);
        fits.then_some(place)
    }
}

/// Memory of a call with this much memory for guest and arguments, with what the host holds for it.
pub(crate) fn needed_mib(bytes: usize) -> u32 {
    let needed = bytes.saturating_add(limits::HELD_BYTES) >> 20;
    u32::try_from(needed).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use futures::FutureExt as _;

    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn the_least_limit_counts_and_of_a_machine_the_half() {
        let machine = "MemTotal:        8388608 kB\nMemFree: 1 kB\n";
        for (limits, machine, expected) in [
            (&["2147483648\n"][..], Some(machine), Some(2 * GIB)),
            (&["max\n"], Some(machine), Some(4 * GIB)),
            (&["9223372036854771712\n"], Some(machine), Some(4 * GIB)),
            (&["max", "1073741824", "2147483648"], None, Some(GIB)),
            (&["8589934592"], Some(machine), Some(4 * GIB)),
            (&[], None, None),
            (&["nonsense"], Some("nonsense"), None),
        ] {
            let limits: Vec<String> = limits.iter().map(|text| (*text).to_owned()).collect();
            assert_eq!(available(&limits, machine), expected, "{limits:?}");
        }
    }

    /// Memory for a call of this user, if there is room at once.
    fn take(budget: &MemoryBudget, user: MemoryUser, bytes: usize) -> Option<MemoryHold<'_>> {
        budget.take(user, bytes).now_or_never()
    }

    #[test]
    fn calls_of_the_largest_guests_wait_for_each_other_under_a_limit_of_two_gibibytes() {
        let budget = MemoryBudget::new(Some(2 * GIB));
        let take = || take(&budget, MemoryUser::new(), limits::MEMORY_CEILING_BYTES);
        let mut under_way: Vec<_> = std::iter::from_fn(take).collect();
        assert_eq!(under_way.len(), 5, "of eight");
        under_way.pop();
        assert!(take().is_some());
    }

    #[test]
    fn two_slow_providers_delay_no_other_and_free_memory_goes_first_to_who_has_none() {
        let budget = MemoryBudget::new(Some(2 * GIB));
        let take = |user| take(&budget, user, limits::MEMORY_BYTES);
        let [slow, other] = [MemoryUser::new(), MemoryUser::new()];
        let mut held: Vec<_> = (0..8).map(|_| take(slow).unwrap()).collect();
        let others: Vec<_> = std::iter::from_fn(|| take(other)).collect();
        assert_eq!(others.len(), 4, "of the sixteen calls that fit");
        let wait = |user| Box::pin(budget.take(user, limits::MEMORY_BYTES));
        let mut again = wait(other);
        assert!(again.as_mut().now_or_never().is_none());
        // The quarter that is kept.
        let mut firsts: Vec<_> = (0..4).map(|_| take(MemoryUser::new()).unwrap()).collect();
        let mut late = wait(MemoryUser::new());
        assert!(late.as_mut().now_or_never().is_none());
        held.pop();
        assert!(again.as_mut().now_or_never().is_none());
        firsts.push(late.as_mut().now_or_never().unwrap());
        // The quarter is kept once more.
        firsts.truncate(1);
        assert!(again.as_mut().now_or_never().is_none());
        drop(firsts);
        assert!(again.as_mut().now_or_never().is_some());
    }

    #[test]
    fn who_stops_waiting_holds_nobody_up() {
        let budget = MemoryBudget::new(Some(2 * GIB));
        let all = take(&budget, MemoryUser::new(), 1 << 30).unwrap();
        let wait = |bytes| Box::pin(budget.take(MemoryUser::new(), bytes));
        let [mut large, mut small] = [wait(1 << 30), wait(0)];
        assert!(large.as_mut().now_or_never().is_none());
        assert!(
            small.as_mut().now_or_never().is_none(),
            "it is not its turn"
        );
        drop(large);
        assert!(small.as_mut().now_or_never().is_some());
        // One that was admitted and stops before it notices.
        let mut whole = wait(2 << 30);
        assert!(whole.as_mut().now_or_never().is_none());
        drop(all);
        drop(whole);
        assert!(take(&budget, MemoryUser::new(), 2 << 30).is_some());
    }

    #[test]
    fn one_provider_leaves_half_of_it_to_the_others() {
        let budget = MemoryBudget::new(Some(2 * GIB));
        assert_eq!(budget.share_mib(), Some(768));
        assert_eq!(budget.calls_of_one(limits::MEMORY_CEILING_BYTES), 2);
        assert_eq!(budget.calls_of_one(limits::MEMORY_BYTES), 8);
        let unknown = MemoryBudget::new(None);
        assert_eq!(unknown.share_mib(), None, "nothing says so");
        assert!(unknown.calls_of_one(limits::MEMORY_BYTES) > limits::CALLS_AT_ONCE);
    }

    #[test]
    fn arguments_come_on_top_of_that_half_and_leave_a_quarter_to_the_others() {
        let budget = MemoryBudget::new(Some(2 * GIB));
        let one = MemoryUser::new();
        let take = |user, arguments: usize| take(&budget, user, limits::MEMORY_BYTES + arguments);
        // 160 MiB each.
        let calls: Vec<_> = std::iter::from_fn(|| take(one, 64 << 20)).collect();
        assert_eq!(calls.len(), 7, "of the eight that the share is for");
        let others = || take(MemoryUser::new(), 0);
        let others: Vec<_> = std::iter::from_fn(others).collect();
        assert_eq!(others.len(), 4, "in 416 of 1536 MiB");
    }

    #[test]
    fn a_guest_that_is_larger_than_everything_is_called_alone() {
        let budget = MemoryBudget::new(Some(GIB / 8));
        let take = || take(&budget, MemoryUser::new(), limits::MEMORY_CEILING_BYTES);
        let alone = take();
        assert!(alone.is_some());
        assert!(take().is_none());
        assert_eq!(budget.calls_of_one(limits::MEMORY_CEILING_BYTES), 1);
    }
}
