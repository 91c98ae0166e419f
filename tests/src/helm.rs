//! Runs helm: the program itself, built from its Go module, on charts in folders.
//!
//! It keeps its own files apart from the user's, and reaches no cluster but the one of the given kubeconfig.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tempfile::TempDir;

use crate::built;

/// Environment variable with the path of a ready helm, where there is no Go.
const READY: &str = "CCM_HELM";

const PACKAGE: &str = "helm.sh/helm/v4/cmd/helm";

const HINT: &str = "install Go 1.26 or newer (https://go.dev/dl), or set CCM_HELM to a helm 4";

/// Helm, with a home of its own.
pub struct Helm {
    program: PathBuf,
    home: TempDir,
    kubeconfig: Option<PathBuf>,
}

impl Helm {
    /// Helm without a cluster. The first call on a machine builds it.
    ///
    /// # Errors
    /// It cannot be built.
    pub fn new() -> Result<Self> {
        Ok(Self {
            program: program()?,
            home: TempDir::new().context("cannot make a home for helm")?,
            kubeconfig: None,
        })
    }

    /// Helm for one cluster.
    ///
    /// # Errors
    /// As for [`Helm::new`].
    pub fn with_cluster(kubeconfig: PathBuf) -> Result<Self> {
        Ok(Self {
            kubeconfig: Some(kubeconfig),
            ..Self::new()?
        })
    }

    /// The folder of the program, for scripts that find it in `PATH`.
    pub fn folder(&self) -> Option<&Path> {
        self.program.parent()
    }

    /// Writes a file with values, and returns its path.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn values(&self, name: &str, values: &Value) -> Result<PathBuf> {
        let path = self.home.path().join(name);
        // JSON is YAML.
        std::fs::write(&path, values.to_string()).context("cannot write values")?;
        Ok(path)
    }

    /// Runs it and returns what it printed.
    ///
    /// # Errors
    /// It failed; the error holds its output.
    pub fn run<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Result<String> {
        let mut command = Command::new(&self.program);
        command.args(arguments);
        for part in ["CACHE", "CONFIG", "DATA"] {
            command.env(format!("HELM_{part}_HOME"), self.home.path().join(part));
        }
        let nothing = Path::new("/nonexistent/kubeconfig");
        command.env("KUBECONFIG", self.kubeconfig.as_deref().unwrap_or(nothing));
        let output = command.output().context("cannot run helm")?;
        if !output.status.success() {
            bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
        }
        String::from_utf8(output.stdout).context("helm printed what is no text")
    }

    /// The objects that `helm template` makes of a chart.
    ///
    /// # Errors
    /// As for [`Helm::run`]; or the output is not YAML.
    pub fn template(&self, chart: &Path, arguments: &[&str]) -> Result<Vec<Value>> {
        let mut all = vec!["template", "ccm", chart.to_str().context("no text")?];
        all.extend(["--namespace", "kube-system"]);
        all.extend(arguments);
        let printed = self.run(&all)?;
        let objects: Vec<Value> =
            serde_saphyr::from_multiple(&printed).context("helm printed what is no YAML")?;
        Ok(objects.into_iter().filter(|one| !one.is_null()).collect())
    }
}

fn program() -> Result<PathBuf> {
    if let Some(ready) = std::env::var_os(READY).filter(|path| !path.is_empty()) {
        return Ok(PathBuf::from(ready));
    }
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("cluster/helm");
    let folder = built::folder("helm", &sources, &["go.sum", "go.mod"], |folder| {
        built::report_progress("building helm from its Go module, about 2 minutes on two cores");
        let output = folder.join("helm");
        let output = output.to_str().context("the cache's path is not text")?;
        built::go_build(&sources, &["-ldflags=-s -w", "-o", output, PACKAGE], HINT)
    })?;
    Ok(folder.join("helm"))
}
