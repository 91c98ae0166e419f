//! What people see: progress on terminals, and text that cannot command them. Decides nothing.

use std::borrow::Cow;
use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};

/// How often a bar moves while nothing else happens.
const TICK: Duration = Duration::from_millis(120);

/// Where the progress of long work is shown, or that it is not.
#[derive(Clone, Copy)]
pub(super) struct Screen {
    is_shown: bool,
}

impl Screen {
    /// Standard error, if both it and standard output are terminals: whoever reads a pipe wants the result alone.
    pub(super) fn of_people(is_text: bool) -> Screen {
        let is_terminal = std::io::stderr().is_terminal() && std::io::stdout().is_terminal();
        Screen {
            is_shown: is_text && is_terminal,
        }
    }

    /// Work whose end is not known. Goes away when it is dropped.
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

    /// Bytes that come or go. Goes away when it is dropped.
    pub(super) fn bytes(self, what: impl Into<Cow<'static, str>>, in_all: u64) -> ProgressBar {
        let bar = self.busy(what);
        bar.set_length(in_all);
        let form = "{msg} [{bar:30}] {bytes}/{total_bytes} {bytes_per_sec}";
        // The form is our own: if it were none, the spinner would stay.
        if let Ok(style) = ProgressStyle::with_template(form) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar
    }
}

/// `text`, line by line, with everything made visible that would do something to a terminal instead of being shown.
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
