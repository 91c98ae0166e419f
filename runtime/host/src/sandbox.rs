//! Sandbox: runs guests on threads of this process, or in a child process that has no files, network or credentials
//! and asks this one for every request. Guests have the same rights in both; the child process is a second barrier
//! in case of a hole in the engine.
//!
//! One sandbox runs one module. It does not decide when and by whom it may be called: see `call`.

mod child;
mod cpu_scheduler;
mod failure;
mod found;
mod function;
mod in_process;
mod process;
mod protocol;
mod time_limit;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::bindings::common;
use crate::guest_egress::GuestEgress;
use crate::guest_log::GuestLog;

pub(crate) use child::Parent;
pub use child::sandbox_child;
pub(crate) use cpu_scheduler::CpuScheduler;
pub(crate) use failure::Failure;
pub(crate) use function::{Answer, Ask, Exports, Function};
pub(crate) use in_process::InProcess;
pub(crate) use process::SandboxProcess;
pub(crate) use protocol::Load;

/// Process in which guests run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Isolation {
    /// On threads of this process.
    #[default]
    InProcess,
    /// In a child process for each loaded module.
    ChildProcess(SandboxProgram),
}

/// The program that runs guests: it calls [`crate::sandbox_child`] and nothing else. The product starts itself with
/// a hidden subcommand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxProgram {
    /// Path of the program.
    pub program: PathBuf,
    /// Arguments that make it run guests.
    pub arguments: Vec<OsString>,
}

/// Sandbox of one module.
pub(crate) enum Sandbox {
    /// On threads of this process.
    InProcess(Box<InProcess>),
    /// In a child process.
    Process(SandboxProcess),
}

/// One call, as the sandbox has to perform it.
pub(crate) struct Performance {
    pub(crate) ask: Ask,
    /// Linear memory that the guest may have.
    pub(crate) memory_bytes: usize,
    /// Deadline of the call.
    pub(crate) deadline: Instant,
    /// Whether the call gets an empty state, which is dropped with the call.
    pub(crate) fresh: bool,
    /// Egress, opened after `init`; `None`: no requests.
    pub(crate) egress: Option<GuestEgress>,
    pub(crate) log: GuestLog,
}

/// Result of a call.
pub(crate) struct CallEnd<R> {
    /// The answer, or the failure and its phase.
    pub(crate) answer: Result<R, (CallPhase, Failure)>,
    /// CPU time that the call used.
    pub(crate) computed: Duration,
    /// Linear memory at the end; `None`: in another process, which does not report it.
    pub(crate) memory_bytes: Option<usize>,
    /// Requests refused because `init` had not ended; requests in another process are not counted.
    pub(crate) requests_in_init: usize,
}

/// Phase of a call in which a guest failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum CallPhase {
    /// Instantiation; only start functions have run.
    Instantiation,
    /// The function `lifecycle.init`.
    Init,
    /// The called function.
    Function,
}

impl Sandbox {
    /// Performs a call. `read` converts the answer while the call still holds its CPU permit, because a worthless
    /// answer may be large.
    pub(crate) async fn perform<R: Send>(
        &self,
        performance: Performance,
        read: impl FnOnce(Result<Answer, common::Failure>) -> R + Send,
    ) -> CallEnd<R> {
        match self {
            Sandbox::InProcess(sandbox) => sandbox.perform(performance, read).await,
            Sandbox::Process(sandbox) => sandbox.perform(performance, read).await,
        }
    }

    /// Empties the state that outlives calls.
    pub(crate) fn forget(&self) {
        match self {
            Sandbox::InProcess(sandbox) => sandbox.state.clear(),
            Sandbox::Process(sandbox) => sandbox.forget(),
        }
    }
}
