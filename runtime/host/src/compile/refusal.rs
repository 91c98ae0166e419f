//! Reasons why the pre-scan refuses a file.

use thiserror::Error;
use wasmparser::BinaryReaderError;

use crate::sanitize::clean;

/// Maximum length of a decoder message, in bytes.
const MESSAGE_BYTES: usize = 200;

/// Why a file is not compiled. Offsets are in bytes from the beginning of the file.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ModuleRefusal {
    /// The file is empty.
    #[error("the file is empty")]
    Empty,
    /// The file is not WebAssembly.
    #[error("the file is not WebAssembly: it does not begin with the bytes 00 61 73 6d")]
    NotWasm,
    /// The file is a core module, not a component.
    #[error(
        "the file is a core module, not a component; build it for wasm32-wasip2, or turn it into a component with `wasm-tools component new`"
    )]
    NotAComponent,
    /// The file is output of wasmtime's compiler.
    #[error(
        "the file is compiled code, not WebAssembly; only code that this host compiled itself is run"
    )]
    Precompiled,
    /// The file is truncated or damaged.
    #[error("the file is damaged at offset {offset}: {message}")]
    Damaged {
        /// Position of the error.
        offset: usize,
        /// Message of the decoder.
        message: String,
    },
    /// The module exceeds a limit.
    #[error("{what} at offset {offset}: {found}, at most {limit} allowed")]
    TooMuch {
        /// The limited quantity, as a noun.
        what: &'static str,
        /// Position where the limit was exceeded.
        offset: usize,
        /// Value of the quantity in the file.
        found: u64,
        /// Value of the limit.
        limit: u64,
    },
    /// The module uses a disabled WebAssembly proposal.
    #[error("{what} at offset {offset}: not allowed")]
    Feature {
        /// Name of the proposal.
        what: &'static str,
        /// Position of its use.
        offset: usize,
    },
}

impl From<BinaryReaderError> for ModuleRefusal {
    fn from(error: BinaryReaderError) -> ModuleRefusal {
        ModuleRefusal::Damaged {
            offset: error.offset(),
            message: clean(error.message(), MESSAGE_BYTES),
        }
    }
}
