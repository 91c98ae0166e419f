//! Durations in Go's syntax.

use std::time::Duration;

/// Parses a duration in Go syntax: see [`Values::duration`](super::Values::duration). Also accepts a plus sign, and
/// `µs` in both encodings for the unit `us`. A negative duration is refused.
pub(super) fn parse_duration(text: &str) -> Option<Duration> {
    let text = text.strip_prefix('+').unwrap_or(text);
    if text == "0" {
        return Some(Duration::ZERO);
    }
    if text.is_empty() {
        return None;
    }
    let text = text.replace(['\u{b5}', '\u{3bc}'], "u");
    let mut rest = text.as_str();
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let (number, after) = split_number(rest)?;
        let units = after.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, after) = after.split_at_checked(units)?;
        let nanos: u64 = match unit {
            "ns" => 1,
            "us" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        total = total.checked_add(times(number, nanos)?)?;
        rest = after;
    }
    Some(total)
}

/// Splits `text` into its leading number and the rest.
fn split_number(text: &str) -> Option<(&str, &str)> {
    let is_part = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
    text.split_at_checked(text.bytes().take_while(is_part).count())
}

/// `number` × `nanos` nanoseconds. Uses the first nine digits of a fraction: for units up to a second that is one
/// nanosecond.
fn times(number: &str, nanos: u64) -> Option<Duration> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let read = |digits: &str| match digits {
        "" => Some(0),
        digits => digits.parse::<u64>().ok(),
    };
    let fraction: String = format!("{fraction:0<9}").chars().take(9).collect();
    let part = u128::from(read(&fraction)?) * u128::from(nanos) / 1_000_000_000;
    let whole = Duration::from_nanos(read(whole)?.checked_mul(nanos)?);
    whole.checked_add(Duration::from_nanos(u64::try_from(part).ok()?))
}
