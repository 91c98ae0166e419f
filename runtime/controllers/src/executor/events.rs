//! Records Events as client-go's recorder does: repeated Events increase a count instead of creating new objects.
//! Difference: Events that differ in their message only are not combined into one (NODE-001). Best effort: failures are
//! logged and not retried.

mod spam_filter;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ccm_core::cloud::CloudEvent;
use ccm_core::node::object::NodeRef;
use ccm_core::reconciliation::effect::{ClusterError, EventOutcome};
use ccm_core::reconciliation::event::EventSubject;
use ccm_core::safety::tenure::Tenure;
use ccm_core::service::ServiceRef;
use ccm_core::well_known::{
    IPAM_CONTROLLER, IPAM_EVENTS, ROUTE_CONTROLLER, ROUTE_EVENTS, SERVICE_EVENTS,
};
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::request::{stopping, within};
use super::{params, strategic};
use crate::clients::Clients;
use crate::clock::{boottime, wall};
use crate::cluster::Cluster;
use spam_filter::SpamFilter;

/// Timeout of one write of an Event: reconciliations of Services wait for theirs.
const TIME: Duration = Duration::from_secs(10);
/// Time during which an Event is counted up instead of created anew; client-go's value.
const WINDOW: SignedDuration = SignedDuration::from_mins(10);
/// Maximum number of remembered Events; client-go's value. Beyond it all are forgotten, which costs nothing but
/// repeated Event objects.
const MOST: usize = 4096;

/// The node that an Event is about, and the reporting component. Two controllers report under another name (ROUTE-006,
/// IPAM-029).
pub(super) fn about_node<'a>(node: &'a NodeRef, controller: &'static str) -> EventSubject<'a> {
    let component = match controller {
        ROUTE_CONTROLLER => ROUTE_EVENTS,
        IPAM_CONTROLLER => IPAM_EVENTS,
        controller => controller,
    };
    EventSubject {
        api_version: "v1",
        kind: "Node",
        namespace: None,
        name: &node.name,
        uid: Some(&node.uid),
        resource_version: None,
        component,
    }
}

/// The Service that an Event is about (SVC-001).
pub(super) fn about_service(service: &ServiceRef) -> EventSubject<'_> {
    EventSubject {
        api_version: "v1",
        kind: "Service",
        namespace: Some(&service.namespace),
        name: &service.name,
        uid: Some(&service.uid),
        resource_version: None,
        component: SERVICE_EVENTS,
    }
}

impl Cluster {
    /// Writes an Event about a node at once, or later if an uninitialised node waits for a write.
    pub(super) async fn record_node_event(
        &self,
        controller: &'static str,
        node: &NodeRef,
        event: &CloudEvent,
    ) -> EventOutcome {
        if !self.new_nodes.are_none() && self.deferred_events.add(controller, node, event) {
            return EventOutcome::Deferred;
        }
        let about = about_node(node, controller);
        self.events.record(controller, &about, event).await
    }
}

/// Sends Events to the API server.
pub(crate) struct Events {
    clients: Clients,
    recorder: Mutex<Recorder>,
    tenure: Arc<Tenure>,
}

impl Events {
    /// Starts with no recorded Events.
    pub(crate) fn new(clients: Clients, tenure: Arc<Tenure>) -> Events {
        Events {
            clients,
            recorder: Mutex::default(),
            tenure,
        }
    }

    /// As `controller`, creates `event` or increases its count; the outcome says whether the API server stored it.
    pub(super) async fn record(
        &self,
        controller: &str,
        about: &EventSubject<'_>,
        event: &CloudEvent,
    ) -> EventOutcome {
        if !self.tenure.may_begin(boottime()) {
            return EventOutcome::Unrecorded(stopping().to_string());
        }
        let api: Api<Event> = Api::namespaced(self.clients.of(controller).clone(), about.home());
        let recorded = self.recorder.lock().await.record(about, event, wall());
        let Some(recorded) = recorded else {
            let why = "there are too many Events of its type about this object";
            return EventOutcome::Unrecorded(why.to_owned());
        };
        let mut result = self.send(&api, &recorded).await;
        if matches!((&recorded, &result), (Recorded::Again { .. }, Ok(None))) {
            // The API server keeps Events for a limited time, and anyone may delete them.
            let again = self.recorder.lock().await.anew(about, event, wall());
            result = self.send(&api, &again).await;
        }
        if let Err(error) = result {
            self.recorder.lock().await.forget(about, event);
            if is_of_ending_namespace(&error) {
                tracing::debug!(object = about.name, reason = %event.reason, %error);
            } else {
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
            return EventOutcome::Unrecorded(error.to_string());
        }
        EventOutcome::Recorded
    }

    /// `Ok(None)`: the Event to repeat does not exist.
    async fn send(
        &self,
        api: &Api<Event>,
        recorded: &Recorded,
    ) -> Result<Option<Event>, ClusterError> {
        match recorded {
            Recorded::New(new) => {
                within(TIME, &self.tenure, api.create(&PostParams::default(), new)).await
            }
            Recorded::Again { name, patch } => {
                let body = strategic(patch.clone());
                within(TIME, &self.tenure, api.patch(name, &params(), &body)).await
            }
        }
    }
}

/// Whether the Event's namespace is being deleted, which no right would change; client-go does not warn about that either.
pub(super) fn is_of_ending_namespace(error: &ClusterError) -> bool {
    matches!(error, ClusterError::Denied(why) if why.ends_with("because it is being terminated"))
}

/// The recorded Events, of which one that is repeated within [`WINDOW`] is counted up.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    lately: HashMap<Key, Seen>,
    spam_filter: SpamFilter,
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

/// The request to send.
#[derive(Debug, PartialEq)]
pub(super) enum Recorded {
    /// Create a new Event.
    New(Box<Event>),
    /// Repeat an earlier Event: strategic merge patch of the Event with this name.
    Again {
        /// The name of the earlier Event.
        name: String,
        /// The new count and time.
        patch: Value,
    },
}

impl Recorder {
    /// Registers an occurrence of `event` at `now`. `None`: there were too many like it, and it is not sent.
    pub(super) fn record(
        &mut self,
        about: &EventSubject<'_>,
        event: &CloudEvent,
        now: Timestamp,
    ) -> Option<Recorded> {
        let is_admitted = self.spam_filter.admits(about, event, now);
        is_admitted.then(|| self.count(about, event, now))
    }

    fn count(&mut self, about: &EventSubject<'_>, event: &CloudEvent, now: Timestamp) -> Recorded {
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
        let new = about.event(event, now);
        self.lately.insert(
            key,
            Seen {
                name: new.metadata.name.clone().unwrap_or_default(),
                count: 1,
                last: now,
            },
        );
        Recorded::New(Box::new(new))
    }

    /// Registers an occurrence of `event` at `now`, whose earlier Event does not exist any more.
    fn anew(&mut self, about: &EventSubject<'_>, event: &CloudEvent, now: Timestamp) -> Recorded {
        self.forget(about, event);
        self.count(about, event, now)
    }

    /// Forgets an Event that could not be sent, so that the next occurrence creates a new one.
    pub(super) fn forget(&mut self, about: &EventSubject<'_>, event: &CloudEvent) {
        self.lately.remove(&key(about, event));
    }
}

fn key(about: &EventSubject<'_>, event: &CloudEvent) -> Key {
    Key {
        uid: about.uid.unwrap_or_default().to_owned(),
        event_type: event.event_type.as_str(),
        reason: event.reason.clone(),
        message: event.message.clone(),
    }
}
