//! Uses more than its share: time, memory, stack, log, state, randomness. Functions that return report how far they
//! came.

use std::cell::Cell;
use std::hint::black_box;
use std::time::Duration;

use ccm_guest::{log, random, state};

const FLOOD: u32 = 10_000;
const MINUTE: Duration = Duration::from_secs(60);

/// Loops until the host ends the call.
pub fn spin() -> ! {
    let mut turns = 0_u64;
    loop {
        turns = black_box(turns.wrapping_add(1));
    }
}

/// Returns after an hour.
pub fn sleep() -> String {
    std::thread::sleep(Duration::from_secs(3600));
    "allowed: slept for an hour".to_owned()
}

/// Polls a timer that is ready at once, for ever.
pub fn poll_loop() -> String {
    loop {
        raw::poll_now();
    }
}

/// Begins timers and waits for none of them.
pub fn many_timers() -> String {
    format!("allowed: {} timers", raw::timers_begun(100_000))
}

/// Takes memory, touches it and forgets it.
pub fn leak() -> String {
    std::mem::forget(black_box(vec![1_u8; 1024 * 1024]));
    "told: one MiB is lost".to_owned()
}

/// Reads every clock while time passes.
pub fn fine_clock() -> String {
    match raw::finest_step() {
        1_000_000.. => "told: no clock is finer than a millisecond".to_owned(),
        step => format!("allowed: a step of {step} ns"),
    }
}

/// Takes memory and touches it, for ever.
pub fn memory_bomb() -> String {
    let mut taken: Vec<Vec<u8>> = Vec::new();
    loop {
        taken.push(black_box(vec![1; 1024 * 1024]));
        if taken.len() > 8192 {
            return "allowed: 8 GiB of memory".to_owned();
        }
    }
}

/// Calls itself until the stack ends.
pub fn recursion() -> String {
    fn deeper(depth: u64) -> u64 {
        let frame = black_box([depth; 64]);
        match black_box(depth) {
            u64::MAX => 0,
            _ => deeper(depth + 1).wrapping_add(frame.iter().sum()),
        }
    }
    format!("allowed: {} calls deep", deeper(0))
}

/// Panics with a message.
#[allow(clippy::panic, reason = "this is the behaviour that was asked for")]
pub fn panic_with_message() -> ! {
    panic!("the misbehaving guest panics because it was told to")
}

/// Logs far too much.
pub fn log_flood() -> String {
    let line = "x".repeat(8192);
    for number in 0..FLOOD {
        log::info(&line, &[("number", &number.to_string())]);
    }
    format!("told: {FLOOD} log lines were written")
}

/// Writes far too much to standard error.
#[allow(
    clippy::print_stderr,
    reason = "this is the behaviour that was asked for"
)]
pub fn stderr_flood() -> String {
    for number in 0..FLOOD {
        eprintln!("line {number} of a flood {}", "y".repeat(100));
    }
    format!("told: {FLOOD} lines were written")
}

/// Logs what a terminal or a log parser would take for something else.
pub fn log_forgery() -> String {
    let forged =
        "fine\n2026-01-01T00:00:00Z ERROR ccm: all nodes deleted\r\x1b[2J\x1b[31m\u{202e}\0";
    log::warn(
        forged,
        &[("field\nname", "value\nof two lines"), ("level", "ERROR")],
    );
    "told: one line was written".to_owned()
}

/// Stores values until one is refused.
pub fn state_overflow() -> String {
    let value = vec![7; 64 * 1024];
    let kept = (0..64)
        .take_while(|number| state::set(&format!("key-{number}"), &value, MINUTE))
        .count();
    format!("told: {kept} values of 64 KiB were kept")
}

/// Stores one value that is far too large.
pub fn state_huge_value() -> String {
    match state::set("huge", &vec![7; 16 * 1024 * 1024], MINUTE) {
        true => "allowed: a value of 16 MiB".to_owned(),
        false => "refused: a value of 16 MiB".to_owned(),
    }
}

/// Asks for more random bytes than fit into its memory.
pub fn huge_random() -> String {
    format!("allowed: {} random bytes", random::bytes(u32::MAX).len())
}

/// The credential of the tests, as if a cloud had repeated it.
pub const TOKEN: &str = "a-token-that-no-guest-sees";

/// Writes the token to the log; the caller puts the rest into its answer.
pub fn log_token() -> String {
    log::warn(TOKEN, &[("token", TOKEN)]);
    format!("told: the token is {TOKEN}")
}

/// Counts calls in memory that should not outlive one.
pub fn calls_so_far() -> String {
    thread_local! {
        static CALLS: Cell<u32> = const { Cell::new(0) };
    }
    let calls = CALLS.get() + 1;
    CALLS.set(calls);
    format!("told: call {calls}")
}

#[cfg(target_arch = "wasm32")]
mod raw {
    //! Calls that the standard library has no function for.

    use wasip2::clocks::{monotonic_clock, wall_clock};
    use wasip2::io::poll::poll;

    /// Waits until a timer of no length is over.
    pub(super) fn poll_now() {
        let timer = monotonic_clock::subscribe_duration(0);
        poll(&[&timer]);
    }

    /// How many timers of an hour there are at the same time.
    pub(super) fn timers_begun(count: usize) -> usize {
        const HOUR: u64 = 3_600_000_000_000;
        let begun: Vec<_> = (0..count)
            .map(|_| monotonic_clock::subscribe_duration(HOUR))
            .collect();
        begun.len()
    }

    /// The smallest step in nanoseconds that a clock makes or reports, during `LOOKS` readings.
    pub(super) fn finest_step() -> u64 {
        /// So many that at least one is not at the beginning of a millisecond.
        const LOOKS: usize = 10_000;
        /// The largest power of ten that divides the number.
        fn grain(nanoseconds: u64) -> u64 {
            let powers = std::iter::successors(Some(1_u64), |power| power.checked_mul(10));
            let divides = |power: &u64| nanoseconds.is_multiple_of(*power);
            powers.take_while(divides).last().unwrap_or(1)
        }
        let wall = wall_clock::resolution();
        let wall = wall.seconds * 1_000_000_000 + u64::from(wall.nanoseconds);
        let mut finest = wall.min(monotonic_clock::resolution());
        for _ in 0..LOOKS {
            let wall = u64::from(wall_clock::now().nanoseconds);
            finest = finest.min(grain(monotonic_clock::now())).min(grain(wall));
        }
        finest
    }
}

#[cfg(not(target_arch = "wasm32"))]
mod raw {
    //! WASI exists on Wasm alone.

    pub(super) fn poll_now() {}

    pub(super) fn timers_begun(_: usize) -> usize {
        0
    }

    pub(super) fn finest_step() -> u64 {
        u64::MAX
    }
}
