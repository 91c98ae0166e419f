//! Effects on routes: provider calls. The executor has already permitted each of them.

use std::sync::Arc;

use ccm_core::answer_check::check_event;
use ccm_core::audit::Subject;
use ccm_core::cloud::{CallFailure, ProviderError};
use ccm_core::cloud_node::cloud_node;
use ccm_core::cloud_route::{CreateRouteRequest, DeleteRouteRequest, ListRoutesReply, RouteReply};
use ccm_core::effect::{Answered, Outcome, RouteEffect, RouteOutcome};
use ccm_core::moment::Moment;
use ccm_core::permit::Permit;
use k8s_openapi::api::core::v1::Node;

use super::EffectExecutor;
use super::cloud::{Cloud, Unmade, apart, made, outcome};
use crate::clock::boottime;
use crate::metrics::RouteOperation;

/// Maximum changes in one call. Creating or removing a route takes one; a cloud that cannot do so replaces the existing
/// route with two.
const MOST_CHANGES: u32 = 4;

impl EffectExecutor {
    /// Executes one effect on routes.
    pub(super) async fn route(&self, effect: &RouteEffect) -> Outcome {
        Outcome::Route(match effect {
            RouteEffect::List(nodes) => RouteOutcome::Listed(self.list_routes(nodes).await),
            RouteEffect::Create(request) => {
                let answer = self.create_route(request.clone()).await;
                return outcome(answer, changed);
            }
            RouteEffect::Delete(request) => {
                let answer = self.delete_route(request.clone()).await;
                return outcome(answer, changed);
            }
            RouteEffect::TakeBudget(destination, brake, rise, ours) => {
                let object = format!("route/{destination}");
                let objects = self.cluster.count_routes(self.name(), *ours);
                let budget_store = &self.cluster.budget_store;
                let taken = budget_store.take(self.name(), &object, (*brake, *rise), || objects);
                return Box::pin(taken).await;
            }
        })
    }

    async fn list_routes(&self, nodes: &[Arc<Node>]) -> Result<ListRoutesReply, ProviderError> {
        let permit = Arc::new(self.cloud.permit(0)?);
        let cloud = self.cloud.clone();
        let nodes: Vec<_> = nodes.iter().map(|node| cloud_node(node)).collect();
        let began = boottime();
        let answer = apart(async move {
            let call = cloud.provider.list_routes(&nodes, permit);
            cloud.in_time("listing of routes", call).await
        });
        let answer = answer.await;
        self.measured(RouteOperation::List, began, answer, ProviderError::reason)
    }

    async fn create_route(
        &self,
        request: Arc<CreateRouteRequest>,
    ) -> Result<Answered<RouteReply>, Unmade> {
        let destination = &request.destination_cidr;
        let reason = format!("node/{} has no route", request.node.name);
        let (cloud, permit) = self.changing_route(destination, reason)?;
        let (began, asked) = (boottime(), permit.clone());
        let answer = apart(async move {
            let call = cloud.provider.create_route(&request, permit.clone());
            let reply = cloud.in_time("creation of a route", call).await?;
            Ok(answered(reply, &permit))
        });
        let answer = made(&asked, answer.await);
        self.measured(RouteOperation::Create, began, answer, Unmade::reason)
    }

    async fn delete_route(
        &self,
        request: Arc<DeleteRouteRequest>,
    ) -> Result<Answered<RouteReply>, Unmade> {
        let reason = format!("it leads to {}", request.route.target);
        let destination = request.route.destination_cidr.clone();
        let (cloud, permit) = self.changing_route(&destination, reason)?;
        let (began, asked) = (boottime(), permit.clone());
        let answer = apart(async move {
            let call = cloud.provider.delete_route(&request, permit.clone());
            let reply = cloud.in_time("deletion of a route", call).await?;
            Ok(answered(reply, &permit))
        });
        let answer = made(&asked, answer.await);
        let answer = self.measured(RouteOperation::Delete, began, answer, Unmade::reason)?;
        for event in answer.reply.events.iter().filter_map(check_event) {
            let (provider, reason, message) = (self.name(), event.reason, event.message);
            tracing::info!(provider, destination, reason, message, "said of a deletion");
        }
        Ok(answer)
    }

    fn measured<T, E>(
        &self,
        operation: RouteOperation,
        began: Moment,
        answer: Result<T, E>,
        reason: fn(&E) -> &'static str,
    ) -> Result<T, E> {
        let took = began.until(boottime());
        let result = answer.as_ref().map_or_else(reason, |_| "success");
        self.metrics()
            .asked_about_routes(self.name(), operation, result, took);
        answer
    }

    /// Prepares a call that may change something. All calls that change a provider's cloud share one budget.
    fn changing_route(
        &self,
        destination: &str,
        reason: String,
    ) -> Result<(Cloud, Arc<Permit>), ProviderError> {
        let subject = Subject {
            kind: "route",
            namespace: None,
            name: destination.to_owned(),
            uid: String::new(),
            reason,
        };
        let permit = self.cloud.permit(MOST_CHANGES)?.about(subject);
        let permit = permit.sharing(self.services.budget());
        Ok((self.cloud.clone(), Arc::new(permit)))
    }
}

fn changed(answer: Result<Answered<RouteReply>, CallFailure>) -> Outcome {
    Outcome::Route(RouteOutcome::Changed(answer))
}

fn answered(reply: RouteReply, permit: &Permit) -> Answered<RouteReply> {
    Answered {
        reply,
        mutations: permit.mutations_made(),
        in_use: Vec::new(),
    }
}
