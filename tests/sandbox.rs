//! The sandbox's opponent: the real host, with the built binary as its compile child, and one guest that misbehaves
//! in every way we know. Whatever it does ends in a typed error or a checked answer, and disturbs nobody else.
//!
//! - `behaviours`: every behaviour, one test each, at the host.
//! - `load_balancers`: the same for a maker of load balancers, which may change things at the cloud.
//! - `routes`: the same for a maker of routes.
//! - `requests`: where requests of a guest may lead, and what the permit of its call hears.
//! - `cluster`: bad answers through the real controllers: what reaches a cluster.
//! - `services`: bad answers about load balancers through the real controllers: what reaches a Service.
//! - `routed`: bad answers about routes through the real controllers: what reaches a node, and the cloud.
//! - `files`: bad modules, refused before anything of them is compiled.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

#[path = "sandbox/behaviours.rs"]
mod behaviours;
#[path = "sandbox/cluster.rs"]
mod cluster;
#[path = "sandbox/files.rs"]
mod files;
#[path = "sandbox/law.rs"]
mod law;
#[path = "sandbox/lines.rs"]
mod lines;
#[path = "sandbox/load_balancers.rs"]
mod load_balancers;
#[path = "sandbox/requests.rs"]
mod requests;
#[path = "sandbox/routed.rs"]
mod routed;
#[path = "sandbox/routes.rs"]
mod routes;
#[path = "sandbox/services.rs"]
mod services;
#[path = "sandbox/stage.rs"]
mod stage;
#[path = "sandbox/steps.rs"]
mod steps;
#[path = "sandbox/target.rs"]
mod target;

use libtest_mimic::{Arguments, Trial};

fn main() {
    let mut trials = behaviours::trials();
    trials.extend(cluster::trials());
    trials.extend(load_balancers::trials());
    trials.extend(routes::trials());
    trials.extend(routed::trials());
    trials.extend(services::trials());
    let tests = [
        requests::TESTS,
        files::TESTS,
        load_balancers::TESTS,
        routes::TESTS,
    ]
    .concat();
    trials.extend(tests.into_iter().map(|(name, test)| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    }));
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
