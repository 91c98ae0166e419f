//! The paths that are served, and their answers. Their contents are given: this file computes nothing about
//! controllers.

mod negotiation;
mod zpages;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use axum::Router;
use axum::extract::{Path, RawQuery, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, put};
use ccm_metrics::text::{Format, encode};
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, StatusCode};
use prometheus_client::registry::Registry;
use serde_json::Value;

use self::zpages::{flagz, statusz};
use crate::health::{Checks, Report};
use crate::status::{self, StatusSource};

/// The contents of the endpoints.
#[derive(Clone)]
pub struct Endpoints {
    /// The component's name, such as `cloud-controller-manager`.
    pub component: &'static str,
    /// Version of the binary, without `v`.
    pub version: &'static str,
    /// Health checks of `/healthz`, `/livez` and `/readyz`.
    pub checks: Checks,
    /// Further checks of `/readyz` alone: a process that is not ready because of them need not be restarted.
    pub ready: Checks,
    /// The metrics of `/metrics`.
    pub metrics: Arc<Registry>,
    /// The metrics of `/metrics/slis`, which the checks count in.
    pub slis: Arc<Registry>,
    /// The configuration of `/configz`, by its group.
    pub configz: Arc<Value>,
    /// The values of all flags, for `/flagz`.
    pub flags: Arc<BTreeMap<String, String>>,
    /// When the process started.
    pub started: SystemTime,
    /// Returns the report of the status page at `/`.
    pub status: StatusSource,
    /// Called by `PUT /debug/flags/v` with the new verbosity of the log. `None`: there is no such path.
    pub set_verbosity: Option<fn(u32)>,
}

impl Endpoints {
    /// All paths of the secure port.
    pub(crate) fn router(self) -> Router {
        let debug = match self.set_verbosity {
            None => Router::new(),
            // As in component-base, which answers other methods with 406.
            Some(_) => Router::new()
                .route("/debug/flags", get(debug_flags))
                .route("/debug/flags/", get(debug_flags))
                .route("/debug/flags/v", put(verbosity).fallback(not_put)),
        };
        debug
            .route("/", get(status_page))
            .route("/healthz", get(healthz))
            .route("/livez", get(livez))
            .route("/readyz", get(readyz))
            .route("/healthz/{name}", get(one_health))
            .route("/livez/{name}", get(one_live))
            .route("/readyz/{name}", get(one_ready))
            .route("/metrics", get(metrics))
            .route("/metrics/slis", get(slis).delete(reset_slis))
            .route("/configz", get(configz))
            .route("/flagz", get(flagz))
            .route("/statusz", get(statusz))
            .fallback(not_found)
            .with_state(self)
    }

    /// `/metrics` alone, for a plain port.
    pub(crate) fn plain_router(self) -> Router {
        Router::new()
            .route("/metrics", get(metrics))
            .fallback(not_found)
            .with_state(self)
    }
}

/// The status page alone, for a plain port.
pub(crate) fn status_router(source: StatusSource) -> Router {
    let page = async |State(source): State<StatusSource>, headers: HeaderMap, query: RawQuery| {
        status::answer(&source, &headers, query)
    };
    Router::new()
        .route("/", get(page))
        .fallback(not_found)
        .with_state(source)
}

/// Adds the headers of every answer: no cache keeps it, and no browser guesses its type.
pub(crate) fn common_headers(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

async fn status_page(
    State(all): State<Endpoints>,
    headers: HeaderMap,
    query: RawQuery,
) -> Response {
    status::answer(&all.status, &headers, query)
}

async fn healthz(State(all): State<Endpoints>, RawQuery(query): RawQuery) -> Response {
    health(&[&all.checks], "healthz", query)
}

async fn livez(State(all): State<Endpoints>, RawQuery(query): RawQuery) -> Response {
    health(&[&all.checks], "livez", query)
}

async fn readyz(State(all): State<Endpoints>, RawQuery(query): RawQuery) -> Response {
    health(&[&all.checks, &all.ready], "readyz", query)
}

async fn one_health(State(all): State<Endpoints>, Path(name): Path<String>) -> Response {
    one(all.checks.report_one("healthz", &name))
}

async fn one_live(State(all): State<Endpoints>, Path(name): Path<String>) -> Response {
    one(all.checks.report_one("livez", &name))
}

async fn one_ready(State(all): State<Endpoints>, Path(name): Path<String>) -> Response {
    let ready = all.ready.report_one("readyz", &name);
    one(ready.or_else(|| all.checks.report_one("readyz", &name)))
}

fn health(checks: &[&Checks], kind: &str, query: Option<String>) -> Response {
    let query = query.unwrap_or_default();
    let pairs: Vec<(String, String)> = url::form_urlencoded::parse(query.as_bytes())
        .into_owned()
        .collect();
    let verbose = pairs.iter().any(|(key, _)| key == "verbose");
    let excluded: Vec<String> = pairs
        .into_iter()
        .filter(|(key, _)| key == "exclude")
        .map(|(_, name)| name)
        .collect();
    answer(Checks::report(checks, kind, verbose, &excluded))
}

fn one(report: Option<Report>) -> Response {
    report.map_or_else(missing, answer)
}

fn answer(report: Report) -> Response {
    let code = match report.healthy {
        true => StatusCode::OK,
        false => StatusCode::INTERNAL_SERVER_ERROR,
    };
    (code, report.text).into_response()
}

async fn metrics(State(all): State<Endpoints>, headers: HeaderMap) -> Response {
    scrape(&all.metrics, &headers)
}

async fn slis(State(all): State<Endpoints>, headers: HeaderMap) -> Response {
    scrape(&all.slis, &headers)
}

async fn reset_slis(State(all): State<Endpoints>) -> &'static str {
    // The other list of checks shares the results.
    all.checks.forget_results();
    "metrics reset\n"
}

fn scrape(registry: &Registry, headers: &HeaderMap) -> Response {
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    let format = Format::accepted(accept);
    match encode(registry, format) {
        Ok(text) => ([(CONTENT_TYPE, format.content_type())], text).into_response(),
        // Only a defect in a metric's own code fails here.
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn configz(State(all): State<Endpoints>) -> Response {
    axum::Json(all.configz.as_ref()).into_response()
}

/// Upstream's list of the flags that can be set.
async fn debug_flags() -> &'static str {
    "/debug/flags/\n\nflags:\nv\n"
}

async fn verbosity(State(all): State<Endpoints>, text: String) -> Response {
    // As klog parses it: an unsigned number that fits into a signed one.
    let verbosity = text.parse::<u32>().ok();
    let verbosity = verbosity.filter(|verbosity| i32::try_from(*verbosity).is_ok());
    let (Some(set), Some(verbosity)) = (all.set_verbosity, verbosity) else {
        let why = "expected a number from 0 to 2147483647 and nothing else";
        return (StatusCode::BAD_REQUEST, why).into_response();
    };
    set(verbosity);
    format!("successfully set klog.logging.verbosity to {verbosity}").into_response()
}

async fn not_put() -> Response {
    (StatusCode::NOT_ACCEPTABLE, "unsupported http method").into_response()
}

async fn not_found() -> Response {
    missing()
}

fn missing() -> Response {
    (StatusCode::NOT_FOUND, "404 page not found\n").into_response()
}
