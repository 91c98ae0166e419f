//! Gives back the memory of the program's own code and constants that only its start needed. The kernel maps 64 KiB around
//! each byte that is read from the file, so that 34 MiB are resident after the start, of which 6 MiB are used from then
//! on. What is used again is mapped again, from the page cache.
//!
//! This lowers what is counted for the process: by the OOM killer and by `process_resident_memory_bytes`. The page cache
//! keeps the file, as memory that the kernel may reclaim first.
#![allow(
    unsafe_code,
    reason = "advice to the kernel about ranges of addresses; what makes it sound is said right here"
)]

use std::ops::Range;
use std::ptr;
use std::time::Duration;

use rustix::mm::{Advice, madvise};

/// Time between the first two releases; it doubles from one to the next. The first look-ups need the most memory.
const FIRST_INTERVAL: Duration = Duration::from_millis(250);
/// Longest time between two releases. Code that is used again costs some hundred faults, a fraction of a millisecond.
const LONGEST_INTERVAL: Duration = Duration::from_secs(60);

/// Releases at once, and again and again. Never completes.
pub(crate) async fn keep_released() {
    let mut interval = FIRST_INTERVAL;
    loop {
        release();
        tokio::time::sleep(interval).await;
        interval = LONGEST_INTERVAL.min(interval * 2);
    }
}

/// Releases what is [`unwritten`]. A kernel that does not show it, or refuses the advice, keeps it.
fn release() {
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    let code = (release as fn() as *const ()).addr();
    for range in unwritten(&smaps, code) {
        let start = ptr::without_provenance_mut(range.start);
        // The first takes what is released off the list of pages in use.
        for advice in [Advice::LinuxCold, Advice::LinuxDontNeed] {
            // SAFETY: the program cannot write to this mapping of its own file, and no page of it differs from the file. So
            // each page that is dropped comes back as it was, also for a thread that runs in it.
            let _ = unsafe { madvise(start, range.len(), advice) };
        }
    }
}

/// A mapping of `/proc/self/smaps`.
struct Mapping<'a> {
    range: Range<usize>,
    is_writable: bool,
    /// Device and inode.
    file: [&'a str; 2],
    /// Whether pages of it have been written to, and so are no longer those of the file.
    is_changed: bool,
}

/// The mappings of the file in which `code` stands that cannot be written to, and in which nothing has been changed:
/// neither by relocations, nor by a debugger's or a profiler's breakpoints.
fn unwritten(smaps: &str, code: usize) -> Vec<Range<usize>> {
    let mut mappings: Vec<Mapping<'_>> = Vec::new();
    for line in smaps.lines() {
        if let Some(pages) = line.strip_prefix("Anonymous:") {
            if let Some(mapping) = mappings.last_mut() {
                mapping.is_changed = pages.trim() != "0 kB";
            }
        } else {
            mappings.extend(mapping(line));
        }
    }
    let program = mappings
        .iter()
        .find(|mapping| mapping.range.contains(&code))
        .map(|mapping| mapping.file);
    let mappings = mappings.into_iter().filter(|mapping| {
        Some(mapping.file) == program && !mapping.is_writable && !mapping.is_changed
    });
    mappings.map(|mapping| mapping.range).collect()
}

/// The first line of a mapping: `START-END PERMISSIONS OFFSET DEVICE INODE …`. What follows it decides whether it is
/// changed; until then it is.
fn mapping(line: &str) -> Option<Mapping<'_>> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    Some(Mapping {
        range: number(start)?..number(end)?,
        is_writable: words.next()?.contains('w'),
        file: [words.nth(1)?, words.next()?],
        is_changed: true,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn only_what_is_as_in_the_programs_file_is_released() {
        let smaps = "\
1000-3000 r--p 00000000 fe:00 77 /ccm\nRss: 8 kB\nAnonymous:             0 kB\nVmFlags: rd mr mw me\n\
3000-9000 r-xp 00002000 fe:00 77 /ccm\nAnonymous:             0 kB\n\
a000-b000 r--p 00009000 fe:00 77 /ccm\nAnonymous:             4 kB\n\
b000-c000 rw-p 0000a000 fe:00 77 /ccm\nAnonymous:             0 kB\n\
c000-d000 r--p 00000000 00:00 0 \nAnonymous:             0 kB\n\
d000-e000 r-xp 00000000 fe:00 78 /lib/libc.so.6\nAnonymous:             0 kB\n\
e000-f000 r--p 00000000 fe:00 77 /ccm\n";
        let headers = 0x1000..0x3000;
        assert_eq!(unwritten(smaps, 0x4000), [headers.clone(), 0x3000..0x9000]);
        // A breakpoint stands in the code.
        let stopped = smaps.replacen(
            "77 /ccm\nAnonymous:             0",
            "77 /ccm\nAnonymous:             4",
            1,
        );
        assert_eq!(unwritten(&stopped, 0x4000), std::slice::from_ref(&headers));
        for code in [0x500, 0x9800] {
            assert!(unwritten(smaps, code).is_empty(), "{code:x}");
        }
        assert!(unwritten("", 0x4000).is_empty());
    }

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
        let before = resident();
        release();
        let after = resident();
        assert!(after < before, "{after} KiB of {before} are left");
    }
}
