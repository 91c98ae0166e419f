//! Fixtures of all tests: a provider with a grant, its egress, permits whose audit can be read, and names that resolve
//! as a test needs.

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use ccm_core::moment::Moment;
use ccm_core::safety::permit::{Mode, Permit};
use ccm_fixtures::audit::RecordingAudit;
use ccm_fixtures::permits::audited;
use ccm_host::egress::{
    CallScope, Egress, EgressError, EgressLimits, FetchError, FetchRequest, FetchResponse,
    NameLookup, now,
};
use ccm_host::grant::{Credential, Grants, Secret};
use ccm_host::manifest::{Granted, Manifest};
use ccm_metrics::requests::RequestMetrics;
use ccm_metrics::text::{Format, encode};
use futures::future::BoxFuture;
use http::Method;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::time::Instant;

/// The credential of every target here. It must only ever be seen in a request to its target.
pub(crate) const CANARY: &str = "canary-7d1f0a3c9e";

/// Long enough for a busy machine; successful tests never wait this long.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// The rules that most tests use.
pub(crate) fn rules() -> Value {
    json!([
        { "methods": ["GET", "HEAD"], "path": "/servers", "access": "read" },
        { "methods": ["GET"], "path": "/servers/{id}", "access": "read" },
        { "methods": ["POST"], "path": "/servers", "access": "write" },
        { "methods": ["GET", "PUT", "DELETE"], "path": "/load_balancers/{id}", "access": "write" },
        { "methods": ["GET"], "path": "/machines/{id}/config", "access": "read", "absence": [
            { "status": 500, "contains": "does not exist" }, { "status": 500, "contains": "no such" }
        ] },
        { "methods": ["POST"], "path": "/", "form": { "Action": ["List"] }, "access": "read", "absence": [
            { "status": 400, "contains": "InvalidInstanceID.NotFound" }
        ] },
        { "methods": ["POST"], "path": "/", "form": { "Action": ["Create"] }, "access": "write" },
        { "methods": ["GET", "POST"], "path": "/query", "query": { "Action": ["List"] }, "access": "read" },
        { "methods": ["POST"], "path": "/wide", "access": "read" },
        { "methods": ["POST"], "path": "/wide", "form": { "Action": ["Create"] }, "access": "write" }
    ])
}

/// A manifest that asks for these targets, granted as asked, with the canary as bearer token.
pub(crate) fn granted(targets: &[(&str, &str)], adjust: impl FnOnce(&mut Grants)) -> Granted {
    let targets: Vec<_> = targets
        .iter()
        .map(|(name, _)| json!({ "name": name, "endpoint": "https://cloud.test/v1", "auth": "bearer", "rules": rules() }))
        .zip(targets)
        .collect();
    let manifest = json!({
        "contract": "0.2.0", "name": "test", "version": "1",
        "targets": targets.iter().map(|(target, _)| target).collect::<Vec<_>>(),
    });
    let manifest = Manifest::parse(manifest.to_string().as_bytes()).unwrap();
    let mut grants = manifest.as_grants();
    for (grant, (_, (_, endpoint))) in grants.targets.iter_mut().zip(&targets) {
        grant.endpoint = endpoint.parse().unwrap();
        grant.credential = Credential::Bearer(Secret::new(CANARY.to_owned()));
    }
    adjust(&mut grants);
    manifest.narrow(grants).unwrap()
}

/// An egress with one target `api` at this endpoint.
pub(crate) fn egress(endpoint: &str) -> Arc<Egress> {
    limited(endpoint, EgressLimits::standard())
}

/// The same with other limits.
pub(crate) fn limited(endpoint: &str, limits: EgressLimits) -> Arc<Egress> {
    Arc::new(Egress::new("test", &granted(&[("api", endpoint)], |_| ()), limits).unwrap())
}

/// The same with `names` as resolver.
pub(crate) fn named(
    endpoint: &str,
    ranges: &[&str],
    names: &Arc<Names>,
) -> Result<Arc<Egress>, EgressError> {
    let granted = granted(&[("api", endpoint)], |grants| {
        grants.targets[0].addresses = ranges.iter().map(|range| range.parse().unwrap()).collect();
        // Keeps the tests independent of the certificates of the machine.
        grants.targets[0].ca_pem = Some(crate::tls::some_root());
    });
    let limits = EgressLimits {
        connect: Duration::from_secs(2),
        ..EgressLimits::standard()
    };
    Egress::with_lookup("test", &granted, limits, names.clone()).map(Arc::new)
}

/// A call that may do anything, for a while.
pub(crate) fn scope(egress: &Arc<Egress>) -> CallScope {
    egress.scope(generous(), Instant::now() + SOON, false)
}

/// A call that uses no cached answers.
pub(crate) fn fresh(egress: &Arc<Egress>) -> CallScope {
    egress.scope(generous(), Instant::now() + SOON, true)
}

/// A permit that allows everything that a test does.
pub(crate) fn generous() -> Arc<Permit> {
    permit(Mode::Enforce, 1000, &Arc::default())
}

/// A permit whose audit can be read.
pub(crate) fn permit(mode: Mode, mutations: u32, audit: &Arc<RecordingAudit>) -> Arc<Permit> {
    let until = now().after(Duration::from_secs(60));
    audited(until, mode, mutations, audit.clone())
}

/// A permit that ended.
pub(crate) fn expired(audit: &Arc<RecordingAudit>) -> Arc<Permit> {
    audited(Moment(Duration::ZERO), Mode::Enforce, 10, audit.clone())
}

/// Answers look-ups in turn, the last one for ever, and counts them.
#[derive(Default)]
pub(crate) struct Names {
    answers: Mutex<VecDeque<Vec<IpAddr>>>,
    asked: AtomicUsize,
    silent: bool,
}

impl Names {
    pub(crate) fn new(answers: &[&[&str]]) -> Arc<Names> {
        let parse = |answer: &&[&str]| {
            answer
                .iter()
                .map(|address| address.parse().unwrap())
                .collect()
        };
        Arc::new(Names {
            answers: Mutex::new(answers.iter().map(parse).collect()),
            ..Names::default()
        })
    }

    /// A resolver that never answers.
    pub(crate) fn silent() -> Arc<Names> {
        Arc::new(Names {
            silent: true,
            ..Names::default()
        })
    }

    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

impl NameLookup for Names {
    fn lookup(&self, _: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        if self.silent {
            return Box::pin(std::future::pending());
        }
        let mut answers = self.answers.lock().unwrap();
        let answer = if answers.len() > 1 {
            answers.pop_front()
        } else {
            answers.front().cloned()
        };
        Box::pin(async move { answer.ok_or_else(|| io::Error::other("no such name")) })
    }
}

/// A request without query, headers and body.
pub(crate) fn plain(method: Method, path: &str) -> FetchRequest {
    FetchRequest {
        supplementary: false,
        target: "api".to_owned(),
        method,
        path: path.to_owned(),
        query: Vec::new(),
        headers: Vec::new(),
        body: None,
    }
}

pub(crate) fn get(path: &str) -> FetchRequest {
    plain(Method::GET, path)
}

/// A request that accepts an answer of up to ten minutes of age.
pub(crate) fn get_kept(path: &str) -> FetchRequest {
    FetchRequest {
        headers: vec![("cache-control".to_owned(), "max-age=600".to_owned())],
        ..get(path)
    }
}

/// A `POST` request with a form.
pub(crate) fn post_form(body: &str) -> FetchRequest {
    FetchRequest {
        headers: vec![(
            "content-type".to_owned(),
            "application/x-www-form-urlencoded".to_owned(),
        )],
        body: Some(Bytes::from(body.to_owned())),
        ..plain(Method::POST, "/")
    }
}

/// The error of a fetch, whose text never holds the credential.
pub(crate) fn error(result: Result<FetchResponse, FetchError>) -> FetchError {
    let error = result.expect_err("there is an answer");
    assert!(!format!("{error} {error:?}").contains(CANARY), "{error}");
    error
}

/// Waits until a condition holds; panics if it never does.
pub(crate) async fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + SOON;
    while !is_so() {
        assert!(Instant::now() < end, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// An egress that nothing else holds yet, and a registry with the metrics in which it counts.
pub(crate) fn counted(egress: Arc<Egress>) -> (Arc<Egress>, Registry) {
    let mut registry = Registry::default();
    let requests = RequestMetrics::register(&mut registry);
    let egress = Arc::into_inner(egress).unwrap().counting(requests);
    (Arc::new(egress), registry)
}

/// All metrics of requests, as a scrape gets them.
pub(crate) fn scraped(registry: &Registry) -> String {
    encode(registry, Format::Classic).unwrap()
}

/// How many requests were counted, as `target method code count`, sorted.
pub(crate) fn counts(registry: &Registry) -> Vec<String> {
    let text = scraped(registry);
    let labels = text
        .lines()
        .filter_map(|line| line.strip_prefix("ccm_provider_requests_total{"));
    let reported = labels.map(|line| {
        // Every second text between quotes is a label's value; the count follows the last one.
        let mut parts: Vec<_> = line.split('"').skip(3).step_by(2).collect();
        parts.push(line.rsplit(' ').next().unwrap());
        parts.join(" ")
    });
    let mut reported: Vec<_> = reported.collect();
    reported.sort();
    reported
}
