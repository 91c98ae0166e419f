//! The manager's cost of loading a module: memory while a child compiles, and time when the code is cached.

use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ccm_host::{Host, Loading, Module};
use tempfile::TempDir;
use wasm_encoder::{Component, ModuleSection};

use crate::artifacts::memory;
use crate::host::{compiler, open_host};
use crate::loading;
use crate::swap::world::{self, LOCATION, block_on};
use ccm_tests::harness::Test;
use ccm_tests::harness::figure;

pub(crate) const TESTS: &[Test] = &[
    (
        "compiling_leaves_the_managers_memory_alone",
        compiling_leaves_the_managers_memory_alone,
    ),
    ("a_warm_cache_loads_at_once", a_warm_cache_loads_at_once),
];

/// The argument that makes this program a manager that compiles, and prints its growth.
pub(crate) const GROWTH: &str = "__growth";
/// Maximum growth in KiB.
const MOST: u64 = 16 << 10;
/// Interval between two measurements of its size.
const LOOK: Duration = Duration::from_millis(2);
const NOWHERE: &str = "http://127.0.0.1:9/v1";

/// In a process of its own, where nothing else takes memory.
fn compiling_leaves_the_managers_memory_alone() {
    let ended = Command::new(std::env::current_exe().unwrap())
        .arg(GROWTH)
        .output()
        .unwrap();
    let reported = String::from_utf8(ended.stdout).unwrap();
    assert!(
        ended.status.success(),
        "{reported}{}",
        String::from_utf8_lossy(&ended.stderr)
    );
    let mut lines = 0;
    for line in reported.lines() {
        let mut words = line.split(' ');
        let mut next = || words.next().unwrap();
        let name = next().to_owned();
        let [before, peak, after] =
            [next(), next(), next()].map(|word| word.parse::<u64>().unwrap());
        let grown = peak.saturating_sub(before);
        let mib = |kib: u64| kib as f64 / 1024.0;
        figure(format!(
            "manager while a child compiles {name}: {:.1} MiB before, {:.1} at most (+{:.1}), {:.1} after",
            mib(before),
            mib(peak),
            mib(grown),
            mib(after),
        ));
        assert!(grown <= MOST, "{line}");
        lines += 1;
    }
    assert_eq!(lines, 2);
}

/// The manager whose size is measured.
#[allow(clippy::print_stdout, reason = "this is how it tells")]
pub(crate) fn growth() -> ExitCode {
    block_on(async {
        // A bomb is recognised before the whole minute has passed.
        let host = open_host(compiler(&["--cpu-seconds=10", "--memory-mib=600"]), None);
        // Once before, so that memory that every process needs is not counted.
        let module = world::version("0.1.0");
        let loading = Loading {
            grants: world::grants(&module, NOWHERE),
            config: world::config(world::BALANCING),
            ..Loading::default()
        };
        let _kept = host.load_as(module, loading).await.unwrap();
        for (name, module, is_good) in [
            ("hcloud", world::hcloud(0), true),
            ("a bomb", bomb(), false),
        ] {
            let loading = Loading {
                grants: world::grants(&module, NOWHERE),
                config: world::config(LOCATION),
                ..Loading::default()
            };
            let before = resident();
            let watch = Watch::begin();
            let loaded = host.load_as(module, loading).await;
            let peak = watch.end().max(before);
            assert_eq!(loaded.is_ok(), is_good, "{name}");
            println!("{} {before} {peak} {}", name.replace(' ', "-"), resident());
        }
    });
    ExitCode::SUCCESS
}

/// Measures the size of this process again and again.
struct Watch {
    over: Arc<AtomicBool>,
    peak: Arc<AtomicU64>,
    thread: std::thread::JoinHandle<()>,
}

impl Watch {
    fn begin() -> Watch {
        let (over, peak) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let (ended, largest) = (over.clone(), peak.clone());
        let thread = std::thread::spawn(move || {
            while !ended.load(Ordering::SeqCst) {
                largest.fetch_max(resident(), Ordering::SeqCst);
                std::thread::sleep(LOOK);
            }
        });
        Watch { over, peak, thread }
    }

    fn end(self) -> u64 {
        self.over.store(true, Ordering::SeqCst);
        self.thread.join().unwrap();
        self.peak.load(Ordering::SeqCst)
    }
}

/// The resident set of this process in KiB.
fn resident() -> u64 {
    memory("VmRSS:")
}

/// The shipped guest with functions that keep a compiler busy until it has no more memory.
fn bomb() -> Module {
    const FUNCTIONS: u32 = 200;
    let module = loading::bomb(FUNCTIONS);
    let mut tail = Component::new();
    tail.section(&ModuleSection(&module));
    let mut wasm = world::hcloud(0).wasm.to_vec();
    wasm.extend(&tail.finish()[8..]);
    Module {
        source: "bomb".to_owned(),
        wasm: wasm.into(),
    }
}

fn a_warm_cache_loads_at_once() {
    block_on(async {
        let folder = TempDir::new().unwrap();
        let load = async |host: &Host| {
            let module = world::hcloud(0);
            let loading = Loading {
                name: Some("entry".to_owned()),
                grants: world::grants(&module, NOWHERE),
                config: world::config(LOCATION),
                ..Loading::default()
            };
            let since = Instant::now();
            host.load_as(module, loading).await.unwrap();
            since.elapsed().as_secs_f64() * 1000.0
        };
        let first = open_host(compiler(&[]), Some(folder.path()));
        let cold = load(&first).await;
        let again = load(&first).await;
        let since = Instant::now();
        let next = open_host(compiler(&[]), Some(folder.path()));
        let opened = since.elapsed().as_secs_f64() * 1000.0;
        let warm = load(&next).await;
        figure(format!(
            "loading hcloud: {cold:.0} ms with compiling, {warm:.0} ms from a warm cache after a restart (and {opened:.0} ms for the host), {again:.0} ms from memory"
        ));
        assert!(warm < cold, "{warm} ms, and {cold} ms with compiling");
    });
}
