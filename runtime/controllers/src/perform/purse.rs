//! Taking changes out of the brakes' budgets. Decides nothing but whether there is something left.

use std::sync::{Arc, Mutex as StdMutex};

use ccm_core::audit::BrakeState;
use ccm_core::brake::{Allowances, Brake, Budgets};
use ccm_core::effect::Outcome;
use ccm_core::neighbours::Neighbours;
use ccm_core::permit::{Mode, Moment};
use ccm_core::tenure::Tenure;
use tokio::sync::Mutex;

use super::ledger::Ledger;
use super::locked;
use super::request::stopping;
use crate::clock::{Clock, boottime};
use crate::metrics::Metrics;
use crate::service::Roster;

/// See the module's documentation.
pub(super) struct Purse {
    budgets: StdMutex<Budgets>,
    /// Held from the moment a deletion's budget is asked for until it is written down.
    ledger: Mutex<Ledger>,
    owner: Owner,
}

/// Who takes, and on which clock.
pub(super) struct Owner {
    pub(super) neighbours: Arc<StdMutex<Neighbours>>,
    pub(super) roster: Arc<StdMutex<Roster>>,
    /// The provider's.
    pub(super) name: String,
    pub(super) schemes: Vec<String>,
    pub(super) clock: Clock,
    pub(super) mode: Mode,
    pub(super) tenure: Arc<Tenure>,
    pub(super) metrics: Metrics,
}

impl Purse {
    /// Budgets of which nothing is spent but what `ledger` says.
    pub(super) fn new(allowances: &Allowances, ledger: Ledger, owner: Owner) -> Purse {
        Purse {
            budgets: StdMutex::new(Budgets::new(allowances)),
            ledger: Mutex::new(ledger),
            owner,
        }
    }

    /// Takes a change of `object` out of a budget. What outlives a restart is written down first.
    pub(super) async fn take(&self, object: &str, brake: Brake) -> Outcome {
        if self.owner.mode != Mode::Enforce {
            // Nothing is done, so nothing is spent: what is reported is what would be done in the end.
            return Outcome::Budget(Ok(()));
        }
        if !Ledger::keeps(brake) {
            return Outcome::Budget(self.take_from_memory(object, brake));
        }
        let mut ledger = self.ledger.lock().await;
        match ledger.read(self.owner.clock.both()).await {
            Ok(spent) => {
                let mut budgets = locked(&self.budgets);
                for (brake, spent) in spent {
                    budgets.restore(brake, spent.into_iter());
                }
            }
            Err(error) => return Outcome::Node(Err(error)),
        }
        if !self.owner.tenure.may_begin(boottime()) {
            return Outcome::Node(Err(stopping()));
        }
        let before: Vec<Moment> = locked(&self.budgets).of(brake).spent().collect();
        let taken = self.take_from_memory(object, brake);
        if taken.is_ok() {
            let after = locked(&self.budgets).clone();
            if let Err(error) = ledger.write(&after, self.owner.clock.both()).await {
                // Nobody else takes from these: the ledger is locked.
                locked(&self.budgets).restore(brake, before.into_iter());
                return Outcome::Node(Err(error));
            }
        }
        Outcome::Budget(taken)
    }

    /// How full a brake's budget is.
    pub(super) fn state(&self, brake: Brake) -> BrakeState {
        let objects = self.objects(brake);
        let mut budgets = locked(&self.budgets);
        BrakeState {
            brake,
            standing: budgets.of(brake).standing(self.owner.clock.now(), objects),
        }
    }

    fn take_from_memory(&self, object: &str, brake: Brake) -> Result<(), Moment> {
        let objects = self.objects(brake);
        let taken = locked(&self.budgets)
            .of(brake)
            .take(self.owner.clock.now(), objects);
        if taken.is_err() {
            self.owner.metrics.held(brake);
            tracing::warn!(%brake, object, "the brake is engaged: the change is held");
        }
        taken
    }

    /// How many objects there are of the kind that a brake's share is taken of.
    fn objects(&self, brake: Brake) -> usize {
        let neighbours = locked(&self.owner.neighbours);
        match brake {
            // Of a provider's own nodes; another one's are no reason to delete more of these.
            Brake::NodeDeletion | Brake::WantedDeletion | Brake::ShutdownTaint => {
                neighbours.of_schemes(&self.owner.schemes)
            }
            Brake::LoadBalancerDeletion | Brake::StatusClear => {
                locked(&self.owner.roster).served_by(&self.owner.name)
            }
            Brake::InternalIp | Brake::Relabel | Brake::RouteDeletion | Brake::CloudMutations => {
                neighbours.len()
            }
        }
    }
}
