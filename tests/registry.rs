//! Sources and signatures before a real registry, with what the tools of others put there: distribution, crane and
//! cosign from their Go modules, and wkg, the Wasm world's own client. They need Go 1.26 and wkg 0.16, and say so.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

#[path = "registry/cosign.rs"]
mod cosign;
#[path = "registry/exchange.rs"]
mod exchange;
#[path = "registry/image.rs"]
mod image;
#[path = "registry/outage.rs"]
mod outage;
#[path = "registry/wkg.rs"]
mod wkg;
