//! Nodes as the controllers read them, for their tests.
#![allow(clippy::unwrap_used, reason = "only tests use it")]

use std::sync::Arc;

use ccm_core::node::object::PrunedNode;
use ccm_sim::cluster::Cluster;
use kube::Api;

use super::NodeAnswer;

/// All nodes of the in-memory API server.
pub(crate) async fn pruned_nodes(cluster: &Cluster) -> Vec<Arc<PrunedNode>> {
    let api: Api<NodeAnswer> = Api::all(cluster.client_as("test"));
    let all = api.list(&Default::default()).await.unwrap();
    all.into_iter().map(Into::into).collect()
}
