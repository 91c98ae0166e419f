//! The route controller's effects: provider calls, and the nodes' condition.

use std::sync::Arc;

use ccm_core::cloud::ProviderError;
use ccm_core::cloud::route::{CreateRouteRequest, DeleteRouteRequest, ListRoutesReply, RouteReply};
use ccm_core::cloud_provider::CloudProvider;
use ccm_core::node::answer_check::check_event;
use ccm_core::node::cloud_node::cloud_node;
use ccm_core::node::object::PrunedNode;
use ccm_core::reconciliation::effect::{Answered, Effect as _, ObjectKind, Performed};
use ccm_core::route::{RouteEffect, RouteOutcome};
use ccm_core::safety::audit::Subject;
use ccm_core::safety::brake::BudgetShare;
use ccm_core::safety::permit::ROUTE_CHANGES;

use super::cloud::{Unmade, performed};
use super::node_requests::{patch_node_status, read_node};
use super::{EffectExecutor, Perform, Priority, WritePermit};
use crate::metrics::Operation;

impl Perform<RouteEffect> for EffectExecutor {
    async fn carry_out<'a>(
        &'a self,
        effect: &RouteEffect,
        priority: Priority,
        turn: &mut WritePermit<'a>,
    ) -> Performed<RouteOutcome> {
        const CONTROLLER: &str = RouteEffect::CONTROLLER;
        let (client, tenure) = (self.client(CONTROLLER), &*self.cluster.tenure);
        Performed::Ended(match effect {
            RouteEffect::Create(request) => {
                let answer = Box::pin(self.create_route(request.clone())).await;
                return performed(answer, RouteOutcome::Changed);
            }
            RouteEffect::Delete(request) => {
                let answer = Box::pin(self.delete_route(request.clone())).await;
                return performed(answer, RouteOutcome::Changed);
            }
            RouteEffect::TakeBudget(destination, brake, rise, ours) => {
                let object = format!("route/{destination}");
                let objects = self.cluster.count_routes(self.name(), *ours);
                let budget_store = &self.cluster.budget_store;
                let taken = budget_store.take(self.name(), &object, (*brake, *rise), || objects);
                RouteOutcome::Budget(Box::pin(taken).await)
            }
            RouteEffect::ReadNode(node) => {
                RouteOutcome::Node(Box::pin(read_node(client, tenure, node)).await)
            }
            RouteEffect::PatchCondition(node, patch) => {
                let request = || patch_node_status(client, tenure, node, patch.to_json());
                RouteOutcome::Node(self.write(priority, turn, request).await)
            }
            RouteEffect::RecordEvent(node, event) => {
                let about = (node, event);
                RouteOutcome::Event(self.record_node_event(CONTROLLER, about, turn).await)
            }
        })
    }
}

impl EffectExecutor {
    /// Lists the provider's routes. All its nodes are sent along, sorted by name.
    pub(crate) async fn list_routes(
        &self,
        nodes: &[Arc<PrunedNode>],
    ) -> Result<ListRoutesReply, ProviderError> {
        let permit = Arc::new(self.cloud.permit(0)?);
        let nodes: Arc<[_]> = nodes.iter().map(|node| cloud_node(node)).collect();
        let listing = (Operation::ListRoutes, "listing of routes");
        let method = <dyn CloudProvider>::list_routes;
        self.cloud.call(listing, permit, nodes, method).await
    }

    async fn create_route(
        &self,
        request: Arc<CreateRouteRequest>,
    ) -> Result<Answered<RouteReply>, Unmade> {
        let reason = format!("node/{} has no route", request.node.name);
        let subject = subject(&request.destination_cidr, reason);
        let permit = self
            .cloud
            .changing(ROUTE_CHANGES, BudgetShare::Whole, subject)?;
        let creation = (Operation::CreateRoute, "creation of a route");
        let method = <dyn CloudProvider>::create_route;
        self.cloud.change(creation, permit, request, method).await
    }

    async fn delete_route(
        &self,
        request: Arc<DeleteRouteRequest>,
    ) -> Result<Answered<RouteReply>, Unmade> {
        let reason = format!("it leads to {}", request.route.target);
        let destination = request.route.destination_cidr.clone();
        let subject = subject(&destination, reason);
        let permit = self
            .cloud
            .changing(ROUTE_CHANGES, BudgetShare::Whole, subject)?;
        let deletion = (Operation::DeleteRoute, "deletion of a route");
        let method = <dyn CloudProvider>::delete_route;
        let answer = self.cloud.change(deletion, permit, request, method).await?;
        for event in answer.reply.events.iter().filter_map(check_event) {
            let (provider, reason, message) = (self.name(), event.reason, event.message);
            tracing::info!(provider, destination, reason, message, "said of a deletion");
        }
        Ok(answer)
    }
}

fn subject(destination: &str, reason: String) -> Subject {
    Subject {
        kind: Some(ObjectKind::Route),
        namespace: None,
        name: destination.to_owned(),
        uid: String::new(),
        reason,
    }
}
