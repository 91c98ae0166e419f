//! The bucket's arithmetic, with times as arguments.

use std::time::Duration;

use tokio::time::Instant;

use super::{Bucket, RateLimit};

#[test]
fn a_bucket_empties_refuses_and_refills_up_to_its_size() {
    let start = Instant::now();
    let seconds = Duration::from_secs;
    let mut bucket = Bucket::new(
        RateLimit {
            limit: 3,
            refill_every: seconds(10),
        },
        start,
    );
    // Seconds after the start, whether allowed, remaining requests, seconds until full.
    let steps = [
        (0, true, 2, 10),
        (0, true, 1, 20),
        (0, true, 0, 30),
        (9, false, 0, 30),
        (10, true, 0, 30),
        (15, false, 0, 30),
        (20, true, 0, 30),
        (1000, true, 2, 10),
    ];
    for (number, (at, allowed, remaining, full_in)) in steps.into_iter().enumerate() {
        let spent = bucket.take(start + seconds(at));
        assert_eq!(spent.allowed, allowed, "step {number}");
        assert_eq!(
            (spent.limit, spent.remaining),
            (3, remaining),
            "step {number}"
        );
        assert_eq!(spent.full_in, seconds(full_in), "step {number}");
    }
}

#[test]
fn a_bucket_that_refills_at_once_is_never_empty() {
    let now = Instant::now();
    let rule = RateLimit {
        limit: 1,
        refill_every: Duration::ZERO,
    };
    let mut bucket = Bucket::new(rule, now);
    assert!((0..10).all(|_| bucket.take(now).allowed));
}
