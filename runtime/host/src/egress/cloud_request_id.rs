//! The ID that a cloud gives a request, from its response headers: the cloud's support asks for it. For the audit
//! record.

use ccm_core::safety::audit::sanitised;

use super::message::FetchResponse;

/// Response headers with the cloud's request ID, the most common first.
const REQUEST_IDS: [&str; 9] = [
    "x-request-id",
    "request-id",
    "x-correlation-id",
    "x-amzn-requestid",
    "x-amz-request-id",
    "x-openstack-request-id",
    "x-compute-request-id",
    "x-ms-request-id",
    "x-goog-request-id",
];

/// The cloud's ID of the request, sanitised for display.
pub(super) fn cloud_request_id(answer: &FetchResponse) -> Option<String> {
    let named = |wanted: &&str| {
        let mut headers = answer.headers.iter();
        headers.find(|(name, _)| name == wanted)
    };
    let (_, value) = REQUEST_IDS.iter().find_map(named)?;
    sanitised(value)
}
