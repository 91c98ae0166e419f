//! Real modules in the real sandbox: the real host with its compile child, which is this program as well, the shipped
//! guests between simulated clouds, and a guest that misbehaves in every known way.
//!
//! - `loading`: from a module to a provider, and its first calls.
//! - `artifacts`: files that must not run.
//! - `isolation`: guests in a process of their own, and what it cannot do.
//! - `boundary`: values that no toolchain makes.
//! - `misbehaving`: a guest that misbehaves on request.
//! - `digitalocean`: the shipped guest for DigitalOcean, nodes and Services.
//! - `hcloud`: the shipped guest between Hetzner Cloud and Robot.
//! - `listings`: the shipped guest when a page of a listing goes wrong.
//! - `load_balancers`: load balancers from end to end.
//! - `rollout`: one provider's versions from their offer to their end.
//! - `shipped`: every shipped guest as a module.
//! - `swap`: generations that are swapped under load.
//! - `test_host`: the SDK's `TestHost` beside the real one.
//! - `versions`: a module of an older version of the contract.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

mod artifacts;
mod boundary;
mod digitalocean;
mod hcloud;
mod host;
mod isolation;
mod listings;
mod load_balancers;
mod loading;
mod misbehaving;
mod permits;
mod quiet;
mod rollout;
mod shipped;
mod swap;
mod test_host;
mod versions;

use std::process::ExitCode;

use ccm_tests::harness;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some(host::COMPILE) => return ccm_host::compile_child(),
        Some(host::SANDBOX) => return ccm_host::sandbox_child(),
        Some(isolation::ESCAPE) => return isolation::escape(),
        Some(artifacts::MEASURE) => return artifacts::measure(),
        Some(swap::GROWTH) => return swap::growth(),
        Some(misbehaving::MEASURE) => return misbehaving::measure(),
        _ => {}
    }
    // The longest first: the short ones fill what is left of the processors.
    let trials = [
        load_balancers::trials(),
        rollout::trials(),
        digitalocean::trials(),
        artifacts::trials(),
        loading::trials(),
        isolation::trials(),
        boundary::trials(),
        misbehaving::trials(),
        hcloud::trials(),
        listings::trials(),
        shipped::trials(),
        swap::trials(),
        test_host::trials(),
        versions::trials(),
    ];
    harness::run(trials.into_iter().flatten().collect())
}
