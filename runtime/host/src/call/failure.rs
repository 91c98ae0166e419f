//! How a guest can fail to come to the end of a call, and how that is told: what trapped, where, in which module,
//! and what the guest said last.

use std::time::Duration;

use ccm_core::cloud::ProviderError;
use wasmtime::{Trap, WasmBacktrace};
use wasmtime_wasi::I32Exit;

use crate::digest::Digest;
use crate::limits;
use crate::text::clean;

/// Names of functions in messages are cut at this length.
const NAME_BYTES: usize = 120;
/// What of an error's text is left for the log lines, at least.
const CAUSE_BYTES: usize = 1_024;

/// Why a call did not come to its end.
#[derive(Debug)]
pub(super) enum Failure {
    /// wasmtime's error: a trap, a limit of the store, or a host function that refused.
    Trap(wasmtime::Error),
    /// The time on the wall is over.
    Deadline,
    /// The time on the processor is over.
    Cpu(Duration),
}

impl Failure {
    /// The failure as controllers and people see it.
    pub(super) fn into_error(
        self,
        stage: &'static str,
        digest: &Digest,
        took: Duration,
        log: &[String],
    ) -> ProviderError {
        let module = digest.short();
        match self {
            Failure::Trap(error) => {
                let cause = clean(&cause(&error), CAUSE_BYTES);
                ProviderError::Trapped(with_log(format!("{stage} in module {module}: {cause}{}", stack(&error)), log))
            }
            Failure::Deadline => {
                let took = took.as_millis();
                ProviderError::TimedOut(with_log(format!("{stage} in module {module} did not end within {took} ms"), log))
            }
            Failure::Cpu(budget) => {
                let budget = budget.as_millis();
                ProviderError::TimedOut(with_log(
                    format!("{stage} in module {module} used more than {budget} ms of CPU time"),
                    log,
                ))
            }
        }
    }
}

/// The innermost reason, in words.
fn cause(error: &wasmtime::Error) -> String {
    if let Some(exit) = error.downcast_ref::<I32Exit>() {
        return format!("the guest ended itself with exit code {}", exit.0);
    }
    if let Some(trap) = error.downcast_ref::<Trap>() {
        return trap.to_string();
    }
    error.root_cause().to_string()
}

/// The guest's stack, innermost function first.
fn stack(error: &wasmtime::Error) -> String {
    let Some(backtrace) = error.downcast_ref::<WasmBacktrace>() else { return String::new() };
    let frames: Vec<_> = backtrace
        .frames()
        .iter()
        .take(limits::FRAMES)
        .map(|frame| {
            let name = frame.func_name().map_or_else(|| format!("function {}", frame.func_index()), demangle);
            clean(&name, NAME_BYTES)
        })
        .collect();
    if frames.is_empty() { String::new() } else { format!(", in {}", frames.join(" < ")) }
}

/// Rust's names end in a hash that says nothing.
fn demangle(name: &str) -> String {
    let is_hash = |text: &str| text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    match name.rsplit_once("::h") {
        Some((name, hash)) if is_hash(hash) => name.to_owned(),
        _ => name.to_owned(),
    }
}

/// Adds the last lines of the guest's log, newest first, as many as fit.
fn with_log(mut text: String, log: &[String]) -> String {
    text.truncate(text.floor_char_boundary(limits::ERROR_BYTES));
    let mut shown: Vec<&str> = Vec::new();
    let mut room = limits::ERROR_BYTES.saturating_sub(text.len());
    for line in log.iter().rev() {
        // " | " or the introduction stands before each line.
        let Some(left) = room.checked_sub(line.len() + "; last log lines: ".len()) else { break };
        room = left;
        shown.push(line);
    }
    shown.reverse();
    if !shown.is_empty() {
        text.push_str("; last log lines: ");
        text.push_str(&shown.join(" | "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_shown_as_far_as_they_fit() {
        assert_eq!(with_log("x".to_owned(), &[]), "x");
        let lines = ["a".to_owned(), "b".to_owned()];
        assert_eq!(with_log("x".to_owned(), &lines), "x; last log lines: a | b");
        let long = vec!["y".repeat(limits::LOG_LINE_BYTES); 3];
        assert_eq!(with_log("x".to_owned(), &long), "x");
        let lines: Vec<_> = (0..200).map(|number| format!("{number:0100}")).collect();
        let text = with_log("x".to_owned(), &lines);
        assert!(text.len() <= limits::ERROR_BYTES && text.ends_with("199"), "{text}");
    }

    #[test]
    fn names_lose_their_hash_and_nothing_else() {
        assert_eq!(demangle("core::panicking::panic::h0123456789abcdef"), "core::panicking::panic");
        assert_eq!(demangle("a::hello"), "a::hello");
    }
}
