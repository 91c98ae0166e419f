//! Configuration of the wasmtime engine: accepted proposals and interruption of guests. Compiles nothing by itself;
//! see `compile`.

use std::num::NonZeroUsize;

use wasmtime::{Config, Engine, WasmBacktraceDetails};

use crate::limits;

/// Creates the engine. The host has one per process, the compile child another one with the same settings: compiled
/// code is only accepted between equal settings.
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
        // No guest toolchain needs these. Threads, GC and exceptions are not even compiled in. The pre-scan refuses
        // more than one memory: wasmtime's own adapters need the proposal.
        .wasm_memory64(false)
        .wasm_tail_call(false)
        .wasm_relaxed_simd(false)
        .wasm_backtrace_max_frames(NonZeroUsize::new(limits::FRAMES))
        // Function names are enough; this process parses no debugging information from untrusted modules.
        .wasm_backtrace_details(WasmBacktraceDetails::Disable);
    config
}
