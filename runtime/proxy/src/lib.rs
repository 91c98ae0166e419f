//! Proxies: the choice of one for a server, and connections through it; and connections that ask a gate before each
//! write. The API server's client and the providers' egress share this crate.
//!
//! A leaf: it depends on no other crate of ours, opens no socket (callers bring the connector that does, with their own
//! checks), and reads no environment (callers pass a function that does). It sends nothing but the request for a
//! tunnel. Its texts never contain a proxy's password.
#![forbid(unsafe_code)]

mod address;
mod connector;
mod environment;
mod gated;
mod no_proxy;
mod tunnel;

pub use address::{BadProxy, Proxy, without_login};
pub use connector::Connector;
pub use environment::{FromEnvironment, from_environment};
pub use gated::{Gated, WriteGate};
pub use no_proxy::NoProxy;
pub use tunnel::ProxyError;
