//! `ccm provider …`: look at modules before trusting them. A refused module is exit code 2, so that a script can
//! tell it from a file that could not be read (1).

mod check;
mod inspect;

use std::path::Path;
use std::process::ExitCode;

use crate::cli::{self, Output, ProviderCommand};

/// The module was read and is refused.
const REFUSED: u8 = 2;

/// Runs one of the commands and prints its result.
pub(crate) fn main(command: &ProviderCommand) -> ExitCode {
    let verdict = match command {
        ProviderCommand::Inspect { file, output } => inspect::inspect(file, *output),
        ProviderCommand::Check {
            file,
            config,
            online,
            output,
        } => check::check(file, config.as_deref(), *online, *output),
    };
    match verdict {
        Ok(Verdict {
            text,
            accepted: true,
        }) => cli::print(text.as_bytes()),
        Ok(Verdict {
            text,
            accepted: false,
        }) => {
            cli::print(text.as_bytes());
            ExitCode::from(REFUSED)
        }
        Err(error) => {
            cli::print_error(&error);
            ExitCode::FAILURE
        }
    }
}

/// What a command found out.
struct Verdict {
    /// To be printed as it is.
    text: String,
    /// Whether the module is fit to be used.
    accepted: bool,
}

/// The verdict on a module that is refused: every cause on a line of its own.
fn refused(file: &Path, error: &anyhow::Error, output: Output) -> Verdict {
    let causes: Vec<_> = error.chain().map(ToString::to_string).collect();
    let text = if output == Output::Json {
        let answer = serde_json::json!({ "file": file.display().to_string(), "ok": false, "reasons": causes });
        format!("{answer:#}\n")
    } else {
        let mut text = format!("{}: no\n", file.display());
        for line in causes.iter().flat_map(|cause| cause.lines()) {
            text.push_str(&format!("  {line}\n"));
        }
        text
    };
    Verdict {
        text,
        accepted: false,
    }
}
