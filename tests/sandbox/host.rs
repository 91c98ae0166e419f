//! The hosts of all tests here, whose compile child is this program, and their shared folder of compiled code.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use ccm_host::{Compiler, Host, HostOptions, Isolation, SandboxProgram};
use ccm_tests::compiled_modules;
use rustix::process::Pid;

/// The argument that makes this program a compile child.
pub(crate) const COMPILE: &str = "__compile";

/// The folder of compiled code of all suites, kept from run to run as an installation keeps it: each module is compiled
/// once. Tests of compiling and of the cache use their own folders.
pub(crate) fn cache() -> &'static Path {
    static CACHE: LazyLock<PathBuf> =
        LazyLock::new(|| Path::new(env!("CARGO_TARGET_TMPDIR")).join(compiled_modules::FOLDER));
    &CACHE
}

/// The host of every test that needs no host of its own.
pub(crate) static HOST: LazyLock<Arc<Host>> =
    LazyLock::new(|| Arc::new(open_host(compiler(&[]), Some(cache()))));

/// This program as compile child, with more arguments.
pub(crate) fn compiler(arguments: &[&str]) -> Compiler {
    let arguments = [COMPILE].iter().chain(arguments).map(Into::into).collect();
    Compiler {
        program: std::env::current_exe().unwrap(),
        arguments,
    }
}

/// The argument that makes this program run guests.
pub(crate) const SANDBOX: &str = "__sandbox";

/// Where guests run: on threads of this process, or with `CCM_PROVIDER_ISOLATION=child-process` in child processes.
pub(crate) fn isolation() -> Isolation {
    match std::env::var("CCM_PROVIDER_ISOLATION").as_deref() {
        Ok("child-process") => child_process(),
        Ok("in-process") | Err(_) => Isolation::InProcess,
        Ok(other) => panic!("CCM_PROVIDER_ISOLATION={other}: in-process or child-process"),
    }
}

/// This program as the process that runs guests.
pub(crate) fn child_process() -> Isolation {
    Isolation::ChildProcess(SandboxProgram {
        program: std::env::current_exe().unwrap(),
        arguments: vec![SANDBOX.into()],
    })
}

/// A host that compiles with `compiler` and keeps compiled code below `cache_dir`, or in memory only.
pub(crate) fn open_host(compiler: Compiler, cache_dir: Option<&Path>) -> Host {
    Host::new(HostOptions {
        compiler,
        cache_dir: cache_dir.map(Path::to_owned),
        isolation: isolation(),
    })
    .unwrap()
}

/// This program's children that run guests.
pub(crate) fn sandboxes() -> Vec<Pid> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let children = tasks.flat_map(|task| {
        let children = std::fs::read_to_string(task.unwrap().path().join("children"));
        let children = children.unwrap_or_default();
        let children = children.split_whitespace().map(|pid| pid.parse().unwrap());
        children.collect::<Vec<i32>>()
    });
    let is_sandbox = |pid: &i32| {
        std::fs::read_to_string(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|line| line.contains(SANDBOX))
    };
    children
        .filter(is_sandbox)
        .filter_map(Pid::from_raw)
        .collect()
}
