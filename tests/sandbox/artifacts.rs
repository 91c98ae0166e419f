//! Hostile files in place of a provider's module: none of their code may run, each is refused for a reason of its own,
//! and the active version goes on serving. Through the real host, whose compile child is this program as well.
//!
//! `tests/hostile.md` lists the cases A1 to A18 and where each is shown.
//!
//! - `files`: files that are refused before anything of them is compiled.
//! - `bombs`: files that cost the compiler much, and their effect on the host.
//! - `mutants`: real modules with random damage; `CCM_ARTIFACT_MUTANTS` says how many.

mod bombs;
mod files;
mod made;
mod mutants;
mod serving;

use ccm_tests::harness;
use libtest_mimic::Trial;

pub(crate) use bombs::{MEASURE, measure, memory, memory_of};
pub(crate) use made::importing_function;

pub(crate) fn trials() -> Vec<Trial> {
    let tests = [files::TESTS, bombs::TESTS, mutants::TESTS];
    harness::table("artifacts", &tests.concat())
}
