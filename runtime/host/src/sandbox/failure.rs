//! Failures of guests to complete a call, and their error messages: trap, stack, module, and the guest's last log
//! lines.

use std::collections::BTreeSet;
use std::time::Duration;

use ccm_core::cloud::ProviderError;
use serde::{Deserialize, Serialize};
use wasmtime::{Trap, WasmBacktrace};
use wasmtime_wasi::I32Exit;

use crate::digest::Digest;
use crate::limits;
use crate::sanitize::clean;

/// Function names in messages are cut to this many bytes.
const NAME_BYTES: usize = 120;
/// The cause is cut to this many bytes.
const CAUSE_BYTES: usize = 1_024;

/// Why a call did not complete.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Failure {
    /// A trap, an exceeded store limit, or a host function that refused.
    Trap {
        /// Text of the innermost cause.
        cause: String,
        /// Formatted guest stack; empty if there is none.
        stack: String,
    },
    /// The deadline of the call has passed.
    Deadline,
    /// The CPU budget is spent.
    Cpu(Duration),
    /// The sandbox process ended or violated the protocol; the reason.
    Process(String),
    /// Something outside ended the sandbox process or kept it from starting: the kernel where memory is short, a person,
    /// a service manager. Only the parent can tell; a child that claims it violates the protocol.
    #[serde(skip)]
    Interrupted(String),
}

impl Failure {
    /// Describes a wasmtime error.
    pub(crate) fn trap(error: &wasmtime::Error) -> Failure {
        let stack = Stack::of(error);
        let mut cause = clean(&cause(error), CAUSE_BYTES);
        // Either the engine's stack overflows, or the one that the guest keeps in its linear memory.
        let is_overflow = match error.downcast_ref::<Trap>() {
            Some(Trap::StackOverflow) => true,
            Some(Trap::MemoryOutOfBounds) => stack.repeats,
            _ => false,
        };
        if is_overflow {
            cause.push_str(
                " (its functions call each other without end: a stack overflow inside the guest)",
            );
        }
        Failure::Trap {
            cause,
            stack: stack.text,
        }
    }

    /// The failure that a child reported, cleaned and cut once more: the child may not be what it should be.
    pub(crate) fn of_child(self) -> Failure {
        match self {
            Failure::Trap { cause, stack } => Failure::Trap {
                cause: clean(&cause, 2 * CAUSE_BYTES),
                stack: clean(&stack, limits::ERROR_BYTES),
            },
            Failure::Process(what) => Failure::Process(clean(&what, limits::ERROR_BYTES)),
            Failure::Deadline | Failure::Cpu(_) | Failure::Interrupted(_) => self,
        }
    }

    /// Error for controllers and operators. `phase` is the function in which the guest failed.
    pub(crate) fn into_error(
        self,
        phase: &str,
        digest: &Digest,
        took: Duration,
        log: &[String],
    ) -> ProviderError {
        let module = digest.short();
        match self {
            Failure::Trap { cause, stack } => {
                let text = format!("{phase} in module {module}: {cause}");
                // The guest's own text comes first: an Event holds only the beginning.
                let memory = limits::ERROR_BYTES.saturating_sub(stack.len());
                ProviderError::Trapped(with_log(text, log, memory) + &stack)
            }
            Failure::Deadline => {
                let took = took.as_millis();
                let text = format!("{phase} in module {module} did not end within {took} ms");
                ProviderError::TimedOut(with_log(text, log, limits::ERROR_BYTES))
            }
            Failure::Cpu(budget) => {
                let budget = budget.as_millis();
                let text =
                    format!("{phase} in module {module} used more than {budget} ms of CPU time");
                ProviderError::TimedOut(with_log(text, log, limits::ERROR_BYTES))
            }
            Failure::Process(what) => {
                let text = format!("{phase} in module {module}: {what}");
                ProviderError::Trapped(with_log(text, log, limits::ERROR_BYTES))
            }
            Failure::Interrupted(what) => {
                let text = format!("{phase} in module {module}: {what}");
                ProviderError::Interrupted(with_log(text, log, limits::ERROR_BYTES))
            }
        }
    }
}

/// Innermost cause as text.
fn cause(error: &wasmtime::Error) -> String {
    if let Some(exit) = error.downcast_ref::<I32Exit>() {
        return format!("the guest ended itself with exit code {}", exit.0);
    }
    if let Some(trap) = error.downcast_ref::<Trap>() {
        return trap.to_string();
    }
    error.root_cause().to_string()
}

/// Stack of the guest.
struct Stack {
    /// Innermost function first, with equal neighbours counted; empty if there is no stack.
    text: String,
    /// Whether the stack fills all shown frames with few distinct functions: a sign of endless recursion.
    repeats: bool,
}

impl Stack {
    fn of(error: &wasmtime::Error) -> Stack {
        let frames = error
            .downcast_ref::<WasmBacktrace>()
            .map(WasmBacktrace::frames)
            .unwrap_or_default();
        let names = frames
            .iter()
            .take(limits::FRAMES)
            .map(|frame| match frame.func_name() {
                Some(name) => demangle(name),
                None => format!("function {}", frame.func_index()),
            });
        Stack::from_names(names)
    }

    fn from_names(names: impl Iterator<Item = String>) -> Stack {
        let mut runs: Vec<(String, usize)> = Vec::new();
        let mut depth = 0;
        for name in names {
            depth += 1;
            match runs.last_mut() {
                Some((last, count)) if *last == name => *count += 1,
                _ => runs.push((name, 1)),
            }
        }
        let distinct: BTreeSet<_> = runs.iter().map(|(name, _)| name).collect();
        let repeats = depth == limits::FRAMES && distinct.len() <= limits::FRAMES / 4;
        let shown: Vec<_> = runs
            .iter()
            .map(|(name, count)| {
                if *count == 1 {
                    name.clone()
                } else {
                    format!("{name} ({count} times)")
                }
            })
            .collect();
        let text = if shown.is_empty() {
            String::new()
        } else {
            format!("; stack: {}", shown.join(" < "))
        };
        Stack { text, repeats }
    }
}

/// Function name as in the source code.
fn demangle(name: &str) -> String {
    clean(&format!("{:#}", rustc_demangle::demangle(name)), NAME_BYTES)
}

/// Appends the last lines of the guest's log, as many as fit into `memory` bytes together with the text.
fn with_log(mut text: String, log: &[String], memory: usize) -> String {
    text.truncate(text.floor_char_boundary(memory));
    let mut shown: Vec<&str> = Vec::new();
    let mut memory = memory.saturating_sub(text.len());
    for line in log.iter().rev() {
        // " | " or the introduction precedes each line.
        let Some(left) = memory.checked_sub(line.len() + "; last log lines: ".len()) else {
            break;
        };
        memory = left;
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
        let check = |log: &[String]| with_log("x".to_owned(), log, 1_000);
        assert_eq!(check(&[]), "x");
        assert_eq!(
            check(&["a".to_owned(), "b".to_owned()]),
            "x; last log lines: a | b"
        );
        assert_eq!(check(&vec!["y".repeat(2_000); 3]), "x");
        let lines: Vec<_> = (0..200).map(|number| format!("{number:0100}")).collect();
        let text = check(&lines);
        assert!(text.len() <= 1_000 && text.ends_with("199"), "{text}");
    }

    /// A module that controls its process would count as blameless.
    #[test]
    fn a_child_cannot_claim_that_it_was_interrupted() {
        let process = Failure::Process("x".to_owned());
        let mut bytes = postcard::to_allocvec(&process).unwrap_or_default();
        assert!(postcard::from_bytes::<Failure>(&bytes).is_ok());
        if let Some(variant) = bytes.first_mut() {
            *variant += 1;
        }
        assert!(postcard::from_bytes::<Failure>(&bytes).is_err());
        assert!(postcard::to_allocvec(&Failure::Interrupted("x".to_owned())).is_err());
    }

    #[test]
    fn what_a_child_says_of_a_failure_is_one_line_and_bounded() {
        let long = "x\n".repeat(limits::ERROR_BYTES);
        let trap = Failure::Trap {
            cause: long.clone(),
            stack: long.clone(),
        };
        for failure in [trap, Failure::Process(long)] {
            let failure = failure.of_child();
            let digest = Digest::of(b"");
            let error = failure.into_error("find", &digest, Duration::ZERO, &[]);
            let text = error.to_string();
            assert!(!text.contains('\n'), "{text}");
            assert!(text.len() <= 2 * limits::ERROR_BYTES, "{}", text.len());
        }
    }

    #[test]
    fn names_are_shown_as_they_were_written() {
        assert_eq!(
            demangle("_ZN4core9panicking5panic17h0123456789abcdefE"),
            "core::panicking::panic"
        );
        assert_eq!(
            demangle("ccm:provider/instances@0.1.0#find"),
            "ccm:provider/instances@0.1.0#find"
        );
        assert_eq!(demangle("evil\u{1b}[2J"), "evil\\u{1b}[2J");
        assert!(demangle(&"_ZN".repeat(50_000)).len() <= NAME_BYTES);
    }

    #[test]
    fn endless_recursion_is_recognised_by_its_stack() {
        let stack = |names: &[&str]| {
            let names = names
                .iter()
                .cycle()
                .take(limits::FRAMES)
                .map(|name| (*name).to_owned());
            Stack::from_names(names)
        };
        assert_eq!(
            stack(&["deeper"]).text,
            format!("; stack: deeper ({} times)", limits::FRAMES)
        );
        assert!(stack(&["deeper"]).repeats);
        assert!(stack(&["a", "b", "c"]).repeats);
        let many: Vec<_> = ('a'..='t').map(String::from).collect();
        assert!(!stack(&many.iter().map(String::as_str).collect::<Vec<_>>()).repeats);
        assert!(!Stack::from_names(std::iter::repeat_n("a".to_owned(), 3)).repeats);
    }
}
