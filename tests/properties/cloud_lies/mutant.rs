//! The guard without one condition: its facts are changed so that this one always holds. Each must be caught, or the
//! runs prove nothing about that condition.

use std::time::Duration;

use ccm_core::moment::Moment;
use ccm_core::node_lifecycle::deletion_guard::Evidence;
use ccm_core::settings::LifecycleRules;

/// The condition that is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// A node is deleted however short it has been NotReady.
    AtOnce,
    /// A node is deleted however young it is.
    AnyAge,
    /// One answer is enough.
    OneAnswer,
    /// The second answer may be a cached one.
    NeverFresh,
    /// No witness is needed.
    NobodyVouches,
    /// Answers about Ready nodes do not matter.
    NoContradiction,
    /// Any number of nodes may be gone at once.
    NoMass,
    /// Budgets are never used up.
    NoBrake,
    /// The deletion has no preconditions but the name.
    NoPreconditions,
}

impl Mutant {
    /// All mutants.
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

    /// The mutant's rules.
    pub(crate) fn rules(mutant: Option<Mutant>) -> LifecycleRules {
        let mut rules = LifecycleRules::default();
        match mutant {
            Some(Mutant::AtOnce) => rules.not_ready = Duration::ZERO,
            Some(Mutant::AnyAge) => rules.min_age = Duration::ZERO,
            _ => {}
        }
        rules
    }

    /// Changes the evidence about a node that is called gone.
    pub(crate) fn tamper(self, evidence: &mut Evidence) {
        match self {
            Mutant::OneAnswer => {
                evidence.gone.first = Moment(Duration::ZERO);
                evidence.enough = 1;
                evidence.gone.is_fresh = true;
                // The first answer comes before any node is known good; the next would know one.
                evidence.gone.known_good.insert("somebody".to_owned());
            }
            Mutant::NobodyVouches => drop(evidence.gone.known_good.insert("nobody".to_owned())),
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
