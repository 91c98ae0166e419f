//! Flags of the log: its format, its verbosity, and verbosity per source file.

use ccm_core::go_text::Quoted;
use clap::ArgMatches;

use super::arguments::go_level;
use super::{given, list, text};

/// The flags of the log, validated.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LogFlags {
    /// `--logging-format`; `None`: not given.
    pub format: Option<LogFormat>,
    /// `-v`.
    pub verbosity: u32,
    /// `--vmodule`, in its order.
    pub modules: Vec<ModuleVerbosity>,
}

/// A value of `--logging-format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogFormat {
    /// Lines in klog's form.
    Text,
    /// component-base's JSON objects, one per line.
    Json,
}

/// One entry of `--vmodule`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ModuleVerbosity {
    /// A pattern of file names without their extension, as Go's `filepath.Match` reads it.
    pub pattern: String,
    /// The verbosity of log lines from these files.
    pub verbosity: u32,
}

impl LogFlags {
    /// Reads the flags; adds errors to `mistakes`. Without `has_beta_options`, the feature gate `LoggingBetaOptions`,
    /// there is no JSON, as upstream.
    pub(super) fn read(
        matches: &ArgMatches,
        has_beta_options: bool,
        mistakes: &mut Vec<String>,
    ) -> LogFlags {
        let name = text(matches, "logging-format").unwrap_or_default();
        let format = match name.as_str() {
            "text" => Some(LogFormat::Text),
            "json" => Some(LogFormat::Json),
            _ => {
                mistakes.push(format!("--logging-format {name:?}: expected text or json"));
                None
            }
        };
        if format == Some(LogFormat::Json) && !has_beta_options {
            mistakes.push(
                "format: Forbidden: Log format json is disabled, see LoggingBetaOptions feature"
                    .to_owned(),
            );
        }
        if super::election::duration(matches, "log-flush-frequency").is_zero() {
            mistakes.push("--log-flush-frequency must be greater than zero".to_owned());
        }
        let mut modules = Vec::new();
        for entry in list(matches, "vmodule") {
            match module(&entry) {
                Ok(module) => modules.push(module),
                Err(mistake) => mistakes.push(format!(
                    "invalid argument {} for \"--vmodule\" flag: {mistake}",
                    Quoted(&entry)
                )),
            }
        }
        LogFlags {
            format: format.filter(|_| given(matches, "logging-format")),
            verbosity: matches.get_one::<u32>("v").copied().unwrap_or(0),
            modules,
        }
    }
}

/// Parses `pattern=N`. The errors are upstream's.
fn module(entry: &str) -> Result<ModuleVerbosity, String> {
    let parts: Vec<_> = entry.split('=').collect();
    let [pattern, number] = parts.as_slice() else {
        return Err(format!(
            "{} does not have the pattern=N format",
            Quoted(entry)
        ));
    };
    if pattern.is_empty() || number.is_empty() {
        return Err(format!(
            "{} does not have the pattern=N format",
            Quoted(entry)
        ));
    }
    let verbosity = go_level(number).map_err(|expected| {
        format!(
            "parsing verbosity in {}: {}: {expected}",
            Quoted(entry),
            Quoted(number)
        )
    })?;
    Ok(ModuleVerbosity {
        pattern: (*pattern).to_owned(),
        verbosity,
    })
}
