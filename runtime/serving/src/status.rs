//! The status page of the process: its contents and its form. Computes nothing about controllers: a function that the
//! endpoints are given fills a [`StatusReport`].

mod html;
mod page;
mod style;

use std::sync::Arc;

use axum::extract::RawQuery;
use axum::response::{IntoResponse as _, Response};
use ccm_core::status_report::StatusReport;
use http::HeaderMap;
use http::header::{
    ACCEPT, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, REFERRER_POLICY, VARY,
};

/// Returns the current report. Must not block: it is called on the thread of the endpoints.
pub type StatusSource = Arc<dyn Fn() -> StatusReport + Send + Sync>;

/// How the page is refreshed. Without scripts, the whole page is loaded again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refresh {
    /// By the browser, every [`page::REFRESH_SECONDS`].
    Automatic,
    /// By hand: for readers who use a screen reader or look something up.
    ByHand,
}

impl Refresh {
    fn of(query: Option<&str>) -> Refresh {
        let pairs = url::form_urlencoded::parse(query.unwrap_or_default().as_bytes());
        let mut pairs = pairs.filter(|(name, _)| name == "refresh");
        match pairs.any(|(_, value)| value == "off") {
            true => Refresh::ByHand,
            false => Refresh::Automatic,
        }
    }
}

/// The page, or the report as JSON for clients that ask for that.
pub(crate) fn answer(source: &StatusSource, headers: &HeaderMap, query: RawQuery) -> Response {
    let report = source();
    let mut response = match wants_json(headers) {
        true => axum::Json(&report).into_response(),
        false => {
            let RawQuery(query) = query;
            let html = page::render(&report, Refresh::of(query.as_deref()));
            let html_type = HeaderValue::from_static("text/html; charset=utf-8");
            ([(CONTENT_TYPE, html_type)], html).into_response()
        }
    };
    let policies: [(HeaderName, HeaderValue); 3] = [
        (CONTENT_SECURITY_POLICY, style::policy()),
        (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (VARY, HeaderValue::from_static("Accept")),
    ];
    response.headers_mut().extend(policies);
    response
}

/// Whether `Accept` names JSON before HTML. Browsers name HTML; a client that accepts anything gets the page.
fn wants_json(headers: &HeaderMap) -> bool {
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    let mut media_types = accept.unwrap_or_default().split(',').map(|media_type| {
        let name = media_type.split(';').next();
        name.unwrap_or_default().trim().to_ascii_lowercase()
    });
    media_types.find(|media_type| media_type == "application/json" || media_type == "text/html")
        == Some("application/json".to_owned())
}
