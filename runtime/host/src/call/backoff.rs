//! Backoff for providers whose calls keep ending badly: between the starts of two such calls lies the CPU time of
//! one call times the number of consecutive bad calls. So a loop of traps takes a sixteenth of one processor, and
//! its memory is freed and reallocated as rarely. The first call that ends well resets it.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

use crate::limits;

/// Backoff of one generation; a version that replaces a bad one starts without a delay.
#[derive(Default)]
pub(crate) struct CallBackoff {
    row: Mutex<Row>,
    /// Start of the last call. A waiting call holds the lock; it is fair, so calls start in order of arrival.
    began: tokio::sync::Mutex<Option<Instant>>,
}

/// Consecutive calls that ended badly.
#[derive(Default)]
struct Row {
    length: u32,
    /// CPU time of such a call: the maximum of the last one and half of the previous value, so that a cheap call
    /// does not hide expensive ones.
    cost: Duration,
}

impl CallBackoff {
    /// Waits until a call may begin. Cancelling the wait has no effect on other calls.
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

    /// Records how a call ended and the CPU time it took.
    pub(crate) fn ended(&self, well: bool, computed: Duration) {
        let mut row = self.row.lock();
        *row = match well {
            true => Row::default(),
            false => Row {
                length: (row.length + 1).min(limits::BAD_CALLS_COUNTED),
                cost: computed.max(row.cost / 2),
            },
        };
    }

    fn pause(&self) -> Duration {
        let row = self.row.lock();
        (row.cost * row.length).min(limits::PAUSE)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    const COST: Duration = Duration::from_millis(90);

    /// CPU time that consecutive bad calls of these costs take in ten minutes.
    async fn computed_in_ten_minutes(costs: &[Duration]) -> Duration {
        let (backoff, since) = (CallBackoff::default(), Instant::now());
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
        let backoff = CallBackoff::default();
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
        let backoff = CallBackoff::default();
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
