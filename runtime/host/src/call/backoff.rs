//! What a provider pays whose calls end badly again and again: between the beginnings of two of them there is as long as
//! such a call computes, times how many of them there were in a row. So a loop of traps takes a sixteenth of one processor,
//! and its memory is given back as rarely. The first call that ends well ends it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::limits;

/// See the module's documentation. One for each generation: a version that replaces a bad one begins at once.
#[derive(Default)]
pub(crate) struct Backoff {
    row: Mutex<Row>,
    /// When the last call began. Who waits holds it, and those who wait longest come first.
    began: tokio::sync::Mutex<Option<Instant>>,
}

/// Calls that ended badly, without one between them that ended well.
#[derive(Default)]
struct Row {
    length: u32,
    /// What one computes: the last one, or half of what it was before, so that a cheap one does not hide the dear ones.
    cost: Duration,
}

impl Backoff {
    /// Waits until a call may begin. Whoever stops waiting leaves nothing behind.
    pub(crate) async fn begin(&self) {
        let mut began = self.began.lock().await;
        let pause = self.pause();
        if let Some(last) = *began
            && !pause.is_zero()
        {
            sleep_until(last + pause).await;
        }
        *began = Some(Instant::now());
    }

    /// Tells how a call ended that computed for so long.
    pub(crate) fn ended(&self, well: bool, computed: Duration) {
        let mut row = self.row();
        *row = match well {
            true => Row::default(),
            false => Row {
                length: (row.length + 1).min(limits::BAD_CALLS_COUNTED),
                cost: computed.max(row.cost / 2),
            },
        };
    }

    fn pause(&self) -> Duration {
        let row = self.row();
        (row.cost * row.length).min(limits::PAUSE)
    }

    fn row(&self) -> MutexGuard<'_, Row> {
        self.row.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    const COST: Duration = Duration::from_millis(90);

    /// Calls that end badly, one after the other, and what they computed in ten minutes.
    async fn computed_in_ten_minutes(costs: &[Duration]) -> Duration {
        let (backoff, since) = (Backoff::default(), Instant::now());
        let mut computed = Duration::ZERO;
        for &cost in costs.iter().cycle() {
            backoff.begin().await;
            if since.elapsed() >= Duration::from_secs(600) {
                break;
            }
            tokio::time::sleep(cost).await;
            computed += cost;
            backoff.ended(false, cost);
        }
        computed
    }

    #[tokio::test(start_paused = true)]
    async fn a_loop_of_bad_calls_gets_a_small_share_of_a_processor() {
        let all = Duration::from_secs(600);
        assert!(computed_in_ten_minutes(&[COST]).await < all / 15);
        let cheap_ones_between = [COST, Duration::from_millis(1)];
        assert!(computed_in_ten_minutes(&cheap_ones_between).await < all / 15);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_ends_well_ends_the_waiting() {
        let backoff = Backoff::default();
        let since = Instant::now();
        for _ in 0..100 {
            backoff.begin().await;
            backoff.ended(true, COST);
        }
        assert_eq!(since.elapsed(), Duration::ZERO, "nothing bad happened");
        for _ in 0..100 {
            backoff.ended(false, COST);
        }
        backoff.begin().await;
        assert_eq!(since.elapsed(), COST * limits::BAD_CALLS_COUNTED);
        backoff.ended(true, COST);
        backoff.begin().await;
        assert_eq!(since.elapsed(), COST * limits::BAD_CALLS_COUNTED);
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_has_a_limit_and_who_stops_waiting_takes_no_turn() {
        let backoff = Backoff::default();
        backoff.begin().await;
        for _ in 0..100 {
            backoff.ended(false, Duration::from_secs(10));
        }
        let since = Instant::now();
        for _ in 0..10 {
            let waited = timeout(limits::PAUSE / 20, backoff.begin()).await;
            assert!(waited.is_err());
        }
        backoff.begin().await;
        assert_eq!(since.elapsed(), limits::PAUSE);
    }
}
