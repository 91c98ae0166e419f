//! The requests about Node objects that several controllers make. The executor has already permitted each of them.

use ccm_core::node::object::{NodeRef, PrunedNode};
use ccm_core::reconciliation::effect::ObjectResult;
use ccm_core::safety::tenure::Tenure;
use kube::{Api, Client};
use serde_json::Value;

use super::request::{answered, in_time};
use super::{params, strategic};
use crate::pruned_objects::NodeAnswer;

/// Reads the node from the API server.
pub(super) async fn read_node(
    client: &Client,
    tenure: &Tenure,
    node: &NodeRef,
) -> ObjectResult<PrunedNode> {
    let nodes: Api<NodeAnswer> = Api::all(client.clone());
    answered(in_time(tenure, nodes.get(&node.name)).await)
}

/// Patches the node, apart from its status.
pub(super) async fn patch_node(
    client: &Client,
    tenure: &Tenure,
    node: &NodeRef,
    body: Value,
) -> ObjectResult<PrunedNode> {
    let nodes: Api<NodeAnswer> = Api::all(client.clone());
    let (params, body) = (params(), strategic(body));
    answered(in_time(tenure, nodes.patch(&node.name, &params, &body)).await)
}

/// Patches the node's status.
pub(super) async fn patch_node_status(
    client: &Client,
    tenure: &Tenure,
    node: &NodeRef,
    body: Value,
) -> ObjectResult<PrunedNode> {
    let nodes: Api<NodeAnswer> = Api::all(client.clone());
    let (params, body) = (params(), strategic(body));
    answered(in_time(tenure, nodes.patch_status(&node.name, &params, &body)).await)
}
