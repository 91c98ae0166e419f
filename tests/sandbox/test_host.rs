//! The SDK's `TestHost` is as strict as the real host, with the same messages: one table of requests and the cloud's
//! answers goes through both, and tables of configurations and of calls with many requests do; the misbehaving guest,
//! called natively, fails as the laws of the real host say.

mod answers;
mod calls;
mod cloud;
mod configurations;
mod requests;

use ccm_tests::harness::{self, Test};
use libtest_mimic::Trial;

pub(crate) fn trials() -> Vec<Trial> {
    let tests: [&[Test]; 4] = [
        requests::TESTS,
        calls::TESTS,
        configurations::TESTS,
        answers::TESTS,
    ];
    harness::table("test_host", &tests.concat())
}
