//! What a child process gives up before it reads a byte that somebody else wrote: files, network, other processes, new
//! privileges. What it needs – memory, threads, clocks, the descriptors that it was born with – stays. Nothing here can be
//! taken back.
//!
//! Two mechanisms, of which either alone would do: a seccomp filter that lists what is allowed and answers everything else
//! with "not permitted", and a Landlock domain without any path or port. The filter is required. Landlock is not in every
//! kernel (5.13 and later), and some container runtimes withhold it: then the filter stands alone.

use std::collections::BTreeMap;
use std::io;

use landlock::{ABI, Access as _, AccessFs, AccessNet, Ruleset, RulesetAttr as _, Scope};
use libc::c_long;
use rlimit::Resource;
use rustix::process::DumpableBehavior;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter,
};

/// What both children need: memory, threads, signals, clocks, randomness, their descriptors, their end.
const ALLOWED: &[c_long] = &[
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_close,
    libc::SYS_fstat,
    libc::SYS_lseek,
    libc::SYS_brk,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    libc::SYS_futex,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    // glibc asks for a thread in this way first, and its arguments are out of a filter's sight: see `without_clone3`.
    libc::SYS_clone3,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
];

/// What the process that runs guests needs beside it: to wait for its one socket, and memory that has a descriptor, from
/// which the engine maps what a guest's memory begins with.
const RUNNING: &[c_long] = &[
    libc::SYS_recvfrom,
    libc::SYS_sendto,
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
    libc::SYS_memfd_create,
    libc::SYS_ftruncate,
];

/// Which child confines itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Child {
    /// Reads a module and writes code.
    Compiler,
    /// Runs guests, and asks the parent for everything else.
    Sandbox,
}

/// Takes away core dumps and looks into the memory from outside: by a debugger, and through `/proc`. For the process
/// itself, which holds credentials, and for its children. What it execs begins anew.
///
/// # Errors
/// The operating system refuses.
pub fn keep_memory_private() -> io::Result<()> {
    Resource::CORE.set(0, 0)?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    Ok(())
}

/// Confines this process, which must have one thread only: later ones inherit it.
///
/// # Errors
/// The operating system refuses. The process must not go on then.
pub fn confine(child: Child) -> io::Result<()> {
    keep_memory_private()?;
    rustix::thread::set_no_new_privs(true)?;
    // Without it the filter stands alone.
    let _ = landlock();
    let allowed: Vec<c_long> = match child {
        Child::Compiler => ALLOWED.to_vec(),
        Child::Sandbox => [ALLOWED, RUNNING].concat(),
    };
    let filters = without_clone3().and_then(|first| Ok([first, only(&allowed)?]));
    for filter in filters.map_err(io::Error::other)? {
        apply_filter(&filter).map_err(io::Error::other)?;
    }
    Ok(())
}

/// No path, no port, no signal to a process outside.
fn landlock() -> Result<(), landlock::RulesetError> {
    const NEWEST: ABI = ABI::V6;
    Ruleset::default()
        .handle_access(AccessFs::from_all(NEWEST))?
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?
        .create()?
        .restrict_self()
        .map(drop)
}

/// "There is no such call" for `clone3`: glibc then uses `clone`, which a filter can look into.
fn without_clone3() -> Result<BpfProgram, seccompiler::BackendError> {
    let rules = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    filter(
        rules,
        SeccompAction::Allow,
        SeccompAction::Errno(libc::ENOSYS as u32),
    )
}

/// "Not permitted" for everything but these, threads, and names of threads and of memory.
fn only(allowed: &[c_long]) -> Result<BpfProgram, seccompiler::BackendError> {
    let mut rules: BTreeMap<_, _> = allowed.iter().map(|&call| (call, Vec::new())).collect();
    let thread = argument(
        0,
        SeccompCmpOp::MaskedEq(libc::CLONE_THREAD as u64),
        libc::CLONE_THREAD as u64,
    )?;
    rules.insert(libc::SYS_clone, vec![thread]);
    let names = [libc::PR_SET_NAME as u64, libc::PR_SET_VMA as u64];
    let names = names.map(|option| argument(0, SeccompCmpOp::Eq, option));
    rules.insert(
        libc::SYS_prctl,
        names.into_iter().collect::<Result<_, _>>()?,
    );
    // What a descriptor is, and that memory stays as it is; not another one.
    let looks = [libc::F_GETFD, libc::F_GETFL, libc::F_ADD_SEALS];
    let looks = looks.map(|command| argument(1, SeccompCmpOp::Eq, command as u64));
    rules.insert(
        libc::SYS_fcntl,
        looks.into_iter().collect::<Result<_, _>>()?,
    );
    filter(
        rules,
        SeccompAction::Errno(libc::EPERM as u32),
        SeccompAction::Allow,
    )
}

/// A rule about one argument.
fn argument(
    index: u8,
    operator: SeccompCmpOp,
    value: u64,
) -> Result<SeccompRule, seccompiler::BackendError> {
    let condition = SeccompCondition::new(index, SeccompCmpArgLen::Dword, operator, value)?;
    SeccompRule::new(vec![condition])
}

fn filter(
    rules: BTreeMap<c_long, Vec<SeccompRule>>,
    otherwise: SeccompAction,
    matching: SeccompAction,
) -> Result<BpfProgram, seccompiler::BackendError> {
    let architecture = TargetArch::try_from(std::env::consts::ARCH)?;
    SeccompFilter::new(rules, otherwise, matching, architecture)?.try_into()
}
