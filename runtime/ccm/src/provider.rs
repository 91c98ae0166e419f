//! `ccm provider …` and `ccm config …`: build, inspect, compare, pull and verify modules before they are trusted, and
//! show the state of a cluster's providers. A refusal has exit code 2, so that scripts can tell it from content that
//! could not be read (1).

mod arguments;
mod check;
mod cluster;
mod config_check;
mod configmap;
mod configured_providers;
mod conformance;
mod diff;
mod grants_form;
mod init;
mod inspect;
mod loadable;
mod manifest_section;
mod module_reference;
mod observed_calls;
mod output;
mod pack;
mod registry;
mod status;
mod terminal;
mod try_command;
mod verify;

use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;

use ccm_delivery::source::{RefusedPart, SourceError, SourceErrorKind};
use ccm_delivery::trust::Distrust;
use ccm_host::LoadError;
use serde_json::json;

pub(crate) use self::arguments::{ClusterOptions, ConfigCommand, Form, ProviderCommand};
use self::arguments::{DocumentForm, InspectForm, ModuleOptions, Printed, ReportForm, StatusForm};
pub(crate) use self::cluster::{config as cluster_config, unreadable as cluster_unreadable};
use self::terminal::Screen;
pub(crate) use self::terminal::visible;
use crate::exit::Exit;
use crate::{block_on, cli, telemetry};

/// Runs a command of `ccm provider` and prints its result.
///
/// # Errors
/// Something could not be read, written or reached.
pub(crate) fn main(command: &ProviderCommand) -> anyhow::Result<ExitCode> {
    let (subject, form) = subject(command);
    let screen = Screen::of_people(form == Form::Text);
    match block_on(run(command, screen)) {
        Err(error) if prints_document(command) && is_refusal(&error) => {
            cli::print_error(&error);
            Ok(Exit::Refused.into())
        }
        outcome => finish(outcome, &subject, form),
    }
}

/// Whether standard output is a module, an object or a configuration, which a refusal must not be taken for.
fn prints_document(command: &ProviderCommand) -> bool {
    let is_standard_output = |path: &PathBuf| path.as_os_str() == "-";
    match command {
        ProviderCommand::Init(_) => true,
        ProviderCommand::Inspect(options) => options.output == InspectForm::Grants,
        // Without a file, the ConfigMap is printed.
        ProviderCommand::Pack(options) => options.to.as_ref().is_none_or(is_standard_output),
        ProviderCommand::Pull(options) => is_standard_output(&options.to),
        _ => false,
    }
}

/// Runs a command of `ccm config` and prints its result.
///
/// # Errors
/// The configuration could not be read, or the result not written.
pub(crate) fn config_main(command: &ConfigCommand) -> anyhow::Result<ExitCode> {
    let ConfigCommand::Check(options) = command;
    let form = options.printed.output;
    let subject = options.file.display().to_string();
    finish(config_check::check(options), &subject, form)
}

async fn run(command: &ProviderCommand, screen: Screen) -> anyhow::Result<Verdict> {
    telemetry::begin_for_person()?;
    match command {
        ProviderCommand::Pack(options) => pack::pack(options, screen).await,
        ProviderCommand::Inspect(options) => inspect::inspect(options, screen).await,
        ProviderCommand::Init(options) => init::init(options, screen).await,
        ProviderCommand::Check(options) => check::check(options, screen).await,
        ProviderCommand::Diff(options) => diff::diff(options, screen).await,
        ProviderCommand::Try(options) => try_command::run(options, screen).await,
        ProviderCommand::Test(options) => conformance::run(options, screen).await,
        ProviderCommand::Pull(options) => registry::receive(options, screen).await,
        ProviderCommand::Verify(options) => verify::verify(options, screen).await,
        ProviderCommand::Status(options) => status::status(options).await,
    }
}

/// The module or provider that a command is about, for messages, and the form in which it prints a refusal.
fn subject(command: &ProviderCommand) -> (String, Form) {
    use ProviderCommand as Command;
    let place = |module: &ModuleOptions| module.place.to_string();
    let is_json = |printed: &Printed| printed.output == Form::Json;
    let (subject, is_json) = match command {
        Command::Pack(options) => (place(&options.module), is_json(&options.printed)),
        Command::Inspect(options) => {
            let is_json = options.output == InspectForm::Json;
            (place(&options.module), is_json)
        }
        Command::Init(options) => (place(&options.module), false),
        Command::Check(options) => (place(&options.module), is_json(&options.printed)),
        Command::Diff(options) => (options.new.to_string(), is_json(&options.printed)),
        Command::Try(options) => {
            // JSON is YAML, too.
            let is_json = options.output != DocumentForm::Text;
            (place(&options.module), is_json)
        }
        Command::Test(options) => {
            let is_json = options.output == ReportForm::Json;
            (place(&options.module), is_json)
        }
        Command::Pull(options) => (options.from.to_string(), is_json(&options.printed)),
        Command::Verify(options) => {
            let place = options.place.as_ref().map(ToString::to_string);
            let subject = place.or_else(|| options.provider.clone());
            (subject.unwrap_or_default(), is_json(&options.printed))
        }
        Command::Status(options) => {
            let is_json = options.output == StatusForm::Json;
            (options.name.clone().unwrap_or_default(), is_json)
        }
    };
    let form = match is_json {
        true => Form::Json,
        false => Form::Text,
    };
    (subject, form)
}

/// Prints the result and returns the exit code.
fn finish(outcome: anyhow::Result<Verdict>, subject: &str, form: Form) -> anyhow::Result<ExitCode> {
    let verdict = match outcome {
        Err(error) if is_refusal(&error) => refused(subject, &error, form),
        outcome => outcome?,
    };
    let text = match form {
        Form::Text => visible(&verdict.text),
        Form::Json => verdict.text,
    };
    cli::write(text.as_bytes())?;
    Ok(match verdict.is_yes {
        true => Exit::Done.into(),
        false => Exit::Refused.into(),
    })
}

/// Result of a command.
struct Verdict {
    /// The text that is printed.
    text: String,
    /// Whether the answer is positive (exit code 0).
    is_yes: bool,
}

impl Verdict {
    fn yes(text: String) -> Verdict {
        Verdict { text, is_yes: true }
    }
}

/// Cluster name passed to modules, as in `run` without `--cluster-name`.
fn cluster_name() -> String {
    "kubernetes".to_owned()
}

/// Why a module is refused; not an error of the command or of access to the module.
#[derive(Debug)]
struct Refusal {
    what: String,
    cause: anyhow::Error,
}

impl Refusal {
    fn new(what: String, cause: impl Into<anyhow::Error>) -> Refusal {
        Refusal {
            what,
            cause: cause.into(),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Refusal {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(self.cause.as_ref())
    }
}

/// Whether the error is a verdict about a module, not a failure to examine it.
fn is_refusal(error: &anyhow::Error) -> bool {
    let mut loads = error.chain().filter_map(|cause| cause.downcast_ref());
    if loads.any(LoadError::is_of_host) {
        return false;
    }
    let is_unanswered = |distrust: &Distrust| matches!(distrust, Distrust::Unanswered { .. });
    let mut distrusts = error.chain().filter_map(|cause| cause.downcast_ref());
    if distrusts.any(is_unanswered) {
        return false;
    }
    error.chain().any(|cause| {
        let by_source = matches!(
            cause.downcast_ref::<SourceError>(),
            Some(SourceError {
                kind: SourceErrorKind::Refused(RefusedPart::Content),
                ..
            })
        );
        let by_host = cause.is::<LoadError>();
        by_source || by_host || cause.is::<Distrust>() || cause.is::<Refusal>()
    })
}

/// The verdict for a refusal, with one cause per line.
fn refused(subject: &str, error: &anyhow::Error, form: Form) -> Verdict {
    let causes: Vec<_> = error.chain().map(ToString::to_string).collect();
    let text = match form {
        Form::Json => output::json(&json!({ "file": subject, "ok": false, "reasons": causes })),
        Form::Text => {
            let mut text = format!("{subject}: no\n");
            for line in causes.iter().flat_map(|cause| cause.lines()) {
                text.push_str(&format!("  {line}\n"));
            }
            text
        }
    };
    Verdict {
        text,
        is_yes: false,
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use ccm_host::{CompileError, LoadErrorKind};

    use super::*;

    #[test]
    fn a_module_is_not_refused_because_this_machine_cannot_compile_it() {
        let compile = LoadErrorKind::Compile;
        let run = CompileError::Run {
            program: "/usr/bin/ccm".into(),
            reason: io::Error::from(io::ErrorKind::PermissionDenied),
        };
        let host = LoadErrorKind::Host("a folder".to_owned());
        for (kind, expected) in [
            (compile(run), false),
            (compile(CompileError::TimedOut(60)), false),
            (compile(CompileError::Load("a mapping".to_owned())), false),
            (host, false),
            (compile(CompileError::Invalid("a type".to_owned())), true),
            (compile(CompileError::Memory(512)), true),
        ] {
            let module = "cloud.wasm".to_owned();
            let error = LoadError { module, kind };
            let what = error.to_string();
            let error = anyhow::Error::from(error);
            assert_eq!(is_refusal(&error), expected, "{what}");
            let error = Refusal::new("ccm.yaml does not load it".to_owned(), error);
            assert_eq!(is_refusal(&error.into()), expected, "{what}, configured");
        }
    }
}
