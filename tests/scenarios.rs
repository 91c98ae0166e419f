//! Every file below `scenarios/` is a test: a script and the transcript of what the controllers did, in one
//! file. The controllers are the real ones, the cluster is the in-memory API server behind the real client,
//! the cloud answers as the script says, and the clock is paused, so that minutes pass in milliseconds.
//!
//! Each scenario is also held again and again with a crash after its first write, its second, and so on; it
//! must end in the same state.
//!
//! `CCM_BLESS=1 cargo test -p ccm-tests --test scenarios` writes the transcripts anew. Read them before
//! committing. `scenarios/README.md` has the language.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

#[path = "scenarios/cloud.rs"]
mod cloud;
#[path = "scenarios/gate.rs"]
mod gate;
#[path = "scenarios/script.rs"]
mod script;
#[path = "scenarios/stage.rs"]
mod stage;
#[path = "scenarios/transcript.rs"]
mod transcript;

use std::path::{Path, PathBuf};

use libtest_mimic::{Arguments, Failed, Trial};

fn main() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let mut trials = Vec::new();
    for file in files(&folder) {
        let name = file.strip_prefix(&folder).unwrap().display().to_string();
        let again = file.clone();
        trials.push(Trial::test(name.clone(), move || {
            transcript_is_as_written(&file)
        }));
        trials.push(Trial::test(format!("{name} with crashes"), move || {
            crashes_change_nothing(&again)
        }));
    }
    assert!(
        !trials.is_empty(),
        "no scenario was found below {}",
        folder.display()
    );
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|extension| extension == "txt") {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn transcript_is_as_written(file: &Path) -> Result<(), Failed> {
    let written = std::fs::read_to_string(file)?;
    let played = stage::play(&script::read(&written)?, None)?.text;
    if played == written {
        return Ok(());
    }
    if std::env::var_os("CCM_BLESS").is_some() {
        std::fs::write(file, played)?;
        return Ok(());
    }
    Err(format!("the transcript differs; what happened now:\n\n{played}").into())
}

fn crashes_change_nothing(file: &Path) -> Result<(), Failed> {
    let script = script::read(&std::fs::read_to_string(file)?)?;
    let undisturbed = stage::play(&script, None)?;
    for after in 1..=undisturbed.writes {
        let crashed = stage::play(&script, Some(after))?;
        if crashed.state != undisturbed.state {
            return Err(format!(
                "after a crash behind write {after} of {} the end is\n{}\nand without it\n{}",
                undisturbed.writes, crashed.state, undisturbed.state
            )
            .into());
        }
    }
    Ok(())
}
