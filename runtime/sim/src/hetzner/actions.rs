//! Actions: asynchronous operations started by write requests, their state, and what they change on success.
//!
//! A failed action changes nothing, except when it creates a load balancer or a certificate. While an action runs, its
//! objects are busy.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::load_balancer_state::Change;
use super::objects::{Member, PrivateNet, Route, ServerStatus, Subnet};

/// Maximum number of kept ended actions; the oldest are dropped first.
const KEPT: usize = 20_000;

/// An object that an action works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Resource {
    Server(u64),
    Network(u64),
    LoadBalancer(u64),
    Certificate(u64),
}

impl Resource {
    fn json(self) -> Value {
        match self {
            Self::Server(id) => json!({"id": id, "type": "server"}),
            Self::Network(id) => json!({"id": id, "type": "network"}),
            Self::LoadBalancer(id) => json!({"id": id, "type": "load_balancer"}),
            Self::Certificate(id) => json!({"id": id, "type": "certificate"}),
        }
    }
}

/// The change made by a successful action.
#[derive(Clone, Debug)]
pub(super) enum Effect {
    Nothing,
    SetStatus(u64, ServerStatus),
    Attach {
        member: Member,
        net: PrivateNet,
    },
    Detach {
        member: Member,
        network: u64,
    },
    AddRoute {
        network: u64,
        route: Route,
    },
    DeleteRoute {
        network: u64,
        route: Route,
    },
    AddSubnet {
        network: u64,
        subnet: Subnet,
    },
    LoadBalancer(u64, Change),
    /// The issuance of a managed certificate ended with this result.
    Issue(u64, Result<(), Failure>),
}

/// Why an action failed, as vendor error code and message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) code: String,
    pub(super) message: String,
}

/// The future end of a running action.
struct Ahead {
    /// The time of the end; `None`: never.
    at: Option<Instant>,
    end: End,
}

/// How an action ends.
#[derive(Clone, Debug)]
pub(super) struct End {
    /// The failure, if it fails.
    pub(super) failure: Option<Failure>,
    /// The change it makes; usually nothing if it fails.
    pub(super) effect: Effect,
}

enum State {
    Running(Ahead),
    Ended(Result<(), Failure>, Timestamp),
}

/// An action with its state, as clients see it.
pub(super) struct Action {
    pub(super) id: u64,
    pub(super) command: &'static str,
    pub(super) resources: Vec<Resource>,
    pub(super) started: Timestamp,
    state: State,
}

impl Action {
    pub(super) fn status(&self) -> &'static str {
        match &self.state {
            State::Running(_) => "running",
            State::Ended(Ok(()), _) => "success",
            State::Ended(Err(_), _) => "error",
        }
    }

    pub(super) fn json(&self) -> Value {
        let (progress, finished, error) = match &self.state {
            State::Running(_) => (0, Value::Null, Value::Null),
            State::Ended(Ok(()), at) => (100, json!(at.to_string()), Value::Null),
            State::Ended(Err(why), at) => (
                100,
                json!(at.to_string()),
                json!({"code": why.code, "message": why.message}),
            ),
        };
        let resources: Vec<Value> = self.resources.iter().map(|one| one.json()).collect();
        json!({
            "id": self.id, "command": self.command, "status": self.status(),
            "progress": progress, "started": self.started.to_string(), "finished": finished,
            "resources": resources, "error": error,
        })
    }
}

/// All actions of a project.
pub(super) struct Actions {
    next: u64,
    all: BTreeMap<u64, Action>,
    running: BTreeSet<u64>,
}

impl Actions {
    pub(super) fn new(first_id: u64) -> Self {
        Self {
            next: first_id,
            all: BTreeMap::new(),
            running: BTreeSet::new(),
        }
    }

    /// Starts an action that ends at `at` (`None`: never) in the given way.
    pub(super) fn start(
        &mut self,
        command: &'static str,
        resources: Vec<Resource>,
        started: Timestamp,
        at: Option<Instant>,
        end: End,
    ) -> u64 {
        let id = self.next;
        self.next = self.next.saturating_add(1);
        let action = Action {
            id,
            command,
            resources,
            started,
            state: State::Running(Ahead { at, end }),
        };
        self.all.insert(id, action);
        self.running.insert(id);
        id
    }

    /// Ends every due action, earliest first, and returns the changes.
    pub(super) fn end_due(&mut self, now: Instant, finished: Timestamp) -> Vec<Effect> {
        let mut due: Vec<(Instant, u64)> = self
            .running
            .iter()
            .filter_map(|id| match &self.all.get(id)?.state {
                State::Running(Ahead { at: Some(at), .. }) if *at <= now => Some((*at, *id)),
                _ => None,
            })
            .collect();
        due.sort_unstable();
        due.into_iter()
            .filter_map(|(_, id)| self.end(id, finished))
            .collect()
    }

    pub(super) fn get(&self, id: u64) -> Option<&Action> {
        self.all.get(&id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Action> {
        self.all.values()
    }

    /// Whether an action runs on the object.
    pub(super) fn busy(&self, resource: Resource) -> bool {
        self.running()
            .any(|action| action.resources.contains(&resource))
    }

    /// Whether an action with this command runs on the object.
    pub(super) fn runs(&self, command: &str, resource: Resource) -> bool {
        self.running()
            .any(|action| action.command == command && action.resources.contains(&resource))
    }

    /// Addresses reserved by running attachments.
    pub(super) fn reserved_addresses(&self, network: u64) -> impl Iterator<Item = Ipv4Addr> {
        self.running()
            .filter_map(move |action| match &action.state {
                State::Running(Ahead {
                    end:
                        End {
                            failure: None,
                            effect: Effect::Attach { net, .. },
                        },
                    ..
                }) if net.network == network => Some(net.ip),
                _ => None,
            })
    }

    fn running(&self) -> impl Iterator<Item = &Action> {
        self.running.iter().filter_map(|id| self.all.get(id))
    }

    fn end(&mut self, id: u64, finished: Timestamp) -> Option<Effect> {
        self.running.remove(&id);
        let action = self.all.get_mut(&id)?;
        let placeholder = State::Ended(Ok(()), finished);
        let State::Running(ahead) = std::mem::replace(&mut action.state, placeholder) else {
            return None;
        };
        let End { failure, effect } = ahead.end;
        if let Some(why) = failure {
            action.state = State::Ended(Err(why), finished);
        }
        self.forget_oldest();
        Some(effect)
    }

    fn forget_oldest(&mut self) {
        while self.all.len() > KEPT {
            let oldest = self
                .all
                .keys()
                .find(|id| !self.running.contains(id))
                .copied();
            let Some(oldest) = oldest else { return };
            self.all.remove(&oldest);
        }
    }
}
