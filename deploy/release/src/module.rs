//! Modules embedded in a binary, each of which is also published by itself: as a file, and as an artifact for
//! registries in the form that the CNCF's working group for WebAssembly describes
//! (<https://tag-runtime.cncf.io/wgs/wasm/deliverables/wasm-oci-artifact/>).

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use crate::layout::{Layout, MANIFEST};
use crate::{Release, sha256};

const CONFIG: &str = "application/vnd.wasm.config.v0+json";
const LAYER: &str = "application/wasm";

/// A module that is embedded in the binary.
#[derive(Debug, Clone)]
pub struct Module {
    /// Name of the provider, and of the published files.
    pub name: String,
    /// The Cargo package that it is compiled from.
    pub package: String,
    /// The component that the build embedded.
    pub path: PathBuf,
}

impl FromStr for Module {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Module> {
        let mut parts = text.splitn(3, '=');
        let mut part = || {
            let part = parts.next().filter(|part| !part.is_empty());
            part.context("expected NAME=PACKAGE=FILE")
        };
        let (name, package, path) = (part()?, part()?, part()?);
        Ok(Module {
            name: name.to_owned(),
            package: package.to_owned(),
            path: path.into(),
        })
    }
}

impl Module {
    /// The module's bytes, which must be in this program.
    pub(crate) fn bytes_in(&self, program: &[u8]) -> Result<Vec<u8>> {
        let bytes = crate::read(&self.path)?;
        ensure!(
            memchr::memmem::find(program, &bytes).is_some(),
            "{} is not the module {} that the binary embeds",
            self.path.display(),
            self.name
        );
        Ok(bytes)
    }

    /// Writes `NAME.wasm` and the OCI layout `NAME/` into `folder`.
    pub(crate) fn publish(&self, release: &Release, folder: &Path) -> Result<()> {
        let bytes = crate::read(&self.path)?;
        fs::write(folder.join(format!("{}.wasm", self.name)), &bytes)?;
        let mut layout = Layout::create(&folder.join(&self.name))?;
        let layer = layout.keep(LAYER, &bytes)?;
        let config = json!({
            "created": release.created_text()?,
            "architecture": "wasm",
            "os": "wasip2",
            "layerDigests": [format!("sha256:{}", sha256(&bytes))],
        });
        let config = layout.keep(CONFIG, config.to_string().as_bytes())?;
        let about = format!("The provider {} for ccm.", self.name);
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": config,
            "layers": [layer],
            "annotations": release.annotations(&self.name, &about)?,
        });
        let entry = layout.keep(MANIFEST, manifest.to_string().as_bytes())?;
        layout.finish(entry)?;
        Ok(())
    }
}
