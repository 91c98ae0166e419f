//! Calls of the provider controllers, each routed to one generation.

use std::sync::Arc;

use ccm_core::cloud::load_balancer::{
    CloudService, DeleteRequest, EnsureReply, EnsureRequest, Ensured, GetReply, Pending, Progress,
    ProgressReply, UpdateRequest,
};
use ccm_core::cloud::route::{CreateRouteRequest, DeleteRouteRequest, ListRoutesReply, RouteReply};
use ccm_core::cloud::{Capabilities, CloudNode, FindReply, ProviderError};
use ccm_core::cloud_provider::{CloudProvider, Reply};
use ccm_core::rollout::TrialKind;
use ccm_core::safety::permit::Permit;

use super::traffic_split::{Side, Trial};
use super::{Active, Generation, Holding, Roles, compare, hint, plan, reads};

impl<P: Holding> CloudProvider for Active<P> {
    fn name(&self) -> &str {
        &self.name
    }

    fn digest(&self) -> String {
        self.roles.load().serving.provider.digest()
    }

    fn generation(&self) -> u64 {
        self.roles.load().serving.number
    }

    fn schemes(&self) -> &[String] {
        &self.schemes
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn find<'a>(&'a self, nodes: &'a [CloudNode], permit: Arc<Permit>) -> Reply<'a, FindReply> {
        Box::pin(async move {
            self.seen.nodes(nodes);
            let roles = self.roles.load_full();
            match &roles.trial {
                Some(trial) if trial.takes_find() => {
                    self.find_by_candidate(&roles.serving, trial, nodes, permit)
                        .await
                }
                _ => find_by_serving(&roles, nodes, permit).await,
            }
        })
    }

    fn find_fresh<'a>(
        &'a self,
        nodes: &'a [CloudNode],
        permit: Arc<Permit>,
    ) -> Reply<'a, FindReply> {
        Box::pin(async move {
            let roles = self.roles.load_full();
            let answer = roles.serving.provider.find_fresh(nodes, permit.clone());
            roles.count_answer(Side::Serving, reads::FIND, answer.await, &permit)
        })
    }

    fn annotation_prefixes(&self) -> &[String] {
        &self.annotation_prefixes
    }

    fn ensure_load_balancer<'a>(
        &'a self,
        request: &'a EnsureRequest,
        permit: Arc<Permit>,
    ) -> Reply<'a, EnsureReply> {
        Box::pin(async move {
            let turn = self.turn(&request.service);
            let changed = turn.change(
                "load-balancer.ensure",
                request,
                |request| &mut request.hint,
                permit,
                P::ensure_load_balancer,
            );
            let reply = changed.await?;
            let ensured = match reply.ensured {
                Ensured::Pending(pending) => Ensured::Pending(turn.tagged(pending)),
                ready @ Ensured::Ready(_) => {
                    self.settled.agreed(&request.service, &request.targets);
                    ready
                }
            };
            Ok(EnsureReply { ensured, ..reply })
        })
    }

    fn update_targets<'a>(
        &'a self,
        request: &'a UpdateRequest,
        permit: Arc<Permit>,
    ) -> Reply<'a, ProgressReply> {
        Box::pin(async move {
            let turn = self.turn(&request.service);
            let changed = turn.change(
                "load-balancer.update-targets",
                request,
                |request| &mut request.hint,
                permit,
                P::update_targets,
            );
            let reply = changed.await?;
            if reply.progress == Progress::Done {
                self.settled.agreed(&request.service, &request.targets);
            }
            Ok(turn.progress(reply))
        })
    }

    fn delete_load_balancer<'a>(
        &'a self,
        request: &'a DeleteRequest,
        permit: Arc<Permit>,
    ) -> Reply<'a, ProgressReply> {
        Box::pin(async move {
            let turn = self.turn(&request.service);
            let changed = turn.change(
                "load-balancer.delete",
                request,
                |request| &mut request.hint,
                permit,
                P::delete_load_balancer,
            );
            let reply = changed.await?;
            Ok(turn.progress(reply))
        })
    }

    fn get_load_balancer<'a>(
        &'a self,
        service: &'a CloudService,
        permit: Arc<Permit>,
    ) -> Reply<'a, GetReply> {
        Box::pin(async move {
            let roles = self.roles.load_full();
            let answer = roles
                .serving
                .provider
                .get_load_balancer(service, permit.clone());
            roles.count_answer(Side::Serving, reads::GET, answer.await, &permit)
        })
    }

    fn list_routes<'a>(
        &'a self,
        nodes: &'a [CloudNode],
        permit: Arc<Permit>,
    ) -> Reply<'a, ListRoutesReply> {
        Box::pin(self.routes_listed(nodes, permit))
    }

    fn create_route<'a>(
        &'a self,
        request: &'a CreateRouteRequest,
        permit: Arc<Permit>,
    ) -> Reply<'a, RouteReply> {
        Box::pin(async move {
            let turn = self.turn_of_serving();
            let changed = turn.change(
                "routes.create",
                request,
                |request| &mut request.hint,
                permit,
                P::create_route,
            );
            let reply = changed.await?;
            Ok(turn.route(reply))
        })
    }

    fn delete_route<'a>(
        &'a self,
        request: &'a DeleteRouteRequest,
        permit: Arc<Permit>,
    ) -> Reply<'a, RouteReply> {
        Box::pin(async move {
            let turn = self.turn_of_serving();
            let changed = turn.change(
                "routes.delete",
                request,
                |request| &mut request.hint,
                permit,
                P::delete_route,
            );
            let reply = changed.await?;
            Ok(turn.route(reply))
        })
    }
}

impl<P: Holding> Active<P> {
    /// A `find` of a canary. If the candidate fails or its answer is impossible, the serving generation is asked once:
    /// reads have no effect, and its answer shows which side is at fault.
    pub(super) async fn find_by_candidate(
        &self,
        serving: &Generation<P>,
        trial: &Trial<P>,
        nodes: &[CloudNode],
        permit: Arc<Permit>,
    ) -> Result<FindReply, ProviderError> {
        let answer = trial.candidate.provider.find(nodes, permit.clone()).await;
        let impossible = match &answer {
            Ok(reply) => match compare::impossible(nodes, &self.schemes, &reply.lookups) {
                None => {
                    trial.count_answer(Side::Candidate, reads::FIND, &answer, &permit);
                    return answer;
                }
                impossible => impossible,
            },
            // The cloud's rate limit applies to both generations.
            Err(ProviderError::Throttled { .. }) => {
                trial.count_answer(Side::Candidate, reads::FIND, &answer, &permit);
                return answer;
            }
            Err(_) => None,
        };
        let second = serving.provider.find(nodes, permit.clone()).await;
        // The second call had only the time left by the first.
        let is_short_of_time = matches!(
            (&answer, &second),
            (
                Err(ProviderError::TimedOut(_)),
                Err(ProviderError::TimedOut(_) | ProviderError::NotBegun(_))
            )
        );
        if !is_short_of_time {
            trial.count_answer(Side::Serving, reads::FIND, &second, &permit);
        }
        trial.count_answer(Side::Candidate, reads::FIND, &answer, &permit);
        if is_short_of_time {
            return answer;
        }
        if let (Some(what), Ok(first), Ok(second)) = (impossible, &answer, &second)
            && !compare::lookups(nodes, &second.lookups, &first.lookups).is_empty()
        {
            trial.lied(format!("{} answers what cannot be: {what}", reads::FIND));
        }
        second
    }

    /// Selects the generation for a call about a Service.
    fn turn(&self, service: &Arc<CloudService>) -> RoutedCall<'_, P> {
        self.seen.service(service);
        self.settled.begins(&service.uid);
        let roles = self.roles.load_full();
        let side = match &roles.trial {
            Some(trial) if trial.takes_service(&service.uid) => Side::Candidate,
            _ => Side::Serving,
        };
        RoutedCall {
            active: self,
            roles,
            side,
        }
    }

    /// The serving generation for a call that may change routes.
    fn turn_of_serving(&self) -> RoutedCall<'_, P> {
        RoutedCall {
            active: self,
            roles: self.roles.load_full(),
            side: Side::Serving,
        }
    }
}

/// Whether the serving generation is asked about an error of the candidate. Not after a trap, which is always the
/// candidate's fault; after an interruption or without a begin, which is nobody's; during a rate limit, which applies to
/// both; and without time left.
fn may_be_of_both(error: &ProviderError) -> bool {
    !matches!(
        error,
        ProviderError::Trapped(_)
            | ProviderError::Interrupted(_)
            | ProviderError::NotBegun(_)
            | ProviderError::Throttled { .. }
            | ProviderError::TimedOut(_)
    )
}

async fn find_by_serving<P: Holding>(
    roles: &Roles<P>,
    nodes: &[CloudNode],
    permit: Arc<Permit>,
) -> Result<FindReply, ProviderError> {
    let answer = roles.serving.provider.find(nodes, permit.clone()).await;
    let answer = roles.count_answer(Side::Serving, reads::FIND, answer, &permit);
    if let Some(trial) = &roles.trial
        && trial.kind == TrialKind::Shadow
        && let Some(turn) = trial.may_compare(&trial.finds_uncompared)
    {
        // After the answer, so that no caller waits for a candidate.
        let (serving, nodes) = (roles.serving.clone(), nodes.to_vec());
        let compared = trial
            .clone()
            .compare_find(serving, nodes, answer.clone(), permit);
        trial.compare_later(turn, compared);
    }
    answer
}

impl<P: Holding> Roles<P> {
    /// Counts how a call ended, and passes that on.
    pub(super) fn count_answer<T>(
        &self,
        side: Side,
        function: &str,
        answer: Result<T, ProviderError>,
        permit: &Permit,
    ) -> Result<T, ProviderError> {
        if let Some(trial) = &self.trial {
            trial.count_answer(side, function, &answer, permit);
        }
        answer
    }
}

/// One call that may change something, and the generation that answers it.
struct RoutedCall<'a, P: Holding> {
    active: &'a Active<P>,
    roles: Arc<Roles<P>>,
    side: Side,
}

impl<P: Holding> Drop for RoutedCall<'_, P> {
    fn drop(&mut self) {
        let current = self.active.roles.load_full();
        // Others answer by now, and may have looked at the cloud before it changed.
        if !Arc::ptr_eq(&current, &self.roles) {
            current.serving.provider.forgets();
            current.canary_forgets();
        }
    }
}

impl<P: Holding> RoutedCall<'_, P> {
    fn generation(&self) -> &Generation<P> {
        match &self.roles.trial {
            Some(trial) if self.side == Side::Candidate => &trial.candidate,
            _ => &self.roles.serving,
        }
    }

    fn tagged(&self, pending: Pending) -> Pending {
        hint::tagged(self.generation().number, pending)
    }

    fn tagged_progress(&self, progress: Progress) -> Progress {
        match progress {
            Progress::Pending(pending) => Progress::Pending(self.tagged(pending)),
            Progress::Done => Progress::Done,
        }
    }

    fn progress(&self, reply: ProgressReply) -> ProgressReply {
        ProgressReply {
            progress: self.tagged_progress(reply.progress),
            ..reply
        }
    }

    fn route(&self, reply: RouteReply) -> RouteReply {
        RouteReply {
            progress: self.tagged_progress(reply.progress),
            ..reply
        }
    }

    /// Makes the call with the hint that its generation wrote, and counts how it ends. If the candidate failed, the serving
    /// generation is asked first, in plan mode: all calls about a Service go to one generation, and a mistake of its owner
    /// is no fault of the candidate.
    async fn change<R: Clone, T>(
        &self,
        function: &str,
        request: &R,
        hint_of: impl Fn(&mut R) -> &mut Option<Arc<[u8]>>,
        permit: Arc<Permit>,
        call: impl for<'x> Fn(&'x P, &'x R, Arc<Permit>) -> Reply<'x, T>,
    ) -> Result<T, ProviderError> {
        let generation = self.generation();
        let mut request = request.clone();
        let hint = hint_of(&mut request);
        *hint = hint::own(generation.number, hint.as_ref());
        let answer = call(generation.provider.as_ref(), &request, permit.clone()).await;
        if let (Some(trial), Err(error)) = (&self.roles.trial, &answer)
            && self.side == Side::Candidate
            && may_be_of_both(error)
        {
            *hint_of(&mut request) = None;
            let serving = self.roles.serving.provider.as_ref();
            let again = |permit| call(serving, &request, permit);
            let second = plan::would_change(permit.tenure(), permit.call_ends(), again).await;
            trial.count_answer(Side::Serving, function, &second, &permit);
        }
        self.roles
            .count_answer(self.side, function, answer, &permit)
    }
}
