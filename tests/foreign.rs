//! The product before tools and services that others made.
//!
//! - A guest that `cargo component` builds from the contract alone, and the shipped guest built by the same tool. Needs
//!   cargo-component 0.21 and the target wasm32-wasip1; the tests say so when they are missing.
//! - Clients of others before our simulators. Needs Python 3.11 with pip.
//! - A scrape before Prometheus' promtool, the status page in Chromium, and the cloud behind proxies; the alerts and
//!   the dashboard of `deploy/monitoring` before a real Prometheus.
//! - Providers in other languages, built by the commands of their page.
//! - The AWS guest before moto, a simulator of others; our signatures for AWS, which moto checks with AWS's own library
//!   for Python.
//! - Builds that embed some of the providers; a release's bill of materials before CycloneDX' schema.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

#[path = "foreign/aws.rs"]
mod aws;
#[path = "foreign/builds.rs"]
mod builds;
#[path = "foreign/chosen_providers.rs"]
mod chosen_providers;
#[path = "program/cli/registry.rs"]
mod commands;
#[path = "foreign/digitalocean.rs"]
mod digitalocean;
#[path = "foreign/hcloud.rs"]
mod hcloud;
#[path = "foreign/languages.rs"]
mod languages;
#[path = "foreign/metrics.rs"]
mod metrics;
#[path = "foreign/monitoring.rs"]
mod monitoring;
#[path = "foreign/moto.rs"]
mod moto;
#[path = "foreign/proxies.rs"]
mod proxies;
#[path = "foreign/proxmox.rs"]
mod proxmox;
#[path = "foreign/proxmox/pve.rs"]
mod pve;
#[path = "foreign/python.rs"]
mod python;
#[path = "foreign/robot.rs"]
mod robot;
#[path = "foreign/sbom.rs"]
mod sbom;
#[path = "foreign/status_keyboard.rs"]
mod status_keyboard;
#[path = "foreign/status_page.rs"]
mod status_page;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use ccm_core::cloud::{CloudNode, Lookup};
use ccm_core::cloud_provider::CloudProvider as _;
use ccm_core::safety::permit::Permit;
use ccm_host::grant::Grants;
use ccm_host::{Compiler, GuestConfig, Host, HostOptions, Isolation, Module};
use ccm_tests::compiled_modules;
use tempfile::TempDir;

const CCM: &str = env!("CARGO_BIN_EXE_ccm");
const TOOL: &str = "cargo-component";
const GUEST: &str = "tests/guests/component";

fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The tool, from the search path or from the folder where this project's CI keeps its tools.
fn tool() -> PathBuf {
    let mut folders: Vec<PathBuf> =
        std::env::split_paths(&std::env::var_os("PATH").unwrap()).collect();
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(std::env::home_dir()?.join(".cache")));
    let kept = cache
        .into_iter()
        .flat_map(|cache| std::fs::read_dir(cache.join("ccm-tests")));
    let kept = kept
        .flatten()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("tools-"));
    folders.extend(kept.map(|entry| entry.path().join("bin")));
    let found = folders
        .iter()
        .map(|folder| folder.join(TOOL))
        .find(|file| file.is_file());
    found.unwrap_or_else(|| {
        panic!("{TOOL} is not in PATH and not in ~/.cache/ccm-tests/tools-*/bin: `cargo install {TOOL} --version 0.21.1 --locked`")
    })
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (name, is_folder) = (entry.file_name(), entry.file_type().unwrap().is_dir());
        match is_folder {
            true if name == "target" => {}
            true => copy(&entry.path(), &to.join(name)),
            false => drop(std::fs::copy(entry.path(), to.join(name)).unwrap()),
        }
    }
}

/// Builds the guest in a copy of what it needs, at the same places relative to each other: the tool writes into the
/// folder of the sources, and the checkout has to stay clean.
fn build(folder: &TempDir) -> PathBuf {
    let guest = folder.path().join(GUEST);
    copy(&checkout().join(GUEST), &guest);
    copy(&checkout().join("wit"), &folder.path().join("wit"));
    let target = folder.path().join("target");
    let output = Command::new(tool())
        .args(["component", "build", "--release"])
        .current_dir(&guest)
        .env("CARGO_TARGET_DIR", &target)
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .output()
        .unwrap();
    let reported = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "`cargo component build --release` failed; it needs `rustup target add wasm32-wasip1`, and the crate wit-bindgen-rt:\n{reported}"
    );
    target.join("wasm32-wasip1/release/guest_component.wasm")
}

fn node(name: &str, provider_id: Option<&str>) -> CloudNode {
    CloudNode {
        provider_id: provider_id.map(str::to_owned),
        ..ccm_fixtures::objects::cloud_node(name)
    }
}

fn host() -> Host {
    let compiler = Compiler {
        program: CCM.into(),
        arguments: vec!["__compile".into()],
    };
    Host::new(HostOptions {
        compiler,
        cache_dir: Some(Path::new(env!("CARGO_TARGET_TMPDIR")).join(compiled_modules::FOLDER)),
        isolation: Isolation::InProcess,
    })
    .unwrap()
}

async fn find(module: Module) {
    let provider = host()
        .load(module, Grants::default(), GuestConfig::default())
        .await
        .unwrap();
    assert_eq!(
        (provider.name(), provider.warnings().len()),
        ("component", 0)
    );

    let nodes = [node("known", Some("component://7")), node("stranger", None)];
    let until = ccm_host::egress::now().after(Duration::from_secs(60));
    let reply = provider
        .find(&nodes, Arc::new(Permit::read_only(until)))
        .await
        .unwrap();
    let [Lookup::Found(machine), Lookup::NotMine] = reply.lookups.as_slice() else {
        panic!("{:?}", reply.lookups)
    };
    assert_eq!(machine.provider_id, "component://7");
    assert!(
        reply.complete,
        "it asked nobody, and was granted nothing to ask"
    );
}

#[test]
fn a_guest_built_by_cargo_component_is_checked_loaded_and_answers() {
    let folder = TempDir::new().unwrap();
    let file = build(&folder);

    let checked = Command::new(CCM)
        .args(["provider", "check"])
        .arg(&file)
        .output()
        .unwrap();
    let reported = String::from_utf8_lossy(&checked.stdout);
    assert_eq!(
        checked.status.code(),
        Some(0),
        "{reported}{}",
        String::from_utf8_lossy(&checked.stderr)
    );
    assert!(
        reported.contains("yes: component 0.1.0 loads"),
        "{reported}"
    );

    let wasm = std::fs::read(&file).unwrap();
    let inspection = ccm_host::inspect("component.wasm", &wasm).unwrap();
    assert!(inspection.capabilities.instances && !inspection.capabilities.load_balancer);
    // The adapter of this toolchain brings imports of WASI that the guest never uses.
    let wasi = inspection
        .imports
        .iter()
        .filter(|name| name.starts_with("wasi:"))
        .count();
    assert!(wasi > 0, "{:?}", inspection.imports);
    assert!(
        !inspection.imports.iter().any(|name| name.contains("http")),
        "{:?}",
        inspection.imports
    );

    let module = Module {
        source: "component.wasm".to_owned(),
        wasm: wasm.into(),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(find(module));
}
