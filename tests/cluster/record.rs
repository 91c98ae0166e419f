//! The requests of `ccm` to the API server, read from the audit log, and the rights that `deploy/` grants.
//!
//! Each world, when it is dropped, checks its requests against the rights. The test in `rights` uses every one of them.
//! So the whole suite uses exactly the granted verbs.

use std::collections::BTreeSet;
use std::thread::panicking;

use ccm_tests::apiserver::AuditEntry;
use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::Value;

use crate::world::World;

/// The user of `ccm` in the audit log.
const ACCOUNT: &str = "system:serviceaccount:kube-system:ccm";

/// API group, resource with subresource, verb.
pub(crate) type Right = (String, String, String);

impl World {
    /// The requests of `ccm` so far.
    pub(crate) fn asked(&self) -> Vec<AuditEntry> {
        let mut log = self.api.audit_log().unwrap();
        log.retain(|entry| entry.user == ACCOUNT);
        log
    }

    /// Its writes to one node.
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

/// Whether an entry is a write to the node with this name, successful or not.
pub(crate) fn is_write_to(entry: &AuditEntry, name: &str) -> bool {
    entry.resource == "nodes" && entry.name == name && entry.verb != "get"
}

/// The UID precondition of a write.
pub(crate) fn meant_for(write: &AuditEntry) -> &str {
    write.body.as_ref().unwrap()["metadata"]["uid"]
        .as_str()
        .unwrap()
}

/// The rights of the secure port, from the roles of Kubernetes itself that these manifests bind.
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

/// All rights that the roles among these manifests grant.
pub(crate) fn granted(manifests: &[Value]) -> BTreeSet<Right> {
    let mut rights = BTreeSet::new();
    let manifests = manifests.iter();
    // Both kinds of role have the same rules.
    let roles = ["ClusterRole", "Role"];
    for role in manifests.filter(|manifest| roles.iter().any(|kind| manifest["kind"] == *kind)) {
        let rules: Vec<PolicyRule> = serde_json::from_value(role["rules"].clone()).unwrap();
        for rule in rules {
            // A rule about paths has no resources.
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

/// The rights of one ServiceAccount: those of the roles among these manifests that are bound to it.
pub(crate) fn granted_to(account: &str, manifests: &[Value]) -> BTreeSet<Right> {
    let is_bound = |role: &Value| {
        manifests.iter().any(|binding| {
            let subjects = binding["subjects"].as_array().into_iter().flatten();
            let mut names = subjects.map(|subject| &subject["name"]);
            binding["roleRef"]["kind"] == role["kind"]
                && binding["roleRef"]["name"] == role["metadata"]["name"]
                && names.any(|name| name == account)
        })
    };
    let roles: Vec<_> = manifests
        .iter()
        .filter(|one| is_bound(one))
        .cloned()
        .collect();
    granted(&roles)
}

/// The rights that a log shows as requested, whether allowed or not.
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
