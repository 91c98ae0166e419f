//! Text as Go writes it, for messages and log lines that programs and people know from Go. Reads nothing.

use std::fmt::{self, Write};

/// Writes `text` as Go's `strconv.Quote` does: in double quotes, with everything escaped that could end the line or
/// command a terminal.
///
/// Combining characters are escaped although Go prints them: they would change the character before them.
///
/// # Errors
/// The writer's.
pub(crate) fn quote(text: &str, out: &mut impl Write) -> fmt::Result {
    out.write_char('"')?;
    for character in text.chars() {
        match character {
            '"' => out.write_str("\\\"")?,
            '\\' => out.write_str("\\\\")?,
            '\u{7}' => out.write_str("\\a")?,
            '\u{8}' => out.write_str("\\b")?,
            '\u{c}' => out.write_str("\\f")?,
            '\n' => out.write_str("\\n")?,
            '\r' => out.write_str("\\r")?,
            '\t' => out.write_str("\\t")?,
            '\u{b}' => out.write_str("\\v")?,
            '\'' => out.write_char('\'')?,
            // The standard library's escape of a character that can be shown is the character.
            other if other.escape_debug().count() == 1 => out.write_char(other)?,
            other => match u32::from(other) {
                code @ (0..0x20 | 0x7f) => write!(out, "\\x{code:02x}")?,
                code @ ..=0xffff => write!(out, "\\u{code:04x}")?,
                code => write!(out, "\\U{code:08x}")?,
            },
        }
    }
    out.write_char('"')
}

/// The texts as Go's `%q` writes a slice: `["a" "b"]`.
pub(crate) fn quoted_list<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    let quoted = texts.map(|text| {
        let mut quoted = String::new();
        // A String takes everything.
        let _ = quote(text, &mut quoted);
        quoted
    });
    format!("[{}]", quoted.collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_quoted_as_go_quotes_them() {
        // The results of Go's strconv.Quote, except for the last one.
        for (text, expected) in [
            ("", r#""""#),
            ("plain, ünïcode 世界", r#""plain, ünïcode 世界""#),
            ("it's \"so\" \\ here", r#""it's \"so\" \\ here""#),
            ("a\nb\r\tc\u{7}\u{8}\u{c}\u{b}", r#""a\nb\r\tc\a\b\f\v""#),
            ("\u{1b}[31m\u{0}\u{7f}", r#""\x1b[31m\x00\x7f""#),
            (
                "\u{85}\u{2028}\u{202e}\u{feff}",
                r#""\u0085\u2028\u202e\ufeff""#,
            ),
            ("\u{e0001}", r#""\U000e0001""#),
            ("e\u{301}", r#""e\u0301""#),
        ] {
            assert_eq!(quoted_list(std::iter::once(text)), format!("[{expected}]"));
        }
        assert_eq!(quoted_list(["a", "b c"].into_iter()), r#"["a" "b c"]"#);
    }
}
