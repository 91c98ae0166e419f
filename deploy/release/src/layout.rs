//! An OCI image layout, which `crane push`, `skopeo copy` and `ctr image import` read.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde_json::{Value, json};

use crate::sha256;

pub(crate) const INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub(crate) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// A layout in a folder, to which blobs are added.
pub(crate) struct Layout {
    folder: PathBuf,
    kept: BTreeSet<String>,
}

impl Layout {
    /// Begins a layout in `folder`.
    pub(crate) fn create(folder: &Path) -> Result<Layout> {
        fs::create_dir_all(folder.join("blobs/sha256"))?;
        Ok(Layout {
            folder: folder.to_owned(),
            kept: BTreeSet::new(),
        })
    }

    /// Writes a blob, once, and returns its descriptor.
    pub(crate) fn keep(&mut self, media_type: &str, bytes: &[u8]) -> Result<Value> {
        let hash = sha256(bytes);
        if self.kept.insert(hash.clone()) {
            fs::write(self.folder.join("blobs/sha256").join(&hash), bytes)?;
        }
        Ok(
            json!({"mediaType": media_type, "digest": format!("sha256:{hash}"), "size": bytes.len()}),
        )
    }

    /// Writes the index with the descriptor `entry` alone, and returns its digest.
    pub(crate) fn finish(self, entry: Value) -> Result<String> {
        let digest = entry["digest"].as_str().unwrap_or_default().to_owned();
        let layout = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [entry]});
        fs::write(self.folder.join("index.json"), layout.to_string())?;
        let version = json!({"imageLayoutVersion": "1.0.0"});
        fs::write(self.folder.join("oci-layout"), version.to_string())?;
        Ok(digest)
    }
}
