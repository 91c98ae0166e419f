//! Effects on nodes: look-ups and writes. The executor has already permitted each of them.

use std::sync::Arc;

use ccm_core::audit::{Deletion, Subject};
use ccm_core::cloud::{FindReply, Lookup, ProviderError};
use ccm_core::cloud_node::cloud_node;
use ccm_core::effect::{CandidateVote, ClusterError, Looked, NodeDeletion, Outcome};
use ccm_core::node::object::{NodeRef, name};
use ccm_core::node_lifecycle::{Survey, is_drained};
use ccm_core::patch::{NetworkConditionPatch, NodePatch, NodeStatusPatch, PodCidrsPatch};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, ListParams, Preconditions};
use kube::{Api, Client};

use super::request::{in_time, unwrapped};
use super::{EffectExecutor, LaneState, params, strategic};
use crate::clock::boottime;
use crate::cluster::Cluster;
use crate::pruned_objects::PrunedNode;

impl EffectExecutor {
    pub(super) async fn find(
        &self,
        priority: &LaneState,
        node: &Arc<Node>,
    ) -> Result<Looked, ProviderError> {
        let mut looked = priority.look_ups.find(node.clone()).await?;
        // The first nodes are asked about while the others are still being listed. Whether a machine or an address is
        // another node's can only be told when every node is known.
        self.cluster.all_nodes_known().await?;
        if let Lookup::Found(instance) = &looked.lookup {
            looked.clashes = self.cluster.node_index().clashes(name(node), instance);
        }
        Ok(looked)
    }

    /// Looks up many nodes in one call, outside the batch.
    pub(super) async fn survey(&self, survey: &Survey) -> Result<FindReply, ProviderError> {
        let nodes = survey.nodes().map(|node| cloud_node(node)).collect();
        self.cloud.clone().find_apart(nodes, survey.is_fresh).await
    }

    /// S2: deletes the node only with this UID and resource version.
    pub(super) async fn delete(
        &self,
        nodes: &Api<PrunedNode>,
        node: &NodeRef,
        deletion: &NodeDeletion,
    ) -> Outcome {
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(node.uid.clone()),
                resource_version: Some(deletion.resource_version.clone()),
            }),
            ..DeleteParams::default()
        };
        let subject = Subject {
            kind: "node",
            namespace: None,
            name: node.name.clone(),
            uid: node.uid.clone(),
            reason: deletion.reason.clone(),
        };
        let cluster = &self.cluster;
        let owned = cluster.machines(&self.ownership()).own;
        let state = |brake| cluster.budget_store.state(self.name(), brake, owned);
        let sink = cluster.planner.clone();
        let author = self.author.clone();
        let Ok(record) =
            Deletion::begin(sink, author, subject, deletion.brake.map(state), boottime())
        else {
            let why = "the audit log cannot be written, and no node is deleted without it";
            return Outcome::Node(Err(ClusterError::Unavailable(why.to_owned())));
        };
        let outcome = match in_time(&cluster.tenure, nodes.delete(&node.name, &params)).await {
            Ok(Some(_)) => Outcome::Deleted,
            Ok(None) => Outcome::Node(Ok(None)),
            Err(error) => Outcome::Node(Err(error)),
        };
        record.ended(boottime(), &outcome);
        // A node whose deletion is refused for good must not use up the budget of the others.
        if let (Some(brake), Outcome::Node(Err(error))) = (deletion.brake, &outcome)
            && error.is_final()
        {
            cluster.budget_store.refused(self.name(), brake);
        }
        outcome
    }

    /// Casts this provider's vote on a node that several providers may claim, and wakes the reconciliations that wait
    /// for it.
    pub(super) fn confer(&self, node: &NodeRef, word: &CandidateVote) -> Outcome {
        let now = self.cluster.clock.now();
        let conferred = self.cluster.claims().confer(
            &node.uid,
            self.name(),
            word.opinion.clone(),
            &word.others,
            word.is_patient,
            now,
        );
        self.cluster.wake(&conferred.wakes, &node.name);
        Outcome::VoteCast(conferred.verdict, conferred.tell)
    }

    pub(super) async fn patch_status(
        &self,
        nodes: &Api<PrunedNode>,
        node: &NodeRef,
        patch: &NodeStatusPatch,
    ) -> Outcome {
        let (params, body) = (params(), strategic(patch.to_json()));
        let request = nodes.patch_status(&node.name, &params, &body);
        Outcome::Node(unwrapped(in_time(&self.cluster.tenure, request).await))
    }

    pub(super) async fn patch_network_condition(
        &self,
        nodes: &Api<PrunedNode>,
        node: &NodeRef,
        patch: &NetworkConditionPatch,
    ) -> Outcome {
        let (params, body) = (params(), strategic(patch.to_json()));
        let request = nodes.patch_status(&node.name, &params, &body);
        Outcome::Node(unwrapped(in_time(&self.cluster.tenure, request).await))
    }

    pub(super) async fn patch(
        &self,
        nodes: &Api<PrunedNode>,
        node: &NodeRef,
        patch: &NodePatch,
    ) -> Outcome {
        let (params, body) = (params(), strategic(patch.to_json()));
        let request = nodes.patch(&node.name, &params, &body);
        Outcome::Node(unwrapped(in_time(&self.cluster.tenure, request).await))
    }
}

pub(super) async fn read(cluster: &Cluster, nodes: &Api<PrunedNode>, node: &NodeRef) -> Outcome {
    Outcome::Node(unwrapped(
        in_time(&cluster.tenure, nodes.get(&node.name)).await,
    ))
}

/// Whether the node is drained, judged by its pods' metadata. If that cannot be read, the node counts as not drained.
pub(super) async fn read_pods(cluster: &Cluster, client: &Client, node: &NodeRef) -> Outcome {
    let pods: Api<Pod> = Api::all(client.clone());
    let of_node = ListParams::default().fields(&format!("spec.nodeName={}", node.name));
    let listed = in_time(&cluster.tenure, pods.list_metadata(&of_node)).await;
    Outcome::Drained(
        matches!(listed, Ok(Some(all)) if is_drained(all.iter().map(|pod| &pod.metadata))),
    )
}

pub(super) async fn patch_pod_cidrs(
    cluster: &Cluster,
    nodes: &Api<PrunedNode>,
    node: &NodeRef,
    patch: &PodCidrsPatch,
) -> Outcome {
    let (params, body) = (params(), strategic(patch.to_json()));
    let request = nodes.patch(&node.name, &params, &body);
    Outcome::Node(unwrapped(in_time(&cluster.tenure, request).await))
}
