//! Lists of routes, which the serving generation answers, and their comparison for a trial.

use std::sync::Arc;

use ccm_core::cloud::route::ListRoutesReply;
use ccm_core::cloud::{CloudNode, ProviderError};
use ccm_core::rollout::TrialKind;
use ccm_core::safety::permit::Permit;

use super::reads::reading;
use super::traffic_split::{Side, Trial};
use super::{Active, Generation, Holding, compare};

const LIST: &str = "routes.list";

impl<P: Holding> Active<P> {
    pub(super) async fn routes_listed(
        &self,
        nodes: &[CloudNode],
        permit: Arc<Permit>,
    ) -> Result<ListRoutesReply, ProviderError> {
        self.seen.nodes(nodes);
        let roles = self.roles.load_full();
        let provider = &roles.serving.provider;
        let answer = provider.list_routes(nodes, permit.clone()).await;
        let answer = roles.count_answer(Side::Serving, LIST, answer, &permit);
        if let Some(trial) = &roles.trial
            && let Some(turn) = trial.may_compare(&trial.lists_uncompared)
        {
            // After the answer, so that no caller waits for a candidate.
            let (serving, nodes) = (roles.serving.clone(), nodes.to_vec());
            let compared = trial
                .clone()
                .compare_lists(serving, nodes, answer.clone(), permit);
            trial.compare_later(turn, compared);
        }
        answer
    }
}

impl<P: Holding> Trial<P> {
    /// Compares a list with the candidate's. A difference counts if it remains when both are asked again: routes change
    /// with the nodes.
    async fn compare_lists(
        self: Arc<Self>,
        serving: Arc<Generation<P>>,
        nodes: Vec<CloudNode>,
        answer: Result<ListRoutesReply, ProviderError>,
        permit: Arc<Permit>,
    ) {
        let theirs = self.list(&nodes, &permit).await;
        let (TrialKind::Shadow, Ok(ours), Ok(theirs)) = (self.kind, answer, theirs) else {
            // A canary is judged by its errors only.
            return;
        };
        if compare::routes(&ours.routes, &theirs.routes).is_empty() {
            return self.compared(Vec::new());
        }
        self.lists_uncompared.asked_more(1);
        let theirs = self.list(&nodes, &permit).await;
        let again = serving.provider.list_routes(&nodes, reading(&permit));
        let ours = again.await;
        if let (Ok(ours), Ok(theirs)) = (ours, theirs) {
            self.compared(compare::routes(&ours.routes, &theirs.routes));
        }
    }

    /// Lists the routes of the candidate.
    async fn list(
        &self,
        nodes: &[CloudNode],
        permit: &Arc<Permit>,
    ) -> Result<ListRoutesReply, ProviderError> {
        let permit = reading(permit);
        let provider = &self.candidate.provider;
        let theirs = provider.list_routes(nodes, permit.clone()).await;
        self.count_answer(Side::Candidate, LIST, &theirs, &permit);
        theirs
    }

    /// Compares both generations' lists for some nodes, without traffic. No controller uses this list, in which the
    /// routes of all other nodes count as foreign.
    pub(super) async fn read_routes<'a>(
        &'a self,
        serving: &'a Generation<P>,
        nodes: &'a [CloudNode],
        permit: &Arc<Permit>,
    ) {
        let ask = |provider: &'a P, permit| provider.list_routes(nodes, permit);
        if let Some((ours, theirs)) = self.ask_both(serving, permit, LIST, ask).await {
            self.compared(compare::routes(&ours.routes, &theirs.routes));
        }
    }
}
