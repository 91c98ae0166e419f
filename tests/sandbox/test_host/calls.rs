//! Calls with many requests, and with one to a target that is not granted, of the real egress and of the `TestHost`.

use std::cell::RefCell;

use ccm_guest::http::Request;
use ccm_guest::testing::{TestHost, config, granting};
use ccm_guest::{Config, Error, FindReply, Instances, Node, Provider};
use ccm_tests::harness::Test;

use super::cloud::{self, Cloud};
use super::requests::{End, SECOND, guest_fetch, host_fetch, manifest, scope};
use crate::misbehaving::world::block_on;

pub(crate) const TESTS: &[Test] = &[
    (
        "calls::with_too_many_requests_end_alike",
        with_too_many_requests_end_alike,
    ),
    (
        "calls::to_a_target_that_is_not_granted_end_alike",
        to_a_target_that_is_not_granted_end_alike,
    ),
];

/// Sends as many requests as it is told, each of which the manifest denies: those count, too.
struct Busy {
    count: usize,
    ends: RefCell<Vec<End>>,
}

impl Provider for Busy {
    fn init(_: &Config) -> Result<Busy, Error> {
        Ok(Busy {
            count: 0,
            ends: RefCell::default(),
        })
    }
}

impl Instances for Busy {
    fn find(&self, _: Vec<Node>) -> Result<FindReply, Error> {
        let ends = (0..self.count).map(|_| guest_fetch(&request()));
        *self.ends.borrow_mut() = ends.collect();
        Ok(FindReply::new(Vec::new()))
    }
}

fn request() -> Request {
    Request::get("other", "/things/1")
}

fn with_too_many_requests_end_alike() {
    let manifest = manifest(SECOND);
    let host = TestHost::new(&manifest, cloud::answer);
    // The second call begins again.
    for count in [2001, 2002] {
        let busy = Busy {
            count,
            ends: RefCell::default(),
        };
        host.find(&busy, Vec::new()).unwrap();
        let ends = busy.ends.into_inner();
        let real = block_on(really(&manifest, count));
        assert_eq!(ends, real);
        let excess = End::Denied("a call makes at most 2000 requests".to_owned());
        let first = real.iter().position(|end| *end == excess);
        assert_eq!(first, Some(2000));
    }
    assert_eq!(host.requests().len(), 2001 + 2002);
}

async fn really(manifest: &str, count: usize) -> Vec<End> {
    let cloud = Cloud::start().await;
    let scope = scope(manifest, &cloud);
    let mut ends = Vec::new();
    for _ in 0..count {
        ends.push(host_fetch(&scope, &request()).await);
    }
    ends
}

fn to_a_target_that_is_not_granted_end_alike() {
    let manifest = manifest(SECOND);
    let host = TestHost::new(&manifest, cloud::answer);
    let request = Request::get("optional", "/things/1");
    let granted = |targets: &[&str]| {
        let config = granting(config(&[]), targets);
        host.init::<Busy>(&config).unwrap();
        guest_fetch(&request)
    };
    assert_eq!(granted(&["api", "optional"]), End::Sent);
    let real = block_on(async {
        let cloud = Cloud::start().await;
        host_fetch(&scope(&manifest, &cloud), &request).await
    });
    assert_eq!(granted(&["api"]), real);
    let why = "the module's manifest requests this target, and the grants have none of this name";
    let why = format!("GET on target optional: {why}");
    assert_eq!(real, End::Denied(why));
}
