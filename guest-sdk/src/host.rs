//! The host functions: the real host on Wasm, the scripted host of `testing` elsewhere.

#[cfg(target_arch = "wasm32")]
pub(crate) use crate::bindings::host::ccm::provider::{clock, http, log, random, state};

#[cfg(not(target_arch = "wasm32"))]
pub(crate) use crate::testing::host::{clock, http, log, random, state};
