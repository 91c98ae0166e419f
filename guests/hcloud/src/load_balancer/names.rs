//! The names and labels by which a load balancer and its certificate are found again. Those of the Go manager: a cluster
//! changes from one to the other without a change in the cloud. Never change them.

use std::collections::BTreeMap;

#[cfg(test)]
mod tests;

/// The label of everything that belongs to a Service; its value is the Service's UID.
pub const SERVICE_UID: &str = "hcloud-ccm/service-uid";
/// The label that makes a managed certificate one for tests.
pub const STAGING: &str = "HC-Use-Staging-CA";
/// The longest name that every cloud takes: Kubernetes' own rule for load balancers.
const MAX_NAME: usize = 32;

/// What a load balancer is called when nobody says otherwise.
pub fn load_balancer(uid: &str) -> String {
    let letters = uid.chars().filter(|letter| *letter != '-');
    std::iter::once('a').chain(letters).take(MAX_NAME).collect()
}

/// What a managed certificate is called when nobody says otherwise.
pub fn certificate(uid: &str) -> String {
    format!("ccm-managed-certificate-{uid}")
}

/// The labels of everything that belongs to the Service with this UID.
pub fn labels(uid: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(SERVICE_UID.to_owned(), uid.to_owned())])
}
