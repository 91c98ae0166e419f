//! The API as a function of one call and the account's state.
//!
//! Knows the vendor's paths and envelopes, but no sockets, faults, tokens or budgets.

use http::{Method, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::account::Account;
use super::{certificates, droplets, load_balancers, places, tags};
use crate::loopback::Reply;

/// The vendor's default page size.
const DEFAULT_PER_PAGE: usize = 20;
/// The vendor's largest page size.
const MAX_PER_PAGE: usize = 200;

/// A parsed and authorised request.
pub(super) struct Call {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) query: String,
    /// Scheme, host and port, for URLs in replies.
    pub(super) origin: String,
    pub(super) body: bytes::Bytes,
    pub(super) now: Instant,
    /// Whether a fault makes the work that this call starts fail in the end.
    pub(super) action_fails: bool,
}

impl Call {
    /// The first value of a query parameter.
    pub(super) fn first(&self, key: &str) -> Option<String> {
        first(Some(&self.query), key)
    }

    /// Parses the JSON body.
    pub(super) fn json<T: DeserializeOwned>(&self) -> Result<T, Refusal> {
        serde_json::from_slice(&self.body).map_err(|error| match error.is_data() {
            true => Refusal::unprocessable(error.to_string()),
            false => Refusal::new(
                StatusCode::BAD_REQUEST,
                "bad_request",
                "error parsing request body",
            ),
        })
    }
}

/// The first value of a parameter in this query.
pub(super) fn first(query: Option<&str>, key: &str) -> Option<String> {
    let mut pairs = url::form_urlencoded::parse(query?.as_bytes());
    pairs
        .find(|(name, _)| name == key)
        .map(|(_, value)| value.into_owned())
}

/// A refusal in the vendor's error envelope.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    id: String,
    message: String,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, id: &str, message: impl Into<String>) -> Self {
        Self {
            status,
            id: id.to_owned(),
            message: message.into(),
        }
    }

    pub(super) fn not_found() -> Self {
        let message = "The resource you were accessing could not be found.";
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    /// A well-formed request that cannot be carried out.
    pub(super) fn unprocessable(why: impl Into<String>) -> Self {
        Self::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "unprocessable_entity",
            why,
        )
    }

    pub(super) fn into_reply(self) -> Reply {
        let body = json!({
            "id": self.id,
            "message": self.message,
            "request_id": "4d9d8375-3c56-4925-a3e7-eb137fed17e9",
        });
        Reply {
            status: self.status,
            body: Some(body),
        }
    }
}

/// Answers one call. First ends the work whose time is over, so that a reply never shows stale state.
pub(super) fn answer(account: &mut Account, call: &Call) -> Reply {
    account.settle(call.now);
    dispatch(account, call).unwrap_or_else(Refusal::into_reply)
}

fn dispatch(account: &mut Account, call: &Call) -> Result<Reply, Refusal> {
    let path = call.path.strip_prefix("/v2/").unwrap_or_default();
    let segments: Vec<&str> = path.split('/').collect();
    let method = call.method.as_str();
    match segments.as_slice() {
        ["droplets", rest @ ..] => droplets::answer(account, call, method, rest),
        ["load_balancers", rest @ ..] => load_balancers::answer(account, call, method, rest),
        ["certificates", rest @ ..] => certificates::answer(account, call, method, rest),
        ["tags", rest @ ..] => tags::answer(account, call, method, rest),
        rest if method == "GET" => places::answer(call, rest),
        _ => Err(Refusal::not_found()),
    }
}

/// One page of a list under `key`, with the vendor's links and total.
pub(super) fn list(call: &Call, key: &str, items: Vec<Value>) -> Result<Reply, Refusal> {
    let number = |name: &str, default: usize| match call.first(name) {
        None => Ok(default),
        Some(text) => {
            let number = text.parse().ok().filter(|number| *number > 0);
            number.ok_or_else(|| Refusal::unprocessable(format!("{name} must be a number above 0")))
        }
    };
    let page = number("page", 1)?;
    let per_page = number("per_page", DEFAULT_PER_PAGE)?.min(MAX_PER_PAGE);
    let total = items.len();
    let last = total.div_ceil(per_page).max(1);
    let url = |page: usize| {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        let kept = url::form_urlencoded::parse(call.query.as_bytes());
        query.extend_pairs(kept.filter(|(name, _)| name != "page"));
        query.append_pair("page", &page.to_string());
        json!(format!("{}{}?{}", call.origin, call.path, query.finish()))
    };
    let mut pages = Map::new();
    if page > 1 {
        pages.insert("first".to_owned(), url(1));
        pages.insert("prev".to_owned(), url(page - 1));
    }
    if page < last {
        pages.insert("next".to_owned(), url(page + 1));
        pages.insert("last".to_owned(), url(last));
    }
    let links = match pages.is_empty() {
        true => json!({}),
        false => json!({"pages": pages}),
    };
    let skipped = (page - 1).saturating_mul(per_page);
    let items: Vec<Value> = items.into_iter().skip(skipped).take(per_page).collect();
    let mut body = json!({"links": links, "meta": {"total": total}});
    body[key] = json!(items);
    Ok(Reply::ok(body))
}
