//! Confinement of child processes: before a child reads a byte from an untrusted source, it gives up files, network,
//! other processes and new privileges. It keeps memory, threads, clocks and its inherited descriptors. Confinement
//! cannot be undone.
//!
//! Two mechanisms, either of which would suffice: a seccomp filter with a list of allowed system calls, which
//! answers all others with "not permitted", and a Landlock domain without any path or port. The filter is required.
//! Landlock needs kernel 5.13 or later, and some container runtimes withhold it: then the filter stands alone.

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

/// System calls of both children: memory, threads, signals, clocks, randomness, descriptors, exit.
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
    // glibc first creates threads with this call, whose arguments a filter cannot read: see `without_clone3`.
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

/// Additional system calls of the sandbox process: waiting for its socket, and memory with a descriptor (memfd),
/// from which the engine maps the initial memory of guests.
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

/// Kind of child process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Child {
    /// Compiles: reads a module and writes code.
    Compiler,
    /// Runs guests; asks the parent for everything else.
    Sandbox,
}

/// Disables core dumps and access to the memory from outside, by debuggers and through `/proc`. For this process,
/// which holds credentials, and for its children. An exec resets it.
///
/// # Errors
/// The operating system refuses.
pub fn keep_memory_private() -> io::Result<()> {
    Resource::CORE.set(0, 0)?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    Ok(())
}

/// Confines this process. It must have only one thread; later threads inherit the confinement.
///
/// # Errors
/// The operating system refuses. The process must not continue then.
pub fn confine(child: Child) -> io::Result<()> {
    keep_memory_private()?;
    rustix::thread::set_no_new_privs(true)?;
    // Without Landlock the filter stands alone.
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

/// Landlock domain: no path, no port, no signal to a process outside.
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

/// Answers `clone3` with ENOSYS: glibc then uses `clone`, whose arguments a filter can read.
fn without_clone3() -> Result<BpfProgram, seccompiler::BackendError> {
    let rules = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    filter(
        rules,
        SeccompAction::Allow,
        SeccompAction::Errno(libc::ENOSYS as u32),
    )
}

/// Answers every other system call with EPERM; also allows creating threads, and naming threads and memory.
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
    // Reading descriptor flags and sealing memory files; no other `fcntl` command.
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

/// Seccomp rule on one argument.
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
