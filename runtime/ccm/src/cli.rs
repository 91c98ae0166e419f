//! The command line: selects the command and its options. Parsing touches neither files nor the network.
//!
//! Without a command, runs the demo if it is built in. Only `ccm run` ever touches a real cluster, so that a lost
//! kubeconfig cannot start the demo, nor the demo a cluster's controllers.

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use clap::{Arg, ArgMatches, FromArgMatches as _, Subcommand as _, value_parser};
use clap_complete::Shell;

use crate::flags::{self, RunFlags};
use crate::provider::{self, ConfigCommand, ProviderCommand};

/// The parsed command.
pub(crate) enum Command {
    /// Run the demo on a simulated cluster and cloud.
    #[cfg(feature = "demo")]
    Demo {
        /// Print one JSON object per line instead of text.
        json: bool,
    },
    /// Run the controllers against a real cluster.
    Run(Box<RunFlags>),
    /// Build and inspect provider modules.
    Provider(Box<ProviderCommand>),
    /// Check a configuration.
    Config(ConfigCommand),
    /// Print a completion script.
    Completion(Shell),
    /// Print the version.
    Version,
    /// Run the hidden compile child.
    CompileChild,
    /// Run the hidden child process that executes guests.
    SandboxChild,
}

/// Output printed instead of running a command: help, version or a usage error.
pub(crate) struct Answer(clap::Error);

impl Answer {
    /// Prints to standard output (help) or standard error (mistakes) and returns the exit code.
    pub(crate) fn print(self) -> ExitCode {
        let failed = self.0.use_stderr();
        // Nothing sensible can be done when the terminal is gone.
        let _ = self.0.print();
        if failed {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        }
    }
}

/// Argument that makes this binary compile one module.
pub(crate) const COMPILE_CHILD: &str = "__compile";
/// Argument that makes this binary run the guests of one module.
pub(crate) const SANDBOX_CHILD: &str = "__sandbox";

/// Parses the command line.
///
/// # Errors
/// Help, version, or the usage error to show.
pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Command, Answer> {
    let arguments = arguments.into_iter().map(flags::dashed);
    let matches = command()
        .subcommand(clap::Command::new(COMPILE_CHILD).hide(true))
        .subcommand(clap::Command::new(SANDBOX_CHILD).hide(true))
        .try_get_matches_from(arguments)
        .map_err(|error| Answer(hint(error)))?;
    Ok(match matches.subcommand() {
        Some(("run", run)) => Command::Run(Box::new(RunFlags::from_matches(run).map_err(Answer)?)),
        Some(("provider", matches)) => Command::Provider(Box::new(
            ProviderCommand::from_arg_matches(matches).map_err(Answer)?,
        )),
        Some(("config", matches)) => {
            Command::Config(ConfigCommand::from_arg_matches(matches).map_err(Answer)?)
        }
        Some(("completion", completion)) => {
            Command::Completion(one::<Shell>(completion, "shell").unwrap_or(Shell::Bash))
        }
        Some(("version", _)) => Command::Version,
        Some((COMPILE_CHILD, _)) => Command::CompileChild,
        Some((SANDBOX_CHILD, _)) => Command::SandboxChild,
        #[cfg(feature = "demo")]
        Some(("demo", demo)) => Command::Demo {
            json: one::<String>(demo, "output").as_deref() == Some("json"),
        },
        #[cfg(feature = "demo")]
        _ => Command::Demo { json: false },
        #[cfg(not(feature = "demo"))]
        _ => {
            return Err(Answer(command().error(
                clap::error::ErrorKind::MissingSubcommand,
                "there is no command: `ccm run` starts the controllers, `ccm --help` lists the others",
            )));
        }
    })
}

#[cfg(feature = "demo")]
const WITHOUT_A_COMMAND: &str =
    "Without a command: the demo. It needs no cluster and no account, and ends by itself.\n";
#[cfg(not(feature = "demo"))]
const WITHOUT_A_COMMAND: &str = "";

#[cfg(feature = "demo")]
fn with_demo(command: clap::Command) -> clap::Command {
    command.subcommand(
        clap::Command::new("demo")
            .about("Show the main job on a simulated cluster and a simulated cloud, with a real component in the real sandbox (the default)")
            .arg(
                Arg::new("output")
                    .short('o')
                    .long("output")
                    .value_name("FORM")
                    .default_value("text")
                    .value_parser(clap::builder::PossibleValuesParser::new(["text", "json"]))
                    .help("How the result is printed"),
            ),
    )
}

/// Images are built without the demo and its simulators.
#[cfg(not(feature = "demo"))]
fn with_demo(command: clap::Command) -> clap::Command {
    command
}

/// Adds hints for likely mistakes: a flag of the Go binary without `run`, and a switch whose value has no equals sign,
/// which Go does not accept either.
fn hint(mut error: clap::Error) -> clap::Error {
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    let word = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(word)) => word.clone(),
        _ => return error,
    };
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    let flag = word.trim_start_matches('-');
    let tip = if flags::FLAGS.iter().any(|known| known.name == flag) {
        "the controllers are started with `ccm run`, which takes this flag"
    } else if ["true", "false"].contains(&word.as_str()) {
        "a switch takes its value with an equals sign, such as --leader-elect=false"
    } else {
        return error;
    };
    error.insert(
        ContextKind::Suggested,
        ContextValue::StyledStrs(vec![tip.into()]),
    );
    error
}

fn one<T: Clone + Send + Sync + 'static>(matches: &ArgMatches, id: &str) -> Option<T> {
    matches.get_one::<T>(id).cloned()
}

/// The public command line, without the hidden children, which completion scripts would offer.
pub(crate) fn command() -> clap::Command {
    let command = clap::Command::new("ccm")
        .version(env!("CARGO_PKG_VERSION"))
        .about("A cloud-controller-manager for Kubernetes whose cloud providers are sandboxed WebAssembly components.")
        .after_help(format!("{WITHOUT_A_COMMAND}Exit codes: 0 done, 1 wrong options or a failure, 2 what was looked at is refused, not trusted or asks for more (provider, config check) or the plan is not empty (run --plan-for), 3 no change is known and not everything could be judged."));
    with_demo(command)
        .subcommand(flags::run_command())
        // Set last: deriving takes the documentation of the type.
        .subcommand(
            ProviderCommand::augment_subcommands(clap::Command::new("provider"))
                .about("Make provider modules, look at them, compare, pull and verify them")
                .subcommand_required(true)
                .arg_required_else_help(true),
        )
        .subcommand(
            ConfigCommand::augment_subcommands(clap::Command::new("config"))
                .about("Look at a configuration")
                .subcommand_required(true)
                .arg_required_else_help(true),
        )
        .subcommand(
            clap::Command::new("completion")
                .about("Print a shell completion script")
                .arg(
                    Arg::new("shell")
                        .required(true)
                        .value_name("SHELL")
                        .value_parser(value_parser!(Shell))
                        .help("Which shell reads the script"),
                )
                .after_help("Examples:\n  source <(ccm completion bash)\n  ccm completion zsh > \"${fpath[1]}/_ccm\"\n  ccm completion fish > ~/.config/fish/completions/ccm.fish"),
        )
        .subcommand(clap::Command::new("version").about("Print the version"))
}

/// Prints the completion script.
pub(crate) fn print_completion(shell: Shell) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), "ccm", &mut script);
    print(&script)
}

/// Prints the version of this binary and of its contract.
pub(crate) fn print_version() -> ExitCode {
    print(
        format!(
            "ccm {} (contract ccm:provider@{})\n",
            env!("CARGO_PKG_VERSION"),
            ccm_host::CONTRACT_VERSION
        )
        .as_bytes(),
    )
}

/// Writes to standard output; a closed pipe is no error.
pub(crate) fn print(text: &[u8]) -> ExitCode {
    match std::io::stdout().write_all(text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Prints an error and its causes to standard error, one per line.
pub(crate) fn print_error(error: &anyhow::Error) {
    let mut text = format!("Error: {error}\n");
    for cause in error.chain().skip(1) {
        text.push_str(&format!("  caused by: {cause}\n"));
    }
    // Escaped, because clouds, registries and modules contribute causes. Nothing sensible can be done when standard
    // error is gone.
    let _ = std::io::stderr().write_all(provider::visible(&text).as_bytes());
}
