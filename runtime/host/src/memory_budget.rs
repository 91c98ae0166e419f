//! Budget for the memory of all guests of this process: a part of the memory of the machine or of the container's
//! limit. Calls that do not fit wait until others end; otherwise the kernel would end the process with all its
//! providers. Reads limits, and allocates nothing.

use std::path::Path;
use std::sync::LazyLock;

use tokio::sync::{Semaphore, SemaphorePermit};

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

/// Maximum count of a semaphore, in MiB: more memory than any machine has.
const MOST: u32 = if Semaphore::MAX_PERMITS < u32::MAX as usize {
    Semaphore::MAX_PERMITS as u32
} else {
    u32::MAX
};

/// Memory for guests, in MiB.
pub(crate) struct MemoryBudget {
    /// The whole budget, used or not. `None`: the available memory is unknown.
    all: Option<u32>,
    free: Semaphore,
}

impl MemoryBudget {
    /// Budget of three quarters of these bytes. The rest is for the controllers and a concurrent compilation.
    fn new(available: Option<u64>) -> MemoryBudget {
        let mebibytes = available.map(|bytes| bytes / 4 * 3 / (1 << 20));
        MemoryBudget::of(mebibytes.map(|all| u32::try_from(all).unwrap_or(MOST)))
    }

    /// Budget of this many MiB. `None`: the available memory is unknown.
    pub(crate) fn of(all: Option<u32>) -> MemoryBudget {
        let all = all.map(|all| all.clamp(1, MOST));
        MemoryBudget {
            all,
            free: Semaphore::new(all.unwrap_or(MOST) as usize),
        }
    }

    /// Share of one provider in MiB: at most half, so that no other provider waits for all of its calls. `None`: the
    /// available memory is unknown.
    pub(crate) fn share_mib(&self) -> Option<u32> {
        self.all.map(|all| all / 2)
    }

    /// Number of calls with this much guest memory that fit into the share of one provider; at least one.
    pub(crate) fn calls_of_one(&self, guest_bytes: usize) -> usize {
        let share = self.share_mib().unwrap_or(MOST);
        (share / needed_mib(guest_bytes)).max(1) as usize
    }

    /// Waits until there is room for a call with this much guest memory. A call larger than the whole budget takes the
    /// whole budget.
    pub(crate) async fn take(&self, guest_bytes: usize) -> Option<SemaphorePermit<'_>> {
        let wanted = needed_mib(guest_bytes).min(self.all.unwrap_or(MOST));
        self.free.acquire_many(wanted).await.ok()
    }
}

/// Memory of a call with this much guest memory, with what the host holds for it.
fn needed_mib(guest_bytes: usize) -> u32 {
    let needed = (guest_bytes + limits::HELD_BYTES) >> 20;
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

    #[test]
    fn calls_of_the_largest_guests_wait_for_each_other_under_a_limit_of_two_gibibytes() {
        let budget = MemoryBudget::new(Some(2 * GIB));
        let take = || {
            budget
                .take(limits::MEMORY_CEILING_BYTES)
                .now_or_never()
                .flatten()
        };
        let mut under_way: Vec<_> = std::iter::from_fn(take).collect();
        assert_eq!(under_way.len(), 5, "of eight");
        under_way.pop();
        assert!(take().is_some());
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
    fn a_guest_that_is_larger_than_everything_is_called_alone() {
        let budget = MemoryBudget::new(Some(GIB / 8));
        let take = || {
            budget
                .take(limits::MEMORY_CEILING_BYTES)
                .now_or_never()
                .flatten()
        };
        let alone = take();
        assert!(alone.is_some());
        assert!(take().is_none());
        assert_eq!(budget.calls_of_one(limits::MEMORY_CEILING_BYTES), 1);
    }
}
