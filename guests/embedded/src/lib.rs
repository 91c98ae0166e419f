//! The shipped providers as components, compiled by the build script from the sources beside this crate. Bytes and
//! names only: a provider's manifest and its grants say what it may reach.

#![forbid(unsafe_code)]

/// A shipped provider that this build embeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EmbeddedGuest {
    /// The name in its manifest, by which `--cloud-provider` selects it.
    pub name: &'static str,
    /// The component's bytes.
    pub wasm: &'static [u8],
}

/// Names of all shipped providers, embedded or not; the features have the same.
pub const SHIPPED: &[&str] = &["aws", "digitalocean", "hcloud", "proxmox", "static"];

/// The component for Amazon Web Services.
#[cfg(feature = "aws")]
pub const AWS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/guest-aws.wasm"));

/// The component for DigitalOcean.
#[cfg(feature = "digitalocean")]
pub const DIGITALOCEAN: &[u8] =
    include_bytes!(concat!(env!("OUT_DIR"), "/guest-digitalocean.wasm"));

/// The component for Hetzner Cloud.
#[cfg(feature = "hcloud")]
pub const HCLOUD: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/guest-hcloud.wasm"));

/// The component for Proxmox VE.
#[cfg(feature = "proxmox")]
pub const PROXMOX: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/guest-proxmox.wasm"));

/// The component for machines without a cloud.
#[cfg(feature = "static")]
pub const STATIC: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/guest-static.wasm"));

/// Every provider that this build embeds, in the order of the names.
pub const ALL: &[EmbeddedGuest] = &[
    #[cfg(feature = "aws")]
    EmbeddedGuest {
        name: "aws",
        wasm: AWS,
    },
    #[cfg(feature = "digitalocean")]
    EmbeddedGuest {
        name: "digitalocean",
        wasm: DIGITALOCEAN,
    },
    #[cfg(feature = "hcloud")]
    EmbeddedGuest {
        name: "hcloud",
        wasm: HCLOUD,
    },
    #[cfg(feature = "proxmox")]
    EmbeddedGuest {
        name: "proxmox",
        wasm: PROXMOX,
    },
    #[cfg(feature = "static")]
    EmbeddedGuest {
        name: "static",
        wasm: STATIC,
    },
];
