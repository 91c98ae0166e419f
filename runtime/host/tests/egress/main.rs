//! The egress, with servers on loopback that record requests and answer as a test needs.
//!
//! Whether anything was sent is asserted at its destination, by the connections and look-ups that arrive there.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod absence_proof;
mod addresses;
mod audit;
mod aws;
mod certificate_fingerprints;
mod certificates;
mod echoed_credentials;
mod endless_responses;
mod faulty_servers;
mod field_rules;
mod http2;
mod isolation;
mod issuers;
mod lease_gate;
mod limits;
mod permits;
mod proxies;
mod proxy_server;
mod rate_limit_hold;
mod requests;
mod response_cache;
mod secrets;
mod tls;
mod urls;
mod weak_rsa_key;
mod world;
