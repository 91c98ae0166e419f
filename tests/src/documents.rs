//! The commands in the documents: fenced blocks of Markdown pages, and the comments that name the test running each
//! block. Reads pages; runs nothing.
//!
//! A block of commands is marked `sh` (commands alone) or `console` (commands behind `$ `, and what they print). A
//! comment directly above it, or at the beginning of the page for all of its blocks, names the test that runs it:
//!
//! ```text
//! <!-- run by: NAME_OF_A_TEST -->
//! <!-- not run: REASON -->
//! <!-- not run, stand-in NAME: REASON -->
//! ```
//!
//! A stand-in is an action of the page's test in place of the block.

pub mod shell;

use std::path::Path;

/// A page with its command blocks.
#[derive(Debug)]
pub struct Page {
    /// Path relative to the repository.
    pub path: String,
    /// Test that runs all blocks without a mark of their own.
    pub run_by: Option<String>,
    /// Its blocks of commands, in order.
    pub blocks: Vec<Block>,
    /// Lines of other blocks that look like commands, with their numbers.
    pub unmarked_commands: Vec<(usize, String)>,
}

/// A block of commands.
#[derive(Debug)]
pub struct Block {
    /// Number of its first line, from 1.
    pub line: usize,
    /// The block's language: `sh` or `console`.
    pub language: String,
    /// The text between the fences.
    pub text: String,
    /// The comment above it.
    pub mark: Option<Mark>,
}

/// The test that runs a block, or the reason why none does.
#[derive(Debug, PartialEq, Eq)]
pub enum Mark {
    /// The test of this name runs it.
    RunBy(String),
    /// No test runs it, for this reason.
    NotRun(String),
    /// No test runs it; the page's test does something else instead.
    StandIn {
        /// Name of the stand-in.
        name: String,
        /// Why the block itself is not run.
        reason: String,
    },
    /// The comment has none of these forms.
    Unreadable(String),
}

/// A command with its expected output.
#[derive(Debug, PartialEq, Eq)]
pub struct Step {
    /// Shell text; may have several lines.
    pub command: String,
    /// Expected output; `None`: any.
    pub output: Option<String>,
}

/// Programs whose names begin a line of commands.
const PROGRAMS: &[&str] = &[
    "$",
    "apt-get",
    "cargo",
    "ccm",
    "cosign",
    "crane",
    "curl",
    "deploy/release/build",
    "deploy/release/publish",
    "deploy/release/release",
    "deploy/release/verify",
    "docker",
    "git",
    "go",
    "helm",
    "kubeadm",
    "kubectl",
    "kustomize",
    "podman",
    "promtool",
    "rustup",
    "wkg",
];

impl Page {
    /// Reads a page.
    ///
    /// # Errors
    /// It cannot be read, or a block has no end.
    pub fn read(root: &Path, path: &str) -> anyhow::Result<Page> {
        let text = std::fs::read_to_string(root.join(path))?;
        Page::parse(path, &text)
    }

    /// The same from its text.
    ///
    /// # Errors
    /// A block has no end.
    pub fn parse(path: &str, text: &str) -> anyhow::Result<Page> {
        let lines: Vec<&str> = text.lines().collect();
        let mut page = Page {
            path: path.to_owned(),
            run_by: None,
            blocks: Vec::new(),
            unmarked_commands: Vec::new(),
        };
        if let Some(Mark::RunBy(test)) = lines.first().and_then(|line| mark(line)) {
            page.run_by = Some(test);
        }
        let mut at = 0;
        while let Some(line) = lines.get(at) {
            let bare = line.trim_start();
            let indent = line.len() - bare.len();
            let Some(language) = bare.strip_prefix("```") else {
                at += 1;
                continue;
            };
            let first = at + 1;
            let length = lines
                .iter()
                .skip(first)
                .position(|line| line.trim() == "```")
                .ok_or_else(|| anyhow::anyhow!("{path}:{first}: the block has no end"))?;
            let inside = lines.iter().skip(first).take(length);
            let inside: Vec<&str> = inside
                .map(|line| line.get(indent.min(line.len())..).unwrap_or_default())
                .collect();
            let language = language.trim();
            if matches!(language, "sh" | "console") {
                page.blocks.push(Block {
                    line: first + 1,
                    language: language.to_owned(),
                    text: inside.join("\n"),
                    mark: at
                        .checked_sub(1)
                        .filter(|above| *above > 0)
                        .and_then(|above| lines.get(above))
                        .and_then(|above| mark(above)),
                });
            } else if !matches!(language, "rust" | "rust,ignore") {
                let commands = inside.iter().enumerate();
                let commands = commands.filter(|(_, line)| is_command(line));
                page.unmarked_commands.extend(
                    commands.map(|(number, line)| (first + number + 1, (*line).to_owned())),
                );
            }
            at = first + length + 1;
        }
        Ok(page)
    }
}

impl Block {
    /// Its commands. A block `sh` is one command.
    ///
    /// # Errors
    /// A block `console` does not begin with a prompt.
    pub fn steps(&self) -> anyhow::Result<Vec<Step>> {
        if self.language == "sh" {
            return Ok(vec![Step {
                command: self.text.clone(),
                output: None,
            }]);
        }
        let mut steps: Vec<Step> = Vec::new();
        let mut continues = false;
        for line in self.text.lines() {
            let (command, output) = match (line.strip_prefix("$ "), steps.last_mut()) {
                (Some(command), _) => {
                    steps.push(Step {
                        command: String::new(),
                        output: None,
                    });
                    (Some(command), None)
                }
                (None, Some(_)) if continues => (line.strip_prefix("> ").or(Some(line)), None),
                (None, Some(_)) => (None, Some(line)),
                (None, None) => anyhow::bail!("line {}: there is no command", self.line),
            };
            let Some(step) = steps.last_mut() else {
                continue;
            };
            if let Some(command) = command {
                if !step.command.is_empty() {
                    step.command.push('\n');
                }
                step.command.push_str(command);
                continues = command.ends_with('\\');
            }
            if let Some(output) = output {
                let all = step.output.get_or_insert_default();
                if !all.is_empty() {
                    all.push('\n');
                }
                all.push_str(output);
            }
        }
        // A step without shown output must print nothing.
        for step in &mut steps {
            step.output.get_or_insert_default();
        }
        Ok(steps)
    }
}

fn is_command(line: &str) -> bool {
    let mut words = line.split_whitespace();
    // Variables before the program are skipped.
    let program = words.find(|word| {
        let name = word.split('=').next().unwrap_or_default();
        let is_variable = name.len() < word.len()
            && name
                .chars()
                .all(|one| one == '_' || one.is_ascii_uppercase());
        !is_variable
    });
    program.is_some_and(|program| PROGRAMS.contains(&program) || program.starts_with(".ci/"))
}

fn mark(line: &str) -> Option<Mark> {
    let comment = line
        .trim()
        .strip_prefix("<!--")?
        .strip_suffix("-->")?
        .trim();
    let unreadable = || Mark::Unreadable(comment.to_owned());
    if let Some(test) = comment.strip_prefix("run by:") {
        return Some(Mark::RunBy(test.trim().to_owned()));
    }
    let rest = comment.strip_prefix("not run")?;
    let Some((before, reason)) = rest.split_once(':') else {
        return Some(unreadable());
    };
    let reason = reason.trim();
    // One or two words are not a reason.
    if reason.split_whitespace().count() < 3 {
        return Some(unreadable());
    }
    let reason = reason.to_owned();
    Some(match before.trim().strip_prefix(", stand-in ") {
        Some(name) => Mark::StandIn {
            name: name.trim().to_owned(),
            reason,
        },
        None if before.trim().is_empty() => Mark::NotRun(reason),
        None => unreadable(),
    })
}

/// Whether `output` matches what a document shows. Runs of blanks are equal, and so are times such as `12s`. `…`
/// matches anything in a line; alone in a line it matches any lines.
#[must_use]
pub fn is_as_shown(shown: &str, output: &str) -> bool {
    let shown: Vec<Vec<String>> = shown.lines().map(words).collect();
    let output: Vec<Vec<String>> = output.lines().map(words).collect();
    are_lines(&shown, &output)
}

fn words(line: &str) -> Vec<String> {
    let words = line.split_whitespace();
    words
        .map(|word| {
            if is_time(word) {
                "TIME".to_owned()
            } else {
                word.to_owned()
            }
        })
        .collect()
}

/// A duration as kubectl and `ccm` print it.
fn is_time(word: &str) -> bool {
    let word = word.trim_matches(|one| matches!(one, '(' | ')' | ',' | ';'));
    let units = word
        .chars()
        .filter(|one| matches!(one, 's' | 'm' | 'h' | 'd' | 'µ' | 'n'))
        .count();
    let digits = word.chars().filter(char::is_ascii_digit).count();
    let dots = word.chars().filter(|one| *one == '.').count();
    units > 0
        && digits > 0
        && units + digits + dots == word.chars().count()
        && word.starts_with(|one: char| one.is_ascii_digit())
        && word.ends_with(|one: char| one.is_ascii_alphabetic())
}

fn are_lines(shown: &[Vec<String>], output: &[Vec<String>]) -> bool {
    match shown.split_first() {
        None => output.is_empty(),
        Some((first, rest))
            if first.len() == 1 && first.first().is_some_and(|word| word == "…") =>
        {
            (0..=output.len())
                .any(|skipped| are_lines(rest, output.get(skipped..).unwrap_or_default()))
        }
        Some((first, rest)) => output.split_first().is_some_and(|(line, others)| {
            is_line(&first.join(" "), &line.join(" ")) && are_lines(rest, others)
        }),
    }
}

fn is_line(shown: &str, line: &str) -> bool {
    let mut parts = shown.split('…');
    let Some(mut rest) = parts.next().and_then(|first| line.strip_prefix(first)) else {
        return false;
    };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    true
}
