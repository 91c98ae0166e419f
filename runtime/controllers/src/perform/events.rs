//! Events as client-go's recorder writes them (core/v1): equal ones are counted up instead of repeated. Best effort:
//! what cannot be recorded is logged, and nobody waits for it again.

use std::collections::HashMap;
use std::sync::Arc;

use ccm_core::cloud::CloudEvent;
use ccm_core::effect::{NodeRef, ServiceRef};
use ccm_core::names::{
    IPAM_CONTROLLER, IPAM_EVENTS, ROUTE_CONTROLLER, ROUTE_EVENTS, SERVICE_EVENTS,
};
use ccm_core::tenure::Tenure;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::request::in_time;
use super::{params, strategic};
use crate::clock::{boottime, wall};

/// Nodes are not namespaced; their Events live here (client-go does the same).
const NODE_NAMESPACE: &str = "default";
/// How long an Event is counted up before a new one is made; client-go's window.
const WINDOW: SignedDuration = SignedDuration::from_mins(10);
/// How many Events are remembered: client-go's number. When it is reached, all are forgotten, which
/// costs nothing but repeated Event objects.
const MOST: usize = 4096;
/// The longest name of an object; an Event's ends with a hexadecimal time of at most 17 characters.
const MOST_NAME: usize = 253 - 17;

/// Whom an Event is about, and who says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct About<'a> {
    kind: &'static str,
    /// Of the object, if its kind has namespaces.
    namespace: Option<&'a str>,
    name: &'a str,
    uid: &'a str,
    component: &'static str,
}

impl<'a> About<'a> {
    /// A node, by this controller's account. Two of them have another name in Events (ROUTE-006, IPAM-029).
    pub(super) fn node(node: &'a NodeRef, controller: &'static str) -> About<'a> {
        let component = match controller {
            ROUTE_CONTROLLER => ROUTE_EVENTS,
            IPAM_CONTROLLER => IPAM_EVENTS,
            controller => controller,
        };
        About {
            kind: "Node",
            namespace: None,
            name: &node.name,
            uid: &node.uid,
            component,
        }
    }

    /// A Service (SVC-001).
    pub(super) fn service(service: &'a ServiceRef) -> About<'a> {
        About {
            kind: "Service",
            namespace: Some(&service.namespace),
            name: &service.name,
            uid: &service.uid,
            component: SERVICE_EVENTS,
        }
    }

    /// The namespace that the Event lives in.
    fn home(&self) -> &'a str {
        self.namespace.unwrap_or(NODE_NAMESPACE)
    }
}

/// See the module's documentation.
pub(crate) struct Events {
    client: Client,
    recorder: Mutex<Recorder>,
    tenure: Arc<Tenure>,
}

impl Events {
    /// Nothing was recorded yet.
    pub(crate) fn new(client: Client, tenure: Arc<Tenure>) -> Events {
        Events {
            client,
            recorder: Mutex::default(),
            tenure,
        }
    }

    /// Records `event`, or counts it up.
    pub(super) async fn record(&self, about: &About<'_>, event: &CloudEvent) {
        if !self.tenure.may_begin(boottime()) {
            return;
        }
        let api: Api<Event> = Api::namespaced(self.client.clone(), about.home());
        let recorded = self.recorder.lock().await.record(about, event, wall());
        let result = match &recorded {
            Recorded::New(new) => {
                in_time(&self.tenure, api.create(&PostParams::default(), new)).await
            }
            Recorded::Again { name, patch } => {
                let body = strategic(patch.clone());
                in_time(&self.tenure, api.patch(name, &params(), &body)).await
            }
        };
        if let Err(error) = result {
            self.recorder.lock().await.forget(about, event);
            tracing::warn!(
                component = about.component,
                kind = about.kind,
                namespace = about.namespace,
                name = about.name,
                reason = %event.reason,
                %error,
                "an Event could not be recorded"
            );
        }
    }
}

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
    /// Notes that `event` happens at `now`.
    pub(super) fn record(
        &mut self,
        about: &About<'_>,
        event: &CloudEvent,
        now: Timestamp,
    ) -> Recorded {
        let key = key(about, event);
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
        let prefix: String = about.name.chars().take(MOST_NAME).collect();
        let name = format!("{prefix}.{:x}", now.as_nanosecond());
        self.lately.insert(
            key,
            Seen {
                name: name.clone(),
                count: 1,
                last: now,
            },
        );
        Recorded::New(Box::new(new_event(name, about, event, now)))
    }

    /// Forgets an Event that could not be sent, so that the next one is a new one.
    pub(super) fn forget(&mut self, about: &About<'_>, event: &CloudEvent) {
        self.lately.remove(&key(about, event));
    }
}

fn key(about: &About<'_>, event: &CloudEvent) -> Key {
    Key {
        uid: about.uid.to_owned(),
        event_type: event.event_type.as_str(),
        reason: event.reason.clone(),
        message: event.message.clone(),
    }
}

fn new_event(name: String, about: &About<'_>, event: &CloudEvent, now: Timestamp) -> Event {
    let component = Some(about.component.to_owned());
    Event {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: Some(about.home().to_owned()),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some(about.kind.to_owned()),
            namespace: about.namespace.map(str::to_owned),
            name: Some(about.name.to_owned()),
            uid: Some(about.uid.to_owned()),
            ..ObjectReference::default()
        },
        type_: Some(event.event_type.as_str().to_owned()),
        reason: Some(event.reason.clone()),
        message: Some(event.message.clone()),
        source: Some(EventSource {
            component: component.clone(),
            ..EventSource::default()
        }),
        reporting_component: component,
        count: Some(1),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        ..Event::default()
    }
}
