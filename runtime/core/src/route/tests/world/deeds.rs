//! The answers of the cloud and of the API server.

use serde_json::json;

use super::*;
use crate::cloud::error::CallFailure;
use crate::reconciliation::effect::{Effect as _, Modification};
use crate::safety::brake::Objects;

impl World {
    pub(super) fn perform(&mut self, effect: &RouteEffect) -> Performed<RouteOutcome> {
        let (is_change, is_write) = match effect.modification() {
            Modification::None => (false, false),
            Modification::Cloud => (true, false),
            Modification::Event | Modification::Object(_) => (false, true),
        };
        let is_withheld = match self.mode {
            Mode::Enforce => false,
            // A provider whose look-up fails requests no change.
            Mode::Plan => is_write || is_change && self.changes.is_empty(),
            Mode::Observe => is_write || is_change,
        };
        if is_withheld {
            self.log.push((self.now, format!("({effect})")));
            return Performed::Withheld;
        }
        if !matches!(effect, RouteEffect::TakeBudget(..)) {
            self.log.push((self.now, effect.to_string()));
        }
        Performed::Ended(match effect {
            RouteEffect::TakeBudget(..) if self.is_ledger_away => {
                let away = ClusterError::Unavailable("away".to_owned());
                RouteOutcome::Budget(BudgetOutcome::Failed(away))
            }
            RouteEffect::TakeBudget(_, brake, rise, ours) => {
                let objects = Objects {
                    own: *ours,
                    all: *ours,
                };
                let taken = self.budgets.as_mut().map(|budgets| {
                    let taken = budgets.take(PROVIDER, *brake, at(self.now), objects, *rise);
                    taken.map(drop)
                });
                RouteOutcome::Budget(BudgetOutcome::Answered(taken.unwrap_or(Ok(()))))
            }
            RouteEffect::Create(request) => {
                let destination = request.destination_cidr.clone();
                let answer = self.changes.get(&destination).cloned();
                let answer = answer.unwrap_or_else(|| self.make(&destination, &request.node.name));
                self.changed(answer)
            }
            RouteEffect::Delete(request) => {
                let route = &*request.route;
                let answer = self.changes.get(&route.destination_cidr).cloned();
                let answer = answer.unwrap_or(Ok(Progress::Done));
                // An operation that the cloud has begun is polled at its own pace, whatever listings show meanwhile.
                if self.begun.insert(route.id.clone()) && !self.was_complete {
                    self.unproven.push(route.clone());
                }
                if !matches!(answer, Ok(Progress::Pending(_))) {
                    self.begun.remove(&route.id);
                }
                if answer == Ok(Progress::Done) {
                    self.deleted.push(route.clone());
                    self.routes.retain(|one| {
                        one.id != route.id || one.destination != route.destination_cidr
                    });
                }
                self.changed(answer)
            }
            RouteEffect::PatchCondition(node, patch) => {
                RouteOutcome::Node(self.patch(&node.name, patch))
            }
            RouteEffect::ReadNode(node) => RouteOutcome::Node(Ok(self.stored(&node.name))),
            RouteEffect::RecordEvent(..) => RouteOutcome::Event(EventOutcome::Recorded),
        })
    }

    fn stored(&self, name: &str) -> Option<Box<PrunedNode>> {
        self.node(name).map(|node| Box::new((*node).clone()))
    }

    /// Like most clouds, has one route for each destination.
    fn make(&mut self, destination: &str, node: &str) -> Change {
        if let Some(pace) = self.pace {
            match &self.at_it {
                None => {
                    self.at_it = Some((destination.to_owned(), self.now + pace));
                    return Ok(pending(pace));
                }
                Some((at_it, until)) if at_it == destination && *until <= self.now => {
                    self.at_it = None;
                }
                Some(_) => return Ok(pending(100)),
            }
        }
        let network = |text: &str| read_network(text);
        let is_there = |one: &Route| network(&one.destination) == network(destination);
        if self.routes.iter().any(is_there) {
            return Err(ProviderError::Conflict {
                message: "there is a route".to_owned(),
                owner: None,
            });
        }
        self.route_to(destination, node);
        Ok(Progress::Done)
    }

    fn changed(&self, answer: Change) -> RouteOutcome {
        let events = self.events.clone();
        RouteOutcome::Changed(match answer {
            Ok(progress) => Ok(Answered {
                reply: RouteReply { progress, events },
                mutations: 1,
                in_use: Vec::new(),
            }),
            Err(error) => Err(CallFailure { error, events }),
        })
    }

    fn patch(&mut self, name: &str, patch: &NetworkConditionPatch) -> ObjectResult<PrunedNode> {
        if let Some(error) = self.refusals.pop_front() {
            return Err(error);
        }
        let Some(node) = self.nodes.get_mut(name) else {
            return Ok(None);
        };
        assert_eq!(node["metadata"]["uid"], patch.uid);
        let body = patch.to_json();
        if node["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"] {
            return Err(ClusterError::Conflict("changed meanwhile".to_owned()));
        }
        let conditions = node["status"]["conditions"].as_array_mut().unwrap();
        conditions.retain(|one| one["type"] != "NetworkUnavailable");
        conditions.push(body["status"]["conditions"][0].clone());
        self.version += 1;
        node["metadata"]["resourceVersion"] = json!(self.version.to_string());
        Ok(self.stored(name))
    }
}
