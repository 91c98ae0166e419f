//! Write a Kubernetes cloud provider as a WebAssembly component.
//!
//! A provider is a type. [`Provider`] reads the configuration; each of [`Instances`], [`LoadBalancer`],
//! [`Routes`] and [`SelfCheck`] is one interface of the contract, and [`export_provider!`] exports exactly those
//! that it names. The host creates a fresh guest instance for every call and drops it afterwards: nothing that a
//! provider keeps in memory survives, and nothing it breaks lasts. What has to outlive a call goes into [`state`].
//!
//! The way out is [`http`]: a *target* that the manifest names and the operator grants, never a URL, and never a
//! credential: the host adds it.
//!
//! Off Wasm the host is replaced by the scripted one in `testing`, so that a provider is tested by plain
//! `cargo test`.
//!
//! This crate never decides for a provider: it converts, sends and reports.

#[allow(
    missing_docs,
    unsafe_code,
    unreachable_pub,
    unused_qualifications,
    elided_lifetimes_in_paths,
    clippy::allow_attributes_without_reason,
    clippy::unwrap_used,
    reason = "generated: the documentation is in wit/, and lifting and lowering need unsafe code"
)]
#[doc(hidden)]
pub mod bindings;

pub mod clock;
pub mod config;
mod error;
#[doc(hidden)]
pub mod export;
mod host;
pub mod http;
mod instances;
pub mod load_balancer;
pub mod log;
pub mod random;
pub mod routes;
mod self_check;
pub mod state;
#[cfg(not(target_arch = "wasm32"))]
pub mod testing;

pub use bindings::host::ccm::provider::common::{
    Address, AddressType, AnnotationChange, Conflict, Error, Event, EventType, Ingress, Instance,
    IpFamily, IpMode, LoadBalancerStatus, Node, Pending, PortStatus, Protocol, Throttled,
};
pub use bindings::lifecycle::exports::ccm::provider::lifecycle::Capability;
pub use config::Config;
pub use instances::{FindReply, Instances, Lookup, NodeEvent, Readiness};
pub use load_balancer::LoadBalancer;
pub use routes::Routes;
pub use self_check::SelfCheck;

/// A cloud provider. Everything else that it can do is another trait.
pub trait Provider: Sized + 'static {
    /// Reads the configuration. Called once in every guest instance, before anything else, and so before every
    /// call: it must be cheap. The host refuses HTTP requests made here.
    ///
    /// # Errors
    /// [`Error::Invalid`] with every mistake at once: see [`config::Values`].
    fn init(config: &Config) -> Result<Self, Error>;

    /// Which of the exported interfaces the host may call with this configuration. All of them, unless the
    /// provider says otherwise.
    fn enabled(&self, exported: &[Capability]) -> Vec<Capability> {
        exported.to_vec()
    }
}
