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

/// Names of all shipped providers, embedded or not; the features have the same.
pub const SHIPPED: &[&str] = &["aws", "digitalocean", "hcloud", "proxmox", "static"];

/// Amazon Web Services.
#[cfg(feature = "aws")]
pub const AWS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/guest-aws.wasm"));

/// DigitalOcean.
#[cfg(feature = "digitalocean")]
pub const DIGITALOCEAN: &[u8] =
    include_bytes!(concat!(env!("OUT_DIR"), "/guest-digitalocean.wasm"));

/// Hetzner Cloud.
#[cfg(feature = "hcloud")]
pub const HCLOUD: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/guest-hcloud.wasm"));

/// Proxmox VE.
#[cfg(feature = "proxmox")]
pub const PROXMOX: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/guest-proxmox.wasm"));

/// Machines without a cloud.
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
