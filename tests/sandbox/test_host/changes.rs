//! Calls with many changes, of the real egress and of the `TestHost`: a call makes as many as the manager permits.

use std::cell::RefCell;

use ccm_core::safety::permit::{LOAD_BALANCER_CHANGES, ROUTE_CHANGES};
use ccm_guest::http::Request;
use ccm_guest::load_balancer::{
    self, EnsureReply, EnsureRequest, Found, LoadBalancer, Service, UpdateRequest,
};
use ccm_guest::routes::{self, Route, Routes};
use ccm_guest::testing::{TestHost, node, service};
use ccm_guest::{Config, Error, Failure, FindReply, Instances, Node, Provider, SelfCheck};
use ccm_tests::harness::Test;

use super::cloud::{self, Cloud};
use super::requests::{End, SECOND, guest_fetch, host_fetch, manifest, scope_of};
use crate::misbehaving::world::block_on;

pub(crate) const TESTS: &[Test] = &[("changes::too_many_end_alike", too_many_end_alike)];

/// Sends this many changes in every call.
struct Writer {
    count: u32,
    ends: RefCell<Vec<End>>,
}

impl Writer {
    fn write(&self) -> Error {
        let ends = (0..self.count).map(|_| guest_fetch(&request()));
        *self.ends.borrow_mut() = ends.collect();
        Error::unavailable("its requests are what counts")
    }
}

fn request() -> Request {
    Request::post("api", "/").form("Action", "Create")
}

impl Provider for Writer {
    fn init(_: &Config) -> Result<Writer, Error> {
        Err(Error::internal("it is made by the test"))
    }
}

impl SelfCheck for Writer {
    fn check(&self) -> Result<(), Error> {
        Err(self.write())
    }
}

impl Instances for Writer {
    fn find(&self, _: Vec<Node>) -> Result<FindReply, Error> {
        Err(self.write())
    }
}

impl LoadBalancer for Writer {
    fn ensure(&self, _: EnsureRequest) -> Result<EnsureReply, Failure> {
        Err(self.write().into())
    }

    fn update_targets(&self, _: UpdateRequest) -> Result<load_balancer::ProgressReply, Failure> {
        Err(self.write().into())
    }

    fn delete(
        &self,
        _: load_balancer::DeleteRequest,
    ) -> Result<load_balancer::ProgressReply, Failure> {
        Err(self.write().into())
    }

    fn get(&self, _: Service) -> Result<Found, Failure> {
        Err(self.write().into())
    }
}

impl Routes for Writer {
    fn list(&self, _: Vec<Node>) -> Result<Vec<Route>, Failure> {
        Err(self.write().into())
    }

    fn create(&self, _: routes::CreateRequest) -> Result<routes::ProgressReply, Failure> {
        Err(self.write().into())
    }

    fn delete(&self, _: routes::DeleteRequest) -> Result<routes::ProgressReply, Failure> {
        Err(self.write().into())
    }
}

const CIDR: &str = "10.0.1.0/24";

fn web() -> Service {
    service("web", &[(80, 30_080)])
}

type Call = fn(&TestHost, &Writer);

/// Each call, and how many changes the manager permits it.
const CALLS: [(&str, u32, Call); 9] = [
    ("check", 0, |host, writer| drop(host.self_check(writer))),
    ("find", 0, |host, writer| {
        drop(host.find(writer, Vec::new()));
    }),
    ("ensure", LOAD_BALANCER_CHANGES, |host, writer| {
        drop(host.ensure(writer, EnsureRequest::new(web(), Vec::new())));
    }),
    ("update-targets", LOAD_BALANCER_CHANGES, |host, writer| {
        drop(host.update_targets(writer, UpdateRequest::new(web(), Vec::new())));
    }),
    ("delete", LOAD_BALANCER_CHANGES, |host, writer| {
        drop(host.delete(writer, load_balancer::DeleteRequest::new(web())));
    }),
    ("get", 0, |host, writer| drop(host.get(writer, web()))),
    ("list", 0, |host, writer| {
        drop(host.list_routes(writer, Vec::new()));
    }),
    ("create", ROUTE_CHANGES, |host, writer| {
        let request = routes::CreateRequest::new(node("one", None), CIDR);
        drop(host.create_route(writer, request));
    }),
    ("delete of a route", ROUTE_CHANGES, |host, writer| {
        let route = Route::new(1, CIDR, routes::Target::Blackhole);
        drop(host.delete_route(writer, routes::DeleteRequest::new(route)));
    }),
];

fn too_many_end_alike() {
    let manifest = manifest(SECOND);
    let real = [0, ROUTE_CHANGES, LOAD_BALANCER_CHANGES];
    let real = real.map(|most| (most, block_on(really(&manifest, most))));
    for (name, most, call) in CALLS {
        let host = TestHost::new(&manifest, cloud::answer);
        let writer = Writer {
            count: most + 1,
            ends: RefCell::default(),
        };
        call(&host, &writer);
        let (_, real) = real.iter().find(|(known, _)| *known == most).unwrap();
        assert_eq!(writer.ends.into_inner(), *real, "{name}");
        let excess = match most {
            0 => "POST / Action=Create on target api: this call may change nothing".to_owned(),
            most => format!(
                "POST / Action=Create on target api: the call has made all {most} changes that it may make"
            ),
        };
        assert_eq!(real.last(), Some(&End::Denied(excess)), "{name}");
        let sent = real.iter().filter(|end| **end == End::Sent).count();
        assert_eq!(sent + 1, real.len(), "{name}");
    }
}

async fn really(manifest: &str, most: u32) -> Vec<End> {
    let cloud = Cloud::start().await;
    let scope = scope_of(manifest, &cloud, most);
    let mut ends = Vec::new();
    for _ in 0..=most {
        ends.push(host_fetch(&scope, &request()).await);
    }
    ends
}
