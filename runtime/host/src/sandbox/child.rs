//! Child end of a sandbox process: runs the guests of one module, with one socket to its parent as its only
//! connection. Confines itself before it reads the first byte from it. A guest that breaks out of the engine finds
//! no file, network, credential or other process here; it could still answer falsely, and request what the module is
//! granted.

mod parent;

use std::collections::HashMap;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use rlimit::Resource;
use rustix::process::Signal;
use tokio::net::UnixStream;
use tokio::signal::unix::{self, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use wasmtime::Engine;

use super::protocol::{Caps, Frame, Head, Load, ToChild, ToParent, read};
use super::{CpuScheduler, Exports, InProcess, Performance};
use crate::compile::cache;
use crate::compile::child::Compiled;
use crate::confine::{Child, confine};
use crate::egress::FetchError;
use crate::epoch_ticker::Ticker;
use crate::guest_egress::GuestEgress;
use crate::guest_log::GuestLog;
use crate::{engine, host};
use parent::Socket;

pub(crate) use parent::Parent;

/// Descriptor limit: for the socket, its copy, and those of the event loop and of ignored signals.
const DESCRIPTORS: u64 = 32;

/// Main function of a sandbox process, which [`super::Isolation::ChildProcess`] starts: standard input is a socket
/// to the parent. Ends with the parent.
pub fn sandbox_child() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error may be closed; the exit code tells the rest.
            use io::Write as _;
            let _ = writeln!(io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // When memory is short, the kernel should end this process, not the parent. Raising the score needs no right;
    // without /proc it stays.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    Resource::NOFILE.set(DESCRIPTORS, DESCRIPTORS)?;
    let socket = StdUnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    socket.set_nonblocking(true)?;
    let engine = engine::new().map_err(io::Error::other)?;
    // Creates its epoll descriptors before the confinement, and starts no thread.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let _signals = {
        let _context = runtime.enter();
        ignore_signals_to_stop()?
    };
    confine(Child::Sandbox)?;
    runtime.block_on(serve(engine, socket))
}

/// A terminal or a service manager sends these to the parent's whole group. The parent then lets the calls under way end,
/// and closes the socket.
fn ignore_signals_to_stop() -> io::Result<[unix::Signal; 3]> {
    Ok([
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
        signal(SignalKind::hangup())?,
    ])
}

/// Loads the module, then serves calls until the parent closes the socket.
async fn serve(engine: Engine, socket: StdUnixStream) -> io::Result<()> {
    let (mut from, mut to) = UnixStream::from_std(socket)?.into_split();
    let (out, mut frames) = mpsc::unbounded_channel::<Frame>();
    // Ends with the parent, like everything here.
    tokio::spawn(async move {
        while let Some(frame) = frames.recv().await {
            if frame.write(&mut to).await.is_err() {
                break;
            }
        }
    });
    let parent = Socket::new(out);
    let Some((ToChild::Load(load), code)) = read(&mut from, Caps::OF_PARENT).await? else {
        return Err(io::Error::other("the parent says nothing to load"));
    };
    let sandbox = match open(&engine, load, code) {
        Ok(sandbox) => Arc::new(sandbox),
        Err(error) => {
            parent.send_message(&ToParent::Loaded(Err(format!("{error:#}"))));
            // Keeps the socket open until the parent has read it.
            let _ = read::<ToChild>(&mut from, Caps::OF_PARENT).await;
            return Ok(());
        }
    };
    parent.send_message(&ToParent::Loaded(Ok(())));
    let calls = Arc::<Calls>::default();
    while let Some((message, body)) = read(&mut from, Caps::OF_PARENT).await? {
        match message {
            ToChild::Load(_) => return Err(io::Error::other("a second module")),
            ToChild::Call {
                call,
                ask,
                memory_bytes,
                milliseconds,
                fresh,
                open,
            } => {
                let parent = parent.call(call);
                let performance = Performance {
                    ask: *ask,
                    memory_bytes,
                    deadline: Instant::now() + Duration::from_millis(milliseconds),
                    fresh,
                    egress: open.then(|| GuestEgress::Parent(parent.clone())),
                    log: GuestLog::of_child(parent.clone()),
                };
                let performed =
                    perform(sandbox.clone(), performance, parent.clone(), calls.clone());
                let task = tokio::spawn(performed).abort_handle();
                calls.begun(call, task, parent);
            }
            ToChild::Forget => sandbox.state.clear(),
            ToChild::Cancel { call } => calls.cancel(call),
            ToChild::Answered { call, request, end } => calls.answered(call, request, end, body),
        }
    }
    Ok(())
}

fn open(engine: &Engine, load: Load, code: Bytes) -> wasmtime::Result<InProcess> {
    let ticked = engine.clone();
    let ticker = Ticker::start(move || ticked.increment_epoch())?;
    let component = cache::load(engine, &Compiled::of_parent(code))?;
    let component = host::linker(engine)?.instantiate_pre(&component)?;
    Ok(InProcess {
        exports: Exports::find(&component, &load)?,
        component,
        config: load.config,
        ticker,
        scheduler: CpuScheduler::first(),
        state: Arc::default(),
    })
}

async fn perform(
    sandbox: Arc<InProcess>,
    performance: Performance,
    parent: Parent,
    calls: Arc<Calls>,
) {
    let log = performance.log.clone();
    let end = sandbox.perform(performance, |answer| answer).await;
    log.finish();
    calls.forget(parent.number());
    parent.ended(end);
}

/// Calls under way, by number.
#[derive(Default)]
struct Calls(Mutex<HashMap<u64, (AbortHandle, Parent)>>);

impl Calls {
    fn begun(&self, number: u64, task: AbortHandle, call: Parent) {
        // This process has one thread, so the call has not run yet.
        self.0.lock().insert(number, (task, call));
    }

    fn cancel(&self, number: u64) {
        if let Some((task, _)) = self.forget(number) {
            task.abort();
        }
    }

    fn forget(&self, number: u64) -> Option<(AbortHandle, Parent)> {
        self.0.lock().remove(&number)
    }

    fn answered(&self, number: u64, request: u64, end: Result<Head, FetchError>, body: Bytes) {
        if let Some((_, call)) = self.0.lock().get(&number) {
            call.answered(request, end, body);
        }
    }
}
