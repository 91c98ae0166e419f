//! Every file below `scenarios/` is a test: a script and the transcript of what the controllers did, in one
//! file. The controllers are the real ones, the cluster is the in-memory API server behind the real client,
//! the cloud answers as the script says, and the clock is paused, so that minutes pass in milliseconds.
//!
//! Each scenario is also replayed with one disturbance more than it has: the process killed before or after every
//! effect, one request to the API server gone wrong, one call of the cloud gone wrong. It must end in the same
//! state, and the laws of `scenarios/laws.rs` must hold on the recorded traffic. `scenarios/hcloud.rs` does the same
//! with the shipped guest in the sandbox and faults in the cloud's HTTP answers, and `scenarios/broken.rs` shows that
//! the runner notices defects.
//!
//! `CCM_BLESS=1 cargo test -p ccm-tests --test scenarios` writes the transcripts anew. Read them before
//! committing. `scenarios/README.md` has the language and the disturbances.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

#[path = "scenarios/audited.rs"]
mod audited;
#[path = "scenarios/broken.rs"]
mod broken;
#[path = "scenarios/broken_deletions.rs"]
mod broken_deletions;
#[path = "scenarios/broken_routes.rs"]
mod broken_routes;
#[path = "scenarios/broken_services.rs"]
mod broken_services;
#[path = "scenarios/cloud.rs"]
mod cloud;
#[path = "scenarios/cloud_changes.rs"]
mod cloud_changes;
#[path = "scenarios/cloud_lines.rs"]
mod cloud_lines;
#[path = "scenarios/cluster_faults.rs"]
mod cluster_faults;
#[path = "scenarios/deletions.rs"]
mod deletions;
#[path = "scenarios/disturbance.rs"]
mod disturbance;
#[path = "scenarios/hcloud.rs"]
mod hcloud;
#[path = "scenarios/ingress_laws.rs"]
mod ingress_laws;
#[path = "scenarios/laws.rs"]
mod laws;
#[path = "scenarios/lies.rs"]
mod lies;
#[path = "scenarios/life.rs"]
mod life;
#[path = "scenarios/load_balancer_answers.rs"]
mod load_balancer_answers;
#[path = "scenarios/load_balancers.rs"]
mod load_balancers;
#[path = "scenarios/mutations.rs"]
mod mutations;
#[path = "scenarios/nodes.rs"]
mod nodes;
#[path = "scenarios/people.rs"]
mod people;
#[path = "scenarios/pod_network_laws.rs"]
mod pod_network_laws;
#[path = "scenarios/providers.rs"]
mod providers;
#[path = "scenarios/replay.rs"]
mod replay;
#[path = "scenarios/route_laws.rs"]
mod route_laws;
#[path = "scenarios/routes.rs"]
mod routes;
#[path = "scenarios/script.rs"]
mod script;
#[path = "scenarios/service_laws.rs"]
mod service_laws;
#[path = "scenarios/services.rs"]
mod services;
#[path = "scenarios/settings.rs"]
mod settings;
#[path = "scenarios/stage.rs"]
mod stage;
#[path = "scenarios/tamper.rs"]
mod tamper;
#[path = "scenarios/tamper_services.rs"]
mod tamper_services;
#[path = "scenarios/transcript.rs"]
mod transcript;
#[path = "scenarios/wire.rs"]
mod wire;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};

use replay::Group;
use stage::Run;

#[allow(
    clippy::print_stdout,
    reason = "how much was tried belongs to the result"
)]
fn main() -> ExitCode {
    // The host of `hcloud` compiles guests in a child process, which is this program.
    if std::env::args().nth(1).as_deref() == Some(hcloud::COMPILE) {
        return ccm_host::compile_child();
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let mut trials = Vec::new();
    for file in files(&folder) {
        let name = file.strip_prefix(&folder).unwrap().display().to_string();
        for group in Group::ALL {
            let (name, file) = (name.clone(), file.clone());
            let title = format!("{name} {}", group.title());
            trials.push(Trial::test(title, move || {
                replay::replay(&name, &std::fs::read_to_string(&file)?, group)
            }));
        }
        trials.push(Trial::test(name, move || transcript_is_as_written(&file)));
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
    trials.extend(mutations::trials());
    trials.extend(hcloud::trials());
    let conclusion = libtest_mimic::run(&Arguments::from_args(), trials);
    println!("replays with a disturbance: {}", replay::made());
    conclusion.exit_code()
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
    let played = stage::play(&script::read(&written)?, Run::default())?;
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
