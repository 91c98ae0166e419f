//! `deploy/docs/reference`: pages that are made from this program's own tables, and have to equal them. With
//! `CCM_BLESS=1` they are written anew.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

mod annotations;
mod events;
mod metrics;
mod source;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::{Arg, Command};

use crate::builtin_grants;
use crate::cli;
use crate::exit::Exit;
use crate::flags::{FLAGS, FlagKind, FulfilledValues, State};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

/// Compares a page with the expected text, or writes it.
fn hold(name: &str, title: &str, intro: &str, body: &str) {
    let page = format!(
        "# {title}\n\n{intro}\n\n<!-- Made from the code. CCM_BLESS in tests/README.md writes it anew. -->\n\n{}\n",
        body.trim()
    );
    let path = root().join("deploy/docs/reference").join(name);
    if std::env::var_os("CCM_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, page).unwrap();
        return;
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        stored == page,
        "{} is not what the code says; CCM_BLESS=1 writes it anew. It should be:\n{page}",
        path.display()
    );
}

/// Text in a cell of a table.
fn cell(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    text.replace('|', "\\|").replace('<', "&lt;")
}

/// The text with a full stop, which short texts in the code do not have.
fn sentence(text: &str) -> String {
    let text = cell(text);
    match text.ends_with(['.', '?', '!', ':']) || text.is_empty() {
        true => text,
        false => text + ".",
    }
}

/// All commands that people use, with their full names.
fn commands(command: &Command, words: &str, found: &mut Vec<(String, Command)>) {
    for sub in command
        .get_subcommands()
        .filter(|sub| !sub.is_hide_set() && sub.get_name() != "help")
    {
        let words = format!("{words} {}", sub.get_name());
        found.push((words.clone(), sub.clone()));
        commands(sub, &words, found);
    }
}

fn all_commands() -> Vec<(String, Command)> {
    let mut found = Vec::new();
    let mut command = cli::command();
    command.build();
    commands(&command, "ccm", &mut found);
    found
}

#[test]
fn the_page_of_flags_is_what_the_table_says() {
    let mut body = String::from("## `ccm run`\n\n");
    let command = cli::command();
    let run = command.find_subcommand("run").unwrap();
    let mut sections: Vec<&str> = Vec::new();
    for flag in FLAGS {
        if !sections.contains(&flag.section) {
            sections.push(flag.section);
        }
    }
    for section in sections {
        let heading = match section {
            "wasm" => "Of this program alone".to_owned(),
            other => {
                let mut letters = other.chars();
                let first = letters.next().unwrap().to_uppercase();
                first.chain(letters).collect()
            }
        };
        write!(
            body,
            "### {heading}\n\n| Flag | Value | Default | Meaning |\n|---|---|---|---|\n"
        )
        .unwrap();
        for flag in FLAGS.iter().filter(|flag| flag.section == section) {
            let state = match flag.state {
                State::Works => String::new(),
                State::Accepted(why) | State::Fulfilled(FulfilledValues::All, why) => {
                    format!(" No effect: {why}.")
                }
                State::Fulfilled(FulfilledValues::These(values), why) => {
                    let values: Vec<_> = values.iter().map(|value| format!("`{value}`")).collect();
                    format!(" No effect: {why}. No warning with {}.", values.join(", "))
                }
            };
            let default = match flag.default {
                "" => String::new(),
                default => format!("`{default}`"),
            };
            let mut arguments = run.get_arguments();
            let argument = arguments.find(|one| one.get_id().as_str() == flag.name);
            writeln!(
                body,
                "| `{}--{}` | {} | {default} | {}{state} |",
                short(argument.unwrap()),
                flag.name,
                value(flag.kind),
                sentence(flag.help)
            )
            .unwrap();
        }
        body.push('\n');
    }
    for (words, command) in all_commands() {
        // A group of commands, or `run`, whose flags are above.
        if command.has_subcommands() || words == "ccm run" {
            continue;
        }
        let about = command
            .get_about()
            .map(ToString::to_string)
            .unwrap_or_default();
        write!(body, "## `{words}`\n\n{}\n\n", sentence(&about)).unwrap();
        let arguments = command.get_arguments();
        let arguments: Vec<_> = arguments
            .filter(|one| {
                !one.is_hide_set() && !matches!(one.get_id().as_str(), "help" | "version")
            })
            .collect();
        if arguments.is_empty() {
            body.push_str("No arguments.\n\n");
            continue;
        }
        body.push_str("| Argument | Default | Meaning |\n|---|---|---|\n");
        for argument in arguments {
            let names = argument.get_value_names().unwrap_or_default();
            let names = names
                .iter()
                .map(|name| name.as_str())
                .collect::<Vec<_>>()
                .join(" ");
            let takes_value = argument.get_action().takes_values();
            let shown = match (argument.get_long(), takes_value) {
                (Some(long), true) => format!("{}--{long}={names}", short(argument)),
                (Some(long), false) => format!("{}--{long}", short(argument)),
                (None, _) => names,
            };
            let default: Vec<_> = argument
                .get_default_values()
                .iter()
                .map(|value| format!("`{}`", value.to_string_lossy()))
                .collect();
            let default = if takes_value {
                default.join(", ")
            } else {
                String::new()
            };
            let help = argument
                .get_help()
                .map(ToString::to_string)
                .unwrap_or_default();
            let possible: Vec<_> = argument
                .get_possible_values()
                .iter()
                .filter(|_| takes_value)
                .map(|value| format!("`{}`", value.get_name()))
                .collect();
            let possible = match possible.is_empty() {
                true => String::new(),
                false => format!(" One of {}.", possible.join(", ")),
            };
            writeln!(
                body,
                "| `{}` | {default} | {}{possible} |",
                cell(&shown),
                sentence(&help)
            )
            .unwrap();
        }
        body.push('\n');
    }
    hold(
        "flags.md",
        "Flags",
        "Every command with its arguments. The flags of `ccm run` have the names, defaults and meanings of the Go \
         cloud-controller-manager's, unless they are of this program alone or their text names another default. A flag without effect is accepted so that a manifest \
         written for the Go manager starts; it warns when it asks for something that `ccm` does not do. Durations are written as \
         in Go: `500ms`, `30s`, `1h30m`.",
        &body,
    );
}

/// The short form of an argument, to be put before the long one.
fn short(argument: &Arg) -> String {
    let letter = argument.get_short();
    letter
        .map(|letter| format!("-{letter}, "))
        .unwrap_or_default()
}

fn value(kind: FlagKind) -> &'static str {
    match kind {
        FlagKind::Bool => "true or false",
        FlagKind::Text => "text",
        FlagKind::File => "file",
        FlagKind::Folder => "folder",
        FlagKind::Cidrs => "ranges",
        FlagKind::Number | FlagKind::Level | FlagKind::Float => "number",
        FlagKind::Duration => "duration",
        FlagKind::List => "list",
        FlagKind::Repeated => "text; may be repeated",
    }
}

#[test]
fn the_page_of_exit_codes_is_what_the_commands_say() {
    let mut body = String::from("| Code | Meaning |\n|---|---|\n");
    for exit in Exit::ALL {
        writeln!(body, "| {} | {} |", exit.code(), exit.meaning()).unwrap();
    }
    body.push_str("\n## By command\n\n| Command | Code | Meaning |\n|---|---|---|\n");
    let mut documented = 0;
    for (words, command) in all_commands() {
        let help = command
            .get_after_help()
            .map(ToString::to_string)
            .unwrap_or_default();
        for (code, meaning) in exit_codes(&help) {
            assert!(
                Exit::ALL.iter().any(|exit| exit.code() == code),
                "{words}: {code}"
            );
            writeln!(body, "| `{words}` | {code} | {} |", cell(&meaning)).unwrap();
            documented += 1;
        }
    }
    assert!(documented > 20, "{documented}");
    hold(
        "exit-codes.md",
        "Exit codes",
        "Commands that answer a question report the answer in the exit code, so that scripts and pipelines can distinguish \
         \"no\" (2) from a failure (1). Commands that are not listed end with 0 or 1. The texts are those of `--help`.",
        &body,
    );
}

#[test]
fn commands_that_compile_a_module_say_which_code_a_machine_that_cannot_has() {
    for (words, command) in all_commands() {
        let help = command.get_after_help().map(ToString::to_string);
        let codes = exit_codes(&help.unwrap_or_default());
        let says_it = codes
            .iter()
            .any(|(code, meaning)| *code == Exit::Failed.code() && meaning.contains("compiled"));
        let last = words.rsplit(' ').next().unwrap();
        let compiles =
            words.starts_with("ccm provider ") && ["check", "try", "test"].contains(&last);
        assert_eq!(says_it, compiles, "{words}");
    }
}

/// Without a terminal, a text is broken at this width: an example could not be copied, and in a paragraph with line breaks
/// of its own a short line would follow each long one.
#[test]
fn no_line_of_an_example_or_a_list_is_broken_in_two() {
    const WIDTH: usize = 100;
    for (words, command) in all_commands() {
        let help = command.get_after_help().map(ToString::to_string);
        for paragraph in help.unwrap_or_default().split("\n\n") {
            let lines: Vec<&str> = paragraph.lines().collect();
            let longest = lines.iter().map(|line| line.chars().count()).max();
            let is_whole = lines.len() == 1 || longest <= Some(WIDTH);
            assert!(is_whole, "{words}: {paragraph}");
        }
    }
}

/// The exit codes in a command's help, after `Exit codes:`, as `CODE meaning` in one line or line by line.
fn exit_codes(help: &str) -> Vec<(u8, String)> {
    let Some((_, codes)) = help.split_once("Exit codes:") else {
        return Vec::new();
    };
    let codes = codes.trim_end_matches('.').split_whitespace();
    let mut found: Vec<(u8, String)> = Vec::new();
    for word in codes {
        let next = u8::try_from(found.len()).unwrap();
        match word.parse::<u8>() {
            Ok(code) if code == next => found.push((code, String::new())),
            _ => {
                let (_, meaning) = found.last_mut().expect("a code comes first");
                meaning.push_str(word);
                meaning.push(' ');
            }
        }
    }
    found
        .into_iter()
        .map(|(code, meaning)| (code, meaning.trim().trim_end_matches(',').to_owned()))
        .collect()
}

#[test]
fn the_page_of_the_configuration_is_what_its_types_say() {
    let mut types = source::types(&[
        read("runtime/ccm/src/config/raw.rs"),
        read("runtime/ccm/src/config/raw_credential.rs"),
        read("runtime/ccm/src/config/proxy.rs"),
        read("runtime/ccm/src/config/secret.rs"),
        read("runtime/host/src/egress/rules.rs"),
    ]);
    // Of the forms of a proxy, only the mapping has keys.
    let mapping = types.remove("RawProxyServer").unwrap();
    types.insert("RawProxy".to_owned(), mapping);
    let mut body = String::new();
    let head = "| Key | Value | Required | Meaning |\n|---|---|---|---|";
    for (heading, about, name) in [
        ("The file", "", "RawConfig"),
        (
            "Secret references",
            "Wherever the table above says \"secret reference\": exactly one of `env`, `file` and `secret`.\n\n",
            source::SECRET,
        ),
    ] {
        writeln!(body, "## {heading}\n\n{about}{head}").unwrap();
        for row in source::rows(&types, name, "") {
            assert!(
                !row.documentation.is_empty(),
                "{} is not explained",
                row.path
            );
            // The words are no type's, so that the comment has to name them.
            let has_words = ["`environment`", "`direct`"]
                .iter()
                .all(|word| row.documentation.contains(word));
            assert!(has_words || !row.path.ends_with(".proxy"), "{}", row.path);
            let required = if row.is_required { "yes" } else { "" };
            let meaning = cell(&source::without_statements(&row.documentation));
            let source::Row { path, value, .. } = row;
            writeln!(body, "| `{path}` | {value} | {required} | {meaning} |").unwrap();
        }
        body.push('\n');
    }
    let rows = body.lines().filter(|line| line.starts_with("| `")).count();
    assert!(rows > 100, "{rows}");
    for guest in embedded_guests::ALL {
        keys(&mut body, guest.name);
    }
    hold(
        "configuration.md",
        "Configuration",
        "The file of `--config`. Unknown keys are refused, and all mistakes are reported together; `ccm config check FILE` reports the same. \
         `[]` stands for an element of a list, `KEY` for any key. [Providers](../providers.md) explains how the parts belong together.",
        &body,
    );
}

/// The keys that a shipped provider reads.
fn keys(body: &mut String, guest: &str) {
    let manifest = read(&format!("guests/{guest}/manifest.json"));
    let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
    writeln!(body, "## Keys and variables of {guest}\n").unwrap();
    body.push_str(
        "Under `config`, or, where the entry has no `grants`, as variables of the process.\n\n| Key | Meaning |\n|---|---|\n",
    );
    for key in manifest["config"].as_array().unwrap() {
        let (key, why) = (key["key"].as_str().unwrap(), key["why"].as_str().unwrap());
        writeln!(body, "| `{key}` | {} |", cell(why)).unwrap();
    }
    let variables = builtin_grants::listed(guest);
    if !variables.is_empty() {
        body.push_str(
            "\nOnly variables, never keys of `config`; they are read where the entry has no `grants`:\n\n| Variable | Meaning |\n|---|---|\n",
        );
    }
    for builtin_grants::Variables { names, meaning } in variables {
        let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
        writeln!(body, "| {} | {} |", names.join(", "), cell(&meaning)).unwrap();
    }
    if guest == "aws" {
        body.push_str(
            "\n[The page about aws](../../../guests/aws/README.md) has the other variables of AWS's SDKs that count, in their order.\n",
        );
    }
    body.push('\n');
}
