//! What would be changed if changes were made: the first change of each object that was worked out and not made. What
//! follows a first change depends on its answer, which nobody has; so there is one line for each object, and none
//! for an object that needs nothing. Holds and prints; makes nothing and hears of nothing by itself.
//!
//! What nothing can be said about is kept apart, with the reason: an empty plan with something in there is no promise.
//!
//! Events are not changes of an object, and neither is what the manager writes down for itself: both are left
//! out, and not written either.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Value, json};

use crate::audit::Refused;
use crate::effect::{Effect, ServiceEffect};
use crate::permit::CloudRequest;

/// A plan for more objects than this only counts the rest: what a provider would change is its own to say, and
/// must not fill the memory.
const MOST_OBJECTS: usize = 20_000;

/// The kinds of objects that there are in plans.
pub const KINDS: [&str; 4] = ["node", "service", "route", "cloud"];

/// One change that was not made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    /// The kind of the object, one of [`KINDS`]; `cloud` when it is about no single object.
    pub kind: &'static str,
    /// The object, as `node/NAME` or `service/NAMESPACE/NAME`; or the target and the rule.
    pub object: String,
    /// What would be done to it: `patch`, `patch status`, `delete`, or the method and the rule's path.
    pub verb: String,
    /// The whole change in one line, for people.
    pub what: String,
    /// What the provider logged before it, for people.
    pub said: Option<String>,
    /// The controller that worked it out; empty for requests to a cloud, which do not say.
    pub by: &'static str,
}

impl Planned {
    /// The change of an effect of this controller that writes to the cluster; `None` for all others.
    pub fn of_effect(effect: &Effect, by: &'static str) -> Option<Planned> {
        let (node, verb) = match effect {
            Effect::PatchNodeStatus(node, _) => (node, "patch status"),
            Effect::PatchNode(node, _) => (node, "patch"),
            Effect::PatchPodCidrs(node, _) => (node, "patch"),
            Effect::PatchNetworkCondition(node, _) => (node, "patch status"),
            Effect::DeleteNode(node, _) => (node, "delete"),
            Effect::Find(_)
            | Effect::Survey(_)
            | Effect::Confer(..)
            | Effect::ReadNode(_)
            | Effect::TakeBudget(..)
            | Effect::Hold(..)
            | Effect::RecordNodeEvent(..) => return None,
            Effect::Service(service, ServiceEffect::Patch(_)) => {
                return Some(Planned {
                    kind: "service",
                    object: service.to_string(),
                    verb: "patch".to_owned(),
                    what: effect.to_string(),
                    said: None,
                    by,
                });
            }
            Effect::Service(..) | Effect::Route(_) => return None,
        };
        Some(Planned {
            kind: "node",
            object: format!("node/{}", node.name),
            verb: verb.to_owned(),
            what: effect.to_string(),
            said: None,
            by,
        })
    }

    /// The change of a request to a cloud that was refused for the mode alone.
    pub fn of_request(refused: &Refused<'_>) -> Planned {
        let CloudRequest {
            author,
            target,
            method,
            path,
            template,
            rule,
            ..
        } = refused.request;
        let (kind, object) = match refused.subject.kind {
            "" => (
                "cloud",
                format!("cloud/{}/{target}{template}", author.provider),
            ),
            kind => (kind, refused.subject.to_string()),
        };
        Planned {
            kind,
            object,
            verb: format!("{method} {template}"),
            what: format!(
                "{method} {path} on target {target}, which is a change by the rule {rule}"
            ),
            said: refused.said.map(str::to_owned),
            by: "",
        }
    }

    /// The change as one JSON object.
    pub fn to_json(&self) -> Value {
        json!({
            "kind": self.kind,
            "object": self.object,
            "verb": self.verb,
            "change": self.what,
            "said": self.said,
        })
    }
}

impl fmt::Display for Planned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.what)?;
        match &self.said {
            Some(said) => write!(f, " (the provider: {said})"),
            None => Ok(()),
        }
    }
}

/// See the module's documentation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    changes: BTreeMap<String, Planned>,
    more: usize,
    /// By object and controller, the reason.
    unsure: BTreeMap<(String, &'static str), String>,
    is_whole: bool,
}

impl Plan {
    /// Adds a change that was not made. Says whether it is the first one of its object.
    pub fn add(&mut self, planned: Planned) -> bool {
        if self.changes.contains_key(&planned.object) {
            return false;
        }
        if self.changes.len() >= MOST_OBJECTS {
            self.more += 1;
            return false;
        }
        self.changes.insert(planned.object.clone(), planned);
        true
    }

    /// This controller has nothing to do about the object any more: somebody else has made the change. What another
    /// one would do stays. Says whether something was in the plan.
    pub fn settled(&mut self, object: &str, by: &str) -> bool {
        let planned = self.changes.get(object);
        let is_theirs = planned.is_some_and(|planned| planned.by.is_empty() || planned.by == by);
        is_theirs && self.gone(object)
    }

    /// There is no such object any more. Says whether something was in the plan.
    pub fn gone(&mut self, object: &str) -> bool {
        self.unsure.retain(|(theirs, _), _| theirs != object);
        self.changes.remove(object).is_some()
    }

    /// This controller cannot say yet what it would do about the object, for this reason; `None`: it can.
    pub fn set_unsure(&mut self, object: &str, by: &'static str, why: Option<&str>) {
        let key = (object.to_owned(), by);
        match why {
            Some(why) if self.unsure.len() < MOST_OBJECTS || self.unsure.contains_key(&key) => {
                self.unsure.insert(key, why.to_owned());
            }
            Some(_) => {}
            None => {
                self.unsure.remove(&key);
            }
        }
    }

    /// Everything was looked at once.
    pub fn set_whole(&mut self) {
        self.is_whole = true;
    }

    /// Somebody has come who has not looked at anything yet.
    pub fn set_partial(&mut self) {
        self.is_whole = false;
    }

    /// Whether everything was looked at once, and something can be said about all of it.
    pub fn is_sure(&self) -> bool {
        self.is_whole && self.unsure.is_empty()
    }

    /// Whether nothing would be changed.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.more == 0
    }

    /// The changes, in the order of their objects.
    pub fn changes(&self) -> impl Iterator<Item = &Planned> {
        self.changes.values()
    }

    /// How many objects of each kind would be changed.
    pub fn counts(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for planned in self.changes() {
            *counts.entry(planned.kind).or_default() += 1;
        }
        counts
    }

    /// The whole plan as one JSON object.
    pub fn to_json(&self) -> Value {
        json!({
            "empty": self.is_empty(),
            "sure": self.is_sure(),
            "counts": self.counts(),
            "changes": self.changes().map(Planned::to_json).collect::<Vec<_>>(),
            "more": self.more,
            "unsure": self.unsure.iter().map(|((object, by), why)| json!({
                "object": object, "controller": by, "why": why,
            })).collect::<Vec<_>>(),
        })
    }

    /// The whole plan as a table, for people: one line for each object, and the sum.
    pub fn table(&self) -> String {
        let width = |pick: fn(&Planned) -> &str| {
            let lengths = self.changes().map(|planned| pick(planned).chars().count());
            lengths.max().unwrap_or_default()
        };
        let (objects, verbs) = (width(|one| &one.object), width(|one| &one.verb));
        let mut table = String::new();
        for planned in self.changes() {
            let Planned { object, verb, .. } = planned;
            table.push_str(&format!("{object:objects$}  {verb:verbs$}  {planned}\n"));
        }
        for ((object, by), why) in &self.unsure {
            table.push_str(&format!("{object:objects$}  ?  {why} ({by})\n"));
        }
        if !self.is_whole {
            table.push_str("not everything was looked at yet\n");
        }
        table + &format!("{self}\n")
    }
}

/// The summary, in one line.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            f.write_str("the plan is empty: nothing would be changed")?;
        } else {
            let counts = self.counts();
            let counts = counts.iter().map(|(kind, count)| format!("{count} {kind}"));
            let counts = counts.collect::<Vec<_>>().join(", ");
            write!(
                f,
                "the plan has changes of {} objects: {counts}",
                self.changes.len()
            )?;
        }
        if !self.unsure.is_empty() {
            write!(
                f,
                "; about {} things nothing can be said yet",
                self.unsure.len()
            )?;
        }
        if self.more > 0 {
            write!(f, "; {} more were not kept", self.more)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
