//! From what a source brought to the bytes of a module: plain, gzip or zstd, told by their first bytes. The input is
//! untrusted: nothing larger than a module is ever made of it, and nothing that is not WebAssembly is handed on.

use std::io::{self, Read};
use std::sync::Arc;

use ccm_host::Digest;
use flate2::read::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};
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
    #[error("it cannot be unpacked as {format}: {why}")]
    Broken {
        /// `gzip` or `zstd`.
        format: &'static str,
        /// Why, for people.
        why: String,
    },
    /// Machine code.
    #[error("it is compiled code; modules are WebAssembly, and are compiled here")]
    Compiled,
    /// Anything else.
    #[error("it is not WebAssembly (plain, or packed with gzip or zstd)")]
    Foreign,
}

/// The module in `bytes`.
///
/// # Errors
/// There is none.
pub fn unpack(bytes: Vec<u8>) -> Result<Vec<u8>, NoModule> {
    let wasm = if bytes.starts_with(GZIP) {
        let mut all = Vec::new();
        read_capped(MultiGzDecoder::new(&*bytes), bytes.len(), &mut all, "gzip")?;
        all
    } else if bytes.starts_with(ZSTD) {
        unpack_zstd(&bytes)?
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
    } else if wasm.starts_with(ELF) {
        Err(NoModule::Compiled)
    } else if wasm.starts_with(WASM) {
        Ok(())
    } else {
        Err(NoModule::Foreign)
    }
}

/// All frames, one after the other, as `zstd` itself reads them. A window larger than the largest module is refused
/// before it is allocated.
fn unpack_zstd(bytes: &[u8]) -> Result<Vec<u8>, NoModule> {
    let broken = |why: String| NoModule::Broken {
        format: "zstd",
        why,
    };
    let (mut rest, mut all) = (bytes, Vec::new());
    let mut decoder = FrameDecoder::new();
    decoder.set_max_window_size(MODULE_BYTES as u64);
    while !rest.is_empty() {
        match StreamingDecoder::new_with_decoder(&mut rest, &mut decoder) {
            Ok(frame) => read_capped(frame, bytes.len(), &mut all, "zstd")?,
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                length,
                ..
            })) => {
                let length = usize::try_from(length).unwrap_or(usize::MAX);
                rest = rest
                    .get(length..)
                    .ok_or_else(|| broken("it ends too early".to_owned()))?;
            }
            Err(error) => return Err(broken(error.to_string())),
        }
    }
    Ok(all)
}

/// Appends everything that comes out to `all`, as long as it can be a module.
fn read_capped(
    mut source: impl Read,
    packed: usize,
    all: &mut Vec<u8>,
    format: &'static str,
) -> Result<(), NoModule> {
    let mut piece = vec![0; PIECE];
    loop {
        let count = match source.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => {
                return Err(NoModule::Broken {
                    format,
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
