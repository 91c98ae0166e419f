//! Checks that a provider's answers about a Service come from the right account, by asking about nodes and load
//! balancers known to exist; also reads the Service's namespace. Reads only and decides nothing.

use std::sync::Arc;

use ccm_core::cloud::load_balancer::Found;
use ccm_core::cloud::{Lookup, ProviderError};
use ccm_core::moment::Moment;
use ccm_core::node::cloud_node::cloud_node;
use ccm_core::node::object::PrunedNode;
use ccm_core::node::ownership::OwnershipContext;
use ccm_core::node_lifecycle::{confirms_provider_id, witnesses};
use ccm_core::service::{Account, ProofScope, ServiceRef, Witnesses, cloud_service, is_same};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;

use super::request::in_time;
use super::service::Services;
use crate::clock::boottime;

/// Maximum number of load balancers to ask about.
const WITNESSES: usize = 3;

/// A look-up of nodes that failed.
pub(super) struct FailedLookUp {
    /// The generation that was asked.
    generation: u64,
    ended: Moment,
    error: ProviderError,
}

impl Services {
    /// The provider's current generation, and whether its account is confirmed.
    pub(super) fn account(&self) -> Account {
        let generation = self.cloud.provider.generation();
        Account {
            generation,
            is_known: *self.known.lock() == Some(generation),
        }
    }

    /// Checks that the provider's generation is still this one.
    ///
    /// # Errors Another generation has replaced it, whose account may be another one.
    pub(super) fn still(&self, generation: u64) -> Result<(), ProviderError> {
        if self.cloud.provider.generation() == generation {
            return Ok(());
        }
        Err(ProviderError::Unavailable(
            "its module or its credentials have changed meanwhile".to_owned(),
        ))
    }

    /// Asks the witnesses about the generation named in `scope`: nodes first, because one call answers for all of them.
    ///
    /// # Errors
    /// The provider did not answer, or another generation has replaced it: an answer of one generation proves nothing
    /// about the answers of another.
    pub(super) async fn prove_account(
        &self,
        service: &ServiceRef,
        ownership: &OwnershipContext,
        scope: ProofScope,
    ) -> Result<Witnesses, ProviderError> {
        let generation = scope.generation;
        let asked = match scope.is_anew {
            true => self.ask_nodes(ownership).await,
            false => self.ask_nodes_for_all(ownership, generation).await,
        };
        let failed = match asked {
            // Confirmed by the one that asked.
            Ok(witnesses) if !scope.is_anew => return Ok(witnesses),
            Ok(witnesses) if witnesses != Witnesses::default() => {
                return self.confirm(generation, witnesses);
            }
            Ok(_) => None,
            Err(error @ ProviderError::Throttled { .. }) => return Err(error),
            // A failure to look up nodes must not block load balancers for ever.
            Err(error) => Some(error),
        };
        self.still(generation)?;
        // Each Service for itself, and without waiting for others: it is no witness of its own.
        let witnesses = self.ask_load_balancers(service).await?;
        match failed {
            Some(error) if witnesses == Witnesses::default() => Err(error),
            _ => self.confirm(generation, witnesses),
        }
    }

    /// Notes that the generation has this cluster's account, unless the witnesses are missing.
    ///
    /// # Errors
    /// As [`Services::still`].
    fn confirm(&self, generation: u64, witnesses: Witnesses) -> Result<Witnesses, ProviderError> {
        self.still(generation)?;
        if !witnesses.are_of_other_account() {
            *self.known.lock() = Some(generation);
        }
        Ok(witnesses)
    }

    /// Asks about nodes, and confirms the generation. Many Services begin together: the first one asks for all of them, and
    /// its failure counts for all that wait by then. Otherwise each would wait until those before it have failed.
    ///
    /// # Errors
    /// As [`Services::prove_account`].
    async fn ask_nodes_for_all(
        &self,
        ownership: &OwnershipContext,
        generation: u64,
    ) -> Result<Witnesses, ProviderError> {
        let began = boottime();
        let mut last = self.account_proof.lock().await;
        self.still(generation)?;
        if *self.known.lock() == Some(generation) {
            return Ok(Witnesses::default());
        }
        if let Some(failed) = &*last
            && failed.generation == generation
            && began < failed.ended
        {
            return Err(failed.error.clone());
        }
        match self.ask_nodes(ownership).await {
            Ok(witnesses) => self.confirm(generation, witnesses),
            Err(error) => {
                *last = Some(FailedLookUp {
                    generation,
                    ended: boottime(),
                    error: error.clone(),
                });
                Err(error)
            }
        }
    }

    /// Asks about nodes that are known to exist.
    ///
    /// # Errors
    /// The provider did not answer.
    async fn ask_nodes(&self, ownership: &OwnershipContext) -> Result<Witnesses, ProviderError> {
        let nodes = self.cloud.cluster.nodes.all();
        let nodes = witnesses(nodes.iter().map(|node| &**node), ownership);
        let lookups = self.look_up(&nodes).await?;
        let mut witnesses = Witnesses::default();
        for (node, lookup) in nodes.iter().zip(lookups) {
            let name = node.name();
            if confirms_provider_id(node, &lookup) {
                witnesses.found.push(format!("node/{name}"));
            } else if lookup == Lookup::Gone {
                witnesses.missing.push(format!("node/{name}"));
            }
        }
        Ok(witnesses)
    }

    /// Asks about load balancers of other Services. One that is lost must not stop the reconciliation of the others.
    ///
    /// # Errors
    /// The provider did not answer.
    async fn ask_load_balancers(&self, service: &ServiceRef) -> Result<Witnesses, ProviderError> {
        let mut witnesses = Witnesses::default();
        let others = self
            .cloud
            .cluster
            .service_index()
            .others_with_address(self.cloud.provider.name(), service);
        for other in others.into_iter().take(WITNESSES) {
            let Ok(Some(stored)) = self.read(&other).await else {
                continue;
            };
            let known = Arc::new(cloud_service(&stored));
            let before = known.status.clone();
            let found = match self.look(&other, known).await {
                Ok(reply) => reply.found,
                // Its load balancer is another component's, and in no account of the provider.
                Err(ProviderError::Elsewhere) => continue,
                Err(error) => return Err(error),
            };
            match found {
                Found::Present(status) => match is_same(&before, &status) {
                    Some(true) => witnesses.found.push(other.to_string()),
                    Some(false) => witnesses.missing.push(other.to_string()),
                    // Host names neither confirm nor refute the account.
                    None => {}
                },
                Found::Absent => witnesses.missing.push(other.to_string()),
            }
        }
        Ok(witnesses)
    }

    /// Empty if the provider has no instances.
    async fn look_up(&self, nodes: &[&PrunedNode]) -> Result<Vec<Lookup>, ProviderError> {
        if nodes.is_empty() {
            return Ok(Vec::new());
        }
        let about = nodes.iter().copied().map(cloud_node).collect();
        match self.cloud.clone().find_apart(about, true).await {
            Ok(reply) => Ok(reply.lookups),
            Err(ProviderError::Unsupported(_) | ProviderError::Elsewhere) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Whether the namespace is being deleted. False if it cannot be read; the Service then takes the ordinary, longer
    /// path.
    pub(super) async fn namespace_goes(&self, service: &ServiceRef) -> bool {
        let api: Api<Namespace> = Api::all(self.client());
        let request = api.get_metadata_opt(&service.namespace);
        let read = in_time(&self.cloud.cluster.tenure, request).await;
        matches!(read, Ok(Some(Some(namespace))) if namespace.metadata.deletion_timestamp.is_some())
    }
}
