//! The guests that only tests use, as components, compiled by the build script from the sources beside this crate. No
//! shipped binary may depend on this crate.

#![forbid(unsafe_code)]

/// The guest whose configuration key `behaviour` says how it misbehaves; the words are listed in
/// `guest_misbehaving::behaviour`.
pub const MISBEHAVING: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/guest-misbehaving.wasm"));
