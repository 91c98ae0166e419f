//! The SDK's `TestHost` is as strict as the real host, with the same messages: one table of requests and the cloud's
//! answers goes through both, and tables of manifests, of configurations, of absences, of the limits of answers and of
//! calls with many requests or changes do; the misbehaving guest, called natively, fails as the laws of the real host say.

mod absences;
mod answer_limits;
mod answers;
mod calls;
mod changes;
mod cloud;
mod configurations;
mod manifests;
mod requests;

use ccm_tests::harness::{self, Test};
use libtest_mimic::Trial;

pub(crate) fn trials() -> Vec<Trial> {
    let tests: [&[Test]; 8] = [
        requests::TESTS,
        calls::TESTS,
        changes::TESTS,
        configurations::TESTS,
        manifests::TESTS,
        answers::TESTS,
        absences::TESTS,
        answer_limits::TESTS,
    ];
    harness::table("test_host", &tests.concat())
}
