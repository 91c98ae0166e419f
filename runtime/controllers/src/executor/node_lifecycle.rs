//! The node lifecycle controller's effects: surveys, taints and deletions.

use ccm_core::cloud::{FindReply, ProviderError};
use ccm_core::node::cloud_node::cloud_node;
use ccm_core::node::object::NodeRef;
use ccm_core::node_lifecycle::{
    DeletionResult, LifecycleEffect, LifecycleOutcome, NodeDeletion, Survey, is_drained,
};
use ccm_core::reconciliation::effect::{ClusterError, Effect as _, ObjectKind, Performed};
use ccm_core::safety::audit::{Deletion, Subject};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Preconditions};

use super::node_requests::{patch_node, read_node};
use super::request::in_time;
use super::{EffectExecutor, Perform, Priority, WritePermit};
use crate::clock::boottime;
use crate::pruned_objects::NodeAnswer;

const CONTROLLER: &str = LifecycleEffect::CONTROLLER;

impl Perform<LifecycleEffect> for EffectExecutor {
    async fn carry_out<'a>(
        &'a self,
        effect: &LifecycleEffect,
        priority: Priority,
        turn: &mut WritePermit<'a>,
    ) -> Performed<LifecycleOutcome> {
        let (client, tenure) = (self.client(CONTROLLER), &*self.cluster.tenure);
        Performed::Ended(match effect {
            LifecycleEffect::Read(node) => {
                LifecycleOutcome::Node(Box::pin(read_node(client, tenure, node)).await)
            }
            LifecycleEffect::ReadPods(node) => {
                LifecycleOutcome::Drained(Box::pin(self.has_drained(node)).await)
            }
            LifecycleEffect::TakeBudget(node, brake, rise) => {
                let taken = self.take(node, *brake, *rise);
                LifecycleOutcome::Budget(*brake, Box::pin(taken).await)
            }
            LifecycleEffect::ReturnBudget(_, brake) => {
                self.cluster.budget_store.give_back(self.name(), *brake);
                LifecycleOutcome::Returned(*brake)
            }
            LifecycleEffect::Patch(node, patch) => {
                let request = || patch_node(client, tenure, node, patch.to_json());
                LifecycleOutcome::Node(self.write(priority, turn, request).await)
            }
            LifecycleEffect::Delete(node, deletion) => {
                let request = || self.delete(node, deletion);
                LifecycleOutcome::Deleted(self.write(priority, turn, request).await)
            }
            LifecycleEffect::Hold(node, condition) => {
                self.metrics().held_deletion(condition, self.name());
                let controller = CONTROLLER;
                tracing::warn!(controller, object = %node, condition, "the node's deletion is held");
                LifecycleOutcome::Held(condition)
            }
            LifecycleEffect::RecordEvent(node, event) => {
                let about = (node, event);
                LifecycleOutcome::Event(self.record_node_event(CONTROLLER, about, turn).await)
            }
        })
    }
}

impl EffectExecutor {
    /// Looks up many nodes in one call, outside the batch.
    pub(crate) async fn survey(&self, survey: &Survey) -> Result<FindReply, ProviderError> {
        let nodes = survey.nodes().map(|node| cloud_node(node)).collect();
        self.cloud.clone().find_apart(nodes, survey.is_fresh).await
    }

    /// Whether the node is drained, judged by its pods' metadata. If that cannot be read, the node counts as not
    /// drained.
    async fn has_drained(&self, node: &NodeRef) -> bool {
        let pods: Api<Pod> = Api::all(self.client(CONTROLLER).clone());
        let of_node = ListParams::default().fields(&format!("spec.nodeName={}", node.name));
        let listed = in_time(&self.cluster.tenure, pods.list_metadata(&of_node)).await;
        matches!(listed, Ok(Some(all)) if is_drained(all.iter().map(|pod| &pod.metadata)))
    }

    /// S2: deletes the node only with this UID and resource version.
    async fn delete(&self, node: &NodeRef, deletion: &NodeDeletion) -> DeletionResult {
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(node.uid.clone()),
                resource_version: Some(deletion.resource_version.clone()),
            }),
            ..DeleteParams::default()
        };
        let subject = Subject {
            kind: Some(ObjectKind::Node),
            namespace: None,
            name: node.name.clone(),
            uid: node.uid.clone(),
            reason: deletion.reason.clone(),
        };
        let cluster = &self.cluster;
        let owned = cluster.machines(&self.ownership()).own;
        let state = |brake| cluster.budget_store.state(self.name(), brake, owned);
        let (sink, author) = (cluster.planner.clone(), self.author.clone());
        let brake = deletion.brake.map(state);
        let Ok(record) = Deletion::begin(sink, author, subject, brake, boottime()) else {
            let why = "the audit log cannot be written, and no node is deleted without it";
            return Err(ClusterError::Unavailable(why.to_owned()));
        };
        let nodes: Api<NodeAnswer> = Api::all(self.client(CONTROLLER).clone());
        let deleted = in_time(&cluster.tenure, nodes.delete(&node.name, &params)).await;
        let result = deleted.map(|deleted| deleted.map(drop));
        record.ended(boottime(), &result);
        // A node whose deletion is refused for good must not use up the budget of the others.
        if let (Some(brake), Err(error)) = (deletion.brake, &result)
            && error.is_final()
        {
            cluster.budget_store.give_back(self.name(), brake);
        }
        result
    }
}
