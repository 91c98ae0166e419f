//! Events about the Lease, as client-go's recorder writes them (PROC-043). Makes values; sends nothing.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;

use super::ElectionSettings;

/// Who says it: upstream's name, because people filter by it.
const COMPONENT: &str = "cloud-controller-manager";
const REASON: &str = "LeaderElection";

/// `<identity> <what>`, about the Lease as it was seen last.
pub(super) fn event(
    settings: &ElectionSettings,
    what: &str,
    lease: Option<&Lease>,
    now: Timestamp,
) -> Event {
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{}.{:x}", settings.name, now.as_nanosecond())),
            namespace: Some(settings.namespace.clone()),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some("coordination.k8s.io/v1".to_owned()),
            kind: Some("Lease".to_owned()),
            namespace: Some(settings.namespace.clone()),
            name: Some(settings.name.clone()),
            uid: lease.and_then(|lease| lease.metadata.uid.clone()),
            resource_version: lease.and_then(|lease| lease.metadata.resource_version.clone()),
            ..ObjectReference::default()
        },
        type_: Some("Normal".to_owned()),
        reason: Some(REASON.to_owned()),
        message: Some(format!("{} {what}", settings.identity)),
        source: Some(EventSource {
            component: Some(COMPONENT.to_owned()),
            ..EventSource::default()
        }),
        reporting_component: Some(COMPONENT.to_owned()),
        count: Some(1),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        ..Event::default()
    }
}
