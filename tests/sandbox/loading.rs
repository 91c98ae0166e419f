//! From a module to a provider, with a real compile child, and the first calls of that provider. The guest is the shipped one
//! for Hetzner Cloud; its cloud answers what a test says.

mod cloud;
mod compiling;
mod looking;
mod requirements;
mod stage;

pub(crate) use compiling::bomb;

use ccm_tests::harness;
use libtest_mimic::Trial;

pub(crate) fn trials() -> Vec<Trial> {
    let tests = [compiling::TESTS, requirements::TESTS, looking::TESTS];
    harness::table("loading", &tests.concat())
}
