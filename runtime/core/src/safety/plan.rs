//! Changes that would be made in enforce mode: for each object and controller the first write to the cluster and the
//! first request to a cloud that were withheld. Later changes depend on the answer to the first, which is unknown. An
//! object that needs no change has no line. Holds and prints; performs nothing.
//!
//! Objects that cannot be judged are listed separately, with the reason: a plan that contains such objects is never
//! called empty, and neither is one made before everything was looked at.
//!
//! Events and the manager's own records are not changes of an object: the plan omits them, and they are not written.
//! Bookkeeping, a write of nothing but labels, annotations and conditions in this project's domain, is listed by
//! itself: no other program reads it, and a plan that has nothing else counts as empty.

pub(crate) mod bookkeeping;

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Value, json};

use crate::reconciliation::effect::{Effect, Modification, ObjectKind};
use crate::safety::audit::Refused;
use crate::safety::permit::CloudRequest;
use crate::well_known::{ROUTE_CONTROLLER, SERVICE_CONTROLLER};

/// Maximum number of changes in a plan; further ones are only counted. Providers determine the number of changes, and
/// must not exhaust the memory.
const MOST_CHANGES: usize = 20_000;

/// Default reason of a partial plan.
const NOT_LOOKED: &str = "not everything was looked at yet";

/// One change that was withheld because of the mode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    /// Kind of the object.
    pub kind: ObjectKind,
    /// The object, as `node/NAME` or `service/NAMESPACE/NAME`; otherwise the target and the rule.
    pub object: String,
    /// The operation: `patch`, `patch status`, `delete`, or the method and the rule's path.
    pub verb: String,
    /// The whole change in one line, for people.
    pub what: String,
    /// Last log line of the provider before it, for people.
    pub log_line: Option<String>,
    /// The controller that decided it; empty for a cloud request that concerns no single object.
    pub by: &'static str,
    /// The provider whose controllers or module decided it; empty if that is not known.
    pub provider: String,
    /// Where it would be made.
    pub place: ChangePlace,
    /// Whether it writes nothing but this manager's own marks.
    pub is_bookkeeping: bool,
}

/// Where a change would be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangePlace {
    /// In the cluster: a write to the API server.
    Cluster,
    /// At a cloud: one HTTP request.
    Cloud {
        /// The granted target's name.
        target: String,
        /// The method, upper case.
        method: String,
        /// The path below the target's base path, without query.
        path: String,
    },
}

impl ChangePlace {
    /// Whether it is a request to a cloud.
    pub fn is_cloud(&self) -> bool {
        matches!(self, ChangePlace::Cloud { .. })
    }
}

/// Summary of a plan. Bookkeeping counts as no change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlanVerdict {
    /// Everything was judged, and nothing would be changed: a guarantee.
    Empty,
    /// Something would be changed.
    Changes,
    /// No change is known, and not everything could be judged.
    Unknown,
}

impl Planned {
    /// The change by this effect, if it writes an object of the cluster; `None` otherwise.
    pub fn of_effect<E: Effect>(effect: &E) -> Option<Planned> {
        let Modification::Object(write) = effect.modification() else {
            return None;
        };
        Some(Planned {
            kind: write.kind,
            object: write.object.to_string(),
            verb: write.verb.to_owned(),
            what: effect.to_string(),
            log_line: None,
            by: E::CONTROLLER,
            provider: String::new(),
            place: ChangePlace::Cluster,
            is_bookkeeping: write.is_bookkeeping,
        })
    }

    /// The change by a cloud request that was refused only because of the mode.
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
            None => (
                ObjectKind::Cloud,
                format!("cloud/{}/{target}{template}", author.provider),
            ),
            Some(kind) => (kind, refused.subject.to_string()),
        };
        Planned {
            kind,
            object,
            verb: format!("{method} {template}"),
            what: format!(
                "{method} {path} on target {target}, which is a change by the rule {rule}"
            ),
            log_line: refused.log_line.map(str::to_owned),
            // No other controller may change anything for these.
            by: match kind {
                ObjectKind::Service => SERVICE_CONTROLLER,
                ObjectKind::Route => ROUTE_CONTROLLER,
                ObjectKind::Node | ObjectKind::Cloud => "",
            },
            provider: author.provider.clone(),
            place: ChangePlace::Cloud {
                target: target.clone(),
                method: method.clone(),
                path: path.clone(),
            },
            is_bookkeeping: false,
        }
    }

    fn key(&self) -> Key {
        let class = match (&self.place, self.is_bookkeeping) {
            (ChangePlace::Cluster, true) => ChangeClass::Bookkeeping,
            (ChangePlace::Cluster, false) => ChangeClass::Cluster,
            (ChangePlace::Cloud { .. }, _) => ChangeClass::Cloud,
        };
        (self.object.clone(), class, self.by)
    }

    /// The change as one JSON object.
    pub fn to_json(&self) -> Value {
        let request = match &self.place {
            ChangePlace::Cluster => Value::Null,
            ChangePlace::Cloud {
                target,
                method,
                path,
            } => json!({ "target": target, "method": method, "path": path }),
        };
        json!({
            "kind": self.kind.as_str(),
            "object": self.object,
            "verb": self.verb,
            "change": self.what,
            "said": self.log_line,
            "request": request,
        })
    }
}

impl fmt::Display for Planned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.what)?;
        match &self.log_line {
            Some(line) => write!(f, " (the provider: {line})"),
            None => Ok(()),
        }
    }
}

/// Object, class and controller. In this order a write to an object precedes its cloud request, as in enforce mode.
type Key = (String, ChangeClass, &'static str);

/// The classes of an object's changes, which are kept separately: bookkeeping must not hide a change that follows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ChangeClass {
    Bookkeeping,
    Cluster,
    Cloud,
}

/// The withheld changes, and the objects that cannot be judged.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    changes: BTreeMap<Key, Planned>,
    more: usize,
    /// The objects that cannot be judged, by object, controller and, for what each provider has of its own, provider.
    unsure: BTreeMap<(String, &'static str, String), Unsure>,
    view: View,
}

/// Why an object cannot be judged, and the provider that said so.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Unsure {
    why: String,
    provider: String,
}

/// How much of the cluster was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
enum View {
    /// Everything was looked at once.
    Whole,
    /// Something was not looked at yet, for this reason.
    Partial(String),
}

/// Whether all providers decide about the same object, of which one word is enough. Routes, and the list of them, are each
/// provider's own.
fn is_shared(object: &str) -> bool {
    object.starts_with("node/") || object.starts_with("service/")
}

impl Default for View {
    fn default() -> View {
        View::Partial(NOT_LOOKED.to_owned())
    }
}

impl Plan {
    /// Adds a withheld change. Returns whether it is the first for its object, place and controller. The provider that
    /// plans it last answers for it.
    pub fn add(&mut self, planned: Planned) -> bool {
        let key = planned.key();
        if let Some(first) = self.changes.get_mut(&key) {
            first.provider = planned.provider;
            return false;
        }
        if self.changes.len() >= MOST_CHANGES {
            self.more += 1;
            return false;
        }
        self.changes.insert(key, planned);
        true
    }

    /// Removes this controller's changes of the object, which needs none any more; those of other controllers stay. Returns
    /// whether there were any.
    pub fn settled(&mut self, object: &str, by: &str, provider: &str) -> bool {
        let is_shared = is_shared(object);
        self.remove(object, |planned| {
            planned.by == by && (is_shared || planned.provider == provider)
        })
    }

    /// Removes what this controller of `provider` alone has planned for the object, and that it could not judge it; another
    /// provider's word stays. Returns whether there were changes.
    pub fn outdated(&mut self, object: &str, by: &str, provider: &str) -> bool {
        self.unsure.retain(|(theirs, whose, _), unsure| {
            theirs != object || *whose != by || unsure.provider != provider
        });
        self.remove(object, |planned| {
            planned.by == by && planned.provider == provider
        })
    }

    /// Removes an object that no longer exists. Returns whether it had changes.
    pub fn gone(&mut self, object: &str) -> bool {
        self.unsure.retain(|(theirs, ..), _| theirs != object);
        self.remove(object, |_| true)
    }

    /// Removes what `provider` would change, and what it cannot judge: it is not asked any more. Returns whether there were
    /// changes.
    pub fn left(&mut self, provider: &str) -> bool {
        self.unsure.retain(|_, unsure| unsure.provider != provider);
        let before = self.changes.len();
        self.changes
            .retain(|_, planned| planned.provider != provider);
        self.changes.len() < before
    }

    fn remove(&mut self, object: &str, is_over: impl Fn(&Planned) -> bool) -> bool {
        let from = self
            .changes
            .range((object.to_owned(), ChangeClass::Bookkeeping, "")..);
        let theirs = from.take_while(|(_, planned)| planned.object == object);
        let over = theirs.filter(|(_, planned)| is_over(planned));
        let over: Vec<Key> = over.map(|(key, _)| key.clone()).collect();
        for key in &over {
            self.changes.remove(key);
        }
        !over.is_empty()
    }

    /// Notes why this controller of `provider` cannot judge the object yet; `None`: it can.
    pub fn set_unsure(
        &mut self,
        object: &str,
        by: &'static str,
        provider: &str,
        why: Option<&str>,
    ) {
        let whose = if is_shared(object) { "" } else { provider };
        let key = (object.to_owned(), by, whose.to_owned());
        match why {
            Some(why) if self.unsure.len() < MOST_CHANGES || self.unsure.contains_key(&key) => {
                let (why, provider) = (why.to_owned(), provider.to_owned());
                self.unsure.insert(key, Unsure { why, provider });
            }
            Some(_) => {}
            None => {
                self.unsure.remove(&key);
            }
        }
    }

    /// Everything was looked at once.
    pub fn set_whole(&mut self) {
        self.view = View::Whole;
    }

    /// More has to be looked at before the plan is complete.
    pub fn set_partial(&mut self) {
        self.view = View::default();
    }

    /// Sets the reason of a partial plan.
    pub fn explain(&mut self, why: String) {
        if let View::Partial(reason) = &mut self.view {
            *reason = why;
        }
    }

    /// Whether everything was looked at once.
    pub fn is_whole(&self) -> bool {
        self.view == View::Whole
    }

    /// Whether everything was looked at once and could be judged.
    pub fn is_sure(&self) -> bool {
        self.is_whole() && self.unsure.is_empty()
    }

    /// Summary of the plan.
    pub fn verdict(&self) -> PlanVerdict {
        let is_empty = self.changes().next().is_none() && self.more == 0;
        match (is_empty, self.is_sure()) {
            (false, _) => PlanVerdict::Changes,
            (true, true) => PlanVerdict::Empty,
            (true, false) => PlanVerdict::Unknown,
        }
    }

    /// The changes that others see, in the order of their objects.
    pub fn changes(&self) -> impl Iterator<Item = &Planned> {
        self.changes.values().filter(|one| !one.is_bookkeeping)
    }

    /// The changes that only this manager reads, in the order of their objects.
    pub fn bookkeeping(&self) -> impl Iterator<Item = &Planned> {
        self.changes.values().filter(|one| one.is_bookkeeping)
    }

    /// Why the plan is partial; `None` if everything was looked at once.
    pub fn gap(&self) -> Option<&str> {
        match &self.view {
            View::Whole => None,
            View::Partial(why) => Some(why),
        }
    }

    /// Number of changes that were not kept.
    pub fn more(&self) -> usize {
        self.more
    }

    /// Objects that cannot be judged yet, each with the reason.
    pub fn unsure(&self) -> impl Iterator<Item = (&str, &str)> {
        let unsure = self.unsure.iter();
        unsure.map(|((object, ..), unsure)| (object.as_str(), unsure.why.as_str()))
    }

    /// Number of objects of each kind that would be changed.
    pub fn counts(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        let mut last = None;
        for planned in self.changes() {
            // Changes of one object are adjacent.
            if last.replace(&planned.object) != Some(&planned.object) {
                *counts.entry(planned.kind.as_str()).or_default() += 1;
            }
        }
        counts
    }

    /// The whole plan as one JSON object.
    pub fn to_json(&self) -> Value {
        json!({
            "empty": self.verdict() == PlanVerdict::Empty,
            "sure": self.is_sure(),
            "why": self.gap(),
            "counts": self.counts(),
            "changes": self.changes().map(Planned::to_json).collect::<Vec<_>>(),
            "bookkeeping": self.bookkeeping().map(Planned::to_json).collect::<Vec<_>>(),
            "more": self.more,
            "unsure": self.unsure.iter().map(|((object, by, _), unsure)| json!({
                "object": object, "controller": by, "why": unsure.why,
            })).collect::<Vec<_>>(),
        })
    }

    /// The whole plan as a table, for people: one line for each change, one for each object that cannot be judged, and
    /// the summary.
    pub fn table(&self) -> String {
        let width = |pick: fn(&Planned) -> &str| {
            let lengths = self
                .changes
                .values()
                .map(|planned| pick(planned).chars().count());
            lengths.max().unwrap_or_default()
        };
        let (objects, verbs) = (width(|one| &one.object), width(|one| &one.verb));
        let mut table = String::new();
        for planned in self.changes.values() {
            let Planned { object, verb, .. } = planned;
            let mark = match planned.is_bookkeeping {
                true => " (bookkeeping)",
                false => "",
            };
            table.push_str(&format!(
                "{object:objects$}  {verb:verbs$}  {planned}{mark}\n"
            ));
        }
        for ((object, by, _), Unsure { why, .. }) in &self.unsure {
            table.push_str(&format!("{object:objects$}  ?  {why}"));
            let by = Some(by).filter(|by| !by.is_empty());
            table.push_str(&by.map(|by| format!(" ({by})")).unwrap_or_default());
            table.push('\n');
        }
        table + &format!("{self}\n")
    }
}

/// The summary, in one line.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.verdict(), &self.view) {
            (PlanVerdict::Empty, _) => {
                f.write_str("the plan is empty: nothing would be changed")?
            }
            (PlanVerdict::Unknown, View::Partial(why)) => write!(f, "no plan: {why}")?,
            (PlanVerdict::Unknown, View::Whole) => f.write_str("no change is known")?,
            (PlanVerdict::Changes, view) => {
                let counts = self.counts();
                let objects: usize = counts.values().sum();
                let counts = counts.iter().map(|(kind, count)| format!("{count} {kind}"));
                let counts = counts.collect::<Vec<_>>().join(", ");
                write!(f, "the plan has changes of {objects} objects: {counts}")?;
                let requests = self.changes().filter(|one| one.place.is_cloud()).count();
                if requests > 0 {
                    write!(f, "; requests to a cloud: {requests}")?;
                }
                if let View::Partial(why) = view {
                    write!(f, "; {why}")?;
                }
            }
        }
        let bookkeeping = self.bookkeeping().count();
        if bookkeeping > 0 {
            write!(f, "; bookkeeping of this manager: {bookkeeping}")?;
        }
        if !self.unsure.is_empty() {
            write!(
                f,
                "; changes that cannot be judged yet: {}",
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
