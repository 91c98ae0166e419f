//! When calls begin, and what they hold and have before.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::join;
use parking_lot::Mutex;
use tokio::time::sleep;
use wasmtime::component::Component;

use super::*;
use crate::memory_budget::MemoryBudget;
use crate::sandbox::{SandboxProcess, SandboxProgram};
use crate::{engine, fixtures};

/// Calls of a module, one at a time, in a process that is never there.
fn one_at_a_time() -> Calls {
    let engine = engine::new().unwrap();
    let component = Component::new(&engine, fixtures::component(&[], &[], &[])).unwrap();
    let program = SandboxProgram {
        program: "/no/such/program".into(),
        arguments: Vec::new(),
    };
    Calls {
        provider: Arc::from("test"),
        digest: Digest::of(b""),
        sandbox: Sandbox::Process(SandboxProcess::new(program, component, fixtures::load())),
        admission: Admission::new(&MemoryBudget::of(Some(1)), limits::MEMORY_BYTES),
        backoff: CallBackoff::default(),
        interceptor: None,
    }
}

/// A call with the usual time, for a caller that has no limit of its own.
fn call<B: FnOnce(Instant) -> (Ask, Option<CallScope>)>(begin: B) -> Call<B> {
    Call {
        function: Function::UpdateTargets,
        argument_bytes: 0,
        limit: limits::CALL,
        ends: Instant::now() + 10 * limits::CALL,
        fresh: false,
        begin,
    }
}

/// Takes the only place for so long.
async fn occupied(calls: &Calls, time: Duration) {
    let waiting = Waiting {
        function: "init",
        began: Instant::now(),
    };
    let until = waiting.began + limits::WAIT;
    let admitted = calls.admission.admit(&GUESTS, None, 0, until, waiting);
    let _admitted = admitted.await.unwrap();
    sleep(time).await;
}

/// The nodes of a large cluster take many megabytes.
#[tokio::test]
async fn calls_that_wait_hold_no_copy_of_their_arguments() {
    let (calls, copies) = (one_at_a_time(), AtomicUsize::new(0));
    let run = || {
        let begin = |_: Instant| {
            copies.fetch_add(1, Ordering::Relaxed);
            (Ask::Init, None)
        };
        Box::pin(calls.run(call(begin), |_| Ok(())))
    };
    let mut running: Vec<_> = (0..16).map(|_| run()).collect();
    for expected in 1..=3 {
        for call in &mut running {
            assert!(futures::poll!(call).is_pending());
        }
        assert_eq!(copies.load(Ordering::Relaxed), expected);
        drop(running.remove(0));
    }
}

/// Also after the wait for a call that lasts longer than usual, as all calls of its provider may.
#[tokio::test(start_paused = true)]
async fn a_call_that_has_waited_has_all_of_its_time() {
    for (limit, wait) in [(limits::CALL, 50), (2 * limits::CALL, 100)] {
        let (calls, began) = (one_at_a_time(), Instant::now());
        let deadline = Mutex::new(None);
        let begin = |given: Instant| {
            *deadline.lock() = Some(given);
            (Ask::Init, None)
        };
        let wait = Duration::from_secs(wait);
        let call = Call {
            limit,
            ..call(begin)
        };
        let run = calls.run(call, |_| Ok(()));
        let _ = join(occupied(&calls, wait), run).await;
        assert_eq!(*deadline.lock(), Some(began + wait + limit));
    }
}

/// Whether the wait has its own end, the caller's, or that of the pause after bad calls.
#[tokio::test(start_paused = true)]
async fn a_call_that_waits_too_long_never_begins() {
    const LONG: Duration = Duration::from_secs(120);
    for (limit, time, own, bad, waits) in [
        (limits::CALL, LONG, 10 * limits::CALL, 0, limits::WAIT),
        (limits::INIT, LONG, 10 * limits::CALL, 0, limits::WAIT),
        (LONG, 2 * LONG, 10 * limits::CALL, 0, LONG),
        (limits::CALL, LONG, limits::WAIT / 2, 0, limits::WAIT / 2),
        (
            limits::CALL,
            Duration::ZERO,
            Duration::ZERO,
            0,
            Duration::ZERO,
        ),
        (
            limits::CALL,
            Duration::ZERO,
            limits::PAUSE / 2,
            100,
            limits::PAUSE / 2,
        ),
    ] {
        let (calls, began) = (one_at_a_time(), Instant::now());
        calls.backoff.begin().await;
        for _ in 0..bad {
            calls.backoff.ended(false, limits::CALL_CPU);
        }
        let call = Call {
            limit,
            ends: began + own,
            ..call(|_: Instant| -> (Ask, Option<CallScope>) { unreachable!("it begins") })
        };
        let run = async {
            let end = calls.run(call, |_| Ok(())).await;
            (end.map(drop).unwrap_err(), began.elapsed())
        };
        let ((), (error, waited)) = join(occupied(&calls, time), run).await;
        assert_eq!(error.reason(), "not-begun", "{error}");
        assert!(error.to_string().contains("update-targets: "), "{error}");
        assert_eq!(waited, waits, "{error}");
    }
}
