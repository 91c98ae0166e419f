//! Measures what a running guest uses, and stops it: time on the wall, and time on a processor.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::time::{Instant, timeout_at};

use super::failure::Failure;

/// A call's time. The guest gives way at every tick, so that each poll is short, and the polls together are what
/// it has computed. Ticks themselves are not counted: they go on while a guest waits for an answer.
pub(super) struct Meter {
    deadline: Instant,
    budget: Duration,
    used: Duration,
}

impl Meter {
    /// A meter that stops at `deadline`, or after `budget` of computing.
    pub(super) fn new(deadline: Instant, budget: Duration) -> Meter {
        Meter {
            deadline,
            budget,
            used: Duration::ZERO,
        }
    }

    /// Runs a part of the call. After a failure the guest must not be used again.
    ///
    /// # Errors
    /// The guest trapped, or one of its times is over.
    pub(super) async fn run<T>(
        &mut self,
        part: impl Future<Output = wasmtime::Result<T>>,
    ) -> Result<T, Failure> {
        let deadline = self.deadline;
        let mut part = pin!(part);
        let metered = poll_fn(|context| {
            let before = cpu_time();
            let poll = part.as_mut().poll(context);
            self.used += cpu_time().saturating_sub(before);
            match poll {
                Poll::Ready(Ok(result)) => Poll::Ready(Ok(result)),
                Poll::Ready(Err(error)) => Poll::Ready(Err(Failure::Trap(error))),
                Poll::Pending if self.used > self.budget => {
                    Poll::Ready(Err(Failure::Cpu(self.budget)))
                }
                // A guest that computes keeps the runtime too busy to look at its timers.
                Poll::Pending if Instant::now() >= deadline => Poll::Ready(Err(Failure::Deadline)),
                Poll::Pending => Poll::Pending,
            }
        });
        timeout_at(deadline, metered)
            .await
            .unwrap_or(Err(Failure::Deadline))
    }
}

/// What this thread has computed so far. A future stays on its thread during one poll.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or_default();
    Duration::new(seconds, nanoseconds)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]
    use super::*;

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
        let mut meter = Meter::new(Instant::now() + LONG, Duration::from_millis(20));
        assert!(matches!(meter.run(spin()).await, Err(Failure::Cpu(_))));
    }

    #[tokio::test]
    async fn computing_ends_at_the_deadline() {
        let mut meter = Meter::new(Instant::now() + Duration::from_millis(20), LONG);
        assert!(matches!(meter.run(spin()).await, Err(Failure::Deadline)));
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_costs_no_budget_and_ends_at_the_deadline() {
        let mut meter = Meter::new(Instant::now() + LONG, Duration::from_millis(200));
        let wait = async {
            tokio::time::sleep(LONG / 2).await;
            Ok(())
        };
        meter.run(wait).await.unwrap();
        let forever = std::future::pending::<wasmtime::Result<()>>();
        assert!(matches!(meter.run(forever).await, Err(Failure::Deadline)));
    }
}
