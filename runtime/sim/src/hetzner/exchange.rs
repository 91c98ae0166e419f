//! The project as the processing of requests sees it: it parses and executes them, and refuses in the vendor's envelope.

use bytes::Bytes;
use http::StatusCode;
use http::request::Parts;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::actions::Failure;
use super::api::{self, Call, Refusal};
use super::query::Query;
use super::world::World;
use crate::loopback::{Api, Denial, Reply, Trouble};

impl Api for World {
    const ROOT: &'static str = "/v1";

    /// Larger than any valid request: the vendor's user data is at most 32 KiB.
    const MAX_BODY: usize = 1 << 20;

    fn execute(&mut self, head: &Parts, body: Bytes, trouble: Option<&Trouble>) -> Reply {
        let path = head.uri.path().strip_prefix("/v1/").unwrap_or_default();
        let call = Call {
            method: head.method.clone(),
            path: path.to_owned(),
            query: Query::parse(head.uri.query().unwrap_or_default()),
            body,
            now: Instant::now(),
            failure: match trouble {
                Some(Trouble::ActionFails { code, message }) => Some(Failure {
                    code: code.clone(),
                    message: message.clone(),
                }),
                _ => None,
            },
        };
        api::answer(self, &call)
    }

    fn denial(why: Denial) -> Reply {
        let (status, code, message) = match why {
            Denial::Unauthorized => (
                StatusCode::UNAUTHORIZED,
                "unauthorized",
                "unable to authenticate",
            ),
            Denial::ReadOnly => (
                StatusCode::FORBIDDEN,
                "token_readonly",
                "only read access is allowed, not write access",
            ),
            Denial::TooMany => (
                StatusCode::TOO_MANY_REQUESTS,
                "rate_limit_exceeded",
                "limit of requests per hour reached",
            ),
            Denial::TooLarge => (
                StatusCode::PAYLOAD_TOO_LARGE,
                "invalid_input",
                "the request body is too large or never ends",
            ),
        };
        Self::refusal(status, code, message)
    }

    fn refusal(status: StatusCode, code: &str, message: &str) -> Reply {
        Refusal::new(status, code, message).into_reply()
    }

    fn empty(list: &mut Value) {
        if let Some(meta) = pagination(list) {
            meta["total_entries"] = json!(0);
            meta["last_page"] = json!(1);
            meta["next_page"] = Value::Null;
        }
    }

    fn repeat(list: &mut Value) {
        if let Some(meta) = pagination(list) {
            meta["next_page"] = meta["page"].clone();
        }
    }
}

fn pagination(list: &mut Value) -> Option<&mut Value> {
    list.pointer_mut("/meta/pagination")
}
