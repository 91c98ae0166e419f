//! Limits of time and bytes of the cloud's answers, of the real egress and of the `TestHost`.

use ccm_guest::bindings::host::ccm::provider::http as guest;
use ccm_guest::http::Request;
use ccm_guest::testing::TestHost;
use ccm_host::egress::EgressLimits;
use ccm_tests::harness::Test;

use super::cloud::{self, Cloud};
use super::requests::{
    End, SECOND, get, guest_end, guest_fetch, host_end, large, manifest, scope, thing, translated,
};
use crate::misbehaving::world::block_on;

pub(crate) const TESTS: &[Test] = &[
    (
        "answer_limits::those_held_together_end_alike",
        those_held_together_end_alike,
    ),
    ("answer_limits::a_late_one_is_none", a_late_one_is_none),
];

/// Two of the largest answers do not fit; which of them is refused depends on which one comes first.
fn those_held_together_end_alike() {
    let manifest = manifest(SECOND);
    let refusal = large("may hold 18 MiB of answers at a time");
    let test_host = TestHost::new(&manifest, cloud::answer);
    for (second, is_refused) in [(cloud::IDENTITY, false), (cloud::LARGEST, true)] {
        let requests = [get(cloud::LARGEST), get(second)];
        let raw = requests.each_ref().map(Request::to_raw);
        let ends = ccm_guest::testing::fetch_all(&raw);
        let ends: Vec<End> = ends.into_iter().map(guest_end).collect();
        let real = block_on(async {
            let cloud = Cloud::start().await;
            let requests = Vec::from(requests.each_ref().map(translated));
            scope(&manifest, &cloud).fetch_all(requests).await
        });
        let real: Vec<End> = real.into_iter().map(host_end).collect();
        for ends in [ends, real] {
            let refused = ends.iter().filter(|end| end.is_as(&refusal)).count();
            let sent = ends.iter().filter(|end| **end == End::Sent).count();
            assert_eq!(
                (refused, sent),
                (usize::from(is_refused), 2 - usize::from(is_refused)),
                "{second}: {ends:?}"
            );
        }
    }
    // Each of these is dropped before the next one.
    for _ in 0..2 {
        assert_eq!(guest_fetch(&get(cloud::LARGEST)), End::Sent);
    }
    assert_eq!(test_host.requests().len(), 6);
}

/// The real host's time has a test of its own in the egress.
fn a_late_one_is_none() {
    let test_host = TestHost::new(&manifest(SECOND), cloud::answer);
    let most = EgressLimits::standard().first_byte;
    test_host.set_latency(most);
    assert_eq!(guest_fetch(&thing()), End::Sent);
    test_host.set_latency(most + std::time::Duration::from_millis(1));
    match ccm_guest::testing::fetch(&thing().to_raw()) {
        Err(guest::FetchError::TimedOut(why)) => {
            assert_eq!(why, "no answer from target api in 15.0s")
        }
        other => panic!("{other:?}"),
    }
}
