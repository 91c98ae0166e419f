//! Log of one call: lines that the guest writes through the contract or to its standard output and error. They go to
//! the operator's log at once; the last ones are kept for the error if the call fails.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::egress::CallScope;
use crate::limits;
use crate::sandbox::Parent;
use crate::sanitize::clean;

/// Severity of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Level {
    Debug,
    Info,
    Warn,
    Error,
}

/// Standard output or standard error of a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    Stdout,
    Stderr,
}

/// Handle to the log of one call; clones share it.
#[derive(Clone)]
pub(crate) struct GuestLog {
    reader: Reader,
    lines: Arc<Mutex<Lines>>,
}

/// Destination of the lines.
#[derive(Clone)]
enum Reader {
    /// Operator's log, with the credentials of this scope redacted.
    Operator {
        provider: Arc<str>,
        scope: Option<CallScope>,
    },
    /// Parent process, which has the operator's log.
    Parent(Parent),
}

#[derive(Default)]
struct Lines {
    written: usize,
    dropped: usize,
    tail: VecDeque<String>,
    /// The last lines beyond the limit, as the guest wrote them: what a crash says comes last. Only the end of a flood is
    /// worth cleaning.
    late: VecDeque<(Level, String)>,
    /// Output without a line end yet.
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl GuestLog {
    /// Creates an empty log for a call with this egress scope.
    pub(crate) fn new(provider: &Arc<str>, scope: Option<CallScope>) -> GuestLog {
        let provider = provider.clone();
        GuestLog {
            reader: Reader::Operator { provider, scope },
            lines: Arc::default(),
        }
    }

    /// Creates a log in a sandbox process; kept lines go to the parent.
    pub(crate) fn of_child(parent: Parent) -> GuestLog {
        GuestLog {
            reader: Reader::Parent(parent),
            lines: Arc::default(),
        }
    }

    /// Writes a line; lines beyond the limit are only counted.
    pub(crate) fn line(&self, level: Level, text: &str) {
        self.write(&mut self.lines.lock(), level, text, false);
    }

    /// Writes a line of the contract's `log`. One within the limit is also reported to the permit, as context of the next
    /// refused change.
    pub(crate) fn contract_line(&self, level: Level, text: &str) {
        self.write(&mut self.lines.lock(), level, text, true);
    }

    /// Counts lines that a sandbox process dropped.
    pub(crate) fn lost(&self, lines: usize) {
        let mut kept = self.lines.lock();
        kept.dropped = kept.dropped.saturating_add(lines);
    }

    /// Writes output of a guest; each line becomes a line of the log.
    pub(crate) fn output(&self, output: Output, bytes: &[u8]) {
        let mut lines = self.lines.lock();
        for &byte in bytes {
            let buffer = lines.buffer(output);
            if byte != b'\n' {
                buffer.push(byte);
            }
            if byte == b'\n' || buffer.len() >= limits::LOG_LINE_BYTES {
                self.end_line(&mut lines, output);
            }
        }
    }

    /// Ends unfinished lines, logs how many lines were dropped, and returns the last lines, dropped ones among them.
    pub(crate) fn finish(&self) -> Vec<String> {
        let mut lines = self.lines.lock();
        self.end_line(&mut lines, Output::Stdout);
        self.end_line(&mut lines, Output::Stderr);
        for (level, text) in std::mem::take(&mut lines.late) {
            let text = clean(&text, limits::LOG_LINE_BYTES);
            match &self.reader {
                Reader::Operator { scope, .. } => lines.show(match scope {
                    Some(scope) => scope.redacted(&text),
                    None => text,
                }),
                // Which counts it, as every line beyond the limit.
                Reader::Parent(parent) => {
                    parent.log(level, &text, false);
                    lines.dropped = lines.dropped.saturating_sub(1);
                }
            }
        }
        if lines.dropped > 0 {
            let dropped = std::mem::take(&mut lines.dropped);
            match &self.reader {
                Reader::Operator { provider, .. } => {
                    let note = format!("{dropped} more lines were not kept");
                    emit(provider, Level::Warn, &note);
                }
                Reader::Parent(parent) => parent.lost(dropped),
            }
        }
        lines.tail.iter().cloned().collect()
    }

    fn end_line(&self, lines: &mut Lines, output: Output) {
        let bytes = std::mem::take(lines.buffer(output));
        if !bytes.is_empty() {
            let level = if output == Output::Stdout {
                Level::Info
            } else {
                Level::Warn
            };
            self.write(lines, level, &String::from_utf8_lossy(&bytes), false);
        }
    }

    fn write(&self, lines: &mut Lines, level: Level, text: &str, is_contract_log: bool) {
        if lines.written >= limits::LOG_LINES {
            lines.dropped += 1;
            push_within(&mut lines.late, (level, beginning(text).to_owned()));
            return;
        }
        lines.written += 1;
        let mut text = clean(text, limits::LOG_LINE_BYTES);
        match &self.reader {
            Reader::Operator { provider, scope } => {
                if let Some(scope) = scope {
                    text = scope.redacted(&text);
                    if is_contract_log {
                        scope.note_log_line(&text);
                    }
                }
                emit(provider, level, &text);
            }
            Reader::Parent(parent) => return parent.log(level, &text, is_contract_log),
        }
        lines.show(text);
    }
}

impl Lines {
    /// Keeps a line for the text of an error.
    fn show(&mut self, text: String) {
        push_within(&mut self.tail, text);
    }

    fn buffer(&mut self, output: Output) -> &mut Vec<u8> {
        match output {
            Output::Stdout => &mut self.stdout,
            Output::Stderr => &mut self.stderr,
        }
    }
}

/// Adds `line`, and removes the oldest one beyond [`limits::LOG_TAIL`].
fn push_within<T>(lines: &mut VecDeque<T>, line: T) {
    if lines.len() == limits::LOG_TAIL {
        lines.pop_front();
    }
    lines.push_back(line);
}

/// As much of a line as is ever kept, and a little more, which shows that it was longer.
fn beginning(text: &str) -> &str {
    let end = text.floor_char_boundary(limits::LOG_LINE_BYTES + 4);
    text.get(..end).unwrap_or_default()
}

fn emit(provider: &str, level: Level, text: &str) {
    // Tracing events need a constant level.
    match level {
        Level::Debug => tracing::debug!(target: "guest", provider, "{text}"),
        Level::Info => tracing::info!(target: "guest", provider, "{text}"),
        Level::Warn => tracing::warn!(target: "guest", provider, "{text}"),
        Level::Error => tracing::error!(target: "guest", provider, "{text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log() -> GuestLog {
        GuestLog::new(&Arc::from("test"), None)
    }

    #[test]
    fn only_the_last_lines_are_shown_and_only_the_first_hundred_are_kept() {
        let log = log();
        for number in 0..limits::LOG_LINES + 50 {
            log.line(Level::Info, &format!("line {number}"));
        }
        let tail = log.finish();
        assert_eq!(tail.len(), limits::LOG_TAIL);
        assert_eq!(tail.last().map(String::as_str), Some("line 149"));
        assert_eq!(log.lines.lock().dropped, 0, "reported once");
    }

    #[test]
    fn output_becomes_lines_also_without_a_line_end() {
        let log = log();
        log.output(Output::Stderr, b"first\nsec");
        log.output(Output::Stdout, b"other");
        log.output(Output::Stderr, b"ond");
        assert_eq!(log.finish(), ["first", "other", "second"]);
    }

    #[test]
    fn a_flood_without_line_ends_is_held_in_bounds() {
        let log = log();
        for _ in 0..1_000 {
            log.output(Output::Stdout, &[b'x'; 64 * 1024]);
        }
        let tail = log.finish();
        assert_eq!(tail.len(), limits::LOG_TAIL);
        assert!(tail.iter().all(|line| line.len() <= limits::LOG_LINE_BYTES));
    }
}
