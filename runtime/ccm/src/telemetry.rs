//! Structured logs to standard error: klog's lines, component-base's JSON, or lines for people. Never to standard
//! output, which is for results.

mod fields;
mod json;
mod klog;
mod pattern;
pub(crate) mod startup;
mod verbosity;

use std::io::IsTerminal as _;
use std::sync::OnceLock;

use k8s_openapi::jiff::Timestamp;
use tracing::subscriber::DefaultGuard;
use tracing::{Metadata, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::{Writer, debug_fn};
use tracing_subscriber::prelude::*;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, Registry, fmt, reload};

use crate::cli::{self, Invocation};
use crate::flags::{LogFlags, LogFormat};

/// The form of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// klog's lines.
    Klog,
    /// component-base's JSON, as with `--logging-format=json`.
    Json,
    /// Lines for a person at a terminal.
    Person,
}

impl Form {
    /// The form of `--logging-format`. Without the flag it is klog's, except for a person who has started `ccm` in a
    /// terminal.
    fn chosen(format: Option<LogFormat>, called: &Invocation, is_terminal: bool) -> Form {
        match (format, called) {
            (Some(LogFormat::Json), _) => Form::Json,
            (None, Invocation::Ccm) if is_terminal => Form::Person,
            (Some(LogFormat::Text) | None, _) => Form::Klog,
        }
    }
}

/// The verbosity of this process's log, which can be set while it runs. A process has one log, and so one of these.
static VERBOSITY: OnceLock<reload::Handle<verbosity::Verbosity, Registry>> = OnceLock::new();

/// The form of this process's log, once [`begin`] has started it.
static FORM: OnceLock<Form> = OnceLock::new();

/// Starts logging for `ccm run`.
///
/// # Errors
/// Logging was started before.
pub(crate) fn begin(logs: &LogFlags, called: &Invocation) -> anyhow::Result<()> {
    let form = Form::chosen(logs.format, called, std::io::stderr().is_terminal());
    let (filter, handle) = reload::Layer::new(verbosity::Verbosity::new(logs));
    tracing_subscriber::registry()
        .with(filter)
        .with(layer(form, std::io::stderr))
        .try_init()?;
    VERBOSITY.get_or_init(|| handle);
    FORM.get_or_init(|| form);
    Ok(())
}

/// Logs the reason for which the program ends, in upstream's words, and returns whether there is such a log: a person at
/// a terminal, and whoever has an error before [`begin`], gets the reason line by line.
pub(crate) fn logs_end(error: &anyhow::Error) -> bool {
    let has_format = FORM.get().is_some_and(|form| *form != Form::Person);
    if has_format {
        tracing::error!(error = cli::in_one_line(error), "command failed");
    }
    has_format
}

/// Sets the verbosity in place of `-v`; `--vmodule` stays. Without a log that [`begin`] has started nothing happens.
pub(crate) fn set_verbosity(verbosity: u32) {
    // An error means that the log has ended.
    if let Some(handle) = VERBOSITY.get()
        && handle.modify(|filter| filter.set(verbosity)).is_ok()
    {
        tracing::info!(verbosity, "the verbosity of the log was set");
    }
}

/// Starts logging for a command whose result is on standard output: warnings and errors alone, unless `-v` asks for
/// more.
///
/// # Errors
/// Logging was started before.
pub(crate) fn begin_for_result(logs: &LogFlags, called: &Invocation) -> anyhow::Result<()> {
    if logs.verbosity > 0 || !logs.modules.is_empty() {
        return begin(logs, called);
    }
    let form = Form::chosen(logs.format, called, std::io::stderr().is_terminal());
    quiet(form, std::io::stderr).try_init()?;
    Ok(())
}

/// Starts logging for a command that has no flags of the log: its warnings and errors. What the host logs about a module
/// is left to the result, but not what it logs about the folder of compiled modules.
///
/// # Errors
/// Logging was started before.
pub(crate) fn begin_for_person() -> anyhow::Result<()> {
    let of_host = ["ccm_host", "egress", "guest"].map(|target| (target, LevelFilter::OFF));
    let others = Targets::new()
        .with_default(LevelFilter::WARN)
        .with_targets(of_host)
        .with_target("ccm_host::compile", LevelFilter::WARN);
    quiet(of_person(), std::io::stderr)
        .with(others)
        .try_init()?;
    Ok(())
}

/// Logs the warnings and errors of this thread until the guard is dropped, for a command that does not know its flags of
/// the log yet.
pub(crate) fn meanwhile() -> DefaultGuard {
    tracing::subscriber::set_default(quiet(of_person(), std::io::stderr))
}

/// The form for whoever has started a command of `ccm`.
fn of_person() -> Form {
    Form::chosen(None, &Invocation::Ccm, std::io::stderr().is_terminal())
}

/// A log of the warnings and errors that are shown without `-v`.
fn quiet<W>(form: Form, writer: W) -> impl Subscriber + Send + Sync + 'static
where
    W: for<'a> fmt::MakeWriter<'a> + Send + Sync + 'static,
{
    tracing_subscriber::registry()
        .with(LevelFilter::WARN)
        .with(verbosity::Verbosity::new(&LogFlags::default()))
        .with(layer(form, writer))
}

/// The layer that writes lines in this form.
fn layer<S, W>(form: Form, writer: W) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'a> fmt::MakeWriter<'a> + Send + Sync + 'static,
{
    let lines = fmt::layer().with_writer(writer).with_ansi(false);
    match form {
        Form::Person => lines.boxed(),
        Form::Klog => {
            let format = klog::Klog {
                now: Timestamp::now,
                process: std::process::id(),
            };
            let lines = lines.event_format(format).fmt_fields(no_text());
            fields::KeepSpanFields.and_then(lines).boxed()
        }
        Form::Json => {
            let format = json::Json {
                now: Timestamp::now,
                steps: verbosity::Steps::new(),
            };
            let lines = lines.event_format(format).fmt_fields(no_text());
            fields::KeepSpanFields.and_then(lines).boxed()
        }
    }
}

/// Writes no field of a span: [`fields::KeepSpanFields`] keeps them with their types.
fn no_text() -> impl for<'a> FormatFields<'a> + Send + Sync + 'static {
    debug_fn(|_: &mut Writer<'_>, _, _| Ok(()))
}

/// The target of a line if it was named, such as `waiting`. A module's path is no name: the line has the file.
fn logger<'a>(metadata: &Metadata<'a>) -> Option<&'a str> {
    let target = metadata.target();
    (metadata.module_path() != Some(target)).then_some(target)
}

#[cfg(test)]
pub(crate) mod tests;
