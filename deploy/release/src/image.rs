//! The image for all architectures, as an OCI layout: what `crane push`, `skopeo copy` and `ctr image import` read.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde_json::{Value, json};

use crate::{Architecture, LICENSE, Release, SOURCE, archive, rootfs, sha256};

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// An image that grows by one architecture after the other.
pub(crate) struct Image {
    folder: PathBuf,
    created: (u64, String),
    annotations: Value,
    license: Vec<u8>,
    compression: u32,
    manifests: Vec<Value>,
    kept: BTreeSet<String>,
}

/// A layer: its descriptor, and the digest of what it is uncompressed.
struct Layer {
    descriptor: Value,
    diff_id: String,
}

impl Image {
    /// Begins the layout in `folder`.
    pub(crate) fn create(folder: &Path, release: &Release) -> Result<Image> {
        fs::create_dir_all(folder.join("blobs/sha256"))?;
        let created = release.created_text()?;
        let annotations = json!({
            "org.opencontainers.image.created": created,
            "org.opencontainers.image.description":
                "A cloud-controller-manager whose cloud providers are sandboxed WebAssembly components.",
            "org.opencontainers.image.licenses": LICENSE,
            "org.opencontainers.image.revision": release.revision,
            "org.opencontainers.image.source": SOURCE,
            "org.opencontainers.image.title": "ccm",
            "org.opencontainers.image.url": SOURCE,
            "org.opencontainers.image.version": release.version,
        });
        Ok(Image {
            folder: folder.to_owned(),
            created: (release.created, created),
            annotations,
            license: crate::read(&release.checkout.join("LICENSE"))?,
            compression: release.compression,
            manifests: Vec::new(),
            kept: BTreeSet::new(),
        })
    }

    /// Adds the image of one architecture.
    pub(crate) fn add(&mut self, architecture: Architecture, binary: &[u8]) -> Result<()> {
        let base = self.layer(&rootfs::base()?)?;
        let program = rootfs::program(binary, &self.license, self.created.0)?;
        let program = self.layer(&program)?;
        let time = &self.created.1;
        let config = json!({
            "created": time,
            "architecture": architecture.name(),
            "os": "linux",
            "config": {
                "User": rootfs::USER,
                "Entrypoint": [rootfs::PROGRAM],
                "Env": ["PATH=/usr/local/bin:/bin:/", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"],
                "WorkingDir": "/",
                "Labels": self.annotations,
            },
            "rootfs": {"type": "layers", "diff_ids": [base.diff_id, program.diff_id]},
            "history": [
                {"created": time, "created_by": "certificates, user and folders"},
                {"created": time, "created_by": "ccm"},
            ],
        });
        let config = self.keep(CONFIG, config.to_string().as_bytes())?;
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": config,
            "layers": [base.descriptor, program.descriptor],
            "annotations": self.annotations,
        });
        let mut entry = self.keep(MANIFEST, manifest.to_string().as_bytes())?;
        entry["platform"] = json!({"architecture": architecture.name(), "os": "linux"});
        self.manifests.push(entry);
        Ok(())
    }

    /// Writes the index, and returns its digest.
    pub(crate) fn finish(mut self) -> Result<String> {
        let index = json!({
            "schemaVersion": 2,
            "mediaType": INDEX,
            "manifests": self.manifests,
            "annotations": self.annotations,
        });
        let entry = self.keep(INDEX, index.to_string().as_bytes())?;
        let digest = entry["digest"].as_str().unwrap_or_default().to_owned();
        let layout = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [entry]});
        fs::write(self.folder.join("index.json"), layout.to_string())?;
        let version = json!({"imageLayoutVersion": "1.0.0"});
        fs::write(self.folder.join("oci-layout"), version.to_string())?;
        Ok(digest)
    }

    fn layer(&mut self, tar: &[u8]) -> Result<Layer> {
        Ok(Layer {
            descriptor: self.keep(LAYER, &archive::gzip(tar, self.compression)?)?,
            diff_id: format!("sha256:{}", sha256(tar)),
        })
    }

    /// Keeps a blob, once, and returns its descriptor.
    fn keep(&mut self, media_type: &str, bytes: &[u8]) -> Result<Value> {
        let hash = sha256(bytes);
        if self.kept.insert(hash.clone()) {
            fs::write(self.folder.join("blobs/sha256").join(&hash), bytes)?;
        }
        Ok(
            json!({"mediaType": media_type, "digest": format!("sha256:{hash}"), "size": bytes.len()}),
        )
    }
}
