#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use bytes::Bytes;
use ccm_host::Digest;
use serde_json::{Value, json};

use super::super::Parcel;
use super::{Layout, index, of, with};
use crate::source::oci::{MANIFEST, describe};

fn layout(created: Option<u64>, author: Option<&str>) -> Layout {
    let wasm = embedded_guests::HCLOUD;
    let inspection = ccm_host::inspect("hcloud.wasm", wasm).unwrap();
    of(&Parcel {
        wasm: Bytes::from_static(wasm),
        inspection: &inspection,
        created,
        author: author.map(str::to_owned),
    })
}

fn value(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

#[test]
fn a_module_is_laid_out_as_the_cncf_has_it() {
    let wasm = embedded_guests::HCLOUD;
    let layout = layout(Some(1_767_323_045), Some("Somebody"));
    let config = value(&layout.config);
    let layer = Digest::of(wasm).to_string();
    let inspection = ccm_host::inspect("hcloud.wasm", wasm).unwrap();
    assert_eq!(
        config,
        json!({
            "created": "2026-01-02T03:04:05Z",
            "author": "Somebody",
            "architecture": "wasm",
            "os": "wasip2",
            "layerDigests": [layer],
            "component": {"imports": inspection.imports, "exports": inspection.exports, "target": null},
        })
    );
    assert!(
        inspection
            .exports
            .iter()
            .any(|name| name.starts_with("ccm:provider/instances@"))
    );
    assert_eq!(
        value(&layout.manifest),
        json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": {
                "mediaType": "application/vnd.wasm.config.v0+json",
                "digest": Digest::of(&layout.config).to_string(),
                "size": layout.config.len(),
            },
            "layers": [{"mediaType": "application/wasm", "digest": layer, "size": wasm.len()}],
            "annotations": {
                "org.opencontainers.image.created": "2026-01-02T03:04:05Z",
                "org.opencontainers.image.title": "hcloud",
                "org.opencontainers.image.version": inspection.manifest.version,
            },
        })
    );
}

#[test]
fn the_same_module_has_the_same_digest_and_no_time_of_its_own() {
    let (one, two) = (layout(None, None), layout(None, None));
    assert_eq!((&one.config, &one.manifest), (&two.config, &two.manifest));
    assert_eq!(value(&one.config)["created"], "1970-01-01T00:00:00Z");
    assert_eq!(value(&one.config).get("author"), None);
    assert_ne!(one.manifest, layout(Some(1), None).manifest);
    // No calendar has it.
    assert_eq!(
        value(&layout(Some(u64::MAX), None).config)["created"],
        "1970-01-01T00:00:00Z"
    );
}

#[test]
fn an_index_keeps_what_is_there_and_holds_an_entry_once() {
    let (one, two) = (describe(MANIFEST, b"1"), describe(MANIFEST, b"2"));
    let entries = with(
        with(vec![one.clone(), two.clone()], one.clone()),
        one.clone(),
    );
    assert_eq!(entries, [two, one.clone()]);
    let text = json!({"schemaVersion": 2, "manifests": [one]}).to_string();
    assert_eq!(index(text.as_bytes()).unwrap(), [one]);
    assert!(index(b"{\"schemaVersion\": 2, \"layers\": []}").is_err());
    assert!(index(b"?").is_err());
}
