//! Where guests run: on threads of this process, or in a child process that has neither files nor network nor a credential
//! and asks this one for every request. What a guest may do is the same in both; the second one is a second wall, for the
//! day on which the engine has a hole.
//!
//! One sandbox runs one module. It decides nothing about who may call it and when: see `call`.

mod child;
mod cpu_scheduler;
mod failure;
mod function;
mod in_process;
mod meter;
mod process;
mod protocol;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::bindings::common;
use crate::guest_log::GuestLog;
use crate::outbound::WayOut;

pub(crate) use child::Parent;
pub use child::sandbox_child;
pub(crate) use cpu_scheduler::CpuScheduler;
pub(crate) use failure::Failure;
pub(crate) use function::{Answer, Ask, Exports};
pub(crate) use in_process::InProcess;
pub(crate) use process::SandboxProcess;
pub(crate) use protocol::Load;

/// Where guests run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Isolation {
    /// On threads of this process.
    #[default]
    InProcess,
    /// In a child process for each loaded module.
    ChildProcess(SandboxProgram),
}

/// The program that runs guests: it calls [`crate::sandbox_child`] and nothing else. The product starts itself with a hidden
/// subcommand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxProgram {
    /// The program's file.
    pub program: PathBuf,
    /// What makes it run guests.
    pub arguments: Vec<OsString>,
}

/// See the module's documentation.
pub(crate) enum Sandbox {
    /// On threads of this process.
    InProcess(InProcess),
    /// In a child.
    Process(SandboxProcess),
}

/// One call, as the sandbox has to perform it.
pub(crate) struct Performance {
    pub(crate) ask: Ask,
    /// When it has to be over.
    pub(crate) deadline: Instant,
    /// With an empty state, which is dropped with the call.
    pub(crate) fresh: bool,
    /// The way out, opened after `init`.
    pub(crate) way_out: Option<WayOut>,
    pub(crate) log: GuestLog,
}

/// How a call ended.
pub(crate) struct End<R> {
    /// The answer, or where the guest failed, and how.
    pub(crate) answer: Result<R, (CallPhase, Failure)>,
    /// What it computed.
    pub(crate) computed: Duration,
}

/// The part of a call in which a guest failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum CallPhase {
    /// Before anything of it ran but start functions.
    Instantiation,
    /// `lifecycle.init`.
    Init,
    /// The function that was asked for.
    Function,
}

impl Sandbox {
    /// Performs a call. `read` takes the answer apart while it is still the guest's turn: what is worthless may be large.
    pub(crate) async fn perform<R: Send>(
        &self,
        performance: Performance,
        read: impl FnOnce(Result<Answer, common::Error>) -> R + Send,
    ) -> End<R> {
        match self {
            Sandbox::InProcess(sandbox) => sandbox.perform(performance, read).await,
            Sandbox::Process(sandbox) => sandbox.perform(performance, read).await,
        }
    }
}
