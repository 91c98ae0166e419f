//! Every file with the ending `.txt` below this folder is a test: a script and the transcript of what the controllers
//! did, in one file. The controllers are the real ones, the cluster is the in-memory API server behind the real client,
//! the cloud answers as the script says, and the clock is paused, so that minutes pass in milliseconds.
//!
//! Each scenario is also replayed with one additional disturbance: the process killed before or after every effect, one
//! request to the API server with a fault, one cloud call with a fault. It must end in the same state, and the laws of
//! `laws.rs` must hold on the recorded traffic. `sandbox/listings.rs` does the same with the shipped guest in the
//! sandbox and faults in the cloud's HTTP answers, and `broken.rs` shows that the runner notices defects.
//!
//! `CCM_BLESS=1 cargo test -p ccm-scenarios` writes the transcripts anew. Read them before
//! committing. `README.md` has the language and the disturbances.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod audited;
mod broken;
mod broken_clients;
mod broken_deletions;
mod broken_routes;
mod broken_service_clients;
mod broken_services;
pub mod cloud;
mod cloud_changes;
mod cloud_lines;
mod cluster_edits;
mod cluster_faults;
mod crash;
mod deletions;
mod disturbance;
mod disturbed_client;
mod false_answers;
mod ingress_laws;
pub mod laws;
mod load_balancer_answers;
mod load_balancers;
mod log_lines;
mod mutations;
pub mod nodes;
mod pod_network_laws;
mod providers;
pub mod replay;
mod route_laws;
mod routes;
mod script;
mod service_laws;
mod services;
pub mod settings;
mod transcript;
mod world;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ccm_tests::harness::trial;
use libtest_mimic::{Failed, Trial};

use replay::{Group, Undisturbed};
use world::Run;

/// Every scenario as written and with its disturbances, and every defect that must be noticed.
///
/// # Panics
/// The folder with the scenarios cannot be read, or holds none.
pub fn trials() -> Vec<Trial> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut trials = Vec::new();
    for file in files(folder) {
        let name = file.strip_prefix(folder).unwrap().display().to_string();
        let undisturbed = Arc::new(Undisturbed::default());
        for group in Group::ALL {
            let (name, file) = (name.clone(), file.clone());
            let undisturbed = undisturbed.clone();
            let title = format!("{name} {}", group.title());
            trials.push(trial(title, move || {
                let text = std::fs::read_to_string(&file)?;
                replay::replay(&name, &text, &undisturbed, group)
            }));
        }
        trials.push(trial(name, move || transcript_is_as_written(&file)));
    }
    assert!(
        !trials.is_empty(),
        "no scenario was found below {}",
        folder.display()
    );
    trials.extend(broken::trials());
    trials.extend(broken_deletions::trials());
    trials.extend(broken_routes::trials());
    trials.extend(broken_services::trials());
    trials.extend(log_lines::trials());
    trials.extend(mutations::trials());
    trials
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
    let played = world::play(&script::read(&written)?, Run::default())?;
    if !played.broken.is_empty() {
        return Err(format!("{}\n\n{}", played.broken.join("\n"), played.text).into());
    }
    let played = played.text;
    if played == written {
        return Ok(());
    }
    if std::env::var_os("CCM_BLESS").is_some() {
        std::fs::write(file, played)?;
        return Ok(());
    }
    Err(format!("the transcript differs; what happened now:\n\n{played}").into())
}
