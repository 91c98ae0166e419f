//! Builds the programs `registry`, `crane` and `cosign` from their Go modules.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::built;

/// The packages to build; `.` is the registry.
const PACKAGES: [&str; 3] = [
    ".",
    "github.com/google/go-containerregistry/cmd/crane",
    "./cosign",
];

const HINT: &str = "install Go 1.26 or newer (https://go.dev/dl)";

/// The folder with the three programs. If needed, builds them, which takes minutes, and reports that on standard
/// error.
pub(super) fn folder() -> Result<PathBuf> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("registry/tools");
    let files = ["go.sum", "go.mod", "main.go", "cosign/main.go"];
    built::folder("registry", &sources, &files, |folder| {
        built::report_progress(
            "building registry, crane and cosign from their Go modules, about 5 minutes on two cores",
        );
        // With a trailing separator it is a folder, for several programs.
        let folder = folder.join("");
        let output = folder.to_str().context("the cache's path is not text")?;
        let arguments = [&["-ldflags=-s -w", "-o", output][..], &PACKAGES].concat();
        built::go_build(&sources, &arguments, HINT)
    })
}
