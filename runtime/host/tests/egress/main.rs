//! The way out, against servers on loopback that record what reaches them and answer whatever a test wants.
//!
//! What must not be sent is asserted where it would arrive: as connections and look-ups that did not happen.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod addresses;
mod answers;
mod apart;
mod audit;
mod aws;
mod bodies;
mod certificates;
mod complete;
mod echoes;
mod floods;
mod http2;
mod issuers;
mod kept;
mod limits;
mod patience;
mod permits;
mod pinned;
mod proxies;
mod proxy_server;
mod requests;
mod secrets;
mod server;
mod tls;
mod urls;
mod weak;
mod wire;
mod world;
