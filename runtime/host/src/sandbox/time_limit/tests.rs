//! Which calls compute, when, and for how long.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::call::CallBackoff;
use crate::sandbox::cpu_scheduler::end_of_line;

const LONG: Duration = Duration::from_secs(600);

async fn spin() -> wasmtime::Result<()> {
    loop {
        let until = cpu_time() + Duration::from_millis(1);
        while cpu_time() < until {}
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn computing_ends_with_its_budget() {
    let mut limit = TimeLimit::new(
        Instant::now() + LONG,
        Duration::from_millis(20),
        CpuScheduler::first(),
    );
    assert!(matches!(limit.run(spin()).await, Err(Failure::Cpu(_))));
}

#[tokio::test]
async fn computing_ends_at_the_deadline() {
    let mut limit = TimeLimit::new(
        Instant::now() + Duration::from_millis(20),
        LONG,
        CpuScheduler::first(),
    );
    assert!(matches!(limit.run(spin()).await, Err(Failure::Deadline)));
}

#[tokio::test(start_paused = true)]
async fn waiting_costs_no_budget_and_ends_at_the_deadline() {
    let mut limit = TimeLimit::new(
        Instant::now() + LONG,
        Duration::from_millis(200),
        CpuScheduler::first(),
    );
    let wait = async {
        sleep(LONG / 2).await;
        Ok(())
    };
    limit.run(wait).await.unwrap();
    let forever = std::future::pending::<wasmtime::Result<()>>();
    assert!(matches!(limit.run(forever).await, Err(Failure::Deadline)));
}

/// Computes for a long time, in polls of a tick, and records how many calls compute at the same time.
async fn compute(computing: Arc<AtomicUsize>, most: Arc<AtomicUsize>) -> wasmtime::Result<()> {
    for _ in 0..20 {
        let now = computing.fetch_add(1, Ordering::SeqCst) + 1;
        most.fetch_max(now, Ordering::SeqCst);
        compute_for(limits::TICK);
        computing.fetch_sub(1, Ordering::SeqCst);
        tokio::task::yield_now().await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_call_of_a_provider_computes_at_a_time_and_all_come_to_their_end() {
    let scheduler = CpuScheduler::first();
    let (computing, most) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let calls: Vec<_> = (0..4)
        .map(|_| {
            let mut limit = TimeLimit::new(Instant::now() + LONG, LONG, scheduler.clone());
            let computing = compute(computing.clone(), most.clone());
            tokio::spawn(async move { limit.run(computing).await.is_ok() })
        })
        .collect();
    for call in calls {
        assert!(call.await.unwrap());
    }
    assert_eq!(most.load(Ordering::SeqCst), 1);
}

/// Computes for this time, in polls of a tick, and counts them.
async fn slices(counted: Arc<AtomicUsize>, time: Duration) -> wasmtime::Result<()> {
    let mut left = time;
    while !left.is_zero() {
        counted.fetch_add(1, Ordering::SeqCst);
        compute_for(limits::TICK);
        left = left.saturating_sub(limits::TICK);
        end_of_line().await;
    }
    Ok(())
}

fn compute_for(time: Duration) {
    let until = cpu_time() + time;
    while cpu_time() < until {}
}

/// Number of polls that the neighbour counts while an honest call makes `steps` steps, each of which computes for
/// `each`.
async fn counted_beside(
    scheduler: &CpuScheduler,
    counted: &Arc<AtomicUsize>,
    steps: usize,
    each: Duration,
) -> usize {
    let mut limit = TimeLimit::new(Instant::now() + LONG, LONG, scheduler.beside());
    let count = counted.clone();
    let steps = async move {
        let before = count.load(Ordering::SeqCst);
        for _ in 0..steps {
            compute_for(each);
            end_of_line().await;
        }
        Ok(count.load(Ordering::SeqCst) - before)
    };
    // Spawned as a task like the others: the runtime polls the future of `block_on` more rarely.
    let call = tokio::spawn(async move { limit.run(steps).await.unwrap() });
    call.await.unwrap()
}

/// On one thread, where nothing runs in parallel: the worst case for an honest call.
#[tokio::test]
async fn between_two_steps_of_a_call_a_neighbour_computes_for_one_tick_at_most() {
    const STEPS: usize = 100;
    let scheduler = CpuScheduler::first();
    let counted = Arc::<AtomicUsize>::default();
    let hostile: Vec<_> = (0..limits::CALLS_AT_ONCE)
        .map(|_| {
            let mut limit = TimeLimit::new(Instant::now() + LONG, LONG, scheduler.clone());
            let slices = slices(counted.clone(), LONG);
            tokio::spawn(async move { limit.run(slices).await.is_ok() })
        })
        .collect();
    while counted.load(Ordering::SeqCst) < limits::CALLS_AT_ONCE {
        end_of_line().await;
    }
    let meanwhile = counted_beside(&scheduler, &counted, STEPS, Duration::ZERO).await;
    assert!(meanwhile <= STEPS, "{meanwhile} ticks in {STEPS} steps");
    for call in hostile {
        assert!(!call.is_finished());
        call.abort();
    }
}

/// The same with calls that end well just before their time is over, and begin again: no backoff delays them.
#[tokio::test]
async fn b15_a_neighbour_whose_calls_all_take_nearly_all_of_their_time_computes_no_more_than_that()
{
    const STEPS: usize = 500;
    let (scheduler, counted) = (CpuScheduler::first(), Arc::<AtomicUsize>::default());
    let backoff = Arc::<CallBackoff>::default();
    let ended = Arc::<AtomicUsize>::default();
    let hostile: Vec<_> = (0..limits::CALLS_AT_ONCE)
        .map(|_| {
            let (scheduler, counted, ended) = (scheduler.clone(), counted.clone(), ended.clone());
            let backoff = backoff.clone();
            tokio::spawn(async move {
                loop {
                    let mut limit = TimeLimit::new(Instant::now() + LONG, LONG, scheduler.clone());
                    let call = slices(counted.clone(), 3 * limits::CALL_CPU_AT_ONCE);
                    let well = limit.run(call).await.is_ok();
                    backoff.begin().await;
                    backoff.ended(well, limit.end(()).await);
                    ended.fetch_add(1, Ordering::SeqCst);
                }
            })
        })
        .collect();
    while ended.load(Ordering::SeqCst) < 2 {
        end_of_line().await;
    }
    let meanwhile = counted_beside(&scheduler, &counted, STEPS, limits::TICK / 20).await;
    assert!(meanwhile <= STEPS, "{meanwhile} ticks in {STEPS} steps");
    hostile.iter().for_each(tokio::task::JoinHandle::abort);
}

/// The same with calls that end within one poll, one after the other.
#[tokio::test]
async fn between_two_steps_of_a_call_a_neighbour_makes_one_short_call_at_most() {
    const STEPS: usize = 500;
    let (scheduler, counted) = (CpuScheduler::first(), Arc::<AtomicUsize>::default());
    let hostile: Vec<_> = (0..limits::CALLS_AT_ONCE)
        .map(|_| {
            let (scheduler, counted) = (scheduler.clone(), counted.clone());
            tokio::spawn(async move {
                loop {
                    let mut limit = TimeLimit::new(Instant::now() + LONG, LONG, scheduler.clone());
                    let call = async {
                        counted.fetch_add(1, Ordering::SeqCst);
                        Ok(())
                    };
                    limit.run(call).await.unwrap();
                    limit.end(()).await;
                }
            })
        })
        .collect();
    let meanwhile = counted_beside(&scheduler, &counted, STEPS, Duration::ZERO).await;
    assert!(meanwhile > 0, "there was no neighbour");
    assert!(meanwhile <= STEPS, "{meanwhile} calls in {STEPS} steps");
    hostile.iter().for_each(tokio::task::JoinHandle::abort);
}

/// Computes for a tick while it is dropped, as freeing much memory does, and records how many are dropped at the same
/// time.
struct Heavy(Arc<AtomicUsize>, Arc<AtomicUsize>);

impl Drop for Heavy {
    fn drop(&mut self) {
        let now = self.0.fetch_add(1, Ordering::SeqCst) + 1;
        self.1.fetch_max(now, Ordering::SeqCst);
        compute_for(limits::TICK);
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_end_of_a_call_is_a_turn_of_its_provider_and_counts() {
    let scheduler = CpuScheduler::first();
    let (computing, most) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let calls: Vec<_> = (0..4)
        .map(|_| {
            let mut limit = TimeLimit::new(Instant::now() + LONG, LONG, scheduler.clone());
            let part = compute(computing.clone(), most.clone());
            let ran = Heavy(computing.clone(), most.clone());
            tokio::spawn(async move {
                limit.run(part).await.unwrap();
                limit.end(ran).await
            })
        })
        .collect();
    for call in calls {
        let computed = call.await.unwrap();
        assert!(computed >= limits::TICK * 21, "{computed:?}");
    }
    assert_eq!(most.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_call_that_did_not_end_in_time_ends_in_its_turn_all_the_same() {
    let scheduler = CpuScheduler::first();
    let until = Instant::now() + Duration::from_millis(20);
    let mut late = TimeLimit::new(until, LONG, scheduler.clone());
    let other = scheduler.turn().unwrap();
    assert!(matches!(late.run(spin()).await, Err(Failure::Deadline)));
    let mut end = pin!(late.end(()));
    let waker = std::task::Waker::noop();
    let poll = end.as_mut().poll(&mut Context::from_waker(waker));
    assert!(poll.is_pending(), "it is not its turn");
    drop(other);
    end.await;
    assert!(
        scheduler.next_turn().await.is_some(),
        "it gave its turn back"
    );
}

/// A call that waits for a long-call permit releases the CPU permit that it kept for its next part.
#[tokio::test]
async fn a_call_that_waits_to_compute_for_long_keeps_no_short_one_waiting() {
    let scheduler = CpuScheduler::first();
    let long_call_permit = scheduler.next_long_call_permit().await;
    let mut limit = TimeLimit::new(Instant::now() + LONG, LONG, scheduler.clone());
    let begun = async {
        compute_for(limits::CALL_CPU_AT_ONCE);
        Ok(())
    };
    limit.run(begun).await.unwrap();
    let mut next = pin!(limit.run(async { Ok(()) }));
    let waker = std::task::Waker::noop();
    let poll = next.as_mut().poll(&mut Context::from_waker(waker));
    assert!(poll.is_pending(), "somebody else has the lane");
    let short = tokio::time::timeout(Duration::from_secs(10), scheduler.next_turn());
    drop(short.await.expect("the turn is free"));
    drop(long_call_permit);
    next.await.unwrap();
}

/// The CPU permit between polls of a provider's long calls goes to its short ones; on one thread, where the order of
/// polls is fixed.
#[tokio::test]
async fn a_short_call_ends_while_long_ones_go_on() {
    let scheduler = CpuScheduler::first();
    let long: Vec<_> = (0..3)
        .map(|_| {
            let mut limit = TimeLimit::new(Instant::now() + LONG, LONG, scheduler.clone());
            tokio::spawn(async move { limit.run(spin()).await.is_ok() })
        })
        .collect();
    for _ in 0..20 {
        let mut limit = TimeLimit::new(Instant::now() + LONG, LONG, scheduler.clone());
        let short = async {
            tokio::task::yield_now().await;
            Ok(())
        };
        limit.run(short).await.unwrap();
    }
    for call in long {
        assert!(!call.is_finished());
        call.abort();
    }
}
