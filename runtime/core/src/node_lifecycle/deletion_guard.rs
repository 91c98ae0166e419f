//! Every condition between "gone" and a deletion, each a small function with its reason. Deletes nothing; what a
//! condition holds is held visibly, and asked about again.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use crate::brake::Brake;
use crate::moment::Moment;
use crate::ownership::stored_provider_id;
use crate::selector::Selector;
use crate::settings::LifecycleRules;
use crate::well_known::{DELETE_UNTIL, LEAVING_TAINTS};

use super::{Now, taints};

/// How long a node that is held is left alone, at most: a minute of the 90 seconds that a true deletion may take.
const SLOW: Duration = Duration::from_secs(60);
/// No cloud is asked more often about a node that it calls gone.
const LEAST: Duration = Duration::from_secs(5);

/// What is known about a node that the provider calls gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    /// Since when it has been seen NotReady, without a break.
    pub not_ready_since: Moment,
    /// Since when this process has seen it.
    pub seen: Seen,
    /// When the first of an unbroken row of complete answers said so.
    pub first: Moment,
    /// When the last one was asked for.
    pub last: Moment,
    /// How many there were.
    pub answers: u32,
    /// How many answers are enough: two, and one more for each time that this node was called gone and then was not.
    pub enough: u32,
    /// Whether the last one used nothing that was kept of earlier ones.
    pub is_fresh: bool,
    /// The nodes that both the first and the last answer found under the provider ID that they have.
    pub known_good: BTreeSet<String>,
    /// A Ready node that was found before, or is old enough to be listed, and is called gone now; for less than
    /// [`LifecycleRules::mass_hold`].
    pub contradicted_by: Option<String>,
    /// Too many nodes are called gone at once; the moment at which that has lasted long enough.
    pub mass_until: Option<Moment>,
    /// Whether every other node of the same scheme is called gone, too, or there is none.
    pub is_last: bool,
}

impl Evidence {
    /// Why the node is deleted, for the audit.
    pub(super) fn reason(&self) -> String {
        let row = self.first.until(self.last).as_secs();
        let vouched: Vec<&str> = self.known_good.iter().map(String::as_str).take(3).collect();
        format!(
            "{} complete answers over {row} s call its machine gone; the last one used nothing that was kept; found in the same answers: {}",
            self.answers,
            if vouched.is_empty() {
                "nobody".to_owned()
            } else {
                vouched.join(", ")
            }
        )
    }
}

/// Which condition holds a deletion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Held {
    /// The node has no provider ID, so that nobody can say which machine is gone.
    NoProviderId,
    /// The node is NotReady for too short a time; until then.
    JustNotReady(Moment),
    /// The node is too young; how much longer.
    Young(Duration),
    /// The second answer is waited for; until then.
    Unconfirmed(Moment),
    /// Nothing in the answers shows that they are about this cluster's machines.
    NoKnownGood,
    /// The cloud calls a machine gone whose kubelet is Ready.
    Contradicted(String),
    /// The provider cannot tell whether the machine exists; why.
    Unknown(String),
    /// The answers are not complete.
    Incomplete,
    /// Too many at once; until then.
    MassOutage(Moment),
    /// The brake's budget is spent; there is something again then.
    Braked {
        /// Which one.
        brake: Brake,
        /// When.
        free: Moment,
    },
}

/// Whether the node of this evidence may be deleted, as far as its own conditions go; the brake's budget is asked
/// after them. Whether the deletion is meant, [`is_wanted`] says, or a finished drain.
///
/// # Errors
/// The first condition that does not hold.
pub fn check(
    node: &Node,
    evidence: &Evidence,
    rules: &LifecycleRules,
    is_wanted: bool,
    now: Now,
) -> Result<(), Held> {
    let is_asked_for = is_asked_for(node, now.wall);
    // Those that every deletion waits for come first: of a machine that boots, and is not listed yet, nobody is told.
    has_been_not_ready(evidence, rules, now)?;
    is_confirmed(evidence, rules)?;
    if !is_asked_for {
        has_provider_id(node)?;
    }
    is_old_enough(node, evidence, rules, now)?;
    if !is_asked_for {
        has_known_good(evidence, rules.delete_last_node || is_wanted)?;
        is_not_contradicted(evidence)?;
    }
    if !is_wanted {
        is_no_mass(evidence, now)?;
    }
    Ok(())
}

/// Without a provider ID "gone" means only that no machine has this name, and names are given twice. The machine
/// may have died before its node was initialised, or the node may be no machine of this cloud at all.
fn has_provider_id(node: &Node) -> Result<(), Held> {
    match stored_provider_id(node) {
        Some(_) => Ok(()),
        None => Err(Held::NoProviderId),
    }
}

/// A kubelet that restarts, or a short break of the network, is NotReady for less than this.
fn has_been_not_ready(evidence: &Evidence, rules: &LifecycleRules, now: Now) -> Result<(), Held> {
    let until = evidence.not_ready_since.after(rules.not_ready);
    if now.moment < until {
        return Err(Held::JustNotReady(until));
    }
    Ok(())
}

/// Inventories lag behind: a machine that has just registered may not be listed yet.
fn is_old_enough(
    node: &Node,
    evidence: &Evidence,
    rules: &LifecycleRules,
    now: Now,
) -> Result<(), Held> {
    let age = age(node, evidence.seen, now);
    if age < rules.min_age {
        return Err(Held::Young(rules.min_age.saturating_sub(age)));
    }
    Ok(())
}

/// Since when this process has seen a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// It came then, while this process was watching.
    Came(Moment),
    /// It was there when this process looked first, then.
    Before(Moment),
}

/// How old a node is at least. One that came while we watched is as old as our own clock says, which nobody sets. One that
/// was there before is as old as its date says; and at least as old as our watch, because the wall's clock may have been
/// slow when this process began.
pub(super) fn age(node: &Node, seen: Seen, now: Now) -> Duration {
    match seen {
        Seen::Came(at) => at.until(now.moment),
        Seen::Before(at) => {
            let created = node.metadata.creation_timestamp.as_ref().map(|time| time.0);
            let age = created.map(|created| now.wall.duration_since(created));
            let age = age.and_then(|age| Duration::try_from(age).ok());
            age.unwrap_or_default().max(at.until(now.moment))
        }
    }
}

/// One answer may come from a memory, from a half-read list, or from a bad second. The last one was made without
/// anything that was kept, at least this long after the first. A provider that has changed its mind about this node
/// has to say it more often and over a longer time.
fn is_confirmed(evidence: &Evidence, rules: &LifecycleRules) -> Result<(), Held> {
    let gaps = evidence.enough.saturating_sub(1).max(1);
    let until = evidence
        .first
        .after(rules.confirm_after.saturating_mul(gaps));
    if !evidence.is_fresh || evidence.answers < evidence.enough || evidence.last < until {
        return Err(Held::Unconfirmed(until));
    }
    Ok(())
}

/// A credential of another account answers honestly that none of these machines exists. Only an answer that finds
/// one of this cluster's machines is about this cluster; so do both. Where nobody is left who could be found, a word on the
/// node stands for that: a pool is scaled to nothing every night.
fn has_known_good(evidence: &Evidence, last_may_go: bool) -> Result<(), Held> {
    let is_allowed = last_may_go && evidence.is_last;
    if evidence.known_good.is_empty() && !is_allowed {
        return Err(Held::NoKnownGood);
    }
    Ok(())
}

/// A kubelet that reports to us runs on a machine. A cloud that has had the time to list it and calls it gone is wrong
/// about it, and then about which others? After [`LifecycleRules::mass_hold`] the node is taken for an oddity of
/// its own.
fn is_not_contradicted(evidence: &Evidence) -> Result<(), Held> {
    match &evidence.contradicted_by {
        Some(name) => Err(Held::Contradicted(name.clone())),
        None => Ok(()),
    }
}

/// Machines seldom go by the third; credentials, filters and inventories do. A scale-down by somebody who says so
/// on the nodes does not count.
fn is_no_mass(evidence: &Evidence, now: Now) -> Result<(), Held> {
    match evidence.mass_until {
        Some(until) if now.moment < until => Err(Held::MassOutage(until)),
        Some(_) | None => Ok(()),
    }
}

/// Whether the deletion is meant: somebody who takes machines away has said so on the node, or an operator has for all
/// nodes with such labels. Neither a mass nor a budget holds it.
pub fn is_wanted(node: &Node, rules: &LifecycleRules, now: Now) -> bool {
    let mut taints = taints(node).iter();
    let is_of_pool = |selector: &Selector| {
        let labels = node.metadata.labels.as_ref();
        selector.matches(labels.unwrap_or(&BTreeMap::new()))
    };
    taints.any(|one| LEAVING_TAINTS.contains(&one.key.as_str()))
        || rules.wanted.as_ref().is_some_and(is_of_pool)
        || is_asked_for(node, now.wall)
}

/// A person's word, for a while: it stands for the provider ID and for the known-good node.
fn is_asked_for(node: &Node, wall: Timestamp) -> bool {
    is_said(node.metadata.annotations.as_ref(), wall)
}

/// Whether [`DELETE_UNTIL`] is among the annotations of an object, and its date lies ahead.
pub(crate) fn is_said(annotations: Option<&BTreeMap<String, String>>, wall: Timestamp) -> bool {
    let text = annotations.and_then(|all| all.get(DELETE_UNTIL));
    let until = text.and_then(|text| text.parse::<Timestamp>().ok());
    until.is_some_and(|until| wall < until)
}

impl Held {
    /// A fixed word, for metrics and for what was said already.
    pub fn condition(&self) -> &'static str {
        match self {
            Held::NoProviderId => "no-provider-id",
            Held::JustNotReady(_) => "just-not-ready",
            Held::Young(_) => "young",
            Held::Unconfirmed(_) => "unconfirmed",
            Held::NoKnownGood => "no-known-good-node",
            Held::Contradicted(_) => "contradicted",
            Held::Unknown(_) => "unknown",
            Held::Incomplete => "incomplete",
            Held::MassOutage(_) => "mass",
            Held::Braked { brake, .. } => brake.as_str(),
        }
    }

    /// Whether a deletion that is meant may not wait for this.
    pub(super) fn yields_to_meaning(&self) -> bool {
        matches!(
            self,
            Held::NoKnownGood | Held::MassOutage(_) | Held::Braked { .. }
        )
    }

    /// Whether every deletion waits for this.
    pub(super) fn is_ordinary(&self) -> bool {
        matches!(self, Held::JustNotReady(_) | Held::Unconfirmed(_))
    }

    /// When the cloud is asked again.
    pub(super) fn again(&self, now: Now) -> Duration {
        let after = match self {
            Held::JustNotReady(until) | Held::Unconfirmed(until) | Held::MassOutage(until) => {
                now.moment.until(*until)
            }
            Held::Braked { free, .. } => now.moment.until(*free),
            Held::Young(after) => *after,
            Held::NoProviderId
            | Held::NoKnownGood
            | Held::Contradicted(_)
            | Held::Unknown(_)
            | Held::Incomplete => SLOW,
        };
        after.clamp(LEAST, SLOW)
    }
}

impl Held {
    /// The condition with what remains of it, for people.
    pub(super) fn remaining(&self, now: Now) -> Option<Duration> {
        match self {
            Held::JustNotReady(until) | Held::Unconfirmed(until) | Held::MassOutage(until) => {
                Some(now.moment.until(*until))
            }
            Held::Braked { free, .. } => Some(now.moment.until(*free)),
            Held::Young(after) => Some(*after),
            Held::NoProviderId
            | Held::NoKnownGood
            | Held::Contradicted(_)
            | Held::Unknown(_)
            | Held::Incomplete => None,
        }
    }

    /// What is said of it in Events and in the log, with when it is tried again.
    pub(super) fn told(&self, now: Now) -> String {
        match self.remaining(now) {
            Some(remaining) if remaining > SLOW => {
                let at = i64::try_from(remaining.as_secs()).unwrap_or(i64::MAX);
                let at = now.wall.checked_add(SignedDuration::from_secs(at)).ok();
                match at {
                    Some(at) => {
                        format!("{self}; asked again every minute, and not deleted before {at:.0}")
                    }
                    // A brake that lets nothing through.
                    None => format!("{self}; asked again every minute"),
                }
            }
            _ => format!("{self}; tried again within a minute"),
        }
    }
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Held::NoProviderId => write!(
                f,
                "it has no provider ID, so that nothing says which machine it was; delete it by hand, or set the annotation {DELETE_UNTIL}"
            ),
            Held::JustNotReady(_) => write!(f, "it is NotReady for a short time only"),
            Held::Young(_) => write!(f, "it is young, and inventories lag behind"),
            Held::Unconfirmed(_) => write!(f, "a second, independent answer is waited for"),
            Held::NoKnownGood => write!(
                f,
                "the answers find no node that is known to exist, as with the credential of another account; delete it by hand, or set the annotation {DELETE_UNTIL}"
            ),
            Held::Contradicted(name) => write!(
                f,
                "the cloud also says that the machine of node {name:?} is gone, which is Ready"
            ),
            Held::Unknown(why) => write!(
                f,
                "the cloud cannot say whether the node's machine exists: {}",
                crate::answer_check::message(why)
            ),
            Held::Incomplete => write!(f, "the answers are not complete"),
            Held::MassOutage(_) => write!(
                f,
                "more than a third of the provider's nodes are said to be gone at once; if that is meant, set the annotation {DELETE_UNTIL}"
            ),
            Held::Braked { brake, .. } => write!(
                f,
                "the brake {brake} is engaged, because as many nodes as is allowed in a while were deleted; if this is meant, set the annotation {DELETE_UNTIL}"
            ),
        }
    }
}

#[cfg(test)]
mod tests;
