//! Writes a module as an OCI image layout on disk, for `crane push`: the CNCF's layout for Wasm.

use std::fs;
use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// Writes the layout into `folder`. Returns the digest of its manifest.
pub(super) fn write(folder: &Path, wasm: &[u8]) -> Result<String> {
    let blobs = folder.join("blobs/sha256");
    fs::create_dir_all(&blobs)?;
    let keep = |media_type: &str, bytes: &[u8]| -> Result<Value> {
        let hash = hash(bytes);
        fs::write(blobs.join(&hash), bytes)?;
        Ok(
            json!({"mediaType": media_type, "digest": format!("sha256:{hash}"), "size": bytes.len()}),
        )
    };
    let layer = keep("application/wasm", wasm)?;
    let config = json!({
        "created": "2026-01-02T03:04:05Z", "architecture": "wasm", "os": "wasip2",
        "layerDigests": [layer["digest"]],
    });
    let config = config.to_string();
    let config = keep("application/vnd.wasm.config.v0+json", config.as_bytes())?;
    let manifest = json!({
        "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer],
    });
    let manifest = manifest.to_string();
    let entry = keep(MANIFEST, manifest.as_bytes())?;
    let index = json!({"schemaVersion": 2, "manifests": [entry]});
    fs::write(folder.join("index.json"), index.to_string())?;
    fs::write(
        folder.join("oci-layout"),
        r#"{"imageLayoutVersion":"1.0.0"}"#,
    )?;
    Ok(format!("sha256:{}", hash(manifest.as_bytes())))
}

fn hash(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}
