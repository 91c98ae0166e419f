//! An Event about a Provider. Each is of its own: what happens to versions happens seldom.

use ccm_core::answer::MAX_MESSAGE;
use ccm_core::cloud::CloudEvent;
use ccm_core::event::About;
use ccm_core::names::{PROVIDER_EVENTS, PROVIDER_GROUP, PROVIDER_KIND, PROVIDER_VERSION};
use ccm_core::rollout::Happening;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;

/// The Event that says so.
pub(super) fn event(name: &str, uid: Option<&str>, happening: &Happening, now: Timestamp) -> Event {
    let about = About {
        api_version: &format!("{PROVIDER_GROUP}/{PROVIDER_VERSION}"),
        kind: PROVIDER_KIND,
        namespace: None,
        name,
        uid,
        resource_version: None,
        component: PROVIDER_EVENTS,
    };
    let said = CloudEvent {
        event_type: happening.event_type,
        reason: happening.reason.to_owned(),
        message: ccm_host::clean(&happening.message, MAX_MESSAGE),
    };
    about.event(&said, now)
}
