//! Events about the Lease, as client-go's elector records them (PROC-043). Builds values; sends nothing.

use ccm_core::reconciliation::event::EventSubject;
use ccm_core::reconciliation::event::reasons;
use ccm_core::well_known::COMPONENT;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::jiff::Timestamp;

use super::ElectionSettings;

/// Builds the Event `<identity> <what>` about the last known Lease.
pub(super) fn event(
    settings: &ElectionSettings,
    what: &str,
    lease: Option<&Lease>,
    now: Timestamp,
) -> Event {
    let metadata = lease.map(|lease| &lease.metadata);
    let about = EventSubject {
        api_version: "coordination.k8s.io/v1",
        kind: "Lease",
        namespace: Some(&settings.namespace),
        name: &settings.name,
        uid: metadata.and_then(|metadata| metadata.uid.as_deref()),
        resource_version: metadata.and_then(|metadata| metadata.resource_version.as_deref()),
        component: COMPONENT,
    };
    let message = format!("{} {what}", settings.identity);
    about.event(&reasons::LEADER_ELECTION.event(&message), now)
}
