//! How many changes of one dangerous kind may be made in a while. What is right for one node, and harmless
//! for three, is an outage for all: a provider that is wrong about every machine is stopped here. Holds
//! counts; reads no clock and stops nothing by itself.
//!
//! What was spent is forgotten at a restart, which gives at most one more budget.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use crate::permit::Moment;

/// A kind of change that has a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Brake {
    /// Changing or removing an InternalIP of a Ready node: running connections and certificates hang on it.
    InternalIp,
    /// Changing the type, zone or region of a known node: volumes and workloads are placed by them.
    Relabel,
}

impl Brake {
    /// A fixed word, for metrics, logs and Events.
    pub fn as_str(self) -> &'static str {
        match self {
            Brake::InternalIp => "internal-ip",
            Brake::Relabel => "relabel",
        }
    }
}

impl fmt::Display for Brake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How much may be changed: a share of all nodes in every window, within two bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// Allowed in any cluster, however small: or nothing could ever be changed in one of five nodes.
    pub least: usize,
    /// Per cent of all nodes. A tenth is what a careful person rolls out at a time.
    pub percent: usize,
    /// Never more, however large the cluster: a mistake that touches more is worth a person's look.
    pub most: usize,
    /// The time in which this much may be changed: long enough for somebody to notice and to act.
    pub window: Duration,
}

impl Default for Allowance {
    /// max(3, 10 %), at most 20, in ten minutes.
    fn default() -> Allowance {
        Allowance {
            least: 3,
            percent: 10,
            most: 20,
            window: Duration::from_secs(600),
        }
    }
}

impl Allowance {
    /// How many changes a window may have, with this many nodes.
    pub fn of(self, nodes: usize) -> usize {
        let share = nodes.saturating_mul(self.percent) / 100;
        share.max(self.least).min(self.most)
    }
}

/// What was spent of one allowance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget {
    allowance: Allowance,
    spent: VecDeque<Moment>,
}

impl Budget {
    /// A budget of which nothing is spent.
    pub fn new(allowance: Allowance) -> Budget {
        Budget {
            allowance,
            spent: VecDeque::new(),
        }
    }

    /// Takes one change out, in a cluster of `nodes` nodes.
    ///
    /// # Errors
    /// Nothing is left; the moment from which on there is something again. It is the end of time when the
    /// allowance is zero.
    pub fn take(&mut self, now: Moment, nodes: usize) -> Result<(), Moment> {
        let window = self.allowance.window;
        while self.spent.front().is_some_and(|at| at.after(window) <= now) {
            self.spent.pop_front();
        }
        let most = self.allowance.of(nodes);
        if self.spent.len() < most {
            self.spent.push_back(now);
            return Ok(());
        }
        // With fewer nodes than before, more than one has to become free.
        let blocking = self.spent.len() - most;
        let free = self.spent.get(blocking);
        Err(free.map_or(Moment(Duration::MAX), |at| at.after(window)))
    }
}

/// One budget for each brake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budgets {
    internal_ip: Budget,
    relabel: Budget,
}

impl Budgets {
    /// Budgets of which nothing is spent, all with the same allowance.
    pub fn new(allowance: Allowance) -> Budgets {
        Budgets {
            internal_ip: Budget::new(allowance),
            relabel: Budget::new(allowance),
        }
    }

    /// The budget of one brake.
    pub fn of(&mut self, brake: Brake) -> &mut Budget {
        match brake {
            Brake::InternalIp => &mut self.internal_ip,
            Brake::Relabel => &mut self.relabel,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(seconds: u64) -> Moment {
        Moment(Duration::from_secs(seconds))
    }

    #[test]
    fn a_tenth_of_the_nodes_at_least_three_at_most_twenty() {
        let allowance = Allowance::default();
        for (nodes, most) in [
            (0, 3),
            (1, 3),
            (30, 3),
            (39, 3),
            (40, 4),
            (199, 19),
            (200, 20),
            (5_000, 20),
        ] {
            assert_eq!(allowance.of(nodes), most, "{nodes} nodes");
        }
    }

    #[test]
    fn what_was_spent_comes_back_one_by_one_after_the_window() {
        let mut budget = Budget::new(Allowance::default());
        for second in [0, 10, 20] {
            assert_eq!(budget.take(at(second), 5), Ok(()));
        }
        assert_eq!(budget.take(at(30), 5), Err(at(600)));
        assert_eq!(budget.take(at(599), 5), Err(at(600)));
        assert_eq!(budget.take(at(600), 5), Ok(()));
        assert_eq!(budget.take(at(600), 5), Err(at(610)));
    }

    #[test]
    fn a_cluster_that_shrinks_waits_until_enough_is_free() {
        let mut budget = Budget::new(Allowance::default());
        for second in 0..5 {
            assert_eq!(budget.take(at(second), 50), Ok(()));
        }
        assert_eq!(budget.take(at(100), 10), Err(at(602)));
        assert_eq!(budget.take(at(601), 10), Err(at(602)));
        assert_eq!(budget.take(at(602), 10), Ok(()));
    }

    #[test]
    fn an_allowance_of_zero_stops_for_good() {
        let none = Allowance {
            least: 0,
            percent: 0,
            ..Allowance::default()
        };
        assert_eq!(
            Budget::new(none).take(at(1), 1_000),
            Err(Moment(Duration::MAX))
        );
    }

    proptest! {
        #[test]
        fn no_window_ever_has_more_than_the_allowance(steps in proptest::collection::vec(0_u64..200, 1..200)) {
            let mut budget = Budget::new(Allowance::default());
            let (mut now, mut granted) = (0, Vec::new());
            for step in steps {
                now += step;
                match budget.take(at(now), 60) {
                    Ok(()) => granted.push(now),
                    Err(free) => {
                        prop_assert!(free > at(now));
                        prop_assert_eq!(budget.clone().take(free, 60), Ok(()), "what is promised is kept");
                    }
                }
            }
            for (index, begin) in granted.iter().enumerate() {
                let within = granted[index..].iter().filter(|at| *at - begin < 600).count();
                prop_assert!(within <= 6, "{within} within ten minutes");
            }
        }
    }
}
