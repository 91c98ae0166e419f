//! The wasmtime engine: which proposals it accepts and how guests are interrupted. It compiles nothing by itself; see
//! `compile`.

use std::num::NonZeroUsize;

use wasmtime::{Config, Engine, WasmBacktraceDetails};

use crate::limits;

/// Makes the engine. The host has one per process, the compile child another one with the same settings:
/// compiled code is only accepted between equal settings.
pub(crate) fn new() -> wasmtime::Result<Engine> {
    Engine::new(&config())
}

fn config() -> Config {
    let mut config = Config::new();
    config
        // The contract has no async functions; without them calls are four times as cheap and less can go wrong.
        .concurrency_support(false)
        .epoch_interruption(true)
        .max_wasm_stack(limits::WASM_STACK_BYTES)
        .async_stack_size(limits::CALL_STACK_BYTES)
        // No guest toolchain needs these. Threads, GC and exceptions are not even compiled in. Memories beyond the
        // first are refused by the pre-scan: wasmtime's own adapters need the proposal.
        .wasm_memory64(false)
        .wasm_tail_call(false)
        .wasm_relaxed_simd(false)
        .wasm_backtrace_max_frames(NonZeroUsize::new(limits::FRAMES))
        // Function names are enough; debugging information of an unknown author is not parsed in this process.
        .wasm_backtrace_details(WasmBacktraceDetails::Disable);
    config
}
