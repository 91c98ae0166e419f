//! From a module to a provider, with a real compile child, and the first calls of that provider. The guest is the
//! shipped one for Hetzner Cloud; a test chooses the answers of its cloud.

mod calls;
mod cloud;
mod compiling;
mod requirements;
mod world;

pub(crate) use compiling::bomb;

use ccm_tests::harness;
use libtest_mimic::Trial;

pub(crate) fn trials() -> Vec<Trial> {
    let tests = [compiling::TESTS, requirements::TESTS, calls::TESTS];
    harness::table("loading", &tests.concat())
}
