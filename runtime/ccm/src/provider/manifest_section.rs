//! Adds or removes the manifest section at a component's top level. Does not check its content.

use anyhow::{Context as _, bail};
use wasm_encoder::{ComponentSection as _, CustomSection};
use wasmparser::BinaryReader;

/// Name of the custom section, as the host reads it.
const MANIFEST: &str = "ccm:manifest";
/// Header of components: the magic bytes, and the component model's version and layer.
const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";
/// Header of core modules.
const CORE_MODULE: &[u8] = b"\0asm\x01\0\0\0";
/// ID of custom sections.
const CUSTOM: u8 = 0;

/// Adds the manifest at the component's top level. An existing one is replaced with `replace`, and otherwise an error.
/// Manifests in inner core modules are ignored.
///
/// # Errors
/// It is not a component, is damaged, or already has a manifest.
pub(super) fn with_manifest(
    component: &[u8],
    manifest: &[u8],
    replace: bool,
) -> anyhow::Result<Vec<u8>> {
    if component.starts_with(CORE_MODULE) {
        bail!(
            "this is a core module, not a component: build for wasm32-wasip2, or use `wasm-tools component new`"
        );
    }
    if !component.starts_with(COMPONENT) {
        bail!("this is not a WebAssembly component");
    }
    let mut packed = Vec::with_capacity(component.len() + manifest.len() + 32);
    packed.extend_from_slice(COMPONENT);
    let mut rest = BinaryReader::new(&component[COMPONENT.len()..], COMPONENT.len());
    while !rest.eof() {
        let start = rest.original_position();
        let is_manifest = is_manifest(&mut rest).context("the component is damaged")?;
        if !is_manifest {
            packed.extend_from_slice(&component[start..rest.original_position()]);
        } else if !replace {
            bail!("the component has a manifest at its top level already: --replace takes it away");
        }
    }
    let section = CustomSection {
        name: MANIFEST.into(),
        data: manifest.into(),
    };
    section.append_to_component(&mut packed);
    Ok(packed)
}

/// Reads one section; returns whether it is a manifest.
fn is_manifest(rest: &mut BinaryReader<'_>) -> wasmparser::Result<bool> {
    let kind = rest.read_u8()?;
    let mut body = rest.read_reader()?;
    Ok(kind == CUSTOM && body.read_string()? == MANIFEST)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::with_manifest;

    /// An empty component.
    const EMPTY: &[u8] = b"\0asm\x0d\0\x01\0";
    /// A custom section `note` with one byte.
    const NOTE: &[u8] = b"\0\x06\x04note!";

    #[test]
    fn a_manifest_is_put_behind_everything_else() {
        let component = [EMPTY, NOTE].concat();
        let packed = with_manifest(&component, b"{}", false).unwrap();
        let expected = [&component, &b"\0\x0f\x0cccm:manifest{}"[..]].concat();
        assert_eq!(packed, expected);
    }

    #[test]
    fn a_second_one_takes_the_place_of_the_first_when_it_is_told_to() {
        let once = with_manifest(&[EMPTY, NOTE].concat(), b"{}", false).unwrap();
        let refused = with_manifest(&once, b"[]", false).unwrap_err().to_string();
        assert!(refused.contains("--replace"), "{refused}");
        let twice = with_manifest(&[&once, NOTE].concat(), b"[]", true).unwrap();
        let expected = [EMPTY, NOTE, NOTE, b"\0\x0f\x0cccm:manifest[]"].concat();
        assert_eq!(twice, expected);
    }

    #[test]
    fn what_is_no_whole_component_is_refused() {
        let whole = [EMPTY, NOTE].concat();
        for (bytes, reason) in [
            (&b""[..], "not a WebAssembly component"),
            (b"\x7fELF", "not a WebAssembly component"),
            (b"\0asm\x01\0\0\0", "a core module"),
            (&whole[..whole.len() - 1], "damaged"),
            (&whole[..EMPTY.len() + 1], "damaged"),
            (b"\0asm\x0d\0\x01\0\0\xff\xff\xff\xff\xff\xff", "damaged"),
            // A name longer than its section.
            (b"\0asm\x0d\0\x01\0\0\x02\x7fx", "damaged"),
        ] {
            let refused = with_manifest(bytes, b"{}", true).unwrap_err().to_string();
            assert!(refused.contains(reason), "{bytes:?}: {refused}");
        }
    }
}
