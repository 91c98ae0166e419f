//! Terminal output: progress bars, lines in their place, and text without terminal control characters. Decides nothing.

use std::borrow::Cow;
use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};

/// Refresh interval of a bar.
const TICK: Duration = Duration::from_millis(120);

/// Whether and where progress is shown.
#[derive(Clone, Copy)]
pub(super) struct Screen {
    is_shown: bool,
    has_lines: bool,
}

impl Screen {
    /// Standard error, if both it and standard output are terminals: the reader of a pipe gets the result only.
    pub(super) fn of_people(is_text: bool) -> Screen {
        let is_terminal = std::io::stderr().is_terminal() && std::io::stdout().is_terminal();
        Screen {
            is_shown: is_text && is_terminal,
            has_lines: is_text && !is_terminal,
        }
    }

    /// A line on standard error about a step of work that takes minutes, where no spinner shows it, such as in a log of CI.
    pub(super) fn step(self, what: &str) {
        if self.has_lines {
            // An error of a closed standard error has no consequence.
            let _ = writeln!(std::io::stderr(), "{what}");
        }
    }

    /// A spinner for work of unknown length. Removed when dropped.
    pub(super) fn busy(self, what: impl Into<Cow<'static, str>>) -> ProgressBar {
        if !self.is_shown {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::new_spinner()
            .with_message(what)
            .with_finish(ProgressFinish::AndClear);
        bar.enable_steady_tick(TICK);
        bar
    }

    /// A bar for transferred bytes. Removed when dropped.
    pub(super) fn bytes(self, what: impl Into<Cow<'static, str>>, in_all: u64) -> ProgressBar {
        let bar = self.busy(what);
        bar.set_length(in_all);
        let form = "{msg} [{bar:30}] {bytes}/{total_bytes} {bytes_per_sec}";
        // The template is a constant; if it were invalid, the spinner would stay.
        if let Ok(style) = ProgressStyle::with_template(form) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar
    }
}

/// Escapes all characters in `text`, except line breaks, that a terminal would interpret instead of showing.
pub(crate) fn visible(text: &str) -> String {
    let lines: Vec<_> = text
        .split('\n')
        .map(|line| ccm_host::clean(line, usize::MAX))
        .collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::visible;

    #[test]
    fn what_would_command_a_terminal_is_shown_instead() {
        for (text, expected) in [
            ("two\nlines, ünïcode", "two\nlines, ünïcode"),
            ("\u{1b}[31mred", "\\u{1b}[31mred"),
            ("\u{9b}2J", "\\u{9b}2J"),
            ("over\rwritten\t", "over written "),
            ("evil\u{202e}mas.txt", "evil\\u{202e}mas.txt"),
        ] {
            assert_eq!(visible(text), expected, "{text:?}");
        }
    }
}
