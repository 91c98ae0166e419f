//! Objects as providers see them.

use ccm_core::cloud::CloudNode;

/// An initialised node without a provider ID, addresses, labels and a report of its kubelet.
pub fn cloud_node(name: &str) -> CloudNode {
    CloudNode {
        name: name.to_owned(),
        uid: format!("uid-of-{name}"),
        provider_id: None,
        labels: Default::default(),
        annotations: Default::default(),
        addresses: Vec::new(),
        pod_cidrs: Vec::new(),
        system_uuid: None,
        created: 0,
        readiness: Default::default(),
        initialized: true,
    }
}
