//! The sandbox's opponent: the real host, and one guest that misbehaves in every known way. Each behaviour ends in a
//! typed error or a checked answer, and disturbs no other guest.
//!
//! - `behaviours`: every behaviour, one test each, at the host.
//! - `memory`: the host's maximum growth, whatever the guest leaves with it.
//! - `turns`: the cost of every behaviour for a neighbour.
//! - `repeated`: the remains of calls that end badly, or are dropped.
//! - `load_balancers`: the same for a provider of load balancers, which may change objects at the cloud.
//! - `routes`: the same for a provider of routes.
//! - `requests`: where a guest's requests may lead, and what its call's permit records.
//! - `cluster`: bad answers through the real controllers: the effect on a cluster.
//! - `services`: bad answers about load balancers through the real controllers: the effect on a Service.
//! - `routed`: bad answers about routes through the real controllers: the effect on a node, and the cloud.
//! - `files`: bad modules, refused before anything of them is compiled.

pub(crate) mod behaviours;
mod cluster;
mod files;
pub(crate) mod law;
pub(crate) mod load_balancers;
mod log_lines;
mod memory;
mod neighbours;
mod repeated;
mod requests;
mod routed;
pub(crate) mod routes;
mod services;
pub(crate) mod steps;
pub(crate) mod target;
pub(crate) mod world;

use ccm_tests::harness::{self, Test};
use guest_misbehaving::behaviour::{Balancing, Behaviour, Routing};
use libtest_mimic::Trial;

pub(crate) use memory::{MEASURE, measure};

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = behaviours::trials();
    trials.extend(cluster::trials());
    trials.extend(memory::trials());
    trials.extend(load_balancers::trials());
    trials.extend(neighbours::trials());
    trials.extend(routes::trials());
    trials.extend(routed::trials());
    trials.extend(services::trials());
    let tests = [
        requests::TESTS,
        repeated::TESTS,
        files::TESTS,
        load_balancers::TESTS,
        routes::TESTS,
    ];
    trials.extend(harness::table("misbehaving", &tests.concat()));
    trials.extend(harness::table("misbehaving", TESTS));
    trials.extend(harness::table_alone("misbehaving", repeated::ALONE));
    trials
}

const TESTS: &[Test] = &[(
    "every_behaviour_has_a_word_of_its_own",
    every_behaviour_has_a_word_of_its_own,
)];

fn every_behaviour_has_a_word_of_its_own() {
    for behaviour in Behaviour::ALL {
        assert_eq!(Behaviour::parse(behaviour.word()), Some(*behaviour));
    }
    assert_eq!(Behaviour::parse("kind"), None);
    for balancing in Balancing::ALL {
        assert_eq!(Balancing::parse(balancing.word()), Some(*balancing));
    }
    for routing in Routing::ALL {
        assert_eq!(Routing::parse(routing.word()), Some(*routing));
    }
}
