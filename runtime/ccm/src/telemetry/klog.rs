//! klog's lines, in its structured form:
//! `I1122 17:49:22.000001   12345 node.rs:123] "Message" key="value" count=3`.
//!
//! A line is always one line: klog writes values with line breaks over several, and a value that a module or a cloud
//! chose could then look like another line. Times are UTC, as they are in a container of klog's.

use std::fmt;

use ccm_core::go_text::Quoted;
use k8s_openapi::jiff::Timestamp;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use super::fields::{ERROR_KEY, Fields, Value};
use super::logger;
use super::verbosity::file_name;

/// Formats events as klog's lines.
pub(super) struct Klog {
    /// Returns the time of a line.
    pub(super) now: fn() -> Timestamp,
    /// The process ID in each line.
    pub(super) process: u32,
}

impl<S, N> FormatEvent<S, N> for Klog
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
        let severity = match *metadata.level() {
            Level::ERROR => 'E',
            Level::WARN => 'W',
            _ => 'I',
        };
        let time = (self.now)().strftime("%m%d %H:%M:%S.%6f");
        let file = metadata.file().map_or("???", file_name);
        let (process, line) = (self.process, metadata.line().unwrap_or(1));
        write!(writer, "{severity}{time} {process:>7} {file}:{line}] ")?;
        write!(writer, "{}", Quoted(&fields.message))?;
        let (errors, others): (Vec<_>, Vec<_>) = fields
            .pairs
            .iter()
            .partition(|(name, _)| *name == ERROR_KEY);
        for (name, value) in errors {
            pair(&mut writer, name, value)?;
        }
        if let Some(logger) = logger(metadata) {
            write!(writer, " logger={}", Quoted(logger))?;
        }
        for (name, value) in others {
            pair(&mut writer, name, value)?;
        }
        writeln!(writer)
    }
}

fn pair(writer: &mut Writer<'_>, name: &str, value: &Value) -> fmt::Result {
    write!(writer, " {name}=")?;
    match value {
        Value::Text(text) => write!(writer, "{}", Quoted(text)),
        Value::Bool(value) => write!(writer, "{value}"),
        Value::Signed(value) => write!(writer, "{value}"),
        Value::Unsigned(value) => write!(writer, "{value}"),
        Value::Float(value) => write!(writer, "{value}"),
    }
}
