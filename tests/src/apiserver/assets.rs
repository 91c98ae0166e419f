//! Locates the programs `etcd` and `kube-apiserver`: in the folder `KUBEBUILDER_ASSETS`, or built from their Go
//! modules on first use and kept in the user's cache.
//!
//! One version of each minor can be built that `deploy/docs/versions.md` names: without `CCM_KUBERNETES` the one that
//! most tests run on, otherwise the named one (`1.37`), or `oldest`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::built;

/// The programs that the folder must contain.
const PROGRAMS: [&str; 2] = ["etcd", "kube-apiserver"];

/// Environment variable for the version to build: `newest` (default), `oldest`, or a minor such as `1.37`.
const VERSION: &str = "CCM_KUBERNETES";

const HINT: &str = "install Go 1.26 or newer (https://go.dev/dl), or set KUBEBUILDER_ASSETS to a folder \
                    with the programs etcd and kube-apiserver";

/// Where both programs are.
pub(super) enum Assets {
    /// In the folder `KUBEBUILDER_ASSETS`.
    Given(PathBuf),
    /// In a folder of the cache, built from these files of a folder of this repository.
    Built {
        folder: PathBuf,
        sources: PathBuf,
        files: [String; 3],
    },
}

impl Assets {
    /// The folder with both programs.
    pub(super) fn folder(&self) -> &Path {
        match self {
            Self::Given(folder) | Self::Built { folder, .. } => folder,
        }
    }
}

/// Locates both programs. If needed, builds them, which takes minutes, and reports that on standard error.
pub(super) fn locate() -> Result<Assets> {
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
        return Ok(Assets::Given(folder));
    }
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("cluster/apiserver");
    let modules = modules(&sources)?;
    let (sums, pinned) = (format!("{modules}.sum"), format!("{modules}.mod"));
    let build = |folder: &Path| build(&sources, &pinned, folder);
    let folder = built::folder("apiserver", &sources, &[&sums, &pinned, "main.go"], build)?;
    Ok(Assets::Built {
        folder,
        files: [sums, pinned, "main.go".to_owned()],
        sources,
    })
}

/// Base name of the files that pin the modules: `NAME.mod` and `NAME.sum`.
fn modules(sources: &Path) -> Result<String> {
    match std::env::var(VERSION).as_deref() {
        Err(_) | Ok("" | "newest") => Ok("go".to_owned()),
        Ok("oldest") => Ok("oldest".to_owned()),
        Ok(minor) if sources.join(format!("v{minor}.mod")).is_file() => Ok(format!("v{minor}")),
        Ok(other) => bail!(
            "{VERSION}={other}: known are newest, oldest, and each minor in {}",
            sources.display()
        ),
    }
}

fn build(sources: &Path, modules: &str, folder: &Path) -> Result<()> {
    let pinned = fs::read_to_string(sources.join(modules))
        .with_context(|| format!("cannot read {modules}"))?;
    let kubernetes = version(&pinned, "k8s.io/kubernetes")?;
    let etcd = version(&pinned, "go.etcd.io/etcd/server/v3")?;
    built::report_progress(&format!(
        "building kube-apiserver {kubernetes} and etcd {etcd} from their Go modules, about 4 minutes on two cores"
    ));
    let program = folder.join("kube-apiserver");
    // A module build does not know its own version, but clients may query it.
    let link = format!("-ldflags=-s -w -X k8s.io/component-base/version.gitVersion={kubernetes}");
    let modules = format!("-modfile={modules}");
    let output = program.to_str().context("the cache's path is not text")?;
    built::go_build(sources, &[&link, &modules, "-o", output, "."], HINT)?;
    // One binary with both programs; its file name selects one.
    fs::hard_link(&program, folder.join("etcd")).context("cannot name the program etcd")
}

/// The pinned version of a module, such as `v1.36.3`.
fn version<'a>(pinned: &'a str, name: &str) -> Result<&'a str> {
    let mut lines = pinned.lines().map(str::trim);
    lines
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
        .and_then(|rest| rest.split(' ').next())
        .with_context(|| format!("the pinned modules lack {name}"))
}
