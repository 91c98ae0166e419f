//! Events as client-go's recorder writes them (core/v1): equal ones are counted up instead of repeated.
//! Makes values; sends nothing.

use std::collections::HashMap;

use ccm_core::cloud::CloudEvent;
use ccm_core::effect::NodeRef;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

/// How long an Event is counted up before a new one is made; client-go's window.
const WINDOW: SignedDuration = SignedDuration::from_mins(10);
/// How many Events are remembered: client-go's number. When it is reached, all are forgotten, which
/// costs nothing but repeated Event objects.
const MOST: usize = 4096;
/// The longest name of an object; an Event's ends with a hexadecimal time of at most 17 characters.
const MOST_NAME: usize = 253 - 17;

/// What was recorded lately.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    lately: HashMap<Key, Seen>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    uid: String,
    event_type: &'static str,
    reason: String,
    message: String,
}

#[derive(Debug)]
struct Seen {
    name: String,
    count: i32,
    last: Timestamp,
}

impl Seen {
    fn is_recent(&self, now: Timestamp) -> bool {
        now.duration_since(self.last) <= WINDOW
    }
}

/// What has to be sent.
#[derive(Debug, PartialEq)]
pub(super) enum Recorded {
    /// A new Event.
    New(Box<Event>),
    /// The same as before: a strategic merge patch of the Event with this name.
    Again {
        /// Name of the Event.
        name: String,
        /// The new count and time.
        patch: Value,
    },
}

impl Recorder {
    /// Notes that `event` about `node` happens at `now`, by this controller's account.
    pub(super) fn record(
        &mut self,
        node: &NodeRef,
        event: &CloudEvent,
        controller: &'static str,
        now: Timestamp,
    ) -> Recorded {
        let key = key(node, event);
        if let Some(seen) = self.lately.get_mut(&key).filter(|seen| seen.is_recent(now)) {
            seen.count = seen.count.saturating_add(1);
            seen.last = now;
            return Recorded::Again {
                name: seen.name.clone(),
                patch: json!({ "count": seen.count, "lastTimestamp": Time(now) }),
            };
        }
        if self.lately.len() >= MOST {
            self.lately.retain(|_, seen| seen.is_recent(now));
        }
        if self.lately.len() >= MOST {
            self.lately.clear();
        }
        let prefix: String = node.name.chars().take(MOST_NAME).collect();
        let name = format!("{prefix}.{:x}", now.as_nanosecond());
        self.lately.insert(
            key,
            Seen {
                name: name.clone(),
                count: 1,
                last: now,
            },
        );
        Recorded::New(Box::new(new_event(name, node, event, controller, now)))
    }

    /// Forgets an Event that could not be sent, so that the next one is a new one.
    pub(super) fn forget(&mut self, node: &NodeRef, event: &CloudEvent) {
        self.lately.remove(&key(node, event));
    }
}

fn key(node: &NodeRef, event: &CloudEvent) -> Key {
    Key {
        uid: node.uid.clone(),
        event_type: event.event_type.as_str(),
        reason: event.reason.clone(),
        message: event.message.clone(),
    }
}

fn new_event(
    name: String,
    node: &NodeRef,
    event: &CloudEvent,
    controller: &'static str,
    now: Timestamp,
) -> Event {
    Event {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: Some(super::EVENT_NAMESPACE.to_owned()),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Node".to_owned()),
            name: Some(node.name.clone()),
            uid: Some(node.uid.clone()),
            ..ObjectReference::default()
        },
        type_: Some(event.event_type.as_str().to_owned()),
        reason: Some(event.reason.clone()),
        message: Some(event.message.clone()),
        source: Some(EventSource {
            component: Some(controller.to_owned()),
            ..EventSource::default()
        }),
        reporting_component: Some(controller.to_owned()),
        count: Some(1),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        ..Event::default()
    }
}
