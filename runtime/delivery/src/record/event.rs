//! Builds Events about a Provider. Events are never aggregated: version changes are rare.

use ccm_core::cloud::CloudEvent;
use ccm_core::reconciliation::event::{EventSubject, MAX_MESSAGE};
use ccm_core::rollout::RolloutEvent;
use ccm_core::well_known::{PROVIDER_EVENTS, PROVIDER_GROUP, PROVIDER_KIND, PROVIDER_VERSION};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;

/// Builds the Event for a rollout event.
pub(super) fn event(name: &str, uid: Option<&str>, event: &RolloutEvent, now: Timestamp) -> Event {
    let about = EventSubject {
        api_version: &format!("{PROVIDER_GROUP}/{PROVIDER_VERSION}"),
        kind: PROVIDER_KIND,
        namespace: None,
        name,
        uid,
        resource_version: None,
        component: PROVIDER_EVENTS,
    };
    let message = ccm_host::clean(&event.message, MAX_MESSAGE);
    let cloud_event = CloudEvent::new(event.event_type, event.reason, message);
    about.event(&cloud_event, now)
}
