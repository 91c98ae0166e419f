//! The guard with one condition less: what it is given is changed so that this one always holds. Each has to be
//! caught, or the runs prove nothing about that condition.

use std::time::Duration;

use ccm_core::moment::Moment;
use ccm_core::node_lifecycle::deletion_guard::Evidence;
use ccm_core::settings::LifecycleRules;

/// Which condition is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// A node goes however short it has been NotReady.
    AtOnce,
    /// A node goes however young it is.
    AnyAge,
    /// One answer is enough.
    OneAnswer,
    /// The second answer may come out of a memory.
    NeverFresh,
    /// Nobody has to vouch.
    NobodyVouches,
    /// What is said of Ready nodes does not matter.
    NoContradiction,
    /// However many are called gone at once.
    NoMass,
    /// Budgets are never spent.
    NoBrake,
    /// Whatever has the name is deleted.
    NoPreconditions,
}

impl Mutant {
    /// All of them.
    pub(crate) const ALL: [Mutant; 9] = [
        Mutant::AtOnce,
        Mutant::AnyAge,
        Mutant::OneAnswer,
        Mutant::NeverFresh,
        Mutant::NobodyVouches,
        Mutant::NoContradiction,
        Mutant::NoMass,
        Mutant::NoBrake,
        Mutant::NoPreconditions,
    ];

    /// The rules that it goes by.
    pub(crate) fn rules(mutant: Option<Mutant>) -> LifecycleRules {
        let mut rules = LifecycleRules::default();
        match mutant {
            Some(Mutant::AtOnce) => rules.not_ready = Duration::ZERO,
            Some(Mutant::AnyAge) => rules.min_age = Duration::ZERO,
            _ => {}
        }
        rules
    }

    /// What it takes for known about a node that is called gone.
    pub(crate) fn tamper(self, evidence: &mut Evidence) {
        match self {
            Mutant::OneAnswer => {
                evidence.first = Moment(Duration::ZERO);
                evidence.enough = 1;
                evidence.is_fresh = true;
                // Of the one answer nobody is known good yet, who would be by the next.
                evidence.known_good.insert("somebody".to_owned());
            }
            Mutant::NobodyVouches => drop(evidence.known_good.insert("nobody".to_owned())),
            Mutant::NoContradiction => evidence.contradicted_by = None,
            Mutant::NoMass => evidence.mass_until = None,
            Mutant::AtOnce
            | Mutant::AnyAge
            | Mutant::NeverFresh
            | Mutant::NoBrake
            | Mutant::NoPreconditions => {}
        }
    }
}
