//! Loads the module again for each part of a law, so that no part depends on an earlier one, and calls it. Remembers
//! the objects that were made, so that they can be removed.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::bail;
use ccm_core::cloud::load_balancer::{CloudService, GetReply};
use ccm_core::cloud::route::ListRoutesReply;
use ccm_core::cloud::{
    Address, AddressType, CloudNode, FindReply, Lookup, ProviderError, Readiness,
};
use ccm_core::cloud_provider::CloudProvider as _;
use ccm_core::node::cloud_node::cloud_node;
use ccm_core::safety::permit::{Access, CloudRequest, LOAD_BALANCER_CHANGES, Mode, Permit};
use ccm_core::safety::tenure::Tenure;
use ccm_host::egress::now;
use ccm_host::limits::CALL_CEILING;
use ccm_host::{InjectedFault, Provider};
use k8s_openapi::api::core::v1::Service;
use parking_lot::Mutex;
use tokio::time::sleep;

use crate::provider::arguments::Test;
use crate::provider::loadable::Loadable;
use crate::provider::observed_calls::{ObservedCall, ObservedCalls};
use crate::provider::try_command::objects::{NodeArgument, pruned};

/// Address of the first node without one, from a range for documentation (RFC 5737).
const FIRST_NODE_IP: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

/// The objects that the module is asked about.
pub(super) struct Subjects {
    /// The nodes as given: some may have no provider ID.
    pub(super) nodes: Vec<CloudNode>,
    /// A provider ID that no machine has.
    pub(super) gone: Option<String>,
    /// The template of every tested Service.
    pub(super) service: Service,
    /// `--cluster-cidr`.
    pub(super) cluster_cidrs: Vec<String>,
    pub(super) allow_changes: bool,
    /// Time limit of a pending operation.
    pub(super) pending_timeout: Duration,
}

impl Subjects {
    pub(super) fn new(options: &Test, service: Service) -> Subjects {
        let subject = &options.subject;
        Subjects {
            nodes: nodes(&subject.node),
            gone: options.gone.clone(),
            service,
            cluster_cidrs: subject.cluster_cidr.clone(),
            allow_changes: subject.allow_changes,
            pending_timeout: subject.timeout,
        }
    }
}

/// The nodes of the command line. Each has an address: a new node needs one, and a provider may know none of a machine.
fn nodes(arguments: &[NodeArgument]) -> Vec<CloudNode> {
    let numbered = arguments.iter().zip(0..);
    let nodes = numbered.map(|(argument, number)| {
        let mut node = cloud_node(&pruned(&argument.object()));
        if argument.ip.is_none() {
            let ip = Ipv4Addr::from_bits(FIRST_NODE_IP.to_bits().saturating_add(number));
            node.addresses.push(Address {
                address_type: AddressType::InternalIp,
                address: ip.to_string(),
            });
        }
        node
    });
    nodes.collect()
}

/// The module, the objects that its laws are about, and what it made.
pub(super) struct ModuleUnderTest {
    loadable: Arc<Loadable>,
    pub(super) subjects: Subjects,
    known: OnceLock<Vec<CloudNode>>,
    observed: Mutex<Vec<Arc<ObservedCalls>>>,
    failures: Mutex<Vec<String>>,
    /// What was made at the cloud and not removed, each with the reason.
    left: Mutex<BTreeMap<String, String>>,
}

/// The requests that a fault counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counted {
    /// All requests.
    Requests,
    /// Requests that may change something.
    Changes,
}

impl ModuleUnderTest {
    pub(super) fn new(loadable: Arc<Loadable>, subjects: Subjects) -> ModuleUnderTest {
        ModuleUnderTest {
            loadable,
            subjects,
            known: OnceLock::new(),
            observed: Mutex::default(),
            failures: Mutex::default(),
            left: Mutex::default(),
        }
    }

    /// Loads the module anew.
    ///
    /// # Errors
    /// It does not load.
    pub(super) async fn load(&self) -> anyhow::Result<LoadedModule<'_>> {
        let observed = Arc::new(ObservedCalls::default());
        self.observed.lock().push(observed.clone());
        let provider = self.loadable.load(Some(observed.clone())).await?;
        let loaded = LoadedModule {
            tested: self,
            provider,
            observed,
            hangs: AtomicBool::new(false),
        };
        // A pause that the cloud asked for in an earlier part applies to all parts: the cloud counts them together.
        loaded.wait_out().await;
        Ok(loaded)
    }

    /// All calls so far.
    pub(super) fn calls(&self) -> Vec<ObservedCall> {
        let observed = self.observed.lock();
        observed.iter().flat_map(|one| one.since(0)).collect()
    }

    /// Calls that trapped or ran into their time limit although no fault made them wait.
    pub(super) fn failures(&self) -> Vec<String> {
        self.failures.lock().clone()
    }

    /// Records an object that is about to be made.
    pub(super) fn make(&self, what: String) {
        self.leave(what, "it was not removed yet");
    }

    /// Records an object that could not be removed, and why.
    pub(super) fn leave(&self, what: String, why: impl Into<String>) {
        self.left.lock().insert(what, why.into());
    }

    /// Records that an object was removed.
    pub(super) fn remove(&self, what: &str) {
        self.left.lock().remove(what);
    }

    /// The objects that were not removed, each with the reason.
    pub(super) fn left(&self) -> Vec<String> {
        let left = self.left.lock();
        left.iter()
            .map(|(what, why)| format!("{what} ({why})"))
            .collect()
    }

    /// Whether nodes of this provider ID scheme are this provider's.
    pub(super) fn owns_scheme(&self, scheme: &str) -> bool {
        let schemes = self.loadable.owned_schemes();
        schemes.iter().any(|one| one == scheme)
    }

    /// Whether the module has a self-check.
    pub(super) fn has_self_check(&self) -> bool {
        self.loadable.inspection.self_check
    }

    /// Whether the module cannot work without one of its targets.
    pub(super) fn needs_a_target(&self) -> bool {
        let targets = &self.loadable.inspection.manifest.targets;
        targets.iter().any(|target| target.required)
    }

    /// Looks the nodes up once, so that they have provider IDs and addresses from then on.
    pub(super) async fn learn(&self) -> anyhow::Result<()> {
        let mut nodes = self.subjects.nodes.clone();
        let loaded = self.load().await?;
        if loaded.provider.capabilities().instances && !nodes.is_empty() {
            let reply = loaded.find(&nodes).await.unwrap_or_default();
            for (node, lookup) in nodes.iter_mut().zip(reply.lookups) {
                if let Lookup::Found(instance) = lookup {
                    let found = || instance.provider_id.clone();
                    node.provider_id.get_or_insert_with(found);
                    // Without addresses the answer leaves those that the node has.
                    if !instance.addresses.is_empty() {
                        node.addresses.clone_from(&instance.addresses);
                    }
                }
            }
        }
        nodes.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        // Only the first result counts; this is called once.
        let _ = self.known.set(nodes);
        Ok(())
    }

    /// The nodes that have a provider ID, sorted by name.
    pub(super) fn known(&self) -> Vec<CloudNode> {
        let known = self.known.get().into_iter().flatten();
        known
            .filter(|node| node.provider_id.is_some())
            .cloned()
            .collect()
    }

    /// The known nodes in the states in which a module may look them up in different ways: as they have just joined, and
    /// later, when they are initialised and their kubelet is not ready. Each with what a report calls it.
    pub(super) fn known_in_each_state(&self) -> [(&'static str, Vec<CloudNode>); 2] {
        let joined = self.known();
        let later = joined.iter().map(|node| CloudNode {
            readiness: Readiness::NotReady,
            initialized: true,
            ..node.clone()
        });
        let later = later.collect();
        [("new", joined), ("initialised and not ready", later)]
    }
}

/// A loaded module.
pub(super) struct LoadedModule<'a> {
    pub(super) tested: &'a ModuleUnderTest,
    pub(super) provider: Provider,
    observed: Arc<ObservedCalls>,
    /// Whether a fault may use up a call's time.
    hangs: AtomicBool,
}

impl LoadedModule<'_> {
    /// Creates a permit for one call of at most this many changes.
    fn permit(&self, mode: Mode, changes: u32, time: Duration) -> Arc<Permit> {
        Arc::new(Permit::new(
            now().after(time),
            mode,
            changes,
            Arc::new(Tenure::unlimited()),
            self.observed.clone(),
        ))
    }

    /// Creates a permit for a call that may make as many changes as in the manager.
    pub(super) fn changing(&self, changes: u32) -> Arc<Permit> {
        self.permit(Mode::Enforce, changes, CALL_CEILING)
    }

    /// Creates a permit for a call that changes nothing. A change is refused, and observed.
    pub(super) fn reading(&self) -> Arc<Permit> {
        self.reading_for(CALL_CEILING)
    }

    /// [`LoadedModule::reading`], for a call with this time limit. As in a plan: the permit then tells that a change was
    /// withheld.
    fn reading_for(&self, time: Duration) -> Arc<Permit> {
        self.permit(Mode::Plan, LOAD_BALANCER_CHANGES, time)
    }

    /// Looks nodes up, without any cached answers.
    pub(super) async fn find(&self, nodes: &[CloudNode]) -> Result<FindReply, ProviderError> {
        self.find_within(nodes, CALL_CEILING).await
    }

    /// Looks nodes up within this time.
    pub(super) async fn find_within(
        &self,
        nodes: &[CloudNode],
        time: Duration,
    ) -> Result<FindReply, ProviderError> {
        let permit = self.reading_for(time);
        self.recorded(self.provider.find_fresh(nodes, permit).await)
    }

    /// Reads a Service's load balancer.
    pub(super) async fn get_load_balancer(
        &self,
        service: &CloudService,
    ) -> Result<GetReply, ProviderError> {
        let answer = self.provider.get_load_balancer(service, self.reading());
        self.recorded(answer.await)
    }

    /// Lists the routes.
    pub(super) async fn list_routes(
        &self,
        nodes: &[CloudNode],
    ) -> Result<ListRoutesReply, ProviderError> {
        let answer = self.provider.list_routes(nodes, self.reading());
        self.recorded(answer.await)
    }

    /// Records a trap or a timeout, and passes the answer on.
    pub(super) fn recorded<T>(&self, answer: Result<T, ProviderError>) -> Result<T, ProviderError> {
        let is_broken = match &answer {
            Err(ProviderError::Trapped(_)) => true,
            Err(ProviderError::TimedOut(_)) => !self.hangs.load(Ordering::Relaxed),
            _ => false,
        };
        if let (true, Err(error)) = (is_broken, &answer) {
            self.tested.failures.lock().push(error.to_string());
        }
        answer
    }

    /// Injects this fault into the `number`th counted request, from 0, and into no other.
    pub(super) fn disturb(&self, counted: Counted, number: usize, fault: InjectedFault) {
        if fault == InjectedFault::Hang {
            self.hangs.store(true, Ordering::Relaxed);
        }
        let seen = AtomicUsize::new(0);
        self.observed.inject(move |request: &CloudRequest| {
            let counts = counted == Counted::Requests || request.access == Access::Write;
            let is_it = counts && seen.fetch_add(1, Ordering::Relaxed) == number;
            if is_it { fault } else { InjectedFault::None }
        });
    }

    /// Injects this fault into every request.
    pub(super) fn disturb_all(&self, fault: InjectedFault) {
        self.observed.inject(move |_: &CloudRequest| fault);
    }

    /// The number of calls so far, for [`LoadedModule::since`].
    pub(super) fn mark(&self) -> usize {
        self.observed.count()
    }

    /// The calls after a mark.
    pub(super) fn since(&self, mark: usize) -> Vec<ObservedCall> {
        self.observed.since(mark)
    }

    /// Number of changes that were sent, or tried, since a mark.
    pub(super) fn changes_since(&self, mark: usize) -> usize {
        let calls = self.since(mark);
        let tried = |call: &ObservedCall| call.changes().count() + call.refused.len();
        calls.iter().map(tried).sum()
    }

    /// Verifies that no change was sent, or tried, since a mark.
    ///
    /// # Errors
    /// Their number.
    pub(super) fn changes_nothing_since(&self, mark: usize) -> anyhow::Result<()> {
        match self.changes_since(mark) {
            0 => Ok(()),
            changes => bail!("{changes} change(s) were tried"),
        }
    }

    /// Waits until the cloud's pause is over.
    pub(super) async fn wait_out(&self) {
        while let Some(left) = self.provider.held_for() {
            sleep(left).await;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn each_node_has_an_address_of_its_own() {
        let arguments = ["a", "b=acme://m-1", "c,198.51.100.7"];
        let arguments = arguments.map(|text| NodeArgument::parse(text).unwrap());
        let nodes = nodes(&arguments).into_iter();
        let addresses = nodes.map(|node| {
            let stored = node.addresses.into_iter();
            stored.map(|one| one.address).collect::<Vec<String>>()
        });
        assert_eq!(
            addresses.collect::<Vec<_>>(),
            [
                ["a", "192.0.2.1"],
                ["b", "192.0.2.2"],
                ["c", "198.51.100.7"]
            ]
        );
    }
}
