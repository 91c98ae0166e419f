//! The account as the processing of requests sees it: it parses and executes them, and refuses in the vendor's envelope.

use bytes::Bytes;
use http::StatusCode;
use http::header::HOST;
use http::request::Parts;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::account::Account;
use super::api::{self, Call, Refusal};
use crate::loopback::{Api, Denial, Reply, Trouble};

impl Api for Account {
    /// The vendor's base URL is without the `/v2` of all paths.
    const ROOT: &'static str = "";

    const MAX_BODY: usize = 1 << 20;

    fn execute(&mut self, head: &Parts, body: Bytes, trouble: Option<&Trouble>) -> Reply {
        // Scheme, host and port as the client addressed them.
        let host = head.headers.get(HOST).and_then(|host| host.to_str().ok());
        let origin = format!("{}://{}", self.scheme, host.unwrap_or_default());
        let call = Call {
            method: head.method.clone(),
            path: head.uri.path().to_owned(),
            query: head.uri.query().unwrap_or_default().to_owned(),
            origin,
            body,
            now: Instant::now(),
            action_fails: matches!(trouble, Some(Trouble::ActionFails { .. })),
        };
        api::answer(self, &call)
    }

    fn denial(why: Denial) -> Reply {
        let (status, id, message) = match why {
            // No token here allows only reading.
            Denial::Unauthorized | Denial::ReadOnly => (
                StatusCode::UNAUTHORIZED,
                "Unauthorized",
                "Unable to authenticate you",
            ),
            Denial::TooMany => (
                StatusCode::TOO_MANY_REQUESTS,
                "too_many_requests",
                "API Rate limit exceeded.",
            ),
            Denial::TooLarge => (
                StatusCode::PAYLOAD_TOO_LARGE,
                "bad_request",
                "the request body is too large or never ends",
            ),
        };
        Self::refusal(status, id, message)
    }

    fn refusal(status: StatusCode, id: &str, message: &str) -> Reply {
        Refusal::new(status, id, message).into_reply()
    }

    fn empty(list: &mut Value) {
        list["meta"]["total"] = json!(0);
        list["links"] = json!({});
    }

    fn repeat(list: &mut Value) {
        let pages = &mut list["links"]["pages"];
        let here = |url: &Value| url.as_str().map(str::to_owned);
        // The page before the next page is this one.
        let page = here(&pages["next"]).and_then(|url| {
            let (base, query) = url.split_once('?')?;
            let number: u64 = api::first(Some(query), "page")?.parse().ok()?;
            let rest = query.replace(&format!("page={number}"), &format!("page={}", number - 1));
            Some(format!("{base}?{rest}"))
        });
        if let Some(page) = page {
            pages["next"] = json!(page);
        }
    }
}
