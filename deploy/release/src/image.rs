//! The container image, an index with one image for each architecture.

use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};

use crate::layout::{INDEX, Layout, MANIFEST};
use crate::{Architecture, Release, archive, rootfs, sha256};

const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// An image to which one architecture after the other is added.
pub(crate) struct Image {
    layout: Layout,
    created: (u64, String),
    annotations: Value,
    license: Vec<u8>,
    compression: u32,
    manifests: Vec<Value>,
}

/// A layer: its descriptor, and the digest of its uncompressed bytes.
struct Layer {
    descriptor: Value,
    diff_id: String,
}

impl Image {
    /// Begins the layout in `folder`.
    pub(crate) fn create(folder: &Path, release: &Release) -> Result<Image> {
        let annotations = release.annotations(
            "ccm",
            "A cloud-controller-manager whose cloud providers are sandboxed WebAssembly components.",
        )?;
        Ok(Image {
            layout: Layout::create(folder)?,
            created: (release.created, release.created_text()?),
            annotations,
            license: crate::read(&release.checkout.join("LICENSE"))?,
            compression: release.compression,
            manifests: Vec::new(),
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
        let config = self.layout.keep(CONFIG, config.to_string().as_bytes())?;
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": config,
            "layers": [base.descriptor, program.descriptor],
            "annotations": self.annotations,
        });
        let mut entry = self
            .layout
            .keep(MANIFEST, manifest.to_string().as_bytes())?;
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
        let entry = self.layout.keep(INDEX, index.to_string().as_bytes())?;
        self.layout.finish(entry)
    }

    fn layer(&mut self, tar: &[u8]) -> Result<Layer> {
        Ok(Layer {
            descriptor: self
                .layout
                .keep(LAYER, &archive::gzip(tar, self.compression)?)?,
            diff_id: format!("sha256:{}", sha256(tar)),
        })
    }
}
