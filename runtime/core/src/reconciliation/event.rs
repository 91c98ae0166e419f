//! Builds Events as client-go's recorder writes them (core/v1), about any object. Sends and counts nothing.

pub mod reasons;

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;

use crate::cloud::instance::CloudEvent;
use crate::name_syntax::MAX_DNS_NAME;
use reasons::EventReason;

/// Namespace of Events about cluster-scoped objects, as in client-go.
const NO_NAMESPACE: &str = "default";
/// Longest prefix of an Event's name: a dot and a time of at most 17 hexadecimal digits follow.
const MOST_NAME: usize = MAX_DNS_NAME - 18;
/// Longest recorded Event message, in bytes: the API server's limit.
pub const MAX_MESSAGE: usize = 1024;

/// The object that an Event is about, and the component that reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventSubject<'a> {
    /// API version of the object's kind, such as `v1`.
    pub api_version: &'a str,
    /// The object's kind, such as `Node`.
    pub kind: &'a str,
    /// The object's namespace, if its kind is namespaced.
    pub namespace: Option<&'a str>,
    /// `metadata.name` of the object.
    pub name: &'a str,
    /// The object's UID, if known.
    pub uid: Option<&'a str>,
    /// The resource version that was observed, where it matters.
    pub resource_version: Option<&'a str>,
    /// The source component: the controller that reports the Event.
    pub component: &'a str,
}

impl<'a> EventSubject<'a> {
    /// The namespace in which the Event is created.
    pub fn home(&self) -> &'a str {
        self.namespace.unwrap_or(NO_NAMESPACE)
    }

    /// A new Event that first occurred at `now`. Its name is the object's name followed by the time.
    pub fn event(&self, event: &CloudEvent, now: Timestamp) -> Event {
        let prefix: String = self.name.chars().take(MOST_NAME).collect();
        let text = |text: &str| Some(text.to_owned());
        Event {
            metadata: ObjectMeta {
                name: Some(format!("{prefix}.{:x}", now.as_nanosecond())),
                namespace: text(self.home()),
                ..ObjectMeta::default()
            },
            involved_object: ObjectReference {
                api_version: text(self.api_version),
                kind: text(self.kind),
                namespace: self.namespace.and_then(text),
                name: text(self.name),
                uid: self.uid.and_then(text),
                resource_version: self.resource_version.and_then(text),
                ..ObjectReference::default()
            },
            type_: text(event.event_type.as_str()),
            reason: text(&event.reason),
            message: text(&event.message),
            source: Some(EventSource {
                component: text(self.component),
                ..EventSource::default()
            }),
            reporting_component: text(self.component),
            count: Some(1),
            first_timestamp: Some(Time(now)),
            last_timestamp: Some(Time(now)),
            ..Event::default()
        }
    }
}

impl EventReason {
    /// An Event with this reason and this text as its [`message`].
    pub fn event(&self, text: &str) -> CloudEvent {
        CloudEvent::new(self.event_type, self.reason, message(text))
    }
}

/// `text` as an Event message: without control characters, truncated to [`MAX_MESSAGE`].
pub fn message(text: &str) -> String {
    let mut clean: String = text.chars().filter(|one| !one.is_control()).collect();
    if clean.len() > MAX_MESSAGE {
        clean.truncate(clean.floor_char_boundary(MAX_MESSAGE - "…".len()));
        clean.push('…');
    }
    clean
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::cloud::instance::EventType;

    #[test]
    fn the_name_of_an_event_is_one_however_long_the_objects_is() {
        let name = "n".repeat(MAX_DNS_NAME);
        let about = EventSubject {
            api_version: "v1",
            kind: "Node",
            namespace: None,
            name: &name,
            uid: None,
            resource_version: None,
            component: "c",
        };
        let cloud_event = CloudEvent::new(EventType::Normal, "R", String::new());
        let event = about.event(&cloud_event, Timestamp::MAX);
        let made = event.metadata.name.unwrap();
        assert!(crate::name_syntax::is_dns_subdomain(&made), "{made}");
        assert_eq!(event.involved_object.name, Some(name));
        assert_eq!(event.metadata.namespace.as_deref(), Some("default"));
    }
}
