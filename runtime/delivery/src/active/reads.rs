//! Reads made for a trial: background comparisons, and one read for each capability when there is no traffic. All use
//! read-only permits, whatever the permit of the repeated call allowed.

use std::sync::Arc;

use ccm_core::cloud::load_balancer::CloudService;
use ccm_core::cloud::{CloudNode, FindReply, ProviderError};
use ccm_core::cloud_provider::Reply;
use ccm_core::rollout::TrialKind;
use ccm_core::safety::permit::Permit;
use ccm_host::egress::now;
use ccm_host::limits;
use parking_lot::Mutex;

use super::traffic_split::{Side, Trial};
use super::{Active, Generation, Holding, compare};

/// Function names used in messages.
pub(super) const FIND: &str = "instances.find";
pub(super) const GET: &str = "load-balancer.get";

/// Number of nodes remembered for reads without traffic.
const NODES: usize = 3;
/// UID of a placeholder, used before any object was seen. No cluster has an object with this UID.
const NOBODY: &str = "00000000-0000-0000-0000-000000000000";
const PLACEHOLDER_NAME: &str = "wasm-ccm-asks-about-nobody";

/// The objects that the controllers asked about last.
#[derive(Default)]
pub(super) struct Seen(Mutex<Last>);

#[derive(Default)]
struct Last {
    nodes: Vec<CloudNode>,
    service: Option<Arc<CloudService>>,
}

impl Seen {
    /// Remembers some of these nodes, preferably those with a provider ID.
    pub(super) fn nodes(&self, nodes: &[CloudNode]) {
        let known = nodes.iter().filter(|node| node.provider_id.is_some());
        let chosen: Vec<_> = known.take(NODES).cloned().collect();
        let mut last = self.0.lock();
        if !chosen.is_empty() {
            last.nodes = chosen;
        } else if last.nodes.is_empty() {
            last.nodes = nodes.iter().take(NODES).cloned().collect();
        }
    }

    /// Remembers the Service of the last call, in place of the one before.
    pub(super) fn service(&self, service: &Arc<CloudService>) {
        self.0.lock().service = Some(service.clone());
    }

    fn some_nodes(&self) -> Vec<CloudNode> {
        let nodes = self.0.lock().nodes.clone();
        match nodes.is_empty() {
            true => vec![CloudNode::bare(PLACEHOLDER_NAME, NOBODY)],
            false => nodes,
        }
    }

    fn some_service(&self) -> Arc<CloudService> {
        let service = self.0.lock().service.clone();
        service.unwrap_or_else(|| Arc::new(nobodys_service()))
    }
}

impl<P: Holding> Active<P> {
    /// Makes one read for each capability, about the objects that the controllers asked about last. A shadow asks both
    /// generations and compares; a canary asks the candidate, and the serving generation if that fails. Does nothing
    /// without a trial or during a rate-limit hold. Only the tenure of `permit` is used: all calls here are read-only.
    pub async fn read_each_capability(&self, permit: &Arc<Permit>) {
        let roles = self.roles.load_full();
        let Some(trial) = &roles.trial else {
            return;
        };
        let (serving, candidate) = (&roles.serving, &trial.candidate);
        // Closed: the trial is over.
        let Some(_turn) = trial.turn().await else {
            return;
        };
        if self.capabilities.instances && candidate.provider.held_for().is_none() {
            let nodes = self.seen.some_nodes();
            match trial.kind {
                TrialKind::Shadow => {
                    let permit = reading(permit);
                    let answer = serving.provider.find(&nodes, permit.clone()).await;
                    trial.count_answer(Side::Serving, FIND, &answer, &permit);
                    let (trial, serving) = (trial.clone(), serving.clone());
                    trial.compare_find(serving, nodes, answer, permit).await;
                }
                TrialKind::Canary => {
                    // The answer was counted and is not needed here.
                    let _ = self
                        .find_by_candidate(serving, trial, &nodes, reading(permit))
                        .await;
                }
            }
        }
        if self.capabilities.load_balancer && candidate.provider.held_for().is_none() {
            let service = self.seen.some_service();
            trial.read_balancer(serving, &service, permit).await;
        }
        if self.capabilities.routes && candidate.provider.held_for().is_none() {
            trial
                .read_routes(serving, &self.seen.some_nodes(), permit)
                .await;
        }
    }
}

impl<P: Holding> Trial<P> {
    /// Compares an answer with the candidate's. A difference counts if it remains when both are asked again without
    /// their response caches: a machine may have come or gone meanwhile.
    pub(super) async fn compare_find(
        self: Arc<Self>,
        serving: Arc<Generation<P>>,
        nodes: Vec<CloudNode>,
        answer: Result<FindReply, ProviderError>,
        permit: Arc<Permit>,
    ) {
        let permit_now = reading(&permit);
        let theirs = self
            .candidate
            .provider
            .find(&nodes, permit_now.clone())
            .await;
        self.count_answer(Side::Candidate, FIND, &theirs, &permit_now);
        let (Ok(ours), Ok(theirs)) = (answer, theirs) else {
            return;
        };
        if compare::lookups(&nodes, &ours.lookups, &theirs.lookups).is_empty() {
            return self.compared(Vec::new());
        }
        self.finds_uncompared.asked_more(2);
        let permit_again = reading(&permit);
        let theirs = self
            .candidate
            .provider
            .find_fresh(&nodes, permit_again.clone())
            .await;
        self.count_answer(Side::Candidate, FIND, &theirs, &permit_again);
        let ours = serving.provider.find_fresh(&nodes, reading(&permit)).await;
        if let (Ok(ours), Ok(theirs)) = (ours, theirs) {
            self.compared(compare::lookups(&nodes, &ours.lookups, &theirs.lookups));
        }
    }

    async fn read_balancer<'a>(
        &'a self,
        serving: &'a Generation<P>,
        service: &'a CloudService,
        permit: &Arc<Permit>,
    ) {
        let ask = |provider: &'a P, permit| provider.get_load_balancer(service, permit);
        if let Some((ours, theirs)) = self.ask_both(serving, permit, GET, ask).await {
            let name = format!("{}/{}", service.namespace, service.name);
            let difference = compare::balancers(&name, &ours.found, &theirs.found);
            self.compared(difference.into_iter().collect());
        }
    }

    /// Asks the candidate and the serving generation for the same, and counts how that ends. `None`: there is nothing to
    /// compare. A canary is judged by its errors only, so the serving generation is asked only about those.
    pub(super) async fn ask_both<'a, T>(
        &'a self,
        serving: &'a Generation<P>,
        permit: &Arc<Permit>,
        function: &str,
        ask: impl Fn(&'a P, Arc<Permit>) -> Reply<'a, T>,
    ) -> Option<(T, T)> {
        let allowed = reading(permit);
        let theirs = ask(&self.candidate.provider, allowed.clone()).await;
        if self.kind == TrialKind::Canary && theirs.is_ok() {
            self.count_answer(Side::Candidate, function, &theirs, &allowed);
            return None;
        }
        let ours = ask(&serving.provider, reading(permit)).await;
        self.count_answer(Side::Serving, function, &ours, &allowed);
        self.count_answer(Side::Candidate, function, &theirs, &allowed);
        Some((ours.ok()?, theirs.ok()?))
    }
}

/// A permit for the same reads in a call that begins now.
pub(crate) fn reading(permit: &Permit) -> Arc<Permit> {
    Arc::new(permit.reading(now().after(limits::CALL_WITH_WAIT)))
}

fn nobodys_service() -> CloudService {
    CloudService {
        namespace: "default".to_owned(),
        name: PLACEHOLDER_NAME.to_owned(),
        uid: NOBODY.to_owned(),
        ..CloudService::default()
    }
}
