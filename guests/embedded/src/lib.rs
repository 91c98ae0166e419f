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
#[cfg(feature = "hcloud")]
pub const HCLOUD: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/guest-hcloud.wasm"));

/// Every provider that this build embeds, in the order of the names.
pub const ALL: &[EmbeddedGuest] = &[
    #[cfg(feature = "hcloud")]
    EmbeddedGuest {
        name: "hcloud",
        wasm: HCLOUD,
    },
];
