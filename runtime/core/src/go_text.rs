//! Text as Go writes it, for messages and log lines that programs and people know from Go. Reads nothing.

use std::fmt::{self, Write as _};
use std::time::Duration;

/// A text as Go's `strconv.Quote` and `%q` write it: in double quotes, with everything escaped that could end the line or
/// command a terminal.
///
/// Combining characters are escaped although Go prints them: they would change the character before them.
pub struct Quoted<'a>(pub &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_char('"')?;
        for character in self.0.chars() {
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
}

/// The texts as Go's `%q` writes a slice: `["a" "b"]`.
pub fn quoted_list<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    let quoted: Vec<String> = texts.map(|text| Quoted(text).to_string()).collect();
    format!("[{}]", quoted.join(" "))
}

/// A duration as Go prints it: `12h0m0s`, `1m30s`, `1.5s`, `500ms`, `0s`.
pub fn duration_text(duration: Duration) -> String {
    let (seconds, rest) = (duration.as_secs(), u64::from(duration.subsec_nanos()));
    match rest {
        1_000_000.. if seconds == 0 => return format!("{}ms", decimal(rest, 6)),
        1_000.. if seconds == 0 => return format!("{}µs", decimal(rest, 3)),
        1.. if seconds == 0 => return format!("{rest}ns"),
        _ => {}
    }
    let second = decimal(seconds % 60 * 1_000_000_000 + rest, 9);
    match (seconds / 3600, seconds / 60 % 60) {
        (0, 0) => format!("{second}s"),
        (0, minutes) => format!("{minutes}m{second}s"),
        (hours, minutes) => format!("{hours}h{minutes}m{second}s"),
    }
}

/// A number with its point moved to the left by `digits` digits, without zeros at the end.
fn decimal(number: u64, digits: usize) -> String {
    let padded = format!("{number:0width$}", width = digits + 1);
    let (whole, fraction) = padded.split_at(padded.len() - digits);
    match fraction.trim_end_matches('0') {
        "" => whole.to_owned(),
        fraction => format!("{whole}.{fraction}"),
    }
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

    #[test]
    fn durations_are_written_as_go_prints_them() {
        for (duration, expected) in [
            (Duration::ZERO, "0s"),
            (Duration::from_nanos(9), "9ns"),
            (Duration::from_micros(3), "3µs"),
            (Duration::from_micros(1_500), "1.5ms"),
            (Duration::from_millis(100), "100ms"),
            (Duration::from_millis(1_500), "1.5s"),
            (Duration::from_secs(90), "1m30s"),
            (Duration::from_secs(3_600), "1h0m0s"),
            (Duration::from_millis(3_600_050), "1h0m0.05s"),
        ] {
            assert_eq!(duration_text(duration), expected);
        }
    }
}
