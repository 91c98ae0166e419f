//! A loaded module: one generation of a provider, ready to be called.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ccm_core::cloud::{Capabilities, ProviderError};
use ccm_core::safety::permit::Permit;
use tokio::time::Instant;

use crate::bindings::lifecycle::Capability;
use crate::call::{Call, Calls, longest_wait};
use crate::digest::Digest;
use crate::egress::{CallScope, Egress, TargetLevel, now};
use crate::load_options::{CallLimits, LimitsGranted};
use crate::manifest::Manifest;
use crate::memory_budget::GUESTS;
use crate::sandbox::{Answer, Ask, Function, Sandbox};

/// A cloud provider in the sandbox. Created by [`crate::Host::load`]; calls under way keep the parts that they need.
///
/// Every call has a fresh store and a fresh instance, and `init` runs in it first: no guest data survives a call
/// except entries in the contract's `state`.
pub struct Provider {
    pub(crate) name: Arc<str>,
    pub(crate) manifest: Manifest,
    pub(crate) capabilities: Capabilities,
    pub(crate) warnings: Vec<String>,
    pub(crate) calls: Calls,
    pub(crate) annotation_prefixes: Vec<String>,
    pub(crate) checks_itself: bool,
    pub(crate) egress: Arc<Egress>,
    pub(crate) limits: LimitsGranted,
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Provider({} {})", self.name, self.calls.digest)
    }
}

impl Provider {
    /// SHA-256 of the module.
    pub fn digest(&self) -> &Digest {
        &self.calls.digest
    }

    /// Manifest of the module.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Effective limits of each call.
    pub fn call_limits(&self) -> CallLimits {
        self.limits.call(&self.manifest)
    }

    /// Memory budget of all concurrent calls together, host memory included but not the copies of nodes, in MiB. Calls
    /// that do not fit wait. `None`: the available memory is unknown.
    pub fn memory_share_mib(&self) -> Option<u32> {
        GUESTS.share_mib()
    }

    /// Number of CPU permits that its calls have used so far: one for each poll, between two waits or until the next
    /// tick. `None`: they run in a process of their own, which the kernel schedules.
    pub fn cpu_turns(&self) -> Option<u64> {
        match &self.calls.sandbox {
            Sandbox::InProcess(sandbox) => Some(sandbox.scheduler.taken()),
            Sandbox::Process(_) => None,
        }
    }

    /// Warnings for the operator, such as grants that the module does not request.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Ends the trial of this generation: from now on it has the whole request budgets, and its rate-limit holds
    /// apply to all versions. No effect on a generation that was never on trial.
    pub fn serves(&self) {
        self.egress.serves(true);
    }

    /// Empties what this generation remembers of former calls: its guests' `state` and cached responses.
    pub fn forgets(&self) {
        self.calls.sandbox.forget();
        self.egress.forget_responses();
    }

    /// Longest rate-limit hold or wait for a request budget over all targets; `None` if no target waits.
    pub fn held_for(&self) -> Option<Duration> {
        self.egress.held_for()
    }

    /// The targets that it may reach, and the requests that it may send there now, for people.
    pub fn targets(&self) -> Vec<TargetLevel> {
        self.egress.targets().collect()
    }

    /// Lets the guest verify that its credential works and its cloud is reachable. Succeeds for a guest without such
    /// a check.
    ///
    /// # Errors
    /// The guest's error, or how the guest failed.
    pub async fn self_check(&self, permit: Arc<Permit>) -> Result<(), ProviderError> {
        if !self.checks_itself {
            return Ok(());
        }
        let asking = DeferredAsk::new(Function::SelfCheck, || Ask::SelfCheck);
        let call = self.call(asking, permit, false);
        let read = |answer| match answer {
            Answer::Well => Ok(()),
            _ => Err(not_asked()),
        };
        let ((), _) = self.calls.run(call, read).await?;
        Ok(())
    }

    /// Parameters of a call that asks this under this permit. A fresh one gets no cached answers and an empty state.
    pub(crate) fn call<A: FnOnce() -> Ask>(
        &self,
        asking: DeferredAsk<A>,
        permit: Arc<Permit>,
        fresh: bool,
    ) -> Call<impl FnOnce(Instant) -> (Ask, Option<CallScope>)> {
        let DeferredAsk {
            function,
            argument_bytes,
            ask,
        } = asking;
        let limit = self.limits.call_limit(&self.manifest);
        // A permit may have no end.
        let left = now()
            .until(permit.call_ends())
            .min(longest_wait(limit) + limit);
        Call {
            function,
            argument_bytes,
            limit,
            ends: Instant::now() + left,
            fresh,
            begin: move |deadline: Instant| {
                let egress = &self.egress;
                let scope = match function.capability() {
                    Some((Capability::LoadBalancer | Capability::Routes, _)) => {
                        egress.scope_beside_nodes(permit, deadline, fresh)
                    }
                    Some((Capability::Instances, _)) | None => {
                        egress.scope(permit, deadline, fresh)
                    }
                };
                (ask(), Some(scope))
            },
        }
    }
}

/// What a guest is to be asked, before there is a copy of it for the guest.
pub(crate) struct DeferredAsk<A> {
    pub(crate) function: Function,
    /// See [`Call::argument_bytes`].
    argument_bytes: usize,
    ask: A,
}

impl<A: FnOnce() -> Ask> DeferredAsk<A> {
    /// A question with small arguments, which `ask` makes when the call begins.
    pub(crate) fn new(function: Function, ask: A) -> DeferredAsk<A> {
        DeferredAsk {
            function,
            argument_bytes: 0,
            ask,
        }
    }

    /// The same with arguments that take about this much memory.
    pub(crate) fn of_bytes(self, argument_bytes: usize) -> DeferredAsk<A> {
        DeferredAsk {
            argument_bytes,
            ..self
        }
    }
}

/// Error for an answer that does not belong to the called function; only a sandbox process could give one.
pub(crate) fn not_asked() -> ProviderError {
    ProviderError::Internal("the sandbox answered what it was not asked".to_owned())
}
