//! Parses a manifest and selects its module: exactly one layer of a Wasm type. The text is untrusted; no size or type
//! in it is trusted, and no request is sent.

use std::collections::BTreeMap;

use ccm_host::Digest;
use serde::Deserialize;

use super::registry_error::{RegistryError, shown};
use crate::artifact::MODULE_BYTES;

/// Largest manifest or index, in bytes.
pub(super) const MANIFEST_BYTES: usize = 4 << 20;

pub(super) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(super) const INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub(super) const WASM_CONFIG: &str = "application/vnd.wasm.config.v0+json";
pub(super) const WASM_LAYER: &str = "application/wasm";
pub(super) const EMPTY: &str = "application/vnd.oci.empty.v1+json";

/// Docker's types are accepted, too, so that their refusal names them.
pub(super) const ACCEPTED: &str = "application/vnd.oci.image.manifest.v1+json, \
    application/vnd.oci.image.index.v1+json, \
    application/vnd.docker.distribution.manifest.v2+json, \
    application/vnd.docker.distribution.manifest.list.v2+json";

/// Media types of layers that hold a plain component: the CNCF's type, and those of older tools.
const LAYERS: &[&str] = &[
    WASM_LAYER,
    "application/vnd.wasm.content.layer.v1+wasm",
    "application/vnd.module.wasm.content.layer.v1+wasm",
];

/// Accepted types of the config beside such a layer. It is never read: the module's own bytes say what it imports. The
/// empty type and the image type are used with registries that do not know the Wasm type.
const CONFIGS: &[&str] = &[
    WASM_CONFIG,
    "application/vnd.wasm.config.v1+json",
    EMPTY,
    "application/vnd.oci.image.config.v1+json",
];

/// A descriptor in a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Descriptor {
    #[serde(default)]
    pub(super) media_type: String,
    pub(super) digest: String,
    pub(super) size: u64,
    #[serde(default)]
    pub(super) artifact_type: Option<String>,
    #[serde(default)]
    pub(super) annotations: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) platform: Option<Platform>,
}

/// Platform of a [`Descriptor`].
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Platform {
    #[serde(default)]
    pub(super) architecture: String,
    #[serde(default)]
    pub(super) os: String,
}

/// A manifest, or an index of manifests.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Manifest {
    pub(super) schema_version: u32,
    #[serde(default)]
    pub(super) media_type: Option<String>,
    #[serde(default)]
    pub(super) config: Option<Descriptor>,
    #[serde(default)]
    pub(super) layers: Option<Vec<Descriptor>>,
    #[serde(default)]
    pub(super) manifests: Option<Vec<Descriptor>>,
    #[serde(default)]
    pub(super) annotations: Option<BTreeMap<String, String>>,
}

/// The next content to fetch for a manifest.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Offer {
    /// The layer with the module.
    Layer(Descriptor),
    /// The manifest of the module.
    Manifest(Descriptor),
}

/// Parses a manifest, whose digest has been verified.
pub(super) fn read(bytes: &[u8]) -> Result<Manifest, RegistryError> {
    serde_json::from_slice(bytes).map_err(|error| {
        // Shows the position only: some error messages quote the text.
        let (line, column) = (error.line(), error.column());
        RegistryError::unusable(format!(
            "the manifest cannot be read (line {line}, column {column})"
        ))
    })
}

/// Selects the module. `content_type` is the type sent by the registry.
pub(super) fn offer(bytes: &[u8], content_type: &str) -> Result<Offer, RegistryError> {
    let manifest = read(bytes)?;
    let content_type = content_type.split(';').next().unwrap_or_default().trim();
    let named = manifest.media_type.as_deref();
    let kind = named.unwrap_or(content_type);
    // Prevents two readers from interpreting it differently (CVE-2021-41190).
    if [MANIFEST, INDEX].contains(&content_type) && kind != content_type {
        let why = format!(
            "the manifest is {}, and was sent as {content_type}",
            shown(kind)
        );
        // What it was sent as is no part of the content: another registry may send it under its own type.
        return Err(RegistryError::refused(why));
    }
    let offer = match (kind, &manifest.layers, &manifest.manifests) {
        (_, Some(_), Some(_)) => Err(RegistryError::unusable("the manifest is also an index")),
        (MANIFEST, Some(layers), None) => layer(&manifest, layers).map(Offer::Layer),
        (INDEX, None, Some(manifests)) => entry(manifests).map(Offer::Manifest),
        (MANIFEST | INDEX, _, _) => Err(RegistryError::unusable("the manifest holds no layers")),
        (other, _, _) => Err(RegistryError::unusable(format!(
            "what is there is {}, no OCI artifact with a Wasm module",
            shown(other)
        ))),
    };
    offer.map_err(|error| RegistryError {
        // The same goes for a manifest that does not name its type.
        is_lasting: error.is_lasting && named.is_some(),
        ..error
    })
}

fn layer(manifest: &Manifest, layers: &[Descriptor]) -> Result<Descriptor, RegistryError> {
    let [layer] = layers else {
        let why = format!(
            "the artifact has {} layers; a module is exactly one",
            layers.len()
        );
        return Err(RegistryError::unusable(why));
    };
    if !LAYERS.contains(&layer.media_type.as_str()) {
        let found = shown(&layer.media_type);
        return Err(RegistryError::unusable(format!(
            "its layer is {found}, not {WASM_LAYER}"
        )));
    }
    let config = manifest
        .config
        .as_ref()
        .map_or("", |config| &config.media_type);
    if !CONFIGS.contains(&config) {
        let found = shown(config);
        return Err(RegistryError::unusable(format!(
            "its configuration is {found}, not {WASM_CONFIG}"
        )));
    }
    check_digest(layer)?;
    if layer.size > MODULE_BYTES as u64 {
        let why = format!(
            "its layer has {} bytes; a module has at most {MODULE_BYTES}",
            layer.size
        );
        return Err(RegistryError::unusable(why));
    }
    Ok(layer.clone())
}

/// Selects the Wasm entry of an index; a single entry needs no platform.
fn entry(manifests: &[Descriptor]) -> Result<Descriptor, RegistryError> {
    // Attestations that builders add.
    let is_statement =
        |entry: &&Descriptor| entry.annotations.contains_key("vnd.docker.reference.type");
    let entries: Vec<_> = manifests
        .iter()
        .filter(|entry| !is_statement(entry))
        .collect();
    let is_wasm = |entry: &&&Descriptor| {
        let platform = entry.platform.as_ref();
        let kind = entry.artifact_type.as_deref();
        platform.is_some_and(|platform| platform.architecture == "wasm")
            || kind.is_some_and(|kind| kind == WASM_CONFIG || LAYERS.contains(&kind))
    };
    let wasm: Vec<_> = entries.iter().filter(is_wasm).collect();
    let found = match (wasm.as_slice(), entries.as_slice()) {
        ([one], _) => one,
        ([], [one]) => one,
        _ => {
            let why = format!(
                "the index has {} entries, {} of them for Wasm; exactly one is needed",
                entries.len(),
                wasm.len()
            );
            return Err(RegistryError::unusable(why));
        }
    };
    if found.media_type != MANIFEST {
        let kind = shown(&found.media_type);
        return Err(RegistryError::unusable(format!(
            "the entry of the index is {kind}, not {MANIFEST}"
        )));
    }
    check_digest(found)?;
    Ok((*found).clone())
}

fn check_digest(descriptor: &Descriptor) -> Result<(), RegistryError> {
    match Digest::parse(&descriptor.digest) {
        Some(_) => Ok(()),
        None => Err(RegistryError::unusable(
            "the manifest names a digest that is no SHA-256",
        )),
    }
}
