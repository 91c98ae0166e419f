//! Nodes in the answers of the API server.

use std::sync::Arc;

use ccm_core::node::object::PrunedNode;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Deserializer};

use super::same_resource;

/// A node in an answer of the API server, with the part of its metadata that kube's watch and lists read.
#[derive(Debug, Clone)]
pub(crate) struct NodeAnswer {
    metadata: ObjectMeta,
    node: PrunedNode,
}

impl<'de> Deserialize<'de> for NodeAnswer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<NodeAnswer, D::Error> {
        let node = PrunedNode::deserialize(deserializer)?;
        let version = node.resource_version();
        let version = (!version.is_empty()).then(|| version.to_owned());
        Ok(NodeAnswer {
            metadata: ObjectMeta {
                resource_version: version,
                ..ObjectMeta::default()
            },
            node,
        })
    }
}

impl From<NodeAnswer> for PrunedNode {
    fn from(answer: NodeAnswer) -> PrunedNode {
        answer.node
    }
}

impl From<NodeAnswer> for Arc<PrunedNode> {
    fn from(answer: NodeAnswer) -> Arc<PrunedNode> {
        Arc::new(answer.node)
    }
}

same_resource!(NodeAnswer, Node, |answer| answer.metadata);
