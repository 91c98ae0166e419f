//! A loaded module: one generation of a provider, ready to be called.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ccm_core::cloud::{Capabilities, ProviderError};
use ccm_core::permit::Permit;

use crate::bindings::{instances, load_balancer, routes, self_check};
use crate::call::{About, Call, Calls, deadline};
use crate::digest::Digest;
use crate::egress::{Egress, now};
use crate::manifest::Manifest;
use crate::state::StateStore;

/// A cloud provider in the sandbox. Made by [`crate::Host::load`]; calls under way keep what they need of it.
///
/// Every call has a fresh store and a fresh instance, and `init` runs in it first: nothing of a guest survives a call
/// but what it puts into the contract's `state`.
pub struct Provider {
    pub(crate) name: Arc<str>,
    pub(crate) manifest: Manifest,
    pub(crate) capabilities: Capabilities,
    pub(crate) warnings: Vec<String>,
    pub(crate) calls: Calls,
    pub(crate) annotation_prefixes: Vec<String>,
    pub(crate) instances: Option<instances::GuestIndices>,
    pub(crate) load_balancer: Option<load_balancer::GuestIndices>,
    pub(crate) routes: Option<routes::GuestIndices>,
    pub(crate) self_check: Option<self_check::GuestIndices>,
    pub(crate) egress: Arc<Egress>,
    pub(crate) state: Arc<StateStore>,
    pub(crate) call_limit: Duration,
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Provider({} {})", self.name, self.calls.digest)
    }
}

impl Provider {
    /// The SHA-256 of the module.
    pub fn digest(&self) -> &Digest {
        &self.calls.digest
    }

    /// What the module says about itself.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// What the operator should know and nothing forbids, such as grants that the module does not request.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// How long the cloud still wants to be left alone, if it does: the longest wait of all targets.
    pub fn held_for(&self) -> Option<Duration> {
        self.egress.held_for()
    }

    /// Lets the guest prove that its credential works and its cloud is reachable. A guest that cannot do so has
    /// nothing to say against it.
    ///
    /// # Errors
    /// What the guest found, or how it failed.
    pub async fn self_check(&self, permit: Arc<Permit>) -> Result<(), ProviderError> {
        let Some(indices) = &self.self_check else {
            return Ok(());
        };
        let indices = indices.clone();
        let call = self.call("self-check.check", permit, false);
        let answer = self.calls.run(
            call,
            Box::new(move |store, instance, _| {
                Box::pin(async move {
                    let guest = indices.load(&mut *store, instance)?;
                    let answer = guest.call_check(&mut *store).await?;
                    Ok(answer.map_err(ProviderError::from))
                })
            }),
        );
        answer.await
    }

    /// A call under this permit. A fresh one gets no kept answers and an empty state.
    pub(crate) fn call(&self, function: &'static str, permit: Arc<Permit>, fresh: bool) -> Call {
        let deadline = deadline(self.call_limit, now().until(permit.valid_until()));
        let state = if fresh {
            Arc::default()
        } else {
            self.state.clone()
        };
        Call {
            function,
            about: About::Nodes,
            deadline,
            scope: Some(self.egress.scope(permit, deadline, fresh)),
            state,
        }
    }
}
