//! The version on its way to service, and how far it is. Decides nothing.

use super::plan_comparison::Plans;
use super::record::Release;
use crate::moment::Moment;

/// Progress of a version in this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Its bytes are here.
    Offered,
    /// It requests more than the grants, or its configuration is incomplete; the details.
    Ungranted(Vec<String>),
    /// No trusted signer vouches for it; the reason.
    Distrusted(String),
    /// It is verified and within the grants. The lines name what it requests beyond the active or recorded active
    /// version.
    Examined(Vec<String>),
    /// It is compiled and has started under its limits.
    Compiled,
    /// A test of its credential has succeeded.
    SelfTested,
    /// The changes planned by it and by the active version are known.
    Planned(Plans),
    /// Its answers are compared.
    Shadow(Trying),
    /// It answers a part of the calls.
    Canary(Trying),
    /// The host's own read calls succeeded; no other trial is possible.
    Asked,
    /// The module is at fault.
    Failed(String),
}

/// A trial under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trying {
    /// When this phase of the trial began.
    pub since: Moment,
    /// When the host last made calls of its own, for want of traffic.
    pub asked: Option<Moment>,
    /// The changes that were planned before the phase began.
    pub plans: Plans,
}

/// How a version on trial gets calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrialKind {
    /// Its answers are compared with those of the active version and never used.
    Shadow,
    /// It answers a part of the calls.
    Canary,
}

impl Step {
    /// How it gets calls; `None`: it gets none.
    pub fn trial(&self) -> Option<TrialKind> {
        match self {
            Step::Shadow(_) => Some(TrialKind::Shadow),
            Step::Canary(_) => Some(TrialKind::Canary),
            _ => None,
        }
    }

    /// The planned changes, once they are known.
    pub(super) fn plans(&self) -> Plans {
        match self {
            Step::Planned(plans) => *plans,
            Step::Shadow(trying) | Step::Canary(trying) => trying.plans,
            _ => Plans::default(),
        }
    }
}

/// A version being tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The version that is being tried.
    pub release: Release,
    /// Generation of the load policy that it is examined under.
    pub policy_generation: u64,
    /// How far the trial has come.
    pub step: Step,
    /// Whether its calls can be compared with those of the active version; known once it is compiled.
    pub fits: bool,
}
