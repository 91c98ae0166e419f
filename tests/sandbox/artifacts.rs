//! Hostile files in the place of a provider's module: nothing of them may run, each is refused for its own reason, and the
//! version that serves goes on serving. Through the real host, whose compile child this program is, too.
//!
//! `tests/hostile.md` lists the cases A1 to A18 and where each is shown.
//!
//! - `files`: what is wrong with a file before anything of it is compiled.
//! - `bombs`: what is made to cost the compiler, and what the host feels of it.
//! - `mutants`: real modules with random damage; `CCM_ARTIFACT_MUTANTS` says how many.

mod bombs;
mod files;
mod made;
mod mutants;
mod serving;

use ccm_tests::harness;
use libtest_mimic::Trial;

pub(crate) use bombs::{MEASURE, measure, memory, memory_of};

pub(crate) fn trials() -> Vec<Trial> {
    let tests = [files::TESTS, bombs::TESTS, mutants::TESTS];
    harness::table("artifacts", &tests.concat())
}
