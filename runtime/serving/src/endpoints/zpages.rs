//! `/flagz` and `/statusz`, as component-base has them: text for people, or an object of `config.k8s.io` for programs.

use std::time::{SystemTime, UNIX_EPOCH};

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue, WARNING};
use http::{HeaderMap, StatusCode};
use k8s_openapi::jiff::{Timestamp, tz::TimeZone};
use serde_json::{Value, json};

use super::Endpoints;
use super::negotiation::{ACCEPTED, Encoding, Form, GROUP, Version, form};
use crate::access_control::refused;

/// Upstream's warning on the text forms.
const FOR_PEOPLE: &str = "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only.";
/// The paths that `/statusz` lists: the first part of every path, as upstream.
const PATHS: [&str; 7] = [
    "/configz", "/flagz", "/healthz", "/livez", "/metrics", "/readyz", "/statusz",
];
/// Also listed if the verbosity of the log can be set.
const DEBUG: &str = "/debug";

pub(super) async fn flagz(State(all): State<Endpoints>, headers: HeaderMap) -> Response {
    let text = || {
        let mut text = format!("\n{} flagz\n{FOR_PEOPLE}\n", all.component);
        for (name, value) in all.flags.iter() {
            text.push_str(&format!("{name}={value}\n"));
        }
        text
    };
    let content = || json!({"flags": all.flags.as_ref()});
    page(&all, &headers, "Flagz", text, content)
}

pub(super) async fn statusz(State(all): State<Endpoints>, headers: HeaderMap) -> Response {
    let up = all.started.elapsed().unwrap_or_default().as_secs();
    let mut paths = PATHS.to_vec();
    if all.set_verbosity.is_some() {
        paths.push(DEBUG);
        paths.sort_unstable();
    }
    let text = || {
        let started = stamp(all.started).to_zoned(TimeZone::UTC);
        format!(
            "\n{} statusz\n{FOR_PEOPLE}\n\nStarted: {}\nUp: {} hr {:02} min {:02} sec\nBinary version: {}\n\nPaths: {}\n",
            all.component,
            started.strftime("%a %b %e %H:%M:%S UTC %Y"),
            up / 3600,
            up / 60 % 60,
            up % 60,
            all.version,
            paths.join(" "),
        )
    };
    let content = || {
        json!({
            "startTime": stamp(all.started).to_string(),
            "uptimeSeconds": up,
            // The schema requires the field; there is no Go.
            "goVersion": "",
            "binaryVersion": all.version,
            "paths": paths,
        })
    };
    page(&all, &headers, "Statusz", text, content)
}

/// The page in the form that the client asks for.
fn page(
    all: &Endpoints,
    headers: &HeaderMap,
    kind: &str,
    text: impl FnOnce() -> String,
    content: impl FnOnce() -> Value,
) -> Response {
    // A header value that is no text accepts no form.
    let accept = headers
        .get(ACCEPT)
        .map_or("", |value| value.to_str().unwrap_or("?"));
    let (encoding, version) = match form(accept, kind) {
        None => {
            let code = StatusCode::NOT_ACCEPTABLE;
            return refused(code, "NotAcceptable", ACCEPTED.to_owned());
        }
        Some(Form::Text) => return text().into_response(),
        Some(Form::Object(encoding, version)) => (encoding, version),
    };
    let mut content = content();
    if let Some(object) = content.as_object_mut() {
        let version = format!("{GROUP}/{}", version.as_str());
        object.insert("kind".to_owned(), json!(kind));
        object.insert("apiVersion".to_owned(), json!(version));
        object.insert("metadata".to_owned(), json!({"name": all.component}));
    }
    let (content_type, body) = match encoding {
        Encoding::Json => ("application/json", content.to_string()),
        Encoding::Yaml => ("application/yaml", yaml(&content)),
    };
    let mut answer = ([(CONTENT_TYPE, content_type)], body).into_response();
    if version == Version::V1Alpha1 {
        let warning = deprecated(kind);
        answer.headers_mut().extend(warning);
    }
    answer
}

/// Upstream's warning about the deprecated version.
fn deprecated(kind: &str) -> Option<(HeaderName, HeaderValue)> {
    let page = kind.to_ascii_lowercase();
    let text = format!(
        "299 - \"This version of the {page} endpoint is deprecated. Please use a newer version.\""
    );
    Some((WARNING, HeaderValue::from_str(&text).ok()?))
}

/// A document with a line for each field. Below that, values are in JSON, which is YAML as well.
fn yaml(object: &Value) -> String {
    let fields = object.as_object().into_iter().flatten();
    let lines = fields.map(|(name, value)| format!("{name}: {value}\n"));
    lines.collect()
}

fn stamp(time: SystemTime) -> Timestamp {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX)
}
