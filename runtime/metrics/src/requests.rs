//! The providers' requests to their clouds, under our names; and for the provider `hcloud` also under its vendor's, so
//! that dashboards for the vendor's Go manager keep working.
//!
//! A provider cannot make up series: its name, its targets' names and the endpoints come from the operator's grants,
//! methods and results are closed sets, and unknown status codes count as their hundred. An operator's grants can
//! change any number of times, so one target's endpoints are bounded as well.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::registration::Registration as _;

/// Buckets of one request, in seconds: from an answer out of the cache to the longest timeout.
const REQUESTS: [f64; 10] = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];
/// The default buckets of Go's client library, which the vendor uses.
const VENDORS: [f64; 11] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];
/// Maximum endpoints with a series of their own; all further ones are `other`. The vendor's own client has fewer.
const MOST_ENDPOINTS: usize = 64;

/// The provider and the target whose requests are also counted under the vendor's names.
const VENDORS_PROVIDER: &str = "hcloud";
const VENDORS_TARGET: &str = "api";

/// Methods and their names in the vendor's labels.
const METHODS: [(&str, &str); 7] = [
    ("GET", "get"),
    ("HEAD", "head"),
    ("POST", "post"),
    ("PUT", "put"),
    ("PATCH", "patch"),
    ("DELETE", "delete"),
    ("OPTIONS", "options"),
];

/// Status codes that clouds answer with; others count as `2xx`, `3xx`, `4xx` or `5xx`.
const CODES: [(u16, &str); 30] = [
    (200, "200"),
    (201, "201"),
    (202, "202"),
    (203, "203"),
    (204, "204"),
    (206, "206"),
    (301, "301"),
    (302, "302"),
    (303, "303"),
    (304, "304"),
    (307, "307"),
    (308, "308"),
    (400, "400"),
    (401, "401"),
    (403, "403"),
    (404, "404"),
    (405, "405"),
    (408, "408"),
    (409, "409"),
    (410, "410"),
    (412, "412"),
    (413, "413"),
    (415, "415"),
    (422, "422"),
    (423, "423"),
    (429, "429"),
    (500, "500"),
    (502, "502"),
    (503, "503"),
    (504, "504"),
];

type Request = (
    [(&'static str, String); 2],
    [(&'static str, &'static str); 2],
);
type OfTarget = [(&'static str, String); 2];
type OfEndpoint = (
    [(&'static str, &'static str); 2],
    [(&'static str, String); 1],
);
type OfCache = [(&'static str, &'static str); 3];
type OfMethod = [(&'static str, &'static str); 1];

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestEnd {
    /// The cloud answered with this status.
    Answered(u16),
    /// The response cache answered.
    Kept,
    /// There is no answer; the text is a reason from a closed set.
    Failed(&'static str),
}

/// A request that has ended.
#[derive(Debug, Clone, Copy)]
pub struct EndedRequest<'a> {
    /// Name of the provider.
    pub provider: &'a str,
    /// Name of the granted target.
    pub target: &'a str,
    /// HTTP method, such as `GET`.
    pub method: &'a str,
    /// Path pattern of the granted line that admitted it, such as `/servers/{id}`; `None` if none did.
    pub endpoint: Option<&'a str>,
    /// The answer, or why there is none.
    pub end: RequestEnd,
    /// How long it took, including all waits for its turn.
    pub took: Duration,
}

/// A cloud's statement about the requests that it still admits.
#[derive(Debug, Clone)]
pub struct StatedRemaining {
    /// Number of requests that the cloud still admits.
    pub remaining: u64,
    /// How long the statement is valid. Afterwards there is no series, until the cloud states it again.
    pub lasts: Duration,
    /// The owner of the statement; its series ends when the owner is dropped.
    pub listener: Weak<dyn Send + Sync>,
}

/// The metrics of all providers' requests. Clones share the same metrics.
#[derive(Debug, Clone)]
pub struct RequestMetrics {
    requests: Family<Request, Counter>,
    durations: Family<OfTarget, Histogram>,
    in_flight: Family<OfTarget, Gauge>,
    remaining: Remaining,
    vendors: Vendors,
}

#[derive(Debug, Clone)]
struct Vendors {
    requests: Family<OfEndpoint, Counter>,
    durations: Family<OfMethod, Histogram>,
    in_flight: Gauge,
    server_cache: Family<OfCache, Counter>,
    endpoints: Arc<Mutex<BTreeSet<String>>>,
}

impl Default for RequestMetrics {
    /// Creates metrics that are not exported.
    fn default() -> RequestMetrics {
        RequestMetrics::register(&mut Registry::default())
    }
}

impl RequestMetrics {
    /// Creates and registers the metrics.
    pub fn register(registry: &mut Registry) -> RequestMetrics {
        RequestMetrics {
            requests: registry.add(
                "ccm_provider_requests",
                "Requests of a provider, by status code; kept: answered by the response cache; \
                 other words: why there is no answer",
                Family::default(),
            ),
            durations: registry.add(
                "ccm_provider_request_duration_seconds",
                "Seconds from a provider's request to its answer, including all waits for its turn",
                Family::new_with_constructor(|| Histogram::new(REQUESTS)),
            ),
            in_flight: registry.add(
                "ccm_provider_requests_in_flight",
                "Granted requests of a provider that have not ended",
                Family::default(),
            ),
            remaining: registry.add(
                "ccm_provider_cloud_requests_remaining",
                "Requests that the cloud still admits, by the rate-limit headers of its last \
                 answer. There is no series without such headers, or once their window has ended",
                Remaining::default(),
            ),
            vendors: Vendors::register(registry),
        }
    }

    /// Counts a request that was granted and begins.
    pub fn begun(&self, provider: &str, target: &str) {
        self.in_flight.get_or_create(&of(provider, target)).inc();
        if is_vendors(provider, target) {
            self.vendors.in_flight.inc();
        }
    }

    /// Sets how many requests the cloud still admits. Only the number comes from the cloud, no label does.
    pub fn cloud_admits(&self, provider: &str, target: &str, stated: &StatedRemaining) {
        self.remaining.set(of(provider, target), stated);
    }

    /// Counts a request that has ended. One with an `endpoint` was counted by [`RequestMetrics::begun`] before.
    pub fn ended(&self, request: &EndedRequest<'_>) {
        let EndedRequest {
            provider,
            target,
            method,
            endpoint,
            end,
            took,
        } = *request;
        let known = METHODS.iter().find(|(known, _)| *known == method);
        let (method, lower) = known.copied().unwrap_or(("other", "other"));
        let code = match end {
            RequestEnd::Answered(status) => code(status),
            RequestEnd::Kept => "kept",
            RequestEnd::Failed(why) => why,
        };
        let labels = (of(provider, target), [("method", method), ("code", code)]);
        self.requests.get_or_create(&labels).inc();
        let Some(endpoint) = endpoint else { return };
        let labels = of(provider, target);
        self.in_flight.get_or_create(&labels).dec();
        let took = took.as_secs_f64();
        if !matches!(end, RequestEnd::Failed(_)) {
            self.durations.get_or_create(&labels).observe(took);
        }
        if is_vendors(provider, target) {
            self.vendors.in_flight.dec();
            self.vendors.asked(lower, endpoint, end);
            // As the vendor's: only requests that were sent to the API, and answered.
            if let RequestEnd::Answered(_) = end {
                self.vendors.answered(code, lower, endpoint, took);
            }
        }
    }
}

/// The series of [`StatedRemaining`]. Series that have ended are removed at each scrape.
#[derive(Debug, Clone, Default)]
struct Remaining {
    series: Family<OfTarget, Gauge>,
    ends: Arc<Mutex<Vec<Ending>>>,
}

/// When a series ends.
#[derive(Debug)]
struct Ending {
    labels: OfTarget,
    at: Option<Instant>,
    listener: Weak<dyn Send + Sync>,
}

impl Remaining {
    fn set(&self, labels: OfTarget, stated: &StatedRemaining) {
        let mut ends = self.ends.lock();
        let remaining = i64::try_from(stated.remaining).unwrap_or(i64::MAX);
        self.series.get_or_create(&labels).set(remaining);
        ends.retain(|ending| ending.labels != labels);
        ends.push(Ending {
            labels,
            at: Instant::now().checked_add(stated.lasts),
            listener: stated.listener.clone(),
        });
    }

    fn end(&self) {
        let now = Instant::now();
        let mut ends = self.ends.lock();
        ends.retain(|ending| {
            let has_ended = ending.at.is_some_and(|at| at <= now);
            let lasts = !has_ended && ending.listener.strong_count() > 0;
            if !lasts {
                self.series.remove(&ending.labels);
            }
            lasts
        });
    }
}

impl EncodeMetric for Remaining {
    fn encode(&self, encoder: MetricEncoder<'_>) -> Result<(), fmt::Error> {
        self.end();
        self.series.encode(encoder)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Gauge
    }

    fn is_empty(&self) -> bool {
        self.end();
        self.series.is_empty()
    }
}

impl Vendors {
    fn register(registry: &mut Registry) -> Vendors {
        Vendors {
            requests: registry.add(
                "hcloud_api_requests",
                "Requests of the provider hcloud to its target api that were answered. The \
                 endpoint is the granted rule's path, with - for an ID. Non-standard status codes \
                 count as their class, such as 5xx",
                Family::default(),
            ),
            durations: registry.add(
                "hcloud_api_request_duration_seconds",
                "Seconds of requests of the provider hcloud to its target api that were answered, \
                 including waits before they were sent",
                Family::new_with_constructor(|| Histogram::new(VENDORS)),
            ),
            in_flight: registry.add(
                "hcloud_api_in_flight_requests",
                "Requests of the provider hcloud to its target api that have not ended",
                Gauge::default(),
            ),
            server_cache: registry.add(
                "cloud_controller_manager_server_cache_requests",
                "Requests of the provider hcloud for servers; hit: the response cache answered. \
                 The mode is all for a page of the list, one for a single server. The subsystem is \
                 empty: the cache knows no caller",
                Family::default(),
            ),
            endpoints: Arc::default(),
        }
    }

    /// Counts a request about servers. The caller, which the vendor's label `subsystem` names, is not known here.
    fn asked(&self, method: &str, endpoint: &str, end: RequestEnd) {
        let mode = match endpoint.strip_prefix("/servers") {
            Some("") => "all",
            Some(rest) if rest.starts_with("/{") => "one",
            _ => return,
        };
        let result = match end {
            RequestEnd::Kept => "hit",
            RequestEnd::Answered(_) => "miss",
            RequestEnd::Failed(_) => return,
        };
        if method == "get" {
            let labels = [("subsystem", ""), ("mode", mode), ("result", result)];
            self.server_cache.get_or_create(&labels).inc();
        }
    }

    fn answered(&self, code: &'static str, method: &'static str, endpoint: &str, took: f64) {
        let endpoint = self.bounded(vendors_endpoint(endpoint));
        let labels = (
            [("code", code), ("method", method)],
            [("api_endpoint", endpoint)],
        );
        self.requests.get_or_create(&labels).inc();
        let durations = self.durations.get_or_create(&[("method", method)]);
        durations.observe(took);
    }

    fn bounded(&self, endpoint: String) -> String {
        let mut endpoints = self.endpoints.lock();
        if endpoints.contains(&endpoint) {
            return endpoint;
        }
        if endpoints.len() >= MOST_ENDPOINTS {
            return "other".to_owned();
        }
        endpoints.insert(endpoint.clone());
        endpoint
    }
}

fn of(provider: &str, target: &str) -> OfTarget {
    [
        ("provider", provider.to_owned()),
        ("target", target.to_owned()),
    ]
}

fn is_vendors(provider: &str, target: &str) -> bool {
    provider == VENDORS_PROVIDER && target == VENDORS_TARGET
}

/// The vendor writes `-` for each parameter: `/servers/{id}` is `/servers/-`.
fn vendors_endpoint(pattern: &str) -> String {
    let segments = pattern.split('/').map(|segment| match segment {
        one if one.starts_with('{') || one.contains('*') => "-",
        other => other,
    });
    segments.collect::<Vec<_>>().join("/")
}

fn code(status: u16) -> &'static str {
    let known = CODES.iter().find(|(code, _)| *code == status);
    match (known, status) {
        (Some((_, text)), _) => text,
        (None, ..200) => "1xx",
        (None, 200..300) => "2xx",
        (None, 300..400) => "3xx",
        (None, 400..500) => "4xx",
        (None, 500..) => "5xx",
    }
}
