//! Converts the content of a source to a module: plain or gzip, detected by the first bytes. The input is untrusted:
//! the output never exceeds the size limit of a module, and only WebAssembly is returned.

use std::io::Read;

use flate2::read::MultiGzDecoder;
use thiserror::Error;

use super::SourceError;
use crate::artifact::{Artifact, MODULE_BYTES, SignatureEvidence};

/// Magic bytes of WebAssembly modules and components.
const WASM: &[u8] = b"\0asm";
pub(super) const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
/// wasmtime's compiled modules are ELF files.
const ELF: &[u8] = b"\x7fELF";

/// Maximum ratio of unpacked to packed size; modules of all toolchains shrink to a tenth at most. Not checked below
/// [`RATIO_FROM`].
const RATIO: usize = 100;
/// Unpacked size, in bytes, up to which the ratio is not checked.
const RATIO_FROM: usize = 1 << 20;

/// Why the content is not a module. For people; shows nothing of the content.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NoModule {
    /// Zero bytes.
    #[error("it is empty")]
    Empty,
    /// Larger than a module may be.
    #[error("it has more than {} MiB, the most that a module may have", MODULE_BYTES >> 20)]
    TooLarge,
    /// A decompression bomb, or at least not a module.
    #[error("it unpacks to more than {RATIO} times its size, which no module does")]
    TooDense,
    /// Incomplete or damaged gzip data.
    #[error("it cannot be unpacked as gzip: {why}")]
    Broken {
        /// The reason, for people.
        why: String,
    },
    /// zstd, known from images, is not supported: one decoder for untrusted input is enough.
    #[error("it is packed with zstd, which is not read here: pack it with gzip, or not at all")]
    Zstd,
    /// Compiled machine code.
    #[error("it is compiled code; modules are WebAssembly, and are compiled here")]
    Compiled,
    /// Any other content.
    #[error("it is not WebAssembly (plain, or packed with gzip)")]
    Foreign,
}

/// Returns the module in `bytes`.
///
/// # Errors
/// They hold no module.
pub fn unpack(bytes: Vec<u8>) -> Result<Vec<u8>, NoModule> {
    let wasm = if bytes.starts_with(GZIP) {
        read_capped(MultiGzDecoder::new(&*bytes), bytes.len())?
    } else {
        bytes
    };
    check(&wasm)?;
    Ok(wasm)
}

/// Builds an artifact from the content of `place` and its evidence.
///
/// # Errors
/// The content holds no module.
pub fn artifact(
    place: &str,
    bytes: Vec<u8>,
    evidence: Vec<SignatureEvidence>,
) -> Result<Artifact, SourceError> {
    let wasm = match unpack(bytes) {
        Ok(wasm) => wasm,
        Err(NoModule::Empty) => return Err(SourceError::absent(place, "it is empty")),
        Err(reason) => return Err(SourceError::refused(place, reason.to_string())),
    };
    Ok(Artifact {
        evidence,
        ..Artifact::new(place, wasm)
    })
}

/// Checks unpacked content.
pub(super) fn check(wasm: &[u8]) -> Result<(), NoModule> {
    if wasm.is_empty() {
        Err(NoModule::Empty)
    } else if wasm.len() > MODULE_BYTES {
        Err(NoModule::TooLarge)
    } else if wasm.starts_with(ZSTD) {
        Err(NoModule::Zstd)
    } else if wasm.starts_with(ELF) {
        Err(NoModule::Compiled)
    } else if wasm.starts_with(WASM) {
        Ok(())
    } else {
        Err(NoModule::Foreign)
    }
}

/// Reads the decoder's output, up to the size and ratio limits.
fn read_capped(source: impl Read, packed: usize) -> Result<Vec<u8>, NoModule> {
    let dense = RATIO_FROM.max(packed.saturating_mul(RATIO));
    let most = dense.min(MODULE_BYTES);
    let mut all = Vec::new();
    let read = source.take(most as u64 + 1).read_to_end(&mut all);
    read.map_err(|error| NoModule::Broken {
        why: error.to_string(),
    })?;
    match all.len() <= most {
        true => Ok(all),
        false if dense < MODULE_BYTES => Err(NoModule::TooDense),
        false => Err(NoModule::TooLarge),
    }
}

#[cfg(test)]
mod tests;
