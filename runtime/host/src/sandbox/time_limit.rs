//! Stops a guest that runs too long: wall-clock time and CPU time. Calls that compute for long wait for permits.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::time::{Instant, Sleep, sleep, timeout_at};

use super::cpu_scheduler::{CpuPermit, CpuScheduler, LongCallPermit, Wait};
use super::failure::Failure;
use crate::limits;

/// Time budget of a call. The guest yields at every tick, so each poll is short; CPU time is summed over polls.
/// Ticks are not counted, because they continue while a guest waits for an answer.
pub(super) struct TimeLimit {
    deadline: Instant,
    budget: Duration,
    used: Duration,
    scheduler: CpuScheduler,
    place: Progress,
    next_long_call_permit: Option<Wait<LongCallPermit>>,
    long_call_permit: Option<LongCallPermit>,
    rest: Option<Pin<Box<Sleep>>>,
}

/// State of a call with respect to its CPU permit.
enum Progress {
    /// No permit is requested: the call waits for something else, or has not started.
    None,
    /// Another call of the provider has the CPU permit.
    Waits(Wait<CpuPermit>),
    /// The call has the permit and keeps it for the next part of the call.
    Has(Option<CpuPermit>),
}

impl TimeLimit {
    /// Creates a meter that stops the guest at `deadline`, or after `budget` of CPU time.
    pub(super) fn new(deadline: Instant, budget: Duration, scheduler: CpuScheduler) -> TimeLimit {
        TimeLimit {
            deadline,
            budget,
            used: Duration::ZERO,
            scheduler,
            place: Progress::None,
            next_long_call_permit: None,
            long_call_permit: None,
            rest: None,
        }
    }

    /// Runs a part of the call. After a failure the guest must not be used again.
    ///
    /// # Errors
    /// The guest trapped, or its wall-clock or CPU time is over.
    pub(super) async fn run<T>(
        &mut self,
        part: impl Future<Output = wasmtime::Result<T>>,
    ) -> Result<T, Failure> {
        let deadline = self.deadline;
        let mut part = pin!(part);
        let metered = poll_fn(|context| match self.poll(part.as_mut(), context) {
            Poll::Ready(Ok(result)) => Poll::Ready(Ok(result)),
            Poll::Ready(Err(error)) => Poll::Ready(Err(Failure::trap(&error))),
            Poll::Pending if self.used > self.budget => Poll::Ready(Err(Failure::Cpu(self.budget))),
            // A guest that computes can keep the runtime too busy to fire its timers.
            Poll::Pending if Instant::now() >= deadline => Poll::Ready(Err(Failure::Deadline)),
            Poll::Pending => Poll::Pending,
        });
        timeout_at(deadline, metered)
            .await
            .unwrap_or(Err(Failure::Deadline))
    }

    /// Drops `ran` (the store) under a CPU permit: freeing much memory takes long and blocks other threads that
    /// allocate. Returns the CPU time of the call, this teardown included.
    pub(super) async fn end<T>(mut self, ran: T) -> Duration {
        (self.rest, self.next_long_call_permit, self.long_call_permit) = (None, None, None);
        let turn = poll_fn(|context| self.poll_turn(context)).await;
        let before = cpu_time();
        drop(ran);
        self.used += cpu_time().saturating_sub(before);
        drop(turn);
        self.used
    }

    /// Lets the guest compute until it yields, if it has the permits.
    fn poll<T>(
        &mut self,
        part: Pin<&mut impl Future<Output = T>>,
        context: &mut Context<'_>,
    ) -> Poll<T> {
        if let Some(rest) = &mut self.rest {
            ready!(rest.as_mut().poll(context));
            (self.rest, self.long_call_permit) = (None, None);
        }
        if self.long_call_permit.is_none() && self.used >= limits::CALL_CPU_AT_ONCE {
            let wait = self
                .next_long_call_permit
                .get_or_insert_with(|| self.scheduler.next_long_call_permit());
            let Poll::Ready(long_call_permit) = wait.as_mut().poll(context) else {
                // Other calls of the provider compute meanwhile.
                self.place = Progress::None;
                return Poll::Pending;
            };
            (self.long_call_permit, self.next_long_call_permit) = (long_call_permit, None);
        }
        let turn = ready!(self.poll_turn(context));
        let before = cpu_time();
        let poll = part.poll(context);
        let spent = cpu_time().saturating_sub(before);
        match poll.is_ready() {
            true => self.place = Progress::Has(turn),
            false => drop(turn),
        }
        self.used += spent;
        if self.long_call_permit.is_none() {
            return poll;
        }
        if poll.is_pending() && spent >= limits::TICK / 2 {
            let mut rest = Box::pin(sleep(spent / 2));
            // Registers the waker; the timer cannot have fired yet.
            let _ = rest.as_mut().poll(context);
            self.rest = Some(rest);
        } else {
            self.long_call_permit = None;
        }
        poll
    }

    fn poll_turn(&mut self, context: &mut Context<'_>) -> Poll<Option<CpuPermit>> {
        let mut wait = match std::mem::replace(&mut self.place, Progress::None) {
            Progress::Has(turn) => return Poll::Ready(turn),
            Progress::Waits(wait) => wait,
            Progress::None => match self.scheduler.turn() {
                Some(turn) => return Poll::Ready(Some(turn)),
                None => self.scheduler.next_turn(),
            },
        };
        let turn = wait.as_mut().poll(context);
        if turn.is_pending() {
            self.place = Progress::Waits(wait);
        }
        turn
    }
}

/// CPU time of this thread so far. A future stays on its thread during one poll.
fn cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
