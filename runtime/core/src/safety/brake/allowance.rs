//! The allowance of each brake, with the reason for each number, and the operator's overrides. Counts nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Brake, Rise};
use crate::moment::Moment;

/// How much may be changed: a percentage of all objects of the kind in each window, within a lower and an upper bound.
/// It rises for changes that are held (`brake::Rise`), and the upper bound with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// Lower bound, however few objects there are; without it nothing could be changed in a cluster of five nodes.
    pub least: usize,
    /// Percentage of all objects. 10 % is what a careful operator rolls out at a time.
    pub percent: usize,
    /// Upper bound before the rise, however many objects there are: a mistake that affects more deserves human review.
    pub most: usize,
    /// Window in which this many changes are allowed: long enough for an operator to notice and act.
    pub window: Duration,
}

impl Allowance {
    /// Number of changes allowed per window for `objects` objects, before the rise.
    pub fn of(self, objects: usize) -> usize {
        self.risen(objects, Rise::NONE)
    }

    /// Number of changes allowed per window for `objects` objects. The upper bound doubles twice when the allowance
    /// doubles: otherwise it would be reached after minutes in a large cluster and stay for ever, and a thousand nodes
    /// whose machines are gone would take half a day.
    pub fn risen(self, objects: usize, rise: Rise) -> usize {
        let times = rise.times();
        let share = objects.saturating_mul(self.percent) / 100;
        let most = self.most.saturating_mul(times).saturating_mul(times);
        share.max(self.least).saturating_mul(times).min(most)
    }

    /// The allowance of a brake without an override.
    pub fn default_of(brake: Brake) -> Allowance {
        match brake {
            // Three: a small cluster routinely loses a rack or a pool of three. Twenty in ten minutes is two per
            // minute: an operator who is paged has time to look before half of a large cluster is gone.
            Brake::InternalIp | Brake::Relabel | Brake::NodeDeletion | Brake::ShutdownTaint => {
                Allowance::per_ten_minutes(3, 10, 20)
            }
            // Each of these follows from a Service that a user deleted or changed, so this only bounds a user's
            // mistake: twenty is more than a namespace or a release has, and less than a selector that matched
            // everything.
            Brake::LoadBalancerDeletion => Allowance::per_ten_minutes(20, 10, 100),
            // Two: the two routes of a dual-stack node go together. At most as many as nodes may be removed.
            Brake::RouteDeletion => Allowance::per_ten_minutes(2, 10, 50),
            // No user requested this: the provider reports no address for a load balancer that had one.
            Brake::StatusClear => Allowance::per_ten_minutes(1, 10, 20),
            // One per second: what a small cloud allows, 3600 requests per hour. One for each node and each load balancer:
            // a node that joins changes every load balancer, and as many nodes as there are may be replaced. Ten per
            // second at most: a tenth of the requests that a target gets, so that reads have the rest.
            Brake::CloudMutations => Allowance::per_ten_minutes(600, 100, 6_000),
        }
    }

    /// How many of the newest entries count after a restart. The rise begins anew then, and until all of these have
    /// expired it reaches no more than this.
    pub(super) fn kept(self) -> usize {
        let begin = Moment(Duration::ZERO);
        let rise = Rise::since(Some(begin), begin.after(self.window));
        self.risen(usize::MAX, rise)
    }

    fn per_ten_minutes(least: usize, percent: usize, most: usize) -> Allowance {
        Allowance {
            least,
            percent,
            most,
            window: TEN_MINUTES,
        }
    }
}

/// Long enough for a paged operator to look and to stop the manager; short enough that correct changes are not held for
/// an hour.
const TEN_MINUTES: Duration = Duration::from_secs(600);

/// The allowance of each brake: the default or the operator's override.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Allowances(BTreeMap<Brake, Allowance>);

impl Allowances {
    /// The allowance of one brake.
    pub fn of(&self, brake: Brake) -> Allowance {
        let set = self.0.get(&brake).copied();
        set.unwrap_or_else(|| Allowance::default_of(brake))
    }

    /// Overrides the allowance of a brake. Returns `true` if it had no override before.
    pub fn set(&mut self, brake: Brake, allowance: Allowance) -> bool {
        self.0.insert(brake, allowance).is_none()
    }
}
