//! From what a source brought to the bytes of a module: plain or gzip, told by their first bytes. The input is
//! untrusted: nothing larger than a module is ever made of it, and nothing that is not WebAssembly is handed on.

use std::io::{self, Read};
use std::sync::Arc;

use ccm_host::Digest;
use flate2::read::MultiGzDecoder;
use thiserror::Error;

use super::SourceError;
use crate::artifact::{Artifact, Evidence, MODULE_BYTES};

/// What WebAssembly begins with, modules and components.
const WASM: &[u8] = b"\0asm";
const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
/// A compiled module of wasmtime is an ELF file.
const ELF: &[u8] = b"\x7fELF";

/// How much is taken from a decoder at once, in bytes.
const PIECE: usize = 64 << 10;
/// So much larger than what was read may come out; modules of all toolchains shrink to a tenth at most. Below
/// [`RATIO_FROM`] nothing is said.
const RATIO: usize = 100;
/// Small files may be as empty as they like, in bytes.
const RATIO_FROM: usize = 1 << 20;

/// Why there is no module in what was brought. For people; shows nothing of the content.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NoModule {
    /// Zero bytes.
    #[error("it is empty")]
    Empty,
    /// More than a module may have.
    #[error("it has more than {} MiB, the most that a module may have", MODULE_BYTES >> 20)]
    TooLarge,
    /// A bomb, or no module at any rate.
    #[error("it unpacks to more than {RATIO} times its size, which no module does")]
    TooDense,
    /// Half written, or damaged.
    #[error("it cannot be unpacked as gzip: {why}")]
    Broken {
        /// Why, for people.
        why: String,
    },
    /// Another packing, which people know from images. One decoder for what is untrusted is enough.
    #[error("it is packed with zstd, which is not read here: pack it with gzip, or not at all")]
    Zstd,
    /// Machine code.
    #[error("it is compiled code; modules are WebAssembly, and are compiled here")]
    Compiled,
    /// Anything else.
    #[error("it is not WebAssembly (plain, or packed with gzip)")]
    Foreign,
}

/// The module in `bytes`.
///
/// # Errors
/// There is none.
pub fn unpack(bytes: Vec<u8>) -> Result<Vec<u8>, NoModule> {
    let wasm = if bytes.starts_with(GZIP) {
        read_capped(MultiGzDecoder::new(&*bytes), bytes.len())?
    } else {
        bytes
    };
    check(&wasm)?;
    Ok(wasm)
}

/// An artifact of what `place` offered, with the evidence that lay beside it.
///
/// # Errors
/// There is no module in it.
pub fn artifact(
    place: &str,
    bytes: Vec<u8>,
    evidence: Vec<Evidence>,
) -> Result<Artifact, SourceError> {
    let wasm: Arc<[u8]> = match unpack(bytes) {
        Ok(wasm) => wasm.into(),
        Err(NoModule::Empty) => return Err(SourceError::absent(place, "it is empty")),
        Err(reason) => return Err(SourceError::refused(place, reason.to_string())),
    };
    Ok(Artifact {
        digest: Digest::of(&wasm),
        wasm,
        origin: place.to_owned(),
        manifest_digest: None,
        is_pinned: false,
        evidence,
    })
}

fn check(wasm: &[u8]) -> Result<(), NoModule> {
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

/// Everything that comes out, as long as it can be a module.
fn read_capped(mut source: impl Read, packed: usize) -> Result<Vec<u8>, NoModule> {
    let mut all = Vec::new();
    let mut piece = vec![0; PIECE];
    loop {
        let count = match source.read(&mut piece) {
            Ok(0) => return Ok(all),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => {
                return Err(NoModule::Broken {
                    why: error.to_string(),
                });
            }
        };
        let total = all.len() + count;
        if total > MODULE_BYTES {
            return Err(NoModule::TooLarge);
        }
        if total > RATIO_FROM && total > packed.saturating_mul(RATIO) {
            return Err(NoModule::TooDense);
        }
        all.extend_from_slice(piece.get(..count).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests;
