//! The conditions between "gone" and a deletion, each a small function with its reason. Deletes nothing; a held
//! deletion is reported, and the node is looked up again.

use std::fmt;
use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use crate::moment::Moment;
use crate::node::object::PrunedNode;
use crate::reconciliation::event::message;
use crate::safety::brake::Brake;
use crate::selector::Selector;
use crate::settings::LifecycleRules;
use crate::well_known::{DELETE_UNTIL, LEAVING_TAINTS};

use super::Now;
use super::not_ready_history::Gone;

/// Maximum delay between look-ups of a held node: one minute of the 90 s that a justified deletion may take.
const SLOW: Duration = Duration::from_secs(60);
/// Minimum delay between look-ups of a node that is called gone.
const LEAST: Duration = Duration::from_secs(5);

/// Evidence about a node that the provider calls gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    /// Since when it has been seen NotReady, without a break.
    pub not_ready_since: Moment,
    /// Since when this process has seen it.
    pub seen: Seen,
    /// The answers that call it gone.
    pub gone: Gone,
    /// Required number of answers: two, and one more for each time that this node was called gone and then found.
    pub enough: u32,
    /// A Ready node that was found before, or is old enough to be listed, and is called gone now; for less than
    /// [`LifecycleRules::mass_hold`].
    pub contradicted_by: Option<String>,
    /// Too many nodes are called gone at once; end of that hold.
    pub mass_until: Option<Moment>,
    /// Whether no other node of the same scheme is left that is not called gone.
    pub is_last: bool,
}

impl Evidence {
    /// Why the node is deleted, for the audit log.
    pub(super) fn reason(&self) -> String {
        let row = self.gone.first.until(self.gone.last).as_secs();
        let found: Vec<&str> = self.gone.known_good.iter().map(String::as_str).collect();
        format!(
            "{} complete answers over {row} s call its machine gone; the last one used nothing that was kept; found in the same answers: {}",
            self.gone.answers,
            if found.is_empty() {
                "nobody".to_owned()
            } else {
                found.join(", ")
            }
        )
    }
}

/// Condition that holds a deletion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Held {
    /// The node has no provider ID, so that it is unknown which machine is gone.
    NoProviderId,
    /// The node has not been NotReady for long enough; until then.
    JustNotReady(Moment),
    /// The node is too young; remaining time.
    Young(Duration),
    /// A second answer is required; not before this moment.
    Unconfirmed(Moment),
    /// The answers found no node that is known to exist, so that they may be about another account.
    NoKnownGood,
    /// The cloud calls the machine of this Ready node gone.
    Contradicted(String),
    /// The provider cannot tell whether the machine exists; why.
    Unknown(String),
    /// The answers are not complete.
    Incomplete,
    /// Too many nodes are gone at once; until then.
    MassOutage(Moment),
    /// The brake's budget is exhausted.
    Braked {
        /// The brake that holds the deletion.
        brake: Brake,
        /// When budget is available again.
        free: Moment,
    },
}

/// Whether the node may be deleted, judged by the evidence; the brake's budget comes afterwards. The argument
/// `is_wanted` is the result of [`is_wanted`], or of a finished drain.
///
/// # Errors
/// The first condition that does not hold.
pub fn check(
    node: &PrunedNode,
    evidence: &Evidence,
    rules: &LifecycleRules,
    is_wanted: bool,
    now: Now,
) -> Result<(), Held> {
    let is_asked_for = is_asked_for(node, now.wall);
    // Conditions that every deletion waits for come first: a booting machine that is not listed yet causes no Event.
    has_been_not_ready(evidence, rules, now)?;
    is_confirmed(evidence, rules)?;
    if !is_asked_for {
        has_provider_id(node)?;
    }
    is_old_enough(evidence, rules, now)?;
    if !is_asked_for {
        has_known_good(evidence, rules.delete_last_node || is_wanted)?;
        is_not_contradicted(evidence)?;
    }
    if !is_wanted {
        is_no_mass(evidence, now)?;
    }
    Ok(())
}

/// Without a provider ID "gone" only means that no machine has this name, and names are reused. The machine may have
/// died before the node was initialised, or may not belong to this cluster.
fn has_provider_id(node: &PrunedNode) -> Result<(), Held> {
    match node.provider_id() {
        Some(_) => Ok(()),
        None => Err(Held::NoProviderId),
    }
}

/// A kubelet restart or a short network outage lasts less than this.
fn has_been_not_ready(evidence: &Evidence, rules: &LifecycleRules, now: Now) -> Result<(), Held> {
    let until = evidence.not_ready_since.after(rules.not_ready);
    if now.moment < until {
        return Err(Held::JustNotReady(until));
    }
    Ok(())
}

/// Inventories lag behind: a machine that has just registered may not be listed yet.
fn is_old_enough(evidence: &Evidence, rules: &LifecycleRules, now: Now) -> Result<(), Held> {
    let age = evidence.seen.age(now.moment);
    if age < rules.min_age {
        return Err(Held::Young(rules.min_age.saturating_sub(age)));
    }
    Ok(())
}

/// Since when this process has seen a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    at: Moment,
    /// Its age then.
    age: Duration,
}

impl Seen {
    /// A node that appears now, while this process is watching.
    pub(super) fn new(now: Moment) -> Seen {
        Seen {
            at: now,
            age: Duration::ZERO,
        }
    }

    /// A node that exists at this process's first look. Its creation date counts; zero if it has none, or one in the
    /// future, because the wall clock is slow.
    pub(super) fn before(node: &PrunedNode, now: Now) -> Seen {
        let created = node.created();
        let age = created.map(|created| now.wall.duration_since(created));
        let age = age.and_then(|age| Duration::try_from(age).ok());
        Seen {
            at: now.moment,
            age: age.unwrap_or_default(),
        }
    }

    /// Minimum age of the node. The monotonic clock counts since this process has seen the node, so that setting the
    /// machine's clock makes no node older.
    pub(super) fn age(self, now: Moment) -> Duration {
        self.age.saturating_add(self.at.until(now))
    }
}

/// One answer may come from a cache, an incomplete list or a momentary fault. The last answer must use no cached data
/// and come at least this long after the first. A provider that has changed its answer about this node needs more
/// answers over a longer time.
fn is_confirmed(evidence: &Evidence, rules: &LifecycleRules) -> Result<(), Held> {
    let (gone, enough) = (&evidence.gone, evidence.enough);
    let gaps = enough.saturating_sub(1).max(1);
    let until = gone.first.after(rules.confirm_after.saturating_mul(gaps));
    if !gone.is_fresh || gone.answers < enough || gone.last < until {
        return Err(Held::Unconfirmed(until));
    }
    Ok(())
}

/// A credential of another account answers honestly that none of these machines exists. So both answers must find a
/// machine of this cluster. If no other node is left to be found, an explicit mark on the node replaces that: some
/// pools are scaled to zero every night.
fn has_known_good(evidence: &Evidence, last_may_go: bool) -> Result<(), Held> {
    let is_allowed = last_may_go && evidence.is_last;
    if evidence.gone.known_good.is_empty() && !is_allowed {
        return Err(Held::NoKnownGood);
    }
    Ok(())
}

/// A Ready kubelet runs on a machine. A cloud that calls it gone although it had time to list it is wrong, and may be
/// wrong about others. After [`LifecycleRules::mass_hold`] the node counts as a permanent exception.
fn is_not_contradicted(evidence: &Evidence) -> Result<(), Held> {
    match &evidence.contradicted_by {
        Some(name) => Err(Held::Contradicted(name.clone())),
        None => Ok(()),
    }
}

/// Machines rarely vanish by the third; credentials, filters and inventories fail that way. Nodes marked for a
/// scale-down do not count.
fn is_no_mass(evidence: &Evidence, now: Now) -> Result<(), Held> {
    match evidence.mass_until {
        Some(until) if now.moment < until => Err(Held::MassOutage(until)),
        Some(_) | None => Ok(()),
    }
}

/// Whether the deletion is intended: marked on the node by the tool that removes machines, or by an operator's label
/// selector. Neither a mass nor a budget holds it then.
pub fn is_wanted(node: &PrunedNode, rules: &LifecycleRules, now: Now) -> bool {
    let mut taints = node.taints().iter();
    let is_of_pool = |selector: &Selector| selector.matches(node.labels());
    taints.any(|one| LEAVING_TAINTS.contains(&one.key.as_str()))
        || rules.wanted.as_ref().is_some_and(is_of_pool)
        || is_asked_for(node, now.wall)
}

/// A person's temporary mark; it replaces the provider ID and the known-good node.
fn is_asked_for(node: &PrunedNode, wall: Timestamp) -> bool {
    is_deletion_asked_for(node.annotations().get(DELETE_UNTIL), wall)
}

/// Whether an object's annotation [`DELETE_UNTIL`] has this value, and it is a date in the future.
pub(crate) fn is_deletion_asked_for(value: Option<&str>, wall: Timestamp) -> bool {
    let until = value.and_then(|text| text.parse::<Timestamp>().ok());
    until.is_some_and(|until| wall < until)
}

impl Held {
    /// A fixed identifier, for metrics and to detect repeated reports.
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

    /// Whether an intended deletion ignores this condition.
    pub(super) fn yields_to_meaning(&self) -> bool {
        matches!(
            self,
            Held::NoKnownGood | Held::MassOutage(_) | Held::Braked { .. }
        )
    }

    /// Whether every deletion waits for this condition.
    pub(super) fn is_ordinary(&self) -> bool {
        matches!(self, Held::JustNotReady(_) | Held::Unconfirmed(_))
    }

    /// When to ask the cloud again.
    pub(super) fn again(&self, now: Now) -> Duration {
        self.remaining(now).unwrap_or(SLOW).clamp(LEAST, SLOW)
    }

    /// Remaining time of the condition, if it has one.
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

    /// Text for Events and the log, with the next try.
    pub(super) fn describe(&self, now: Now) -> String {
        match self.remaining(now) {
            Some(remaining) if remaining > SLOW => {
                let at = i64::try_from(remaining.as_secs()).unwrap_or(i64::MAX);
                let at = now.wall.checked_add(SignedDuration::from_secs(at)).ok();
                match at {
                    Some(at) => {
                        format!("{self}; asked again every minute, and not deleted before {at:.0}")
                    }
                    // A brake without any budget.
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
                message(why)
            ),
            Held::Incomplete => write!(f, "the answers are not complete"),
            Held::MassOutage(_) => write!(
                f,
                "more than a third of the provider's nodes are said to be gone at once; if that is meant, set the annotation {DELETE_UNTIL}"
            ),
            Held::Braked { brake, .. } => write!(
                f,
                "{}; if this is meant, set the annotation {DELETE_UNTIL}",
                brake.engaged()
            ),
        }
    }
}

#[cfg(test)]
mod tests;
