//! Makes text of modules and guests safe for logs, Events and error messages, and long lists short. Never decides
//! anything from such text.

use std::borrow::Borrow;
use std::fmt::Write as _;

/// Returns `text` as one line of at most `cap` bytes: line ends and tabs become spaces, other control characters and
/// those that change the writing direction become `\u{…}`. Text that does not fit is replaced by `…`.
pub fn clean(text: &str, cap: usize) -> String {
    let mut clean = String::with_capacity(text.len().min(cap));
    for character in text.chars() {
        let before = clean.len();
        match character {
            '\n' | '\r' | '\t' => clean.push(' '),
            hidden if hidden.is_control() || turns_writing(hidden) => {
                // Writing to a String cannot fail.
                let _ = write!(clean, "\\u{{{:x}}}", u32::from(hidden));
            }
            visible => clean.push(visible),
        }
        if clean.len() > cap {
            clean.truncate(before);
            clean.truncate(clean.floor_char_boundary(cap.saturating_sub('…'.len_utf8())));
            clean.push('…');
            break;
        }
    }
    clean
}

/// The first `most` of these texts and the number of the others: `a, b and 3 more`. Changes no text.
pub fn list_first<S: Borrow<str>>(texts: &[S], most: usize) -> String {
    let shown = texts.get(..most).unwrap_or(texts).join(", ");
    match texts.len().saturating_sub(most) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Marks, embeddings, overrides and isolates of the bidirectional algorithm (Unicode UAX #9, table 4), and the
/// separators that some terminals and log viewers treat as line ends.
fn turns_writing(character: char) -> bool {
    matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::{clean, list_first};

    #[test]
    fn hostile_text_becomes_one_visible_line() {
        let table = [
            ("plain", 10, "plain"),
            ("two\nlines\tand a tab", 30, "two lines and a tab"),
            ("\u{1b}[31mred", 30, "\\u{1b}[31mred"),
            ("evil\u{202e}txt", 30, "evil\\u{202e}txt"),
            ("0123456789", 10, "0123456789"),
            ("0123456789x", 10, "0123456…"),
            ("üüüüüü", 10, "üüü…"),
            ("x", 0, "…"),
        ];
        for (text, cap, expected) in table {
            assert_eq!(clean(text, cap), expected, "{text:?} in {cap}");
        }
    }

    #[test]
    fn a_list_names_a_few_and_counts_the_others() {
        for (texts, expected) in [
            (&[][..], ""),
            (&["a"], "a"),
            (&["a", "b"], "a, b"),
            (&["a", "b", "c", "d"], "a, b and 2 more"),
        ] {
            assert_eq!(list_first(texts, 2), expected);
        }
    }
}
