//! Gives back the memory of the program's own code and constants that only its start needed. The kernel maps 64 KiB around
//! each byte that is read from the file, so that 34 MiB are resident after the start, of which 6 MiB are used from then
//! on. What is used again is mapped again, from the page cache.
//!
//! This lowers what is counted for the process: by the OOM killer and by `process_resident_memory_bytes`. The page cache
//! keeps the file, as memory that the kernel may reclaim first.
#![allow(
    unsafe_code,
    reason = "advice to the kernel about a range of addresses; what makes it sound is said right here"
)]

use std::time::Duration;

use rustix::mm::{Advice, madvise};
use rustix::param::page_size;

/// Between two releases. Code that is used once a minute costs some hundred faults, a fraction of a millisecond.
const INTERVAL: Duration = Duration::from_secs(60);

unsafe extern "C" {
    /// Set by the linker: the program's first byte in memory.
    static __executable_start: u8;
    /// Set by the linker: the first byte after the program's code.
    static etext: u8;
}

/// Releases at once, and again after each [`INTERVAL`]. Never completes.
pub(crate) async fn keep_released() {
    let mut interval = tokio::time::interval(INTERVAL);
    loop {
        interval.tick().await;
        release();
    }
}

/// Releases all pages of code and constants, unless a debugger is attached: its breakpoints stand in them. A kernel that
/// refuses it keeps them.
fn release() {
    if is_traced() {
        return;
    }
    let start = &raw const __executable_start;
    let length = (&raw const etext).addr().saturating_sub(start.addr()) / page_size() * page_size();
    // The first takes what is released off the list of pages in use.
    for advice in [Advice::LinuxCold, Advice::LinuxDontNeed] {
        // SAFETY: between the two symbols linkers place segments that are never writable: headers, constants and code. No
        // page of them has been written to, as code that is independent of its position has its relocations after them. So
        // each page that is dropped comes back from the file as it was, also for a thread that runs in it.
        let _ = unsafe { madvise(start.cast_mut().cast(), length, advice) };
    }
}

fn is_traced() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let tracer = status
        .lines()
        .find_map(|line| line.strip_prefix("TracerPid:"));
    tracer.is_some_and(|tracer| tracer.trim() != "0")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    /// Kibibytes that are mapped from files.
    fn resident() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let mapped = status
            .lines()
            .find_map(|line| line.strip_prefix("RssFile:"));
        let mapped = mapped.unwrap().trim().trim_end_matches(" kB");
        mapped.parse().unwrap()
    }

    #[test]
    fn what_only_the_start_needed_is_released_and_the_program_goes_on() {
        let start = (&raw const __executable_start).addr();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let is_first = maps.starts_with(&format!("{start:x}-"));
        assert!(is_first, "the program begins elsewhere: {maps}");
        let before = resident();
        release();
        let after = resident();
        assert!(after < before, "{after} KiB of {before} are left");
    }
}
