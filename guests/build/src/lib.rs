//! For build scripts: compiles guests of this workspace to components, so that `cargo run`, `cargo test` and
//! `cargo clippy` need nothing but themselves.
//!
//! It runs Cargo inside Cargo, in a target directory beside that of the outer profile, which all build scripts share,
//! so that common dependencies are compiled once. It never touches anything else, except that it asks `rustup` for the
//! Wasm target if that is missing.

#![forbid(unsafe_code)]
#![allow(
    clippy::panic,
    clippy::print_stdout,
    reason = "a build script fails by panicking, and speaks to Cargo on its standard output"
)]

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const TARGET: &str = "wasm32-wasip2";

/// The profile of the workspace's manifest that guests are built with.
const PROFILE: &str = "guest";

/// Variables that the outer Cargo sets for its children and the inner Cargo must not see: wrappers (Clippy is one),
/// flags for the host's architecture, and directories.
const NOT_FOR_THE_GUEST: &[&str] = &[
    "CARGO_BUILD_RUSTC_WORKSPACE_WRAPPER",
    "CARGO_BUILD_RUSTC_WRAPPER",
    "CARGO_BUILD_RUSTFLAGS",
    "CARGO_BUILD_TARGET",
    "CARGO_BUILD_TARGET_DIR",
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_TARGET_DIR",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTC_WRAPPER",
    "RUSTFLAGS",
];

/// A guest crate of this workspace.
#[derive(Debug, Clone, Copy)]
pub struct Guest<'a> {
    /// The name of the guest's Cargo package.
    pub package: &'a str,
    /// The guest's folder, relative to the workspace's root.
    pub folder: &'a str,
}

/// Compiles the guests and puts `<package>.wasm` of each into `OUT_DIR`. Cargo runs the script again when a source of a
/// guest, the SDK or the contract changes.
///
/// # Panics
/// When there is no Wasm target or a guest does not compile: Cargo then shows the output.
pub fn compile(guests: &[Guest<'_>]) {
    let root = root();
    let out = PathBuf::from(required("OUT_DIR"));
    for shared in [
        "guest-sdk/src",
        "guest-sdk/Cargo.toml",
        "Cargo.toml",
        "Cargo.lock",
    ] {
        watch(&root.join(shared));
    }
    ensure_target();
    for guest in guests {
        let folder = root.join(guest.folder);
        for part in ["src", "manifest.json", "Cargo.toml"] {
            watch(&folder.join(part));
        }
    }
    let target_dir = target_dir(&out);
    for guest in guests {
        build(&root, &target_dir, guest.package);
        copy(&target_dir, &out, guest.package);
    }
}

/// The workspace that the calling package is in. Cargo sets it for each run: a path that is compiled in would be that
/// of another checkout if a target folder has been copied.
fn root() -> PathBuf {
    let package = PathBuf::from(required("CARGO_MANIFEST_DIR"));
    match package
        .ancestors()
        .find(|one| one.join("Cargo.lock").is_file())
    {
        Some(root) => root.to_owned(),
        None => panic!("{} is in no workspace", package.display()),
    }
}

/// The target directory of the inner Cargo. `OUT_DIR` is `<target>/<profile>/build/<package>-<hash>/out`.
fn target_dir(out: &Path) -> PathBuf {
    match out.ancestors().nth(4) {
        Some(target) => target.join("guests"),
        None => panic!("{} is no folder of Cargo's", out.display()),
    }
}

/// Compiles one guest. Guests that are compiled together get the features that any of them asks of a common dependency:
/// a guest's bytes, and so its digest, would depend on which others are embedded. Only the component is made, not what
/// native tests link as well: together with that Cargo leaves out link-time optimisation.
fn build(root: &Path, target_dir: &Path, package: &str) {
    let mut cargo = Command::new(required("CARGO"));
    cargo
        .current_dir(root)
        .args(["rustc", "--locked", "--lib", "--crate-type", "cdylib"])
        .args(["--profile", PROFILE, "--target", TARGET])
        .args(["--package", package])
        .arg("--target-dir")
        .arg(target_dir)
        .stdout(Stdio::null());
    for name in NOT_FOR_THE_GUEST {
        cargo.env_remove(name);
    }
    cargo.env(
        "CARGO_ENCODED_RUSTFLAGS",
        remaps(root, target_dir).join("\x1f"),
    );
    match cargo.status() {
        Ok(status) if status.success() => {}
        Ok(status) => {
            panic!("cargo build of {package} for {TARGET} ended with {status}; its output is above")
        }
        Err(error) => panic!("cargo could not be started: {error}"),
    }
}

/// Flags that give a guest the same bytes wherever it is built: they replace the names of this machine's folders. The
/// last flag that fits counts.
fn remaps(root: &Path, target_dir: &Path) -> Vec<String> {
    let mut folders = vec![
        (canonical(root), "/ccm"),
        (target_dir.to_owned(), "/target"),
    ];
    // If the sources of the standard library are installed, rustc writes their path instead of the one where the
    // library was built.
    let commit = printed_by_rustc(&["-vV"]).and_then(|text| {
        let mut lines = text.lines();
        lines.find_map(|line| Some(line.strip_prefix("commit-hash: ")?.to_owned()))
    });
    let library = commit.map(|commit| format!("/rustc/{commit}"));
    let sysroot = printed_by_rustc(&["--print", "sysroot"]);
    if let (Some(sysroot), Some(library)) = (sysroot, &library) {
        folders.push((
            Path::new(&sysroot).join("lib/rustlib/src/rust"),
            library.as_str(),
        ));
    }
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(env::home_dir()?.join(".cargo")));
    // Each folder's name contains the registry, which may be a mirror.
    let sources = home.and_then(|home| std::fs::read_dir(home.join("registry/src")).ok());
    folders.extend(
        sources
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| (entry.path(), "/crates")),
    );
    folders
        .iter()
        .map(|(folder, name)| format!("--remap-path-prefix={}={name}", folder.display()))
        .collect()
}

fn canonical(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

fn printed_by_rustc(arguments: &[&str]) -> Option<String> {
    let output = Command::new(required("RUSTC"))
        .args(arguments)
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    output.status.success().then_some(text)
}

fn copy(target_dir: &Path, out: &Path, package: &str) {
    let built = target_dir
        .join(TARGET)
        .join(PROFILE)
        .join(format!("{}.wasm", package.replace('-', "_")));
    let component = out.join(format!("{package}.wasm"));
    if let Err(error) = std::fs::copy(&built, &component) {
        panic!(
            "{} could not be copied to {}: {error}",
            built.display(),
            component.display()
        );
    }
}

/// Makes sure that rustc has a standard library for the Wasm target.
fn ensure_target() {
    if has_target() {
        return;
    }
    println!(
        "cargo::warning=the Rust target {TARGET} is missing; running `rustup target add {TARGET}`"
    );
    let outcome = Command::new("rustup")
        .args(["target", "add", TARGET])
        .stdout(Stdio::null())
        .status();
    let why = match outcome {
        Ok(status) if status.success() && has_target() => return,
        Ok(status) if status.success() => {
            "it succeeded, but for another toolchain than this rustc".to_owned()
        }
        Ok(status) => format!("it ended with {status}"),
        Err(error) => format!("it could not be started: {error}"),
    };
    panic!(
        "the providers are WebAssembly components and need the Rust target {TARGET}; `rustup target add {TARGET}`: {why}"
    );
}

fn has_target() -> bool {
    printed_by_rustc(&["--print", "target-libdir", "--target", TARGET])
        .is_some_and(|folder| Path::new(&folder).is_dir())
}

fn watch(path: &Path) {
    println!("cargo::rerun-if-changed={}", path.display());
}

fn required(name: &str) -> OsString {
    match env::var_os(name) {
        Some(value) => value,
        None => panic!("{name} is not set: this is for build scripts only"),
    }
}
