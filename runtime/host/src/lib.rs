//! WebAssembly host: loads provider components into a sandbox with one guarded egress. Knows no Kubernetes type;
//! implements core's `CloudProvider`.
//!
//! What a module can and cannot do:
//!
//! - It is scanned before it is compiled ([`inspect`]), compiled in a child process with its own limits
//!   ([`compile_child`]), and linked only to interfaces of a fixed list.
//! - Each call has a fresh store with a memory limiter, a deadline, a CPU budget and limits on everything the host
//!   keeps for it (`limits`); every failure of a guest ends in a `ProviderError`.
//! - It has no files, environment, arguments or sockets. Requests leave through [`egress`] only, to granted targets,
//!   with the call's permit; credentials are added there and never seen by the guest.
//!
//! Guests run on threads of this process, or in a confined child process: see `sandbox` and `confine`.
//!
//! Reading order: `host` (the steps of loading), `component` and `compile` (before anything runs), `call` and `sandbox`
//! (one call), `v0_2` (the contract's types) and `v0_1` (older guests), `host_functions` and `wasi` (functions that
//! guests can call), [`manifest`], [`grant`], [`egress`].
#![deny(unsafe_code)]

pub mod confine;
pub mod egress;
pub mod grant;
pub mod limits;
pub mod manifest;

mod bindings;
mod call;
mod compile;
mod component;
mod digest;
mod engine;
mod epoch_ticker;
#[cfg(test)]
mod fixtures;
mod function_types;
mod guest_config;
mod guest_egress;
mod guest_log;
mod guest_state;
mod host;
mod host_functions;
mod interceptor;
mod load_error;
mod load_options;
mod memory_budget;
mod memory_limiter;
mod private_folder;
mod provider;
mod sandbox;
mod sanitize;
mod store_data;
mod v0_1;
mod v0_2;
mod wasi;

pub use compile::cache::CacheError;
pub use compile::child::compile_child;
pub use compile::refusal::ModuleRefusal;
pub use compile::{CompileError, Compiler};
pub use component::{CONTRACT_PACKAGE, CONTRACT_VERSION, Inspection, inspect};
pub use digest::{Digest, short_digest};
pub use guest_config::GuestConfig;
pub use host::{Host, HostError, HostOptions, Module};
pub use interceptor::{CallUsage, InjectedFault, Interceptor};
pub use load_error::{LoadError, LoadErrorKind};
pub use load_options::{CallLimits, LimitsGranted, Loading};
pub use private_folder::{FolderError, check_ownership};
pub use provider::Provider;
pub use sandbox::{Isolation, SandboxProgram, sandbox_child};
pub use sanitize::{clean, list_first};
