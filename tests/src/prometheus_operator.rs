//! The Prometheus Operator's definitions of the kinds that request a scrape, read from its Go module. Nothing of it is
//! built or run.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

const MODULE: &str = "github.com/prometheus-operator/prometheus-operator";

/// The definitions of PodMonitor and ServiceMonitor.
///
/// # Errors
/// Go is not installed, or the module cannot be fetched.
pub fn monitors() -> Result<Vec<Value>> {
    let folder = module()?.join("example/prometheus-operator-crd");
    let kinds = ["podmonitors", "servicemonitors"].into_iter();
    let definitions = kinds.map(|kind| {
        let file = folder.join(format!("monitoring.coreos.com_{kind}.yaml"));
        let text = std::fs::read_to_string(&file);
        let text = text.with_context(|| format!("cannot read {}", file.display()))?;
        serde_saphyr::from_str(&text).with_context(|| format!("{} is no YAML", file.display()))
    });
    definitions.collect()
}

/// The folder of the module's sources in Go's cache, whose checksum Go has verified.
fn module() -> Result<PathBuf> {
    let pinned = Path::new(env!("CARGO_MANIFEST_DIR")).join("cluster/prometheus_operator");
    let output = Command::new("go")
        .args(["mod", "download", "-json", MODULE])
        .current_dir(pinned)
        .output()
        .context("cannot run `go`; install Go 1.26 or newer (https://go.dev/dl)")?;
    if !output.status.success() {
        let reported = String::from_utf8_lossy(&output.stdout);
        bail!("`go mod download {MODULE}` failed: {reported}");
    }
    let reported: Value = serde_json::from_slice(&output.stdout).context("`go` printed no JSON")?;
    let folder = reported["Dir"].as_str().context("`go` named no folder")?;
    Ok(PathBuf::from(folder))
}
