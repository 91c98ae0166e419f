//! What reconciliations about a Service leave behind for the next one. Whoever holds the reconciliations keeps it, and loses
//! it at a restart: nothing in here is needed to reach the same end. What becomes of it is [`super::carry_over`]'s.

use std::sync::Arc;
use std::time::Duration;

use super::targets::{Targets, are_same};
use crate::brake::targets::PendingRemoval;
use crate::cloud::instance::CloudNode;
use crate::load_balancer::{CloudService, LoadBalancerStatus};
use crate::moment::Moment;

/// What earlier reconciliations about a Service have left behind.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RetainedState {
    /// How many have failed in a row.
    pub failures: u32,
    /// Whether the drift check wants the load balancer looked at.
    pub drift_due: bool,
    /// What the last pending call carried. Lost whenever the provider's module is another one.
    pub hint: Option<Arc<[u8]>>,
    /// What the provider was asked last.
    pub(super) asked: Option<Asked>,
    /// Whether that came to its end: there is nothing to be made but what differs from it.
    pub(super) is_made: bool,
    /// The status that was stored then.
    pub(super) status: LoadBalancerStatus,
    /// The targets that the provider has confirmed; not those that were tried.
    pub(super) targets: Option<Arc<[CloudNode]>>,
    /// When what was begun is to be asked about.
    pub(super) pending_until: Option<Moment>,
    /// Since when the cloud has only begun, and whether that was said.
    pub(super) begun: Option<Begun>,
    /// When an order ended so that nobody knows whether the cloud still carries it out.
    pub(super) unsure_at: Option<Moment>,
    /// A removal of most targets that was wanted.
    pub(super) wish: Option<PendingRemoval>,
    /// When the provider said first that there is no address any more.
    pub(super) empty_since: Option<Moment>,
    /// It was said that there are no nodes.
    pub(super) is_unavailable: bool,
    /// It was said that a load balancer is being made, and not that it is there.
    pub(super) owes_ensured: bool,
    /// Budget was taken for the removal.
    pub(super) is_paid: bool,
    /// Since when the brake holds the removal.
    pub(super) braked: Option<Moment>,
    /// The removal has begun.
    pub(super) is_deleting: bool,
    /// It is over: nothing is left at the cloud.
    pub(super) is_released: bool,
    /// The Service had a class that is somebody else's, and so is the finalizer that it has now.
    pub(super) was_foreign: bool,
    /// Why it is left alone, as it was said.
    pub(super) told_why: Option<String>,
    /// The load balancer could not be made as it is wanted.
    pub(super) setback: Option<Setback>,
}

/// What a provider was asked to make.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Asked {
    /// The Service, without its status.
    pub(super) service: Arc<CloudService>,
    /// The nodes.
    pub(super) targets: Arc<[CloudNode]>,
    /// Whose load balancer was to be taken over.
    pub(super) adopt: Option<String>,
}

/// What the cloud has begun, in an unbroken row of answers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Begun {
    pub(super) since: Moment,
    pub(super) is_told: bool,
}

impl Begun {
    /// Whether it takes so long that its targets are changed beside it.
    pub(super) fn is_slow(self, now: Moment) -> bool {
        self.since.after(SLOW) <= now
    }

    /// Whether it takes so long that people are told.
    pub(super) fn is_worth_telling(self, now: Moment) -> bool {
        self.since.after(LONG) <= now && !self.is_told
    }
}

/// Clouds make a load balancer in less.
const SLOW: Duration = Duration::from_secs(60);
/// And nobody waits longer without asking.
const LONG: Duration = Duration::from_secs(600);

/// Why a load balancer is not as it is wanted, and when that is tried again. Until then its targets follow the nodes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Setback {
    /// What was wanted: anything else is tried at once.
    pub(super) wanted: Arc<CloudService>,
    pub(super) why: String,
    pub(super) until: Moment,
    /// Its targets could not be changed either: that, too, has to wait.
    pub(super) is_stale: bool,
}

impl RetainedState {
    /// Whether these targets are others than the provider was told last. Level, not edge: also true before it was
    /// told anything by this process.
    pub fn wants_targets(&self, targets: &Targets) -> bool {
        let confirmed = self.targets.as_ref();
        confirmed.is_none_or(|confirmed| !are_same(confirmed, &targets.nodes))
    }

    /// Whether its targets follow the nodes although it waits for another try.
    pub fn follows_nodes(&self) -> bool {
        let setback = self.setback.as_ref();
        self.targets.is_some() && setback.is_some_and(|setback| !setback.is_stale)
    }

    /// What has to be over before a load balancer that is wanted like this is asked for again.
    pub(super) fn setback_of(&self, wanted: &Arc<CloudService>, now: Moment) -> Option<&Setback> {
        let setback = self.setback.as_ref();
        setback.filter(|setback| setback.until > now && setback.wanted == *wanted)
    }
}
