//! Where the programs `etcd` and `kube-apiserver` come from: a folder that `KUBEBUILDER_ASSETS` names, or one
//! that is built from their Go modules the first time and kept in the user's cache.
//!
//! Two versions can be built: the newest, and with `CCM_KUBERNETES=oldest` the oldest that can be had.
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

/// Says which version is built: `newest`, as without it, or `oldest`.
const VERSION: &str = "CCM_KUBERNETES";

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
        ensure!(
            std::env::var_os(VERSION).is_none(),
            "KUBEBUILDER_ASSETS and {VERSION} both say what is to run: unset one of them"
        );
        return Ok(folder);
    }
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("cluster/apiserver");
    let modules = modules()?;
    let cache = cache()?;
    let folder = cache.join(format!("apiserver-{}", digest(&sources, modules)?));
    if folder.is_dir() {
        return Ok(folder);
    }
    // Tests run side by side, in threads and in processes: one builds, the others wait.
    fs::create_dir_all(&cache).with_context(|| format!("cannot make {}", cache.display()))?;
    let lock = cache.join("apiserver.lock");
    let lock = File::create(&lock).with_context(|| format!("cannot open {}", lock.display()))?;
    lock.lock().context("cannot wait for another build")?;
    if !folder.is_dir() {
        build(&sources, modules, &cache, &folder)?;
    }
    Ok(folder)
}

/// What the files are called that pin the modules: `NAME.mod` and `NAME.sum`.
fn modules() -> Result<&'static str> {
    match std::env::var(VERSION).as_deref() {
        Err(_) | Ok("" | "newest") => Ok("go"),
        Ok("oldest") => Ok("oldest"),
        Ok(other) => bail!("{VERSION}={other}: known are newest and oldest"),
    }
}

fn build(sources: &Path, modules: &str, cache: &Path, folder: &Path) -> Result<()> {
    let modules = format!("{modules}.mod");
    let pinned = fs::read_to_string(sources.join(&modules))
        .with_context(|| format!("cannot read {modules}"))?;
    let kubernetes = version(&pinned, "k8s.io/kubernetes")?;
    let etcd = version(&pinned, "go.etcd.io/etcd/server/v3")?;
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
    go.args(["build", "-trimpath", &link])
        .args([&format!("-modfile={modules}"), "-o"])
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

/// The version of a module that is pinned, such as `v1.36.3`.
fn version<'a>(pinned: &'a str, name: &str) -> Result<&'a str> {
    let mut lines = pinned.lines().map(str::trim);
    lines
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
        .and_then(|rest| rest.split(' ').next())
        .with_context(|| format!("the pinned modules lack {name}"))
}

/// Hexadecimal SHA-256 over the sources.
fn digest(sources: &Path, modules: &str) -> Result<String> {
    let mut digest = Sha256::new();
    for name in [
        &format!("{modules}.sum"),
        &format!("{modules}.mod"),
        "main.go",
    ] {
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
