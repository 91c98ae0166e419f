//! Absences of load balancers, of the real egress and of the `TestHost`: without an answer of 2xx, or after a failed request,
//! nothing is proven.

use ccm_guest::http::Request;
use ccm_guest::load_balancer::{
    DeleteRequest, EnsureReply, EnsureRequest, Found, LoadBalancer, ProgressReply, Service,
    UpdateRequest,
};
use ccm_guest::testing::{TestHost, service};
use ccm_guest::{Config, Error, Failure, Provider};
use ccm_tests::harness::Test;

use super::cloud::{self, Cloud};
use super::requests::{SECOND, manifest, scope, translated};
use crate::misbehaving::world::block_on;

pub(crate) const TESTS: &[Test] = &[("absences::are_believed_alike", are_believed_alike)];

/// Says after these requests that there is no load balancer, whatever their answers.
struct Denier(Vec<Request>);

fn unasked() -> Failure {
    Error::internal("only `get` is called").into()
}

impl Provider for Denier {
    fn init(_: &Config) -> Result<Denier, Error> {
        Err(Error::internal("it is made by the test"))
    }
}

impl LoadBalancer for Denier {
    fn ensure(&self, _: EnsureRequest) -> Result<EnsureReply, Failure> {
        Err(unasked())
    }

    fn update_targets(&self, _: UpdateRequest) -> Result<ProgressReply, Failure> {
        Err(unasked())
    }

    fn delete(&self, _: DeleteRequest) -> Result<ProgressReply, Failure> {
        Err(unasked())
    }

    fn get(&self, _: Service) -> Result<Found, Failure> {
        for request in &self.0 {
            drop(request.clone().send());
        }
        Ok(Found::Absent)
    }
}

fn are_believed_alike() {
    let there = || Request::get("api", "/things/1");
    let missing = || Request::get("api", cloud::NOT_THERE);
    let declared = || Request::get("api", cloud::DECLARED);
    let failed = || Request::get("api", cloud::NO_STATUS);
    // Requests, and whether an absence is believed after them.
    let table = [
        (Vec::new(), false),
        (vec![missing()], false),
        (vec![missing(), missing()], false),
        (vec![there().supplementary(), missing()], false),
        (vec![there(), missing()], true),
        (vec![missing(), there()], true),
        (vec![there(), declared()], true),
        (vec![there(), failed()], false),
        (vec![failed(), there()], false),
        (vec![there(), failed().supplementary()], true),
        (
            vec![there(), Request::get("api", cloud::BAD_REQUEST)],
            false,
        ),
        (vec![there(), Request::delete("api", "/things/1")], false),
    ];
    let manifest = manifest(SECOND);
    for (requests, is_believed) in table {
        let real = block_on(really(&manifest, &requests));
        assert_eq!(real, is_believed, "{requests:?}");
        let host = TestHost::new(&manifest, cloud::answer);
        let shown = format!("{requests:?}");
        let got = host.get(&Denier(requests), service("web", &[]));
        let refused = got.err().map(|failure| failure.error);
        assert_eq!(refused.is_none(), is_believed, "{shown}");
        if let Some(refused) = refused {
            assert!(refused.message().contains("answered with 2xx"), "{shown}");
        }
    }
}

async fn really(manifest: &str, requests: &[Request]) -> bool {
    let cloud = Cloud::start().await;
    let scope = scope(manifest, &cloud);
    for request in requests {
        // A failed request is part of the table.
        drop(scope.fetch(translated(request)).await);
    }
    scope.complete()
}
