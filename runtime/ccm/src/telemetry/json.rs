//! component-base's JSON lines: `ts` in milliseconds since 1970, `logger`, `caller`, `msg`, `v` unless it is an error,
//! and the fields, an error's under `err`.
//!
//! Warnings have `"severity":"warning"` besides, because component-base's form cannot tell them from information.

use std::fmt;

use k8s_openapi::jiff::Timestamp;
use serde_json::Number;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use super::fields::{Fields, Value};
use super::logger;
use super::verbosity::Steps;

/// Formats events as JSON lines.
pub(super) struct Json {
    /// Returns the time of a line.
    pub(super) now: fn() -> Timestamp,
    /// Gives the value of `v`.
    pub(super) steps: Steps,
}

/// Names that a field cannot have, because the line has them already.
const TAKEN: [&str; 6] = ["ts", "logger", "caller", "msg", "v", "severity"];

impl<S, N> FormatEvent<S, N> for Json
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let fields = Fields::of(context, event);
        let metadata = event.metadata();
        // As precise as upstream's float, which has microseconds and a little more.
        let millis = (self.now)().as_microsecond() as f64 / 1000.0;
        write!(writer, "{{\"ts\":{millis}")?;
        if let Some(logger) = logger(metadata) {
            write!(writer, ",\"logger\":{}", quoted(logger))?;
        }
        if let Some(file) = metadata.file() {
            let place = format!("{}:{}", last_two(file), metadata.line().unwrap_or(1));
            write!(writer, ",\"caller\":{}", quoted(&place))?;
        }
        write!(writer, ",\"msg\":{}", quoted(&fields.message))?;
        if *metadata.level() != Level::ERROR {
            write!(writer, ",\"v\":{}", self.steps.of(metadata))?;
        }
        if *metadata.level() == Level::WARN {
            write!(writer, ",\"severity\":\"warning\"")?;
        }
        for (name, value) in &fields.pairs {
            let underscore = if TAKEN.contains(name) { "_" } else { "" };
            write!(writer, ",{}:", quoted(&format!("{name}{underscore}")))?;
            match value {
                Value::Text(text) => write!(writer, "{}", quoted(text))?,
                Value::Bool(value) => write!(writer, "{value}")?,
                Value::Signed(value) => write!(writer, "{value}")?,
                Value::Unsigned(value) => write!(writer, "{value}")?,
                Value::Float(value) => match Number::from_f64(*value) {
                    Some(number) => write!(writer, "{number}")?,
                    // JSON has no such number: infinity, or not a number.
                    None => write!(writer, "\"{value}\"")?,
                },
            }
        }
        writeln!(writer, "}}")
    }
}

/// The text as a JSON string, in which nothing can command a terminal either.
fn quoted(text: &str) -> String {
    let json = serde_json::Value::from(text).to_string();
    let mut quoted = String::with_capacity(json.len());
    for character in json.chars() {
        // The standard library's escape of a character that can be shown is the character.
        if (character.is_ascii() && character != '\u{7f}') || character.escape_debug().count() == 1
        {
            quoted.push(character);
        } else {
            for unit in character.encode_utf16(&mut [0; 2]) {
                quoted.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    quoted
}

/// A path's file and the folder it is in, as zap writes callers.
fn last_two(path: &str) -> &str {
    let mut slashes = path.rmatch_indices('/').map(|(at, _)| at);
    slashes.nth(1).map_or(path, |at| &path[at + 1..])
}
