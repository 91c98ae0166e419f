//! The command line: selects the command and its options. Parsing touches neither files nor the network.
//!
//! Under the name of a Go cloud-controller-manager, the program takes the flags of `ccm run` alone. As `ccm` it takes
//! them, too, in a pod, and wherever the demo is not built in. As `ccm` without a command it runs the demo if it is
//! built in, but never in a pod. Only `ccm run` starts controllers on a real cluster, and only `demo` on a simulated one;
//! so a lost kubeconfig cannot start the demo, nor the demo a cluster's controllers.

mod invocation;
mod print;
mod version;

use std::ffi::{OsStr, OsString};
use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgMatches, FromArgMatches as _, Subcommand as _, value_parser};
use clap_complete::Shell;

use crate::exit::Exit;
use crate::flags::{self, CloudProxy, RunFlags, VersionForm};
use crate::migrate::MigrateCommand;
use crate::provider::{ConfigCommand, ProviderCommand};
use crate::status::{self, StatusCommand};
pub(crate) use invocation::{GO_NAME, Invocation, InvokedIn};
pub(crate) use print::{causes_in_one_line, in_one_line, print_error, write};

/// The command, with its parsed options.
pub(crate) enum Command {
    /// Run the demo on a simulated cluster and cloud.
    #[cfg(feature = "demo")]
    Demo {
        /// Print one JSON object per line instead of text.
        json: bool,
        /// Keep the status page open at the end, until Ctrl-C.
        serves: bool,
    },
    /// Run the controllers against a real cluster.
    Run {
        /// The flags of `ccm run`.
        flags: Box<RunFlags>,
        /// The name under which the program was called.
        called: Invocation,
    },
    /// Show what a running manager does.
    Status(StatusCommand),
    /// Build and inspect provider modules.
    Provider(Box<ProviderCommand>),
    /// Check a configuration.
    Config(ConfigCommand),
    /// Move from a Go manager.
    Migrate(MigrateCommand),
    /// Print a completion script for the program of this name.
    Completion(Shell, Invocation),
    /// Print the version.
    Version(VersionForm),
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
        let printed = self.0.print();
        if self.0.use_stderr() {
            // An error of a closed standard error has no consequence.
            return Exit::Failed.into();
        }
        match print::end_result(printed) {
            Ok(()) => Exit::Done.into(),
            Err(error) => {
                print_error(&error);
                Exit::Failed.into()
            }
        }
    }
}

/// Argument that makes this binary compile one module.
pub(crate) const COMPILE_CHILD: &str = "__compile";
/// Argument that makes this binary run the guests of one module.
pub(crate) const SANDBOX_CHILD: &str = "__sandbox";

/// Parses the command line, whose first word is the program's path.
///
/// # Errors
/// Help, version, or the usage error to show.
pub(crate) fn parse(
    arguments: impl IntoIterator<Item = OsString>,
    place: InvokedIn,
) -> Result<Command, Answer> {
    let mut arguments = arguments.into_iter();
    let program = arguments.next();
    let called = Invocation::of(program.as_deref());
    let arguments: Vec<OsString> = program
        .into_iter()
        .chain(arguments.map(flags::dashed))
        .collect();
    // The host starts this same program again, under another name. Children read their limits themselves.
    match arguments.get(1).and_then(|word| word.to_str()) {
        Some(COMPILE_CHILD) => return Ok(Command::CompileChild),
        Some(SANDBOX_CHILD) => return Ok(Command::SandboxChild),
        _ => {}
    }
    match called {
        Invocation::CloudControllerManager(_) => parse_as_go(arguments, called),
        Invocation::Ccm if are_flags_of_run(&arguments, place, cfg!(feature = "demo")) => {
            parse_as_go(
                arguments,
                Invocation::CloudControllerManager(GO_NAME.to_owned()),
            )
        }
        Invocation::Ccm => parse_as_ccm(arguments, called, place),
    }
}

/// Whether there are flags without a command, which are those of `run`. Manifests of Go managers often give only these:
/// the program is the image's own. A static pod is not known as a pod while its kubelet does not know the Services, so
/// an image's program, which has no demo, takes them anywhere, but for those that ask about the program.
fn are_flags_of_run(arguments: &[OsString], place: InvokedIn, has_demo: bool) -> bool {
    let first = arguments.get(1).and_then(|word| word.to_str());
    first.is_some_and(|word| {
        let is_question = matches!(word, "-h" | "--help" | "-V" | "--version");
        word.starts_with('-') && (place == InvokedIn::Pod || !has_demo && !is_question)
    })
}

fn parse_as_go(arguments: Vec<OsString>, called: Invocation) -> Result<Command, Answer> {
    // Upstream has no commands, and refuses positional arguments. This one changes nothing.
    if arguments.get(1).is_some_and(|word| word == "completion") {
        let command = clap::Command::new(GO_NAME).subcommand(completion_command());
        let matches = command.try_get_matches_from(arguments).map_err(Answer)?;
        return Ok(completion(matches.subcommand_matches("completion"), called));
    }
    let mut command = flags::go_command();
    let matches = command
        .try_get_matches_from_mut(with_flags_of_vendor(arguments, &called))
        .map_err(|error| Answer(hint(error, OsStr::new("run"))))?;
    run(&matches, GO_NAME, called)
}

/// Some vendors' managers set flags by themselves, such as that of their cloud, and their manifests do not give them.
/// Under such a name the program does the same. The flags come first, so that those of the command line count; another
/// flag that names a provider takes the place of `--cloud-provider`.
pub(crate) fn with_flags_of_vendor(arguments: Vec<OsString>, called: &Invocation) -> Vec<OsString> {
    const NAMING: [&str; 4] = [
        "--cloud-config",
        "--cloud-provider",
        "--config",
        "--enable-provider-objects",
    ];
    let vendor = match called {
        Invocation::CloudControllerManager(name) => name.strip_suffix("-cloud-controller-manager"),
        Invocation::Ccm => None,
    };
    let own = vendor
        .map(crate::builtin_grants::flags_of_vendor)
        .unwrap_or_default();
    let words = arguments.iter().filter_map(|word| word.to_str());
    let mut flags = words.filter_map(|word| word.split('=').next());
    let names_one = flags.any(|flag| NAMING.contains(&flag));
    let own = own
        .iter()
        .filter(|flag| !names_one || !flag.starts_with("--cloud-provider="))
        .map(OsString::from);
    let mut arguments = arguments.into_iter();
    let program = arguments.next();
    program.into_iter().chain(own).chain(arguments).collect()
}

fn parse_as_ccm(
    arguments: Vec<OsString>,
    called: Invocation,
    place: InvokedIn,
) -> Result<Command, Answer> {
    let first = arguments.get(1).cloned().unwrap_or_default();
    let matches = command()
        .try_get_matches_from(arguments)
        .map_err(|error| Answer(hint(error, &first)))?;
    Ok(match matches.subcommand() {
        Some(("run", matches)) => run(matches, "ccm run", called)?,
        Some(("provider", matches)) => Command::Provider(Box::new(
            ProviderCommand::from_arg_matches(matches).map_err(Answer)?,
        )),
        Some(("config", matches)) => {
            Command::Config(ConfigCommand::from_arg_matches(matches).map_err(Answer)?)
        }
        Some(("migrate", matches)) => {
            Command::Migrate(MigrateCommand::from_arg_matches(matches).map_err(Answer)?)
        }
        Some(("status", matches)) => {
            Command::Status(StatusCommand::from_arg_matches(matches).map_err(Answer)?)
        }
        Some(("completion", matches)) => completion(Some(matches), called),
        Some(("version", matches)) => {
            Command::Version(match one::<String>(matches, "output").as_deref() {
                Some("json") => VersionForm::Json,
                Some("yaml") => VersionForm::Yaml,
                _ => VersionForm::Short,
            })
        }
        #[cfg(feature = "demo")]
        Some(("demo", demo)) => Command::Demo {
            json: one::<String>(demo, "output").as_deref() == Some("json"),
            serves: demo.get_flag("serve"),
        },
        #[cfg(feature = "demo")]
        None if place == InvokedIn::Elsewhere => Command::Demo {
            json: false,
            serves: false,
        },
        None => return Err(no_command(place)),
        // A command that would start something else than it says is worse than an error.
        Some((name, _)) => return Err(not_handled(name)),
    })
}

/// `ccm run`, or the same flags without `run`.
fn run(matches: &ArgMatches, program: &str, called: Invocation) -> Result<Command, Answer> {
    // As upstream: positional arguments first, then the version, then everything else.
    if let Some(mistake) = flags::positional_mistake(matches, program) {
        let kind = clap::error::ErrorKind::UnknownArgument;
        return Err(Answer(clap::Error::raw(kind, mistake)));
    }
    if let Some(form) = flags::version_form(matches) {
        return Ok(Command::Version(form));
    }
    let mut flags = Box::new(RunFlags::from_matches(matches).map_err(Answer)?);
    if let Invocation::CloudControllerManager(_) = called {
        use_proxy_of_go(&mut flags);
    }
    Ok(Command::Run { flags, called })
}

/// Go's HTTP clients read the variables of a proxy, so that the manifests of Go's managers set them: they count unless a
/// flag says otherwise.
pub(crate) fn use_proxy_of_go(flags: &mut RunFlags) {
    let proxy = &mut flags.safety.cloud_proxy;
    proxy.get_or_insert(CloudProxy::Environment);
}

/// The answer to an empty command line: a pod that ran the demo would look like a manager that works. Wherever this is
/// the answer, flags without a command are those of `run`: see [`are_flags_of_run`].
fn no_command(place: InvokedIn) -> Answer {
    let subject = match place {
        InvokedIn::Pod => "this is a pod, and there is no command",
        InvokedIn::Elsewhere => "there is no command",
    };
    let text = format!(
        "{subject}: the flags of a cloud-controller-manager start the controllers, alone or after `ccm run`; \
         `ccm help` lists the other commands\n"
    );
    let kind = clap::error::ErrorKind::MissingSubcommand;
    Answer(clap::Error::raw(kind, text))
}

fn not_handled(name: &str) -> Answer {
    let text = format!("the command {name:?} is declared and not handled; this is a defect\n");
    let kind = clap::error::ErrorKind::InvalidSubcommand;
    Answer(clap::Error::raw(kind, text))
}

fn completion(matches: Option<&ArgMatches>, called: Invocation) -> Command {
    let shell = matches.and_then(|matches| one::<Shell>(matches, "shell"));
    Command::Completion(shell.unwrap_or(Shell::Bash), called)
}

#[cfg(feature = "demo")]
const WITHOUT_A_COMMAND: &str = "Without a command, the program plays the demo, which needs no cluster and no account and ends by itself. \
     In a pod it does not.\n";
#[cfg(not(feature = "demo"))]
const WITHOUT_A_COMMAND: &str = "Flags without a command are those of `ccm run`.\n";

#[cfg(feature = "demo")]
fn with_demo(command: clap::Command) -> clap::Command {
    command.subcommand(
        clap::Command::new("demo")
            .about("Show what ccm does, with a real module in the real sandbox, on a simulated cluster and a simulated cloud; also without a command, but not in a pod")
            .arg(output_argument(&["text", "json"]))
            .arg(
                Arg::new("serve")
                    .long("serve")
                    .action(clap::ArgAction::SetTrue)
                    .help("Continue after the demo, and keep the status page open until Ctrl-C"),
            ),
    )
}

/// Images are built without the demo and its simulators.
#[cfg(not(feature = "demo"))]
fn with_demo(command: clap::Command) -> clap::Command {
    command
}

/// Adds a hint for a likely mistake: a flag of the Go binary without `run`, or before the `--` of `migrate check`.
/// `first` is the command's first word.
pub(crate) fn hint(mut error: clap::Error, first: &OsStr) -> clap::Error {
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    let word = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(word)) => word.clone(),
        _ => return error,
    };
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    if first == "run" {
        // It proposes to give the word as a positional argument, which `run` refuses.
        error.remove(ContextKind::Suggested);
    }
    let flag = word.trim_start_matches('-');
    if flags::FLAGS.iter().any(|known| known.name == flag) {
        let tip = match first.to_str() {
            Some("migrate") => "arguments of the Go manager follow after --",
            _ => "the controllers are started with `ccm run`, which takes this flag",
        };
        error.insert(
            ContextKind::Suggested,
            ContextValue::StyledStrs(vec![tip.into()]),
        );
    }
    error
}

fn one<T: Clone + Send + Sync + 'static>(matches: &ArgMatches, id: &str) -> Option<T> {
    matches.get_one::<T>(id).cloned()
}

const EXIT_CODES: &str = "
Exit codes:
  0  done
  1  an option is wrong, or something failed
  2  a module or configuration is refused, not trusted or requests more (provider, config check),
     or the plan is not empty (run --plan-for, migrate check)
  3  no change is known, but not everything could be judged (run --plan-for, migrate check)";

/// The public command line, without the hidden children, which completion scripts would offer.
pub(crate) fn command() -> clap::Command {
    let command = clap::Command::new("ccm")
        .version(env!("CARGO_PKG_VERSION"))
        .about("A cloud-controller-manager for Kubernetes whose cloud providers are sandboxed WebAssembly components.")
        .after_help(format!("{WITHOUT_A_COMMAND}{EXIT_CODES}"));
    with_demo(command)
        .subcommand(flags::run_command())
        // Set last: deriving a command sets the documentation of its type.
        .subcommand(
            ProviderCommand::augment_subcommands(clap::Command::new("provider"))
                .about(
                    "Make provider modules, look at them, try, test, compare, pull and verify them",
                )
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
            MigrateCommand::augment_subcommands(clap::Command::new("migrate"))
                .about("Move from a Go cloud-controller-manager")
                .subcommand_required(true)
                .arg_required_else_help(true),
        )
        .subcommand(status::command())
        .subcommand(completion_command())
        .subcommand(version_command())
}

fn version_command() -> clap::Command {
    clap::Command::new("version")
        .about("Print the version; as json or yaml also what was built, and the modules inside")
        .arg(output_argument(&["text", "json", "yaml"]))
}

/// `--output` of the commands that are not derived; the first of `forms` is the default.
pub(crate) fn output_argument(forms: &'static [&'static str]) -> Arg {
    Arg::new("output")
        .short('o')
        .long("output")
        .value_name("FORM")
        .default_value(forms.first().copied().unwrap_or_default())
        .value_parser(PossibleValuesParser::new(forms))
        .help("How the result is printed")
}

fn completion_command() -> clap::Command {
    clap::Command::new("completion")
        .about("Print a shell completion script")
        .arg(
            Arg::new("shell")
                .required(true)
                .value_name("SHELL")
                .value_parser(value_parser!(Shell))
                .help("Which shell reads the script"),
        )
        .after_help("Examples:\n  source <(ccm completion bash)\n  ccm completion zsh > \"${fpath[1]}/_ccm\"\n  ccm completion fish > ~/.config/fish/completions/ccm.fish")
}

/// Prints the completion script for the program as it was called.
///
/// # Errors
/// It cannot be written.
pub(crate) fn print_completion(shell: Shell, called: &Invocation) -> anyhow::Result<()> {
    let (mut command, name) = match called {
        Invocation::Ccm => (command(), "ccm"),
        Invocation::CloudControllerManager(name) => (flags::go_command(), name.as_str()),
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut script);
    write(&script)
}

/// Prints the version of this binary and of its contract.
///
/// # Errors
/// It cannot be written, or the bytes of an embedded module are no module.
pub(crate) fn print_version(form: VersionForm) -> anyhow::Result<()> {
    write(version::text(form)?.as_bytes())
}

#[cfg(test)]
mod tests;
