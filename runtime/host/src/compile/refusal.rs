//! Why the pre-scan refuses a file. Only the reasons; the pre-scan finds them.

use thiserror::Error;
use wasmparser::BinaryReaderError;

use crate::sanitize::clean;

/// What the decoder says is cut at this length.
const MESSAGE_BYTES: usize = 200;

/// Why a file is not compiled. Offsets are in bytes from the beginning of the file.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Refusal {
    /// Nothing there.
    #[error("the file is empty")]
    Empty,
    /// Some other kind of file.
    #[error("the file is not WebAssembly: it does not begin with the bytes 00 61 73 6d")]
    NotWasm,
    /// A core module.
    #[error(
        "the file is a core module, not a component; build it for wasm32-wasip2, or turn it into a component with `wasm-tools component new`"
    )]
    NotAComponent,
    /// Output of wasmtime's compiler.
    #[error(
        "the file is compiled code, not WebAssembly; only code that this host compiled itself is run"
    )]
    Precompiled,
    /// Truncated or damaged.
    #[error("the file is damaged at offset {offset}: {message}")]
    Damaged {
        /// Where.
        offset: usize,
        /// What the decoder says.
        message: String,
    },
    /// More than a limit.
    #[error("{what} at offset {offset}: {found}, at most {limit} allowed")]
    TooMuch {
        /// What there is too much of.
        what: &'static str,
        /// Where the limit was passed.
        offset: usize,
        /// How much.
        found: u64,
        /// The limit.
        limit: u64,
    },
    /// A proposal that is switched off.
    #[error("{what} at offset {offset}: not allowed")]
    Feature {
        /// The proposal.
        what: &'static str,
        /// Where it is used.
        offset: usize,
    },
}

impl From<BinaryReaderError> for Refusal {
    fn from(error: BinaryReaderError) -> Refusal {
        Refusal::Damaged {
            offset: error.offset(),
            message: clean(error.message(), MESSAGE_BYTES),
        }
    }
}
