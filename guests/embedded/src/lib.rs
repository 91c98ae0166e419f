//! The shipped providers as components, compiled by the build script from the sources beside this crate. Bytes and
//! names only: what a provider may reach is said by its manifest and granted elsewhere.

#![forbid(unsafe_code)]

/// A shipped provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EmbeddedGuest {
    /// The name in its manifest, and what `--cloud-provider` selects it by.
    pub name: &'static str,
    /// The component.
    pub wasm: &'static [u8],
}

/// Hetzner Cloud.
pub const HCLOUD: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/guest-hcloud.wasm"));

/// Every shipped provider.
pub fn all() -> [EmbeddedGuest; 1] {
    [EmbeddedGuest {
        name: "hcloud",
        wasm: HCLOUD,
    }]
}
