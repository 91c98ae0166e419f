//! The load balancers of the scripted cloud: those that exist and existed, and every recorded call and change. The
//! execution of calls is in `load_balancer_calls.rs`. Knows nothing of Kubernetes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use ccm_core::cloud::ProviderError;
use ccm_core::cloud::load_balancer::{CloudService, LoadBalancerStatus, Pending};
use tokio::time::Instant;

use crate::broken_clients::Tamper;
use crate::load_balancer_answers::Answers;

#[path = "load_balancer_calls.rs"]
mod calls;

/// All load balancers of the cloud. Clones share them.
#[derive(Clone)]
pub(crate) struct LoadBalancers {
    state: Arc<Mutex<State>>,
    /// The number of the last request to the API server.
    sequence: Arc<dyn Fn() -> u64 + Send + Sync>,
    tamper: Option<Tamper>,
    /// Number of the calling process.
    process: usize,
}

#[derive(Default)]
struct State {
    /// All load balancers, deleted ones included.
    all: Vec<Balancer>,
    answers: Answers,
    /// The Services so far, by UID: the number of the address, and the key.
    known: BTreeMap<String, (usize, String)>,
    addresses: usize,
    calls: Vec<Called>,
    changes: Vec<Changed>,
    /// Number of calls that a transcript has shown.
    shown: usize,
}

/// A load balancer that exists or has existed.
#[derive(Debug, Clone)]
pub(crate) struct Balancer {
    /// Key of the Service that it was made for. Unique among existing ones.
    pub(crate) name: String,
    /// The UID that the cloud stores as its owner.
    pub(crate) owner: Option<String>,
    settings: Vec<String>,
    targets: BTreeSet<String>,
    address: usize,
    busy_until: Instant,
    /// The time of its creation.
    pub(crate) made: Instant,
    /// The time of its deletion; it may lie ahead.
    pub(crate) gone: Option<Instant>,
}

/// A function of the provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operation {
    Ensure,
    Update,
    Delete,
    Get,
}

impl Operation {
    const ALL: [Operation; 4] = [
        Operation::Ensure,
        Operation::Update,
        Operation::Delete,
        Operation::Get,
    ];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Operation::Ensure => "ensure",
            Operation::Update => "update",
            Operation::Delete => "delete",
            Operation::Get => "get",
        }
    }

    pub(crate) fn named(word: &str) -> Option<Operation> {
        Operation::ALL.into_iter().find(|one| one.as_str() == word)
    }
}

/// A question to the provider.
pub(crate) struct Ask {
    pub(crate) operation: Operation,
    pub(crate) service: Arc<CloudService>,
    /// Names of the nodes that are to be targets.
    pub(crate) targets: BTreeSet<String>,
    pub(crate) adopt: Option<String>,
    pub(crate) hint: Option<Arc<[u8]>>,
}

impl Ask {
    /// A question without targets, adoption and hint.
    pub(crate) fn of(operation: Operation, service: &Arc<CloudService>) -> Ask {
        Ask {
            operation,
            service: service.clone(),
            targets: BTreeSet::new(),
            adopt: None,
            hint: None,
        }
    }
}

/// The provider's answer: pending, or the current status; `None` when there is no load balancer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) pending: Option<Pending>,
    pub(crate) status: Option<LoadBalancerStatus>,
    pub(crate) complete: bool,
}

/// One call, as the cloud recorded it.
#[derive(Debug, Clone)]
pub(crate) struct Called {
    pub(crate) operation: Operation,
    pub(crate) uid: String,
    pub(crate) adopt: Option<String>,
    pub(crate) hint: Option<Arc<[u8]>>,
    /// Number of the calling process.
    pub(crate) process: usize,
    pub(crate) at: Instant,
    /// The number of the last request to the API server before it.
    pub(crate) after: u64,
    /// When it ended, and the number of the last request then; `None`: it is still open, or its process died.
    pub(crate) ended: Option<(Instant, u64)>,
    pub(crate) answer: Option<Result<Told, ProviderError>>,
}

/// One change at the cloud.
#[derive(Debug, Clone)]
pub(crate) struct Changed {
    pub(crate) what: &'static str,
    /// UID of the Service that it was made for.
    pub(crate) uid: String,
    /// The owner of the load balancer before the change, if any.
    pub(crate) owner: Option<String>,
    pub(crate) at: Instant,
}

/// The record of the cloud so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Recorded {
    pub(crate) all: Vec<Balancer>,
    pub(crate) calls: Vec<Called>,
    pub(crate) changes: Vec<Changed>,
}

impl Balancer {
    pub(crate) fn exists(&self, at: Instant) -> bool {
        self.made <= at && self.gone.is_none_or(|gone| gone > at)
    }
}

/// The key of a Service: `web` is `default/web`.
pub(crate) fn key(name: &str) -> String {
    if name.contains('/') {
        name.to_owned()
    } else {
        format!("default/{name}")
    }
}

/// The key of a Service, as the provider sees it.
pub(crate) fn key_of(service: &CloudService) -> String {
    format!("{}/{}", service.namespace, service.name)
}

impl LoadBalancers {
    /// No load balancers yet. `sequence` returns the number of the last request to the API server.
    pub(crate) fn new(
        tamper: Option<Tamper>,
        sequence: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> LoadBalancers {
        LoadBalancers {
            state: Arc::default(),
            sequence: Arc::new(sequence),
            tamper,
            process: 0,
        }
    }

    /// The load balancers of another cloud, which has none yet.
    pub(crate) fn beside(&self) -> LoadBalancers {
        LoadBalancers {
            state: Arc::default(),
            ..self.clone()
        }
    }

    /// The same load balancers, called by the process with this number.
    pub(crate) fn called_by(&self, process: usize) -> LoadBalancers {
        LoadBalancers {
            process,
            ..self.clone()
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// A Service was created: it gets the next address.
    pub(crate) fn introduce(&self, uid: &str, key: &str) {
        let mut state = self.state();
        state.addresses += 1;
        let address = state.addresses;
        state
            .known
            .insert(uid.to_owned(), (address, key.to_owned()));
    }

    /// Reads or changes the script's deviations of answers.
    pub(crate) fn answers<T>(&self, change: impl FnOnce(&mut Answers) -> T) -> T {
        change(&mut self.state().answers)
    }

    /// Creates a load balancer of this name, with another owner or none.
    pub(crate) fn exists(&self, name: &str, owner: Option<&str>) {
        let mut state = self.state();
        // The name of a Service stands for its UID.
        let owner = owner.map(|owner| state.uid(owner).unwrap_or_else(|| owner.to_owned()));
        state.addresses += 1;
        let (address, now) = (state.addresses, Instant::now());
        state.all.push(Balancer {
            name: name.to_owned(),
            owner,
            settings: Vec::new(),
            targets: BTreeSet::new(),
            address,
            busy_until: now,
            made: now,
            gone: None,
        });
    }

    /// Removes a load balancer without a call.
    pub(crate) fn vanishes(&self, name: &str) -> Result<(), String> {
        let (mut state, now) = (self.state(), Instant::now());
        let mut all = state.all.iter_mut();
        let found = all.find(|one| one.name == name && one.exists(now));
        found
            .ok_or_else(|| format!("{name} has no load balancer"))?
            .gone = Some(now);
        Ok(())
    }

    /// The record so far.
    pub(crate) fn recorded(&self) -> Recorded {
        let state = self.state();
        Recorded {
            all: state.all.clone(),
            calls: state.calls.clone(),
            changes: state.changes.clone(),
        }
    }

    /// How often each function was called since this function was called last.
    pub(crate) fn count(&self) -> String {
        let mut state = self.state();
        let calls = &state.calls[state.shown..];
        let counts = Operation::ALL.map(|operation| {
            let count = calls
                .iter()
                .filter(|one| one.operation == operation)
                .count();
            (count > 0).then(|| format!("{}({count})", operation.as_str()))
        });
        state.shown = state.calls.len();
        let counts: Vec<String> = counts.into_iter().flatten().collect();
        match counts.is_empty() {
            true => "| no calls".to_owned(),
            false => format!("| {}", counts.join(" ")),
        }
    }

    /// One line per load balancer that exists, sorted.
    pub(crate) fn describe(&self) -> Vec<String> {
        self.there().into_iter().map(|(_, line)| line).collect()
    }

    /// The existing load balancers, each with its line, sorted by the line.
    pub(crate) fn there(&self) -> Vec<(Balancer, String)> {
        let (state, now) = (self.state(), Instant::now());
        let all = state.all.iter().filter(|one| one.exists(now));
        let there = all.map(|one| (one.clone(), state.line(one)));
        let mut there: Vec<(Balancer, String)> = there.collect();
        there.sort_by(|(_, left), (_, right)| left.cmp(right));
        there
    }
}

impl State {
    /// The UID of the newest Service with this key.
    fn uid(&self, key: &str) -> Option<String> {
        let named = self.known.iter().filter(|(_, (_, name))| name == key);
        let newest = named.max_by_key(|(_, (address, _))| *address);
        newest.map(|(uid, _)| uid.clone())
    }

    /// A change that has just begun takes as long as the script says.
    fn work(&mut self, index: usize) {
        let takes = self.answers.takes(&self.all[index].name);
        self.all[index].busy_until = Instant::now() + takes;
    }

    fn line(&self, balancer: &Balancer) -> String {
        let owner = match &balancer.owner {
            None => " of nobody".to_owned(),
            Some(owner) => match self.known.get(owner) {
                Some((_, name)) if self.uid(name).as_ref() == Some(owner) => {
                    if *name == balancer.name {
                        String::new()
                    } else {
                        format!(" of {name}")
                    }
                }
                Some((_, name)) => format!(" of an earlier {name}"),
                None => format!(" of {owner}"),
            },
        };
        let targets: Vec<&str> = balancer.targets.iter().map(String::as_str).collect();
        format!(
            "| {}{owner} {} {} targets({})",
            balancer.name,
            balancer.ip(),
            balancer.settings.join(" "),
            targets.join(" ")
        )
    }
}

impl Balancer {
    fn ip(&self) -> String {
        format!("192.0.2.{}", self.address)
    }
}
