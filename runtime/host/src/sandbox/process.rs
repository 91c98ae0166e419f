//! Parent end of a sandbox process: starts the process, sends it calls, and performs the permitted requests of its
//! guests. A process that ends, violates the protocol or is late is killed; the next call starts another.
//!
//! The parent trusts the child no more than a guest: every request passes the call's scope, every answer its checks.

mod child_exit;
mod connection;

use std::os::unix::net::UnixStream as StdUnixStream;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::net::UnixStream;
use tokio::process::Command;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout, timeout_at};
use wasmtime::component::Component;

use super::failure::Failure;
use super::protocol::{Frame, Load, ToChild};
use super::{Answer, CallEnd, CallPhase, Performance, SandboxProgram};
use crate::bindings::common;
use connection::{Connection, Ended};

/// Maximum start-up time of a process on a busy machine. Usually it takes a tenth of a second.
const START: Duration = Duration::from_secs(30);
/// Time after its deadline within which a call may report its end. A child that takes longer is stuck.
const GRACE: Duration = Duration::from_secs(1);

/// Sandbox process of one module.
pub(crate) struct SandboxProcess {
    program: SandboxProgram,
    component: Component,
    load: Load,
    /// `None` until the first call, and after the process has ended.
    connection: Mutex<Option<Arc<Connection>>>,
}

impl SandboxProcess {
    /// Creates a sandbox for this component; its process starts with the first call.
    pub(crate) fn new(program: SandboxProgram, component: Component, load: Load) -> SandboxProcess {
        SandboxProcess {
            program,
            component,
            load,
            connection: Mutex::default(),
        }
    }

    /// Starts the process ahead of the first call.
    ///
    /// # Errors
    /// Why it does not start.
    pub(crate) async fn ready(&self) -> Result<(), String> {
        let connected = self.connected().await;
        connected.map(drop).map_err(|end| end.why)
    }

    /// Performs a call in the sandbox process: [`super::Sandbox::perform`].
    pub(super) async fn perform<R: Send>(
        &self,
        performance: Performance,
        read: impl FnOnce(Result<Answer, common::Failure>) -> R + Send,
    ) -> CallEnd<R> {
        let began = Instant::now();
        let deadline = performance.deadline;
        let ended = match timeout_at(deadline, self.connected()).await {
            Ok(Ok(connection)) => {
                let ended = timeout_at(deadline + GRACE, connection.call(performance)).await;
                ended.unwrap_or_else(|_| {
                    connection.end(ProcessEnd::of_child("it did not end a call in time"));
                    failed(CallPhase::Function, Failure::Deadline, began)
                })
            }
            Ok(Err(end)) => failed(CallPhase::Instantiation, end.into(), began),
            Err(_) => failed(CallPhase::Instantiation, Failure::Deadline, began),
        };
        CallEnd {
            answer: ended.answer.map(read),
            computed: ended.computed,
            memory_bytes: None,
            requests_in_init: 0,
        }
    }

    /// Connection to a running process; starts one if necessary.
    async fn connected(&self) -> Result<Arc<Connection>, ProcessEnd> {
        let mut connection = self.connection.lock().await;
        if let Some(open) = connection.as_ref().filter(|open| open.is_open()) {
            return Ok(open.clone());
        }
        *connection = None;
        let started = timeout(START, self.start()).await;
        let late = |_| {
            Err(ProcessEnd::from_outside(
                "the sandbox's process does not start",
            ))
        };
        let open = started.unwrap_or_else(late)?;
        let open = Arc::new(open);
        *connection = Some(open.clone());
        Ok(open)
    }

    async fn start(&self) -> Result<Connection, ProcessEnd> {
        let cannot = |error: std::io::Error| {
            let program = self.program.program.display();
            ProcessEnd::from_outside(format!("cannot run {program} as a sandbox: {error}"))
        };
        let (ours, theirs) = StdUnixStream::pair().map_err(cannot)?;
        ours.set_nonblocking(true).map_err(cannot)?;
        let ours = UnixStream::from_std(ours).map_err(cannot)?;
        let child = Command::new(&self.program.program)
            .args(&self.program.arguments)
            .env_clear()
            .env("MALLOC_ARENA_MAX", "2")
            .current_dir("/")
            .stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(cannot)?;
        let component = self.component.clone();
        let code = tokio::task::spawn_blocking(move || component.serialize())
            .await
            .map_err(|error| ProcessEnd::from_outside(error.to_string()))?
            .map_err(|error| ProcessEnd::of_child(format!("{error:#}")))?;
        let load = ToChild::Load(self.load.clone());
        let frame = Frame::new(&load, Bytes::from(code)).map_err(cannot)?;
        Connection::open(child, ours, frame).await
    }
}

/// Why a process does not start, or has ended.
#[derive(Debug, Clone)]
struct ProcessEnd {
    why: String,
    /// Whether the machine or a person is the cause, and not the module or the program.
    is_from_outside: bool,
}

impl ProcessEnd {
    fn of_child(why: impl Into<String>) -> ProcessEnd {
        ProcessEnd {
            why: why.into(),
            is_from_outside: false,
        }
    }

    fn from_outside(why: impl Into<String>) -> ProcessEnd {
        ProcessEnd {
            why: why.into(),
            is_from_outside: true,
        }
    }
}

impl From<ProcessEnd> for Failure {
    fn from(end: ProcessEnd) -> Failure {
        match end.is_from_outside {
            true => Failure::Interrupted(end.why),
            false => Failure::Process(end.why),
        }
    }
}

fn failed(phase: CallPhase, failure: Failure, began: Instant) -> Ended {
    Ended {
        answer: Err((phase, failure)),
        // The CPU time is unknown. Starting a process also costs CPU time.
        computed: began.elapsed(),
    }
}
