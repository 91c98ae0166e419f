//! Where the programs `etcd` and `kube-apiserver` come from: a folder that `KUBEBUILDER_ASSETS` names, or one
//! that is built from their Go modules the first time and kept in the user's cache.
//!
//! The folder is named after the sources, so a change of them builds anew, and lies outside the checkout, so that
//! a clean checkout does not. It appears whole or not at all.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest, Sha256};

/// The programs this module must end up with.
const PROGRAMS: [&str; 2] = ["etcd", "kube-apiserver"];

/// The files that decide what is built.
const SOURCES: [&str; 3] = ["go.sum", "go.mod", "main.go"];

const HINT: &str = "install Go 1.26 or newer (https://go.dev/dl), or set KUBEBUILDER_ASSETS to a folder \
                    with the programs etcd and kube-apiserver";

/// The folder with both programs. Builds it if need be, which takes minutes, and says so on standard error.
pub(super) fn folder() -> Result<PathBuf> {
    if let Some(folder) = std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from) {
        for program in PROGRAMS {
            ensure!(
                folder.join(program).is_file(),
                "KUBEBUILDER_ASSETS names {}, where there is no {program}",
                folder.display()
            );
        }
        return Ok(folder);
    }
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("cluster/apiserver");
    let cache = cache()?;
    let folder = cache.join(format!("apiserver-{}", digest(&sources)?));
    if folder.is_dir() {
        return Ok(folder);
    }
    // Tests run side by side, in threads and in processes: one builds, the others wait.
    fs::create_dir_all(&cache).with_context(|| format!("cannot make {}", cache.display()))?;
    let lock = cache.join("apiserver.lock");
    let lock = File::create(&lock).with_context(|| format!("cannot open {}", lock.display()))?;
    lock.lock().context("cannot wait for another build")?;
    if !folder.is_dir() {
        build(&sources, &cache, &folder)?;
    }
    Ok(folder)
}

fn build(sources: &Path, cache: &Path, folder: &Path) -> Result<()> {
    let modules = fs::read_to_string(sources.join("go.mod")).context("cannot read go.mod")?;
    let kubernetes = version(&modules, "k8s.io/kubernetes")?;
    let etcd = version(&modules, "go.etcd.io/etcd/server/v3")?;
    say(&format!(
        "building kube-apiserver {kubernetes} and etcd {etcd} from their Go modules, about 4 minutes on two \
         cores; kept in {}",
        folder.display()
    ));
    let unfinished = tempfile::Builder::new()
        .prefix("unfinished-")
        .tempdir_in(cache)
        .context("cannot make a folder to build in")?;
    // A module's build does not know its own version; clients may ask for it.
    let link = format!("-ldflags=-s -w -X k8s.io/component-base/version.gitVersion={kubernetes}");
    // `.ci/run` fills Go's cache ahead of time, with the same -trimpath and CGO_ENABLED.
    let mut go = Command::new("go");
    go.args(["build", "-trimpath", &link, "-o"])
        .arg(unfinished.path().join("kube-apiserver"))
        .arg(".")
        .current_dir(sources)
        .env("CGO_ENABLED", "0");
    match go.status() {
        Ok(status) if status.success() => {}
        Ok(status) => bail!("`go build` failed ({status}), see above; {HINT}"),
        Err(error) => return Err(error).context(format!("cannot run `go`; {HINT}")),
    }
    // One program that is both; it looks at the name it is started by.
    fs::hard_link(
        unfinished.path().join("kube-apiserver"),
        unfinished.path().join("etcd"),
    )
    .context("cannot name the program etcd")?;
    let unfinished = unfinished.keep();
    fs::rename(&unfinished, folder).with_context(|| format!("cannot make {}", folder.display()))
}

/// The version of a module that go.mod requires, such as `v1.36.3`.
fn version<'a>(modules: &'a str, name: &str) -> Result<&'a str> {
    let mut lines = modules.lines().map(str::trim);
    lines
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
        .and_then(|rest| rest.split(' ').next())
        .with_context(|| format!("go.mod does not require {name}"))
}

/// Hexadecimal SHA-256 over the sources.
fn digest(sources: &Path) -> Result<String> {
    let mut digest = Sha256::new();
    for name in SOURCES {
        let path = sources.join(name);
        let text = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        digest.update(text);
    }
    Ok(digest
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect())
}

fn cache() -> Result<PathBuf> {
    let cache = match std::env::var_os("XDG_CACHE_HOME").filter(|folder| !folder.is_empty()) {
        Some(folder) => PathBuf::from(folder),
        None => std::env::home_dir()
            .context("no home folder")?
            .join(".cache"),
    };
    Ok(cache.join("ccm-tests"))
}

/// Tells the person who waits. The test harness catches `eprintln!`, so this goes past it.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
