//! The artifact of a module: a manifest, a configuration that says what it imports and exports, and one layer that is
//! the component. Plain text from plain values: the same ones give the same bytes.

use std::collections::BTreeMap;

use ccm_host::Inspection;
use serde::Serialize;

use super::Parcel;
use crate::source::oci::{
    Descriptor, MANIFEST, Manifest, Trouble, WASM_CONFIG, WASM_LAYER, describe,
};

/// The two texts that go with the layer.
pub(super) struct Layout {
    pub(super) config: Vec<u8>,
    pub(super) manifest: Vec<u8>,
}

/// The configuration of the CNCF's layout. Readers of it want `created`: without a time it is that of the epoch.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Config<'a> {
    created: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    author: Option<&'a str>,
    architecture: &'static str,
    os: &'static str,
    layer_digests: [String; 1],
    component: Component<'a>,
}

#[derive(Serialize)]
struct Component<'a> {
    exports: &'a [String],
    imports: &'a [String],
    /// The world that it was built for, which a component does not say.
    target: Option<&'a str>,
}

pub(super) fn of(parcel: &Parcel<'_>) -> Layout {
    let layer = describe(WASM_LAYER, &parcel.wasm);
    let Inspection {
        manifest,
        imports,
        exports,
        ..
    } = parcel.inspection;
    let config = json(&Config {
        created: time(parcel.created.unwrap_or_default()),
        author: parcel.author.as_deref(),
        architecture: "wasm",
        // Whatever it was compiled for: components are of this kind.
        os: "wasip2",
        layer_digests: [layer.digest.clone()],
        component: Component {
            exports,
            imports,
            target: None,
        },
    });
    let mut annotations = BTreeMap::from([
        (
            "org.opencontainers.image.title".to_owned(),
            manifest.name.clone(),
        ),
        (
            "org.opencontainers.image.version".to_owned(),
            manifest.version.clone(),
        ),
    ]);
    if let Some(created) = parcel.created {
        annotations.insert("org.opencontainers.image.created".to_owned(), time(created));
    }
    let manifest = json(&Manifest {
        schema_version: 2,
        media_type: Some(MANIFEST.to_owned()),
        artifact_type: None,
        config: Some(describe(WASM_CONFIG, &config)),
        layers: Some(vec![layer]),
        manifests: None,
        subject: None,
        annotations,
    });
    Layout { config, manifest }
}

/// RFC 3339; times that no calendar holds are the epoch's.
fn time(seconds: u64) -> String {
    let seconds = i64::try_from(seconds).unwrap_or_default();
    jiff::Timestamp::from_second(seconds)
        .unwrap_or_default()
        .to_string()
}

/// Values of ours, with texts as keys, always have a JSON form.
pub(super) fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}

/// The entries of an index that is there.
pub(super) fn index(bytes: &[u8]) -> Result<Vec<Descriptor>, Trouble> {
    let index: Manifest = serde_json::from_slice(bytes)
        .map_err(|_| Trouble::refused("the index of what refers to the artifact cannot be read"))?;
    index.manifests.ok_or_else(|| {
        Trouble::refused("the tag for what refers to the artifact holds something else")
    })
}

/// The entries with one more at the end; it is there once.
pub(super) fn with(before: Vec<Descriptor>, entry: Descriptor) -> Vec<Descriptor> {
    let mut entries = before;
    entries.retain(|other| other.digest != entry.digest);
    entries.push(entry);
    entries
}

#[cfg(test)]
mod tests;
