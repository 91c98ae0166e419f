//! What `ccm` asked of the API server, read from the audit log, and the rights that `deploy/` gives it.
//!
//! Each world, when it is dropped, holds what was asked in it against the rights. The test in `rights` makes use of
//! every one of them. So in the whole suite together exactly the granted verbs are used.

use std::collections::BTreeSet;
use std::thread::panicking;

use ccm_tests::apiserver::AuditEntry;
use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::Value;

use crate::world::World;

/// Who `ccm` is in the audit log.
const ACCOUNT: &str = "system:serviceaccount:kube-system:ccm";

/// API group, resource with subresource, verb.
pub(crate) type Right = (String, String, String);

impl World {
    /// What `ccm` asked of the API server so far.
    pub(crate) fn asked(&self) -> Vec<AuditEntry> {
        let mut log = self.api.audit_log().unwrap();
        log.retain(|entry| entry.user == ACCOUNT);
        log
    }

    /// The writes to one node among them.
    pub(crate) fn writes_to(&self, name: &str) -> Vec<AuditEntry> {
        let mut log = self.asked();
        log.retain(|entry| is_write_to(entry, name));
        log
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if panicking() {
            return;
        }
        let used = used(&self.asked());
        let mut granted = granted(&self.rights);
        granted.extend(of_built_in_roles(&self.rights));
        let spare: Vec<_> = used.difference(&granted).cloned().collect();
        assert!(
            spare.is_empty(),
            "asked for what deploy/ does not grant: {spare:?}"
        );
    }
}

/// Whether an entry is a write to the node with this name, whatever became of it.
pub(crate) fn is_write_to(entry: &AuditEntry, name: &str) -> bool {
    entry.resource == "nodes" && entry.name == name && entry.verb != "get"
}

/// The uid that a write is meant for.
pub(crate) fn meant_for(write: &AuditEntry) -> &str {
    write.body.as_ref().unwrap()["metadata"]["uid"]
        .as_str()
        .unwrap()
}

/// What the secure port needs, by the roles of Kubernetes itself that these manifests bind.
fn of_built_in_roles(manifests: &[Value]) -> Vec<Right> {
    let binds = |role: &str| manifests.iter().any(|one| one["roleRef"]["name"] == role);
    let built_in = [
        (
            "extension-apiserver-authentication-reader",
            ("", "configmaps", "get"),
        ),
        (
            "system:auth-delegator",
            ("authentication.k8s.io", "tokenreviews", "create"),
        ),
        (
            "system:auth-delegator",
            ("authorization.k8s.io", "subjectaccessreviews", "create"),
        ),
    ];
    let bound = built_in.into_iter().filter(|(role, _)| binds(role));
    bound
        .map(|(_, (group, resource, verb))| {
            (group.to_owned(), resource.to_owned(), verb.to_owned())
        })
        .collect()
}

/// Everything that the roles among these manifests grant.
pub(crate) fn granted(manifests: &[Value]) -> BTreeSet<Right> {
    let mut rights = BTreeSet::new();
    let manifests = manifests.iter();
    // Both kinds of role hold their rules alike.
    let roles = ["ClusterRole", "Role"];
    for role in manifests.filter(|manifest| roles.iter().any(|kind| manifest["kind"] == *kind)) {
        let rules: Vec<PolicyRule> = serde_json::from_value(role["rules"].clone()).unwrap();
        for rule in rules {
            // A rule about paths is about no resource.
            for group in rule.api_groups.unwrap_or_default() {
                for resource in rule.resources.clone().unwrap_or_default() {
                    for verb in &rule.verbs {
                        rights.insert((group.clone(), resource.clone(), verb.clone()));
                    }
                }
            }
        }
    }
    rights
}

/// Everything that was asked for, whether it was allowed or not.
pub(crate) fn used(log: &[AuditEntry]) -> BTreeSet<Right> {
    let right = |entry: &AuditEntry| {
        let resource = match entry.subresource.as_str() {
            "" => entry.resource.clone(),
            subresource => format!("{}/{subresource}", entry.resource),
        };
        (entry.group.clone(), resource, entry.verb.clone())
    };
    log.iter().map(right).collect()
}
