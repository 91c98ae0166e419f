//! Parses the orders in annotations. Every client that may annotate the object can write them: invalid orders are
//! ignored. A pin that is no digest is kept, and names no version: one that was mistyped must not let another one in.

use std::collections::BTreeMap;

use ccm_core::rollout::{Order, Orders};
use ccm_core::well_known::{ALLOW_CHANGES, ALLOW_DOWNGRADE, APPROVE, PAUSE, PIN, RETRY, ROLL_BACK};
use ccm_host::Digest;

/// Maximum length of a pin, in characters: one more than that of a digest, so that a longer text does not become one.
const PIN_LENGTH: usize = 72;

/// Returns the orders in these annotations.
pub(super) fn orders(annotations: Option<&BTreeMap<String, String>>) -> Orders {
    let get = |key: &str| {
        annotations
            .and_then(|all| all.get(key))
            .map(|text| text.trim())
    };
    let digest = |key: &str| {
        get(key)
            .filter(|text| Digest::parse(text).is_some())
            .map(str::to_owned)
    };
    let pin = get(PIN).filter(|text| !text.is_empty());
    let flag = |key: &str| get(key).is_some_and(is_set);
    Orders {
        pin: pin.map(|text| text.chars().take(PIN_LENGTH).collect()),
        pause: flag(PAUSE),
        roll_back: flag(ROLL_BACK),
        approve: digest(APPROVE),
        retry: digest(RETRY),
        allow_downgrade: digest(ALLOW_DOWNGRADE),
        allow_changes: digest(ALLOW_CHANGES),
    }
}

/// Annotation key of an order.
pub(super) fn key(order: &Order) -> &'static str {
    match order {
        Order::RollBack => ROLL_BACK,
        Order::Retry(_) => RETRY,
    }
}

/// Whether an annotation is set: any value counts, except those that mean `false`.
fn is_set(text: &str) -> bool {
    !matches!(text, "false" | "False" | "FALSE" | "f" | "F" | "0" | "no")
}
