//! SDK for Kubernetes cloud providers that are built as WebAssembly components.
//!
//! A provider is a type. [`Provider`] reads the configuration; each of [`Instances`], [`LoadBalancer`], [`Routes`] and
//! [`SelfCheck`] is one interface of the contract, and [`export_provider!`] exports exactly the interfaces it lists.
//! The host creates a fresh guest instance for every call and drops it afterwards: nothing kept in memory survives a
//! call, and no damage to memory outlasts it. Data that must outlive a call goes into [`state`].
//!
//! All network access goes through [`http`]. A request names a *target* that the manifest declares and the operator
//! grants, never a URL and never a credential: the host adds the credential.
//!
//! Outside Wasm the scripted host in `testing` replaces the real one, so providers are tested with plain `cargo test`.
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

pub mod annotations;
pub mod clock;
pub mod compare;
pub mod config;
pub mod error;
pub mod event;
pub mod events;
#[doc(hidden)]
pub mod export;
pub mod hint;
mod host;
pub mod http;
mod instances;
pub mod load_balancer;
pub mod log;
pub mod machines;
pub mod owner;
pub mod provider_id;
pub mod random;
mod records;
pub mod routes;
mod self_check;
pub mod state;
#[cfg(not(target_arch = "wasm32"))]
pub mod testing;
pub mod values;
#[cfg(feature = "xml")]
pub mod xml;

pub use bindings::host::ccm::provider::common::{
    Address, AddressType, AnnotationChange, Conflict, Error, Event, EventType, Failure, Ingress,
    Instance, IpFamily, IpMode, LoadBalancerStatus, NamespacedName, Node, Owner, Pending,
    PortStatus, Protocol, Throttled,
};
pub use bindings::lifecycle::exports::ccm::provider::lifecycle::{Capability, GrantedTarget};
pub use config::Config;
pub use instances::{FindReply, Instances, Lookup, NodeEvent, Question, Readiness};
pub use load_balancer::LoadBalancer;
pub use provider_id::MachineId;
pub use routes::Routes;
pub use self_check::SelfCheck;

/// A cloud provider. The interfaces of the contract are separate traits.
pub trait Provider: Sized + 'static {
    /// Reads the configuration. The host calls it once in every guest instance, before the actual call, so it must be
    /// cheap. The host refuses HTTP requests made here.
    ///
    /// # Errors
    /// [`Error::Invalid`] with every mistake at once: see [`Config::read`].
    fn init(config: &Config) -> Result<Self, Error>;

    /// Returns the exported interfaces that the host may call with this configuration. Default: all of them.
    fn enabled(&self, exported: &[Capability]) -> Vec<Capability> {
        exported.to_vec()
    }
}
