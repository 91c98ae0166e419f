//! How much each brake lets through, with the reason beside each number, and how an operator says other numbers.
//! Counts nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Brake, Rise};

/// How much may be changed: a share of all objects of the kind in every window, within two bounds. It rises for what it
/// holds (`brake::Rise`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// Allowed however few objects there are: or nothing could ever be changed in one of five nodes.
    pub least: usize,
    /// Per cent of all objects. A tenth is what a careful person rolls out at a time.
    pub percent: usize,
    /// Not more at once, however many objects there are: a mistake that touches more is worth a person's look.
    pub most: usize,
    /// The time in which this much may be changed: long enough for somebody to notice and to act.
    pub window: Duration,
}

impl Allowance {
    /// How many changes a window may have, with this many objects.
    pub fn of(self, objects: usize) -> usize {
        let share = objects.saturating_mul(self.percent) / 100;
        share.max(self.least).min(self.most)
    }

    /// What applies to a brake when nobody says anything else.
    pub fn default_of(brake: Brake) -> Allowance {
        match brake {
            // Three: a small cluster loses a rack or a pool of three as a matter of course. Twenty in ten minutes
            // is two a minute: who is paged has time to look before half of a large cluster is gone.
            Brake::InternalIp | Brake::Relabel | Brake::NodeDeletion | Brake::ShutdownTaint => {
                Allowance::per_ten_minutes(3, 10, 20)
            }
            // Each of these is a Service that somebody deleted or changed, so that this only bounds a mistake of theirs:
            // twenty is more than a namespace or a release has, and less than a selector that matched everything.
            Brake::LoadBalancerDeletion => Allowance::per_ten_minutes(20, 10, 100),
            // Two: a dual-stack node has two routes, and they go together. At most as many as nodes may leave.
            Brake::RouteDeletion => Allowance::per_ten_minutes(2, 10, 50),
            // Nobody asked for this: the provider says that a load balancer that was there has no address any more.
            Brake::StatusClear => Allowance::per_ten_minutes(1, 10, 20),
            // One a second: a sixth of the hour's quota of 3600 requests that a small cloud gives, so that reads and
            // other tools have the rest; a cluster of a thousand nodes that starts anew is still done in an hour.
            Brake::CloudMutations => Allowance::per_ten_minutes(600, 0, 600),
        }
    }

    /// How many of the newest changes decide: when one of these is free again, all older ones are.
    pub(super) fn kept(self) -> usize {
        self.most.saturating_mul(Rise::MOST.times())
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

/// Long enough for somebody who is paged to look and to stop the manager; short enough that what is right is not
/// held for an hour.
const TEN_MINUTES: Duration = Duration::from_secs(600);

/// The allowance of each brake: the default, or what the operator said.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Allowances(BTreeMap<Brake, Allowance>);

impl Allowances {
    /// The allowance of one brake.
    pub fn of(&self, brake: Brake) -> Allowance {
        let said = self.0.get(&brake).copied();
        said.unwrap_or_else(|| Allowance::default_of(brake))
    }

    /// From now on this one. Says whether it is the first time that somebody says so.
    pub fn set(&mut self, brake: Brake, allowance: Allowance) -> bool {
        self.0.insert(brake, allowance).is_none()
    }

    /// Whether the operator said something about this brake.
    pub fn is_set(&self, brake: Brake) -> bool {
        self.0.contains_key(&brake)
    }
}
