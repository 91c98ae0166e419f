//! The vendor's envelopes, for the faults that all clouds share.

use http::StatusCode;
use serde_json::{Value, json};

use super::api::Refusal;
use crate::loopback::{Envelope, Reply};

/// Hetzner Cloud's refusals and lists.
pub(super) struct Vendor;

impl Envelope for Vendor {
    const TOO_MANY: (&'static str, &'static str) =
        ("rate_limit_exceeded", "limit of requests per hour reached");

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
