//! Names and labels that identify a load balancer and its certificate. Never change them: they match the Go manager's,
//! so that a cluster can switch between both without changes in the cloud.

use std::collections::BTreeMap;

#[cfg(test)]
mod tests;

/// Label of all objects of a Service; its value is the Service's UID.
pub const SERVICE_UID: &str = "hcloud-ccm/service-uid";
/// Label that requests a managed certificate from the staging CA, for tests.
pub const STAGING: &str = "HC-Use-Staging-CA";

/// Default name of a managed certificate.
pub fn certificate(uid: &str) -> String {
    format!("ccm-managed-certificate-{uid}")
}

/// Labels of all objects of the Service with this UID.
pub fn labels(uid: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(SERVICE_UID.to_owned(), uid.to_owned())])
}
