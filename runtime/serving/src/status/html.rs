//! Builds HTML. The only place that writes a text into markup, and escapes it there: names, reasons and outcomes come
//! from clouds, guests and tenants.

use std::fmt::{Display, Write as _};

/// Maximum number of characters of a text.
const MOST_TEXT: usize = 600;

/// HTML that is being built.
#[derive(Default)]
pub(super) struct Html(String);

impl Html {
    /// Adds markup, which must be a literal of this program.
    pub(super) fn raw(&mut self, markup: &'static str) -> &mut Html {
        self.0.push_str(markup);
        self
    }

    /// Adds a text, which may contain anything. Shortens it if it is very long.
    pub(super) fn text(&mut self, text: impl Display) -> &mut Html {
        let mut out = Escaped {
            html: &mut self.0,
            left: MOST_TEXT,
        };
        // An error means that the bound is reached.
        if write!(out, "{text}").is_err() {
            self.0.push('…');
        }
        self
    }

    /// Adds a text from a cloud, guest or tenant: it cannot change the direction of the text beside it.
    pub(super) fn foreign(&mut self, text: impl Display) -> &mut Html {
        self.raw("<bdi>").text(text).raw("</bdi>")
    }

    pub(super) fn finish(self) -> String {
        self.0
    }
}

struct Escaped<'a> {
    html: &'a mut String,
    left: usize,
}

impl std::fmt::Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        for letter in text.chars() {
            self.left = self.left.checked_sub(1).ok_or(std::fmt::Error)?;
            match letter {
                '&' => self.html.push_str("&amp;"),
                '<' => self.html.push_str("&lt;"),
                '>' => self.html.push_str("&gt;"),
                '"' => self.html.push_str("&quot;"),
                '\'' => self.html.push_str("&#39;"),
                '\n' | '\t' => self.html.push(' '),
                _ if is_invisible(letter) => write!(self.html, "\\u{{{:x}}}", letter as u32)?,
                _ => self.html.push(letter),
            }
        }
        Ok(())
    }
}

/// Control characters, and those that change the direction of writing or have no width.
fn is_invisible(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(letter, '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let mut html = Html::default();
        html.text(text);
        html.finish()
    }

    #[test]
    fn nothing_that_is_told_becomes_markup() {
        for (text, expected) in [
            (
                "<script>alert('1')</script>",
                "&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;",
            ),
            ("\" onmouseover=\"x()", "&quot; onmouseover=&quot;x()"),
            ("&lt;", "&amp;lt;"),
            ("a\u{202e}b\u{2066}c", "a\\u{202e}b\\u{2066}c"),
            ("a\u{0}b\u{1b}[31m\u{7f}", "a\\u{0}b\\u{1b}[31m\\u{7f}"),
            ("two\nlines", "two lines"),
            ("سلام ok", "سلام ok"),
        ] {
            assert_eq!(shown(text), expected);
        }
    }

    #[test]
    fn long_texts_are_cut() {
        let long = shown(&"é".repeat(1_000_000));
        assert_eq!(long.chars().count(), MOST_TEXT + 1);
        let exact = "é".repeat(MOST_TEXT);
        assert_eq!(shown(&exact), exact);
    }
}
