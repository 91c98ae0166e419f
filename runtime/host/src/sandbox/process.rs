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
use parking_lot::Mutex;
use tokio::net::UnixStream;
use tokio::process::Command;
use tokio::sync::watch;
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
    launch: Arc<Launch>,
    /// The last start of the process; `None` until the first call.
    last: Mutex<Option<Start>>,
}

/// What a process is started from.
struct Launch {
    program: SandboxProgram,
    component: Component,
    load: Load,
}

/// How a start of the process ended; `None` while it is under way.
type Start = watch::Receiver<Option<Result<Arc<Connection>, ProcessEnd>>>;

impl SandboxProcess {
    /// Creates a sandbox for this component; its process starts with the first call.
    pub(crate) fn new(program: SandboxProgram, component: Component, load: Load) -> SandboxProcess {
        let launch = Launch {
            program,
            component,
            load,
        };
        SandboxProcess {
            launch: Arc::new(launch),
            last: Mutex::default(),
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
            Err(_) => {
                // Nothing of the module has run.
                let end = ProcessEnd::from_outside("the sandbox's process is still starting");
                failed(CallPhase::Instantiation, end.into(), began)
            }
        };
        CallEnd {
            answer: ended.answer.map(read),
            computed: ended.computed,
            memory_bytes: None,
            requests_in_init: 0,
        }
    }

    /// Empties the state that outlives calls, which the process has: [`super::Sandbox::forget`].
    pub(super) fn forget(&self) {
        if let Some(start) = &*self.last.lock()
            && let Some(Ok(connection)) = &*start.borrow()
        {
            connection.forget();
        }
    }

    /// Connection to a running process; starts one if necessary. Calls share a start, and it goes on when they end.
    async fn connected(&self) -> Result<Arc<Connection>, ProcessEnd> {
        let mut start = self.current_start();
        let started = start.wait_for(Option::is_some).await;
        let started = started.ok().and_then(|started| (*started).clone());
        started.unwrap_or_else(|| {
            Err(ProcessEnd::from_outside(
                "the start of the sandbox's process was ended",
            ))
        })
    }

    /// The last start if it is under way or its process runs; otherwise a new one.
    fn current_start(&self) -> Start {
        let mut last = self.last.lock();
        let current = last.take().filter(|start| match &*start.borrow() {
            None => start.has_changed().is_ok(),
            Some(Ok(connection)) => connection.is_open(),
            Some(Err(_)) => false,
        });
        let current = current.unwrap_or_else(|| self.launch.clone().begin());
        last.insert(current).clone()
    }
}

impl Launch {
    /// Starts a process in a task of its own, which ends early when its sandbox is dropped.
    fn begin(self: Arc<Launch>) -> Start {
        let (ended, start) = watch::channel(None);
        tokio::spawn(async move {
            let result = tokio::select! {
                result = timeout(START, self.start()) => result,
                () = ended.closed() => return,
            };
            let late = |_| {
                Err(ProcessEnd::from_outside(
                    "the sandbox's process does not start",
                ))
            };
            let result = result.unwrap_or_else(late);
            ended.send_replace(Some(result.map(Arc::new)));
        });
        start
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::guest_log::GuestLog;
    use crate::sandbox::Ask;
    use crate::{engine, fixtures, limits};

    /// With short calls, a process that starts slowly would never be there, and the module would be blamed.
    #[tokio::test]
    async fn calls_that_end_during_a_start_are_interrupted_and_the_start_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let starts = folder.path().join("starts");
        let script = format!("echo >> '{}'; exec sleep 60", starts.display());
        let program = SandboxProgram {
            program: "/bin/sh".into(),
            arguments: vec!["-c".into(), script.into()],
        };
        let engine = engine::new().unwrap();
        let component = Component::new(&engine, fixtures::component(&[], &[], &[])).unwrap();
        let process = SandboxProcess::new(program, component, fixtures::load());
        for _ in 0..2 {
            let performance = Performance {
                ask: Ask::Init,
                memory_bytes: limits::MEMORY_BYTES,
                deadline: Instant::now() + Duration::from_millis(300),
                fresh: true,
                egress: None,
                log: GuestLog::new(&Arc::from("test"), None),
            };
            let end = process.perform(performance, |_| ()).await;
            assert!(matches!(end.answer, Err((_, Failure::Interrupted(_)))));
        }
        let begun = || std::fs::read_to_string(&starts).unwrap_or_default();
        let first = async {
            while begun().is_empty() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(START, first).await.unwrap();
        assert_eq!(begun(), "\n", "one start");
    }
}
