//! The SDK's `TestHost` is as strict as the real host, with the same messages: one table of requests goes through both,
//! and the misbehaving guest, called natively, fails as the laws of the real host say.

mod answers;
mod requests;

use ccm_tests::harness::{self, Test};
use libtest_mimic::Trial;

pub(crate) fn trials() -> Vec<Trial> {
    let tests: [&[Test]; 2] = [requests::TESTS, answers::TESTS];
    harness::table("test_host", &tests.concat())
}
