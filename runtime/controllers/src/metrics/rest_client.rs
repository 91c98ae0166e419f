//! The `rest_client_*` metrics, under upstream's names, labels and buckets. Sends nothing.
//!
//! Labels are bounded: the host is the API server's of the configuration, verbs are HTTP's, and codes are what the API
//! server answers, or `<error>`.

use std::fmt::{Error, Write as _};
use std::sync::Arc;
use std::time::Duration;

use ccm_metrics::Registration as _;
use http::{Method, StatusCode};
use prometheus_client::encoding::{EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Upstream's buckets for durations, in seconds.
const DURATIONS: [f64; 12] = [
    0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0,
];
/// Upstream's buckets for sizes, in bytes.
const SIZES: [f64; 11] = [
    64.0,
    256.0,
    512.0,
    1024.0,
    4096.0,
    16384.0,
    65536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
];

/// Labels `verb` and `host`.
type ByVerb = (
    [(&'static str, &'static str); 1],
    [(&'static str, Arc<str>); 1],
);
/// Labels `code`, `method` and `host`.
type ByCode = (
    [(&'static str, Code); 1],
    (
        [(&'static str, &'static str); 1],
        [(&'static str, Arc<str>); 1],
    ),
);

/// How a request ended, as a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Code {
    Status(u16),
    /// The request failed without an answer: `<error>`.
    Failed,
}

impl EncodeLabelValue for Code {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), Error> {
        match self {
            Code::Status(status) => write!(encoder, "{status}"),
            Code::Failed => encoder.write_str("<error>"),
        }
    }
}

/// The metrics of the requests to the API server by all clients that `RestClients` gives a layer. Clones share the same
/// metrics.
#[derive(Debug, Clone)]
pub(crate) struct RestMetrics {
    requests: Family<ByCode, Counter>,
    durations: Family<ByVerb, Histogram>,
    request_sizes: Family<ByVerb, Histogram>,
    response_sizes: Family<ByVerb, Histogram>,
    waits: Family<ByVerb, Histogram>,
}

impl Default for RestMetrics {
    fn default() -> RestMetrics {
        RestMetrics::register(&mut Registry::default())
    }
}

impl RestMetrics {
    /// Creates and registers the metrics.
    pub(crate) fn register(registry: &mut Registry) -> RestMetrics {
        let durations = || Histogram::new(DURATIONS);
        let sizes = || Histogram::new(SIZES);
        RestMetrics {
            requests: registry.add(
                "rest_client_requests",
                "[ALPHA] Requests to the API server, by status code, method and host; \
                 the code <error>: no answer came",
                Family::default(),
            ),
            durations: registry.add(
                "rest_client_request_duration_seconds",
                "[ALPHA] Seconds from a request to the head of its answer. Watches are excluded",
                Family::new_with_constructor(durations),
            ),
            request_sizes: registry.add(
                "rest_client_request_size_bytes",
                "[ALPHA] Bytes of the bodies of requests",
                Family::new_with_constructor(sizes),
            ),
            response_sizes: registry.add(
                "rest_client_response_size_bytes",
                "[ALPHA] Bytes of the bodies of answers. Watches are excluded",
                Family::new_with_constructor(sizes),
            ),
            waits: registry.add(
                "rest_client_rate_limiter_duration_seconds",
                "[ALPHA] Seconds that requests waited because of --kube-api-qps and \
                 --kube-api-burst; empty without them. Watches do not wait",
                Family::new_with_constructor(durations),
            ),
        }
    }
}

/// Measures one request, from its start to the end of the answer's body.
#[derive(Debug, Clone)]
pub(crate) struct RequestMeter {
    metrics: RestMetrics,
    host: Arc<str>,
    verb: &'static str,
    is_watch: bool,
}

impl RequestMeter {
    /// A request that has not begun. A watch has neither a duration nor a size: it lasts until it is over.
    pub(crate) fn new(
        metrics: RestMetrics,
        host: Arc<str>,
        method: &Method,
        is_watch: bool,
    ) -> RequestMeter {
        let verb = match *method {
            Method::GET => "GET",
            Method::POST => "POST",
            Method::PUT => "PUT",
            Method::PATCH => "PATCH",
            Method::DELETE => "DELETE",
            _ => "other",
        };
        RequestMeter {
            metrics,
            host,
            verb,
            is_watch,
        }
    }

    fn labels(&self) -> ByVerb {
        ([("verb", self.verb)], [("host", self.host.clone())])
    }

    /// Records how long the request waited for the client-side limit.
    pub(crate) fn waited(&self, wait: Duration) {
        let waits = self.metrics.waits.get_or_create(&self.labels());
        waits.observe(wait.as_secs_f64());
    }

    /// Records the head of the answer, or that there was none.
    pub(crate) fn answered(&self, status: Option<StatusCode>, sent: Option<u64>, took: Duration) {
        let code = status.map_or(Code::Failed, |status| Code::Status(status.as_u16()));
        let labels = (
            [("code", code)],
            ([("method", self.verb)], [("host", self.host.clone())]),
        );
        self.metrics.requests.get_or_create(&labels).inc();
        if self.is_watch {
            return;
        }
        let labels = self.labels();
        let durations = self.metrics.durations.get_or_create(&labels);
        durations.observe(took.as_secs_f64());
        if let Some(sent) = sent {
            let sizes = self.metrics.request_sizes.get_or_create(&labels);
            sizes.observe(sent as f64);
        }
    }

    /// Records the end of the answer's body.
    pub(crate) fn received(&self, bytes: u64) {
        if !self.is_watch {
            let sizes = self.metrics.response_sizes.get_or_create(&self.labels());
            sizes.observe(bytes as f64);
        }
    }
}
