//! The confined child process: what it cannot do, and the parent's reaction to a child that lies, ends or hangs. The
//! other areas show with `CCM_PROVIDER_ISOLATION=child-process` that guests behave in it as they do without it.

use std::fs::File;
use std::io::Write as _;
use std::net::{TcpStream, UdpSocket};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ccm_core::cloud::{Lookup, ProviderError};
use ccm_core::cloud_provider::CloudProvider as _;
use ccm_fixtures::objects::cloud_node;
use ccm_host::confine::{Child, confine, keep_memory_private};
use ccm_host::{Host, HostOptions, Isolation, LoadError, LoadErrorKind, SandboxProgram};
use ccm_tests::harness::{self, Test, figure};
use guest_misbehaving::behaviour::Behaviour;
use libtest_mimic::Trial;
use rustix::process::{DumpableBehavior, Pid, Signal};

use crate::host::{COMPILE, cache, child_process, compiler, sandboxes};
use crate::misbehaving::target::{Target, TargetMode};
use crate::misbehaving::world::{TIMEOUT, block_on, config, grants, module};
use crate::permits;

/// The argument with which this program confines itself and tries to escape; the kind of child follows.
pub(crate) const ESCAPE: &str = "escape";

const TESTS: &[Test] = &[
    ("a_confined_child_gets_nothing_new", a_confined_child),
    ("a_compiler_ends_with_its_parent", compiler_ends),
    ("a_program_that_is_no_sandbox_is_told", no_sandbox),
    ("too_much_memory_is_the_fault_of_the_module", own_memory),
    ("a_process_forgets_the_state_of_its_guests", forgets),
];

/// Tests that count this program's children, so that no other test may have any.
const ALONE: &[Test] = &[
    ("a_process_that_is_killed_is_replaced", killed),
    (
        "a_process_is_not_ended_by_what_asks_its_parent_to_stop",
        asked_to_stop,
    ),
    ("the_process_ends_with_its_provider", ends),
    ("what_a_call_costs", cost),
];

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = harness::table("isolation", TESTS);
    trials.extend(harness::table_alone("isolation", ALONE));
    trials
}

/// For the kernel, the thread that starts a process is its parent.
fn compiler_ends() {
    let program = std::env::current_exe().unwrap();
    let deadline = Instant::now() + TIMEOUT;
    let start = move || {
        let mut command = Command::new(program);
        let command = command.arg(COMPILE).stdin(Stdio::piped());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        // It limits itself before it reads the module, which here begins and does not end.
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(b"\0asm").unwrap();
        while rustix::io::ioctl_fionread(&stdin).unwrap() > 0 {
            let is_running = child.try_wait().unwrap().is_none();
            assert!(is_running && Instant::now() < deadline, "it reads nothing");
            std::thread::sleep(Duration::from_millis(5));
        }
        (child, stdin)
    };
    let (mut child, stdin) = std::thread::spawn(start).join().unwrap();
    let deadline = Instant::now() + TIMEOUT;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        assert!(Instant::now() < deadline, "it outlives its parent");
        std::thread::sleep(Duration::from_millis(5));
    };
    drop(stdin);
    assert_eq!(status.signal(), Some(Signal::KILL.as_raw()));
}

/// The attempts, and whether each may succeed.
const TRIED: &[(&str, bool)] = &[
    ("reads the cluster's token", false),
    ("writes a file", false),
    ("lists a folder", false),
    ("reads its parent's environment", false),
    ("connects to an address", false),
    ("opens a socket for datagrams", false),
    ("listens", false),
    ("connects to a process by a path", false),
    ("starts a program", false),
    ("ends its parent", false),
    ("can be looked into", false),
    ("starts a thread", true),
    ("takes memory", true),
    ("reads the clock", true),
];

fn a_confined_child() {
    for child in ["compiler", "sandbox"] {
        let folder = tempfile::tempdir().unwrap();
        let output = Command::new(std::env::current_exe().unwrap())
            .args([ESCAPE, child])
            .arg(folder.path())
            .output()
            .unwrap();
        let shown = String::from_utf8_lossy(&output.stdout);
        let expected: String = TRIED
            .iter()
            .map(|(what, succeeds)| format!("{what}: {succeeds}\n"))
            .collect();
        assert_eq!(shown, expected, "{child}: {output:?}");
    }
}

/// The process of [`ESCAPE`]: a child that its guest controls.
pub(crate) fn escape() -> ExitCode {
    let child = match std::env::args().nth(2).as_deref() {
        Some("compiler") => Child::Compiler,
        _ => Child::Sandbox,
    };
    // Opened before the confinement, so that the attempts have something to reach.
    let folder = std::env::args_os().nth(3).unwrap();
    let folder = std::path::Path::new(&folder);
    let token = folder.join("token");
    std::fs::write(&token, "secret").unwrap();
    let path = folder.join("socket");
    let _listener = UnixListener::bind(&path).unwrap();
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let parent = rustix::process::getppid().unwrap();
    keep_memory_private().unwrap();
    // Once confined it may not even make this call.
    let is_private = rustix::process::dumpable_behavior().unwrap() == DumpableBehavior::NotDumpable;
    confine(child).unwrap();

    let tried: &[(&str, &dyn Fn() -> bool)] = &[
        ("reads the cluster's token", &|| {
            std::fs::read(&token).is_ok()
        }),
        ("writes a file", &|| {
            File::create(folder.join("new")).is_ok()
        }),
        ("lists a folder", &|| std::fs::read_dir("/").is_ok()),
        ("reads its parent's environment", &|| {
            std::fs::read(format!("/proc/{}/environ", parent.as_raw_nonzero())).is_ok()
        }),
        ("connects to an address", &|| {
            TcpStream::connect(address).is_ok()
        }),
        ("opens a socket for datagrams", &|| {
            UdpSocket::bind("127.0.0.1:0").is_ok()
        }),
        ("listens", &|| {
            std::net::TcpListener::bind("127.0.0.1:0").is_ok()
        }),
        ("connects to a process by a path", &|| {
            UnixStream::connect(&path).is_ok()
        }),
        ("starts a program", &|| {
            Command::new("/bin/true")
                .stdin(Stdio::null())
                .status()
                .is_ok()
        }),
        ("ends its parent", &|| {
            rustix::process::kill_process(parent, Signal::URG).is_ok()
        }),
        ("can be looked into", &|| !is_private),
        ("starts a thread", &|| {
            std::thread::spawn(|| ()).join().is_ok()
        }),
        ("takes memory", &|| {
            vec![1_u8; 64 << 20].iter().all(|byte| *byte == 1)
        }),
        ("reads the clock", &|| {
            Instant::now().elapsed().as_secs() < 60
        }),
    ];
    let mut shown = String::new();
    for (what, attempt) in tried {
        shown.push_str(&format!("{what}: {}\n", attempt()));
    }
    #[allow(
        clippy::print_stdout,
        reason = "the test that began this process reads it"
    )]
    {
        print!("{shown}");
    }
    ExitCode::SUCCESS
}

fn host(isolation: Isolation) -> Host {
    Host::new(HostOptions {
        compiler: compiler(&[]),
        cache_dir: Some(cache().to_owned()),
        isolation,
    })
    .unwrap()
}

const NONSENSE: &str = "it said what no sandbox says";

/// Programs that are no sandbox, and the messages about them.
fn no_sandbox() {
    let rows: &[(&str, &[&str], &str)] = &[
        (
            "/no/such/program",
            &[],
            "cannot run /no/such/program as a sandbox",
        ),
        ("/bin/sh", &["-c", "exit 3"], "exit status: 3"),
        (
            "/bin/sh",
            &["-c", "echo lost >&2; exit 4"],
            "exit status: 4: lost",
        ),
        // It sends the parent's own messages back.
        ("/bin/sh", &["-c", "cat <&0 >&0"], NONSENSE),
        (
            "/bin/sh",
            &["-c", "head -c 99 /dev/zero >&0; sleep 1"],
            NONSENSE,
        ),
        ("/bin/sh", &["-c", "yes >&0"], NONSENSE),
    ];
    for (program, arguments, expected) in rows {
        let host = host(Isolation::ChildProcess(SandboxProgram {
            program: program.into(),
            arguments: arguments.iter().map(Into::into).collect(),
        }));
        let loaded = block_on(host.load(
            module(),
            grants("http://127.0.0.1:1"),
            config(Behaviour::Honest),
        ));
        let Err(LoadError {
            kind: LoadErrorKind::Host(what),
            ..
        }) = loaded
        else {
            panic!("{arguments:?}: {loaded:?}");
        };
        assert!(what.contains(expected), "{arguments:?}: {what}");
    }
}

/// A provider in a process of its own, and that process.
async fn loaded(behaviour: Behaviour, endpoint: &str) -> (ccm_host::Provider, Vec<Pid>) {
    let before = sandboxes();
    let provider = host(child_process())
        .load(module(), grants(endpoint), config(behaviour))
        .await
        .unwrap();
    let mut new = sandboxes();
    new.retain(|pid| !before.contains(pid));
    (provider, new)
}

/// More time than a process without a call uses, in the kernel's hundredths of a second.
const A_WHILE: u64 = 5;

/// The processor time that a process has used, in hundredths of a second.
fn worked(pid: &Pid) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    // User and system, the 14th and the 15th field; the name before is the second.
    let times = fields.split(' ').skip(11).take(2);
    times.map(|ticks| ticks.parse::<u64>().unwrap()).sum()
}

fn killed() {
    block_on(async {
        let cloud = Target::start(TargetMode::Well).await;
        let (provider, pids) = loaded(Behaviour::Spin, &cloud.endpoint()).await;
        let provider = Arc::new(provider);
        let before: u64 = pids.iter().map(worked).sum();
        let calling = {
            let provider = provider.clone();
            tokio::spawn(async move {
                let nodes = [cloud_node("one")];
                provider.find(&nodes, permits::reads_for(TIMEOUT)).await
            })
        };
        // It computes until it is killed.
        while pids.iter().map(worked).sum::<u64>() < before + A_WHILE && !calling.is_finished() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        for pid in &pids {
            rustix::process::kill_process(*pid, Signal::KILL).unwrap();
        }
        let error = calling.await.unwrap().unwrap_err();
        assert!(matches!(error, ProviderError::Interrupted(_)), "{error}");
        assert!(error.to_string().contains("signal 9"), "{error}");
        drop(provider);

        let (provider, pids) = loaded(Behaviour::Honest, &cloud.endpoint()).await;
        for pid in pids {
            rustix::process::kill_process(pid, Signal::KILL).unwrap();
        }
        let nodes = [cloud_node("one")];
        // The first call may still meet the end of the former process.
        let _ = provider.find(&nodes, permits::reads_for(TIMEOUT)).await;
        let reply = provider
            .find(&nodes, permits::reads_for(TIMEOUT))
            .await
            .unwrap();
        assert!(matches!(reply.lookups[..], [Lookup::Found(_)]));
    });
}

/// As a terminal and a service manager do, which address every process of a group.
fn asked_to_stop() {
    block_on(async {
        let cloud = Target::start(TargetMode::Well).await;
        let (provider, pids) = loaded(Behaviour::Honest, &cloud.endpoint()).await;
        for pid in &pids {
            for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
                rustix::process::kill_process(*pid, signal).unwrap();
            }
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        let nodes = [cloud_node("one")];
        let reply = provider
            .find(&nodes, permits::reads_for(TIMEOUT))
            .await
            .unwrap();
        assert!(matches!(reply.lookups[..], [Lookup::Found(_)]));
        for pid in pids {
            assert!(rustix::process::test_kill_process(pid).is_ok());
        }
    });
}

fn own_memory() {
    block_on(async {
        let (provider, _) = loaded(Behaviour::MemoryBomb, "http://127.0.0.1:1").await;
        let nodes = [cloud_node("one")];
        let permit = permits::reads_for(TIMEOUT);
        let error = provider.find(&nodes, permit).await.unwrap_err();
        assert!(matches!(error, ProviderError::Trapped(_)), "{error}");
        assert!(error.to_string().contains("of memory"), "{error}");
    });
}

fn forgets() {
    block_on(async {
        let (provider, _) = loaded(Behaviour::FromState, "http://127.0.0.1:1").await;
        let nodes = [cloud_node("one")];
        let find = async || {
            let reply = provider.find(&nodes, permits::reads_for(TIMEOUT)).await;
            reply.unwrap().lookups.remove(0)
        };
        for _ in 0..2 {
            assert!(matches!(find().await, Lookup::Found(_)));
            assert_eq!(find().await, Lookup::Gone);
            provider.forgets();
        }
    });
}

fn ends() {
    block_on(async {
        let (provider, pids) = loaded(Behaviour::Honest, "http://127.0.0.1:1").await;
        assert!(!pids.is_empty());
        drop(provider);
        let gone = |pid: &Pid| {
            let status = format!("/proc/{}/cmdline", pid.as_raw_nonzero());
            std::fs::read_to_string(status)
                .unwrap_or_default()
                .is_empty()
        };
        while !pids.iter().any(gone) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
}

/// Prints the duration of a call in a child process, and without one.
fn cost() {
    const CALLS: u32 = 300;
    block_on(async {
        let cloud = Target::start(TargetMode::Well).await;
        let mut took = Vec::new();
        for behaviour in [Behaviour::Honest, Behaviour::HonestRequests] {
            let mut pair = Vec::new();
            for isolation in [Isolation::InProcess, child_process()] {
                let provider = host(isolation)
                    .load(module(), grants(&cloud.endpoint()), config(behaviour))
                    .await
                    .unwrap();
                let nodes = [cloud_node("one")];
                let _ = provider.find(&nodes, permits::reads_for(TIMEOUT)).await;
                let began = Instant::now();
                for _ in 0..CALLS {
                    provider
                        .find(&nodes, permits::reads_for(TIMEOUT))
                        .await
                        .unwrap();
                }
                pair.push(began.elapsed() / CALLS);
            }
            took.push((behaviour, pair[0].as_micros(), pair[1].as_micros()));
        }
        for (behaviour, within, child) in took {
            let ratio = child as f64 / within as f64;
            figure(format!(
                "a call of the guest that is {} takes {within} µs in this process, {child} µs in one of its own: {ratio:.1} times",
                behaviour.word()
            ));
        }
    });
}
