//! A loaded module: one generation of a provider, ready to be called.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ccm_core::cloud::{Capabilities, ProviderError};
use ccm_core::permit::Permit;

use crate::call::{Call, Calls, deadline};
use crate::digest::Digest;
use crate::egress::{Egress, now};
use crate::load_options::{CallLimits, LimitsGranted};
use crate::manifest::Manifest;
use crate::sandbox::{Answer, Ask, Sandbox};

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
    pub(crate) checks_itself: bool,
    pub(crate) egress: Arc<Egress>,
    pub(crate) call_limit: Duration,
    pub(crate) limits: LimitsGranted,
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

    /// What each of its calls gets.
    pub fn call_limits(&self) -> CallLimits {
        self.limits.call(&self.manifest)
    }

    /// The memory that all its calls under way may have together, what the host holds for them included, in MiB. A call for
    /// which nothing is left waits. `None`: nothing says how much memory there is.
    pub fn memory_share_mib(&self) -> Option<u32> {
        self.calls.memory.mebibytes()
    }

    /// How many turns its calls have had so far: each computes between two waits, or until the next tick. `None`: they compute
    /// in a process of their own, which the kernel schedules.
    pub fn cpu_turns(&self) -> Option<u64> {
        match &self.calls.sandbox {
            Sandbox::InProcess(sandbox) => Some(sandbox.scheduler.taken()),
            Sandbox::Process(_) => None,
        }
    }

    /// What the operator should know and nothing forbids, such as grants that the module does not request.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// It answers the controllers from now on: it has the whole budgets of requests, and what a cloud asks it to wait for
    /// holds for all versions. Nothing changes for one that was never on trial.
    pub fn serves(&self) {
        self.egress.serves(true);
    }

    /// How long the cloud still wants to be left alone, or a budget of requests is spent, if that is so: the longest wait of
    /// all targets.
    pub fn held_for(&self) -> Option<Duration> {
        self.egress.held_for()
    }

    /// Lets the guest prove that its credential works and its cloud is reachable. A guest that cannot do so has
    /// nothing to say against it.
    ///
    /// # Errors
    /// What the guest found, or how it failed.
    pub async fn self_check(&self, permit: Arc<Permit>) -> Result<(), ProviderError> {
        if !self.checks_itself {
            return Ok(());
        }
        let call = self.call(permit, false);
        let read = |answer| match answer {
            Answer::Well => Ok(()),
            _ => Err(not_asked()),
        };
        self.calls.run(call, Ask::SelfCheck, read).await
    }

    /// A call under this permit. A fresh one gets no kept answers and an empty state.
    pub(crate) fn call(&self, permit: Arc<Permit>, fresh: bool) -> Call {
        let deadline = deadline(self.call_limit, now().until(permit.valid_until()));
        Call {
            deadline,
            scope: Some(self.egress.scope(permit, deadline, fresh)),
            fresh,
        }
    }
}

/// An answer to another question, which only a sandbox in a process of its own could give.
pub(crate) fn not_asked() -> ProviderError {
    ProviderError::Internal("the sandbox answered what it was not asked".to_owned())
}
