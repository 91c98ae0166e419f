//! The resources that a process has used, from `/proc`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, Result};

/// The unit of times in `/proc/PID/stat`: Linux shows every program 100 a second.
const TICK: Duration = Duration::from_millis(10);

/// Interval of the search for a child that may live for a tenth of a second only.
const SEARCH: Duration = Duration::from_millis(10);

#[derive(Clone, Copy)]
pub(crate) struct Usage {
    /// User and system time of the process itself.
    pub(crate) cpu: Duration,
    /// The same for its existing threads, in nanoseconds if the kernel provides that, for short times.
    pub(crate) exact_cpu: Duration,
    /// The same of the children that have ended.
    pub(crate) children_cpu: Duration,
    /// The largest resident set so far, in KiB.
    pub(crate) peak: u64,
    /// The resident set now, in KiB.
    pub(crate) resident: u64,
}

pub(crate) fn of(process: u32) -> Result<Usage> {
    let folder = PathBuf::from(format!("/proc/{process}"));
    let stat = std::fs::read_to_string(folder.join("stat"))?;
    // The name of the program is in parentheses and may contain anything.
    let (_, fields) = stat.rsplit_once(')').context("not a process's stat")?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    // The first of these is field 3 of proc_pid_stat(5).
    let ticks = |field: usize| -> Result<u32> {
        Ok(fields.get(field - 3).context("a short stat")?.parse()?)
    };
    let status = std::fs::read_to_string(folder.join("status"))?;
    let cpu = TICK * (ticks(14)? + ticks(15)?);
    Ok(Usage {
        cpu,
        exact_cpu: scheduled(&folder).unwrap_or(cpu),
        children_cpu: TICK * (ticks(16)? + ticks(17)?),
        peak: kib(&status, "VmHWM:").context("no peak")?,
        resident: kib(&status, "VmRSS:").context("no resident set")?,
    })
}

/// The processor time of a process's threads: the first number of each thread's `schedstat`.
fn scheduled(process: &Path) -> Option<Duration> {
    let threads = std::fs::read_dir(process.join("task")).ok()?;
    let times = threads.flatten().filter_map(|thread| {
        // A thread may have ended meanwhile.
        let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    });
    let sum = times.sum();
    (sum > 0).then(|| Duration::from_nanos(sum))
}

fn kib(status: &str, field: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

/// Looks for children of a process and keeps the largest resident set that one of them had.
pub(crate) struct Children {
    over: Arc<AtomicBool>,
    peak: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Children {
    pub(crate) fn watch(parent: u32) -> Self {
        let (over, peak) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let (ended, largest) = (over.clone(), peak.clone());
        let thread = std::thread::spawn(move || {
            let mut child = None;
            while !ended.load(Ordering::Relaxed) {
                // It may have ended meanwhile.
                match child.and_then(|child| of(child).ok()) {
                    Some(usage) => {
                        largest.fetch_max(usage.peak, Ordering::Relaxed);
                    }
                    None => child = child_of(parent),
                }
                std::thread::sleep(if child.is_some() { SEARCH / 5 } else { SEARCH });
            }
        });
        Self {
            over,
            peak,
            thread: Some(thread),
        }
    }

    /// The peak in KiB, if there was a child.
    pub(crate) fn peak(mut self) -> Option<u64> {
        self.end();
        Some(self.peak.load(Ordering::Relaxed)).filter(|peak| *peak > 0)
    }

    fn end(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported already.
            let _ = thread.join();
        }
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        self.end();
    }
}

/// Not every kernel lists the children of a process, but every process names its parent.
fn child_of(parent: u32) -> Option<u32> {
    let numbers = std::fs::read_dir("/proc").ok()?.flatten();
    let mut processes = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    processes.find(|process| {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
        fields.split_whitespace().nth(1) == Some(parent.to_string().as_str())
    })
}
