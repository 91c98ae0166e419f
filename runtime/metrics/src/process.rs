//! The `process_*` metrics, which Go's client library has for every program, read from `/proc` at each scrape. A value
//! that cannot be read is left out.

use std::fmt::{Debug, Error};
use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use rustix::time::{ClockId, clock_gettime};

/// Linux counts times in `/proc` in hundredths of a second on every processor (`USER_HZ`).
const TICKS_PER_SECOND: f64 = 100.0;

/// Registers the metrics of this process.
pub fn register(registry: &mut Registry) {
    registry.register_collector(Box::new(Process { started: started() }));
}

/// Reads the metrics of this process at each scrape.
#[derive(Debug)]
struct Process {
    /// When the process was started, in seconds since 1970; `None` if that cannot be read.
    started: Option<f64>,
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        let cpu = cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9;
        let cpu = ConstCounter::new(cpu);
        let help = "Seconds of CPU time that this process has used.";
        cpu.encode(encoder.encode_descriptor(
            "process_cpu_seconds",
            help,
            None,
            cpu.metric_type(),
        )?)?;
        let (received, sent) = network();
        for (name, help, value) in [
            (
                "process_network_receive_bytes",
                "Bytes that came over the network of this process's namespace: the pod's, or the node's if the pod has \
                 hostNetwork.",
                received,
            ),
            (
                "process_network_transmit_bytes",
                "Bytes that were sent over the network of this process's namespace: the pod's, or the node's if the pod \
                 has hostNetwork.",
                sent,
            ),
        ] {
            let Some(value) = value else { continue };
            let counter = ConstCounter::new(value);
            counter.encode(encoder.encode_descriptor(
                name,
                help,
                None,
                counter.metric_type(),
            )?)?;
        }
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
        for (name, help, value) in [
            (
                "process_resident_memory_bytes",
                "Bytes of memory that this process has in use.",
                kibibytes(&status, "VmRSS:"),
            ),
            (
                "process_virtual_memory_bytes",
                "Bytes of address space that this process has reserved.",
                kibibytes(&status, "VmSize:"),
            ),
            (
                "process_virtual_memory_max_bytes",
                "Bytes of address space that this process may reserve.",
                limit(&limits, "Max address space"),
            ),
            (
                "process_open_fds",
                "File descriptors that this process has open.",
                open_files(),
            ),
            (
                "process_max_fds",
                "File descriptors that this process may have open.",
                limit(&limits, "Max open files"),
            ),
            (
                "process_start_time_seconds",
                "When this process was started, in seconds since 1970.",
                self.started,
            ),
        ] {
            let Some(value) = value else { continue };
            let gauge = ConstGauge::new(value);
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        Ok(())
    }
}

/// A line of `/proc/self/status`, in bytes.
fn kibibytes(status: &str, name: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let number: f64 = line.split_whitespace().next()?.parse().ok()?;
    Some(number * 1024.0)
}

/// The soft limit of a line of `/proc/self/limits`.
fn limit(limits: &str, name: &str) -> Option<f64> {
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    match line.split_whitespace().next()? {
        // As Go's client library shows it.
        "unlimited" => Some(u64::MAX as f64),
        number => number.parse().ok(),
    }
}

/// Bytes received and sent, as `/proc/self/net/netstat` has them: a line with names above a line with values.
fn network() -> (Option<f64>, Option<f64>) {
    let text = fs::read_to_string("/proc/self/net/netstat").unwrap_or_default();
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("IpExt: "));
    let (names, values) = (
        lines.next().unwrap_or_default(),
        lines.next().unwrap_or_default(),
    );
    let value = |name: &str| {
        let mut pairs = names.split(' ').zip(values.split(' '));
        pairs.find(|(known, _)| *known == name)?.1.parse().ok()
    };
    (value("InOctets"), value("OutOctets"))
}

fn open_files() -> Option<f64> {
    // One of the open files is the folder that is being read.
    let open = fs::read_dir("/proc/self/fd")
        .ok()?
        .count()
        .saturating_sub(1);
    Some(open as f64)
}

/// When this process was started, in seconds since 1970.
fn started() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The program's name, in parentheses, can contain anything.
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks: f64 = fields.split_whitespace().nth(19)?.parse().ok()?;
    let system = fs::read_to_string("/proc/stat").ok()?;
    let booted = system
        .lines()
        .find_map(|line| line.strip_prefix("btime "))?;
    Some(booted.trim().parse::<f64>().ok()? + ticks / TICKS_PER_SECOND)
}
