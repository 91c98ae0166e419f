//! The requests about Node objects that several controllers make. The executor has already permitted each of them.

use ccm_core::node::object::NodeRef;
use ccm_core::reconciliation::effect::ObjectResult;
use ccm_core::safety::tenure::Tenure;
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client};
use serde_json::Value;

use super::request::{in_time, unwrapped};
use super::{params, strategic};
use crate::pruned_objects::PrunedNode;

/// Reads the node from the API server.
pub(super) async fn read_node(
    client: &Client,
    tenure: &Tenure,
    node: &NodeRef,
) -> ObjectResult<Node> {
    let nodes: Api<PrunedNode> = Api::all(client.clone());
    unwrapped(in_time(tenure, nodes.get(&node.name)).await)
}

/// Patches the node, apart from its status.
pub(super) async fn patch_node(
    client: &Client,
    tenure: &Tenure,
    node: &NodeRef,
    body: Value,
) -> ObjectResult<Node> {
    let nodes: Api<PrunedNode> = Api::all(client.clone());
    let (params, body) = (params(), strategic(body));
    unwrapped(in_time(tenure, nodes.patch(&node.name, &params, &body)).await)
}

/// Patches the node's status.
pub(super) async fn patch_node_status(
    client: &Client,
    tenure: &Tenure,
    node: &NodeRef,
    body: Value,
) -> ObjectResult<Node> {
    let nodes: Api<PrunedNode> = Api::all(client.clone());
    let (params, body) = (params(), strategic(body));
    unwrapped(in_time(tenure, nodes.patch_status(&node.name, &params, &body)).await)
}
