//! Proxies: which one stands before a server, and connections through it; and connections that ask before each write. The API
//! server's client and the providers' egress share this crate.
//!
//! A leaf: it depends on nothing of ours, opens no socket (callers bring the connector that does, with their own guards),
//! and reads no environment (callers bring what does). It sends nothing but the request for a tunnel. Passwords of proxies are
//! in no text of it.
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
