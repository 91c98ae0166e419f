//! Builds Kubernetes' own programs that the documents use beside `ccm`: `kubectl` and `kubeadm`, and for the full
//! counts `kube-controller-manager`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::built;

const HINT: &str = "install Go 1.26 or newer (https://go.dev/dl)";

/// Version of all of them, which they report.
const VERSION: &str = "v1.36.3";

/// The folder with `kubectl` and `kubeadm`. If needed, builds them, which takes a minute.
///
/// # Errors
/// They cannot be built.
pub fn command_line_tools() -> Result<PathBuf> {
    programs("kubernetes-tools", &["kubectl", "kubeadm"])
}

/// `kubectl`: the one in the folder `KUBEBUILDER_ASSETS`, or built as [`command_line_tools`].
///
/// # Errors
/// It cannot be built.
pub fn kubectl() -> Result<PathBuf> {
    let folder = match std::env::var_os("KUBEBUILDER_ASSETS") {
        Some(assets) => PathBuf::from(assets),
        None => command_line_tools()?,
    };
    Ok(folder.join("kubectl"))
}

/// The folder with `kube-controller-manager`. If needed, builds it, which takes two minutes.
///
/// # Errors
/// It cannot be built.
pub fn controller_manager() -> Result<PathBuf> {
    programs("kube-controller-manager", &["kube-controller-manager"])
}

fn programs(name: &str, programs: &[&str]) -> Result<PathBuf> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("documents/kubernetes");
    built::folder(name, &sources, &["go.sum", "go.mod"], |folder| {
        built::report_progress(&format!(
            "building {} {VERSION} from their Go module",
            programs.join(" and ")
        ));
        // With a trailing separator it is a folder, for several programs.
        let folder = folder.join("");
        let output = folder.to_str().context("the cache's path is not text")?;
        let link = format!("-ldflags=-s -w -X k8s.io/component-base/version.gitVersion={VERSION}");
        let packages: Vec<String> = programs
            .iter()
            .map(|one| format!("k8s.io/kubernetes/cmd/{one}"))
            .collect();
        let mut arguments = vec![link.as_str(), "-o", output];
        arguments.extend(packages.iter().map(String::as_str));
        built::go_build(&sources, &arguments, HINT)
    })
}
