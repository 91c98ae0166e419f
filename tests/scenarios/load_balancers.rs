//! The load balancers of the scripted cloud: which there are and were, and everything that was asked and done. How a call is
//! carried out stands in `load_balancer_calls.rs`. Knows nothing of Kubernetes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use ccm_core::cloud::ProviderError;
use ccm_core::load_balancer::{CloudService, LoadBalancerStatus, Pending};
use tokio::time::Instant;

use crate::broken_clients::Tamper;
use crate::load_balancer_answers::Answers;

#[path = "load_balancer_calls.rs"]
mod calls;

/// All load balancers of the cloud. Clones are the same ones.
#[derive(Clone)]
pub(crate) struct LoadBalancers {
    state: Arc<Mutex<State>>,
    /// The number of the last request to the API server.
    sequence: Arc<dyn Fn() -> u64 + Send + Sync>,
    tamper: Option<Tamper>,
    /// Which process calls.
    process: usize,
}

#[derive(Default)]
struct State {
    /// Also those that are gone.
    all: Vec<Balancer>,
    answers: Answers,
    /// The Services that there were, by UID: which address is theirs, and what they are called.
    known: BTreeMap<String, (usize, String)>,
    addresses: usize,
    calls: Vec<Called>,
    changes: Vec<Changed>,
    /// How many calls were shown.
    shown: usize,
}

/// One load balancer.
#[derive(Debug, Clone)]
pub(crate) struct Balancer {
    /// Of the Service that it was made for. Unique among those that exist.
    pub(crate) name: String,
    /// The UID that is written down at the cloud.
    pub(crate) owner: Option<String>,
    settings: Vec<String>,
    targets: BTreeSet<String>,
    address: usize,
    busy_until: Instant,
    /// From when on.
    pub(crate) made: Instant,
    /// Until when; it may lie ahead.
    pub(crate) gone: Option<Instant>,
}

/// Which function of the provider.
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

/// What the provider is asked.
pub(crate) struct Ask {
    pub(crate) operation: Operation,
    pub(crate) service: Arc<CloudService>,
    /// Names of nodes.
    pub(crate) targets: BTreeSet<String>,
    pub(crate) adopt: Option<String>,
    pub(crate) hint: Option<Arc<[u8]>>,
}

impl Ask {
    /// Without anything else.
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

/// What it answers: pending, or the status that there is now; none when there is no load balancer.
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
    /// Which process called.
    pub(crate) process: usize,
    pub(crate) at: Instant,
    /// The number of the last request to the API server before.
    pub(crate) after: u64,
    /// When it ended, and the number of the last request then. Without: it is still open, or whoever called died.
    pub(crate) ended: Option<(Instant, u64)>,
    pub(crate) answer: Option<Result<Told, ProviderError>>,
}

/// One change at the cloud.
#[derive(Debug, Clone)]
pub(crate) struct Changed {
    pub(crate) what: &'static str,
    /// On whose behalf.
    pub(crate) uid: String,
    /// Who owned the load balancer before; none: nobody.
    pub(crate) owner: Option<String>,
    pub(crate) at: Instant,
}

/// Everything that was recorded.
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

/// `web` is `default/web`.
pub(crate) fn key(name: &str) -> String {
    if name.contains('/') {
        name.to_owned()
    } else {
        format!("default/{name}")
    }
}

/// Of a Service, as the provider sees it.
pub(crate) fn key_of(service: &CloudService) -> String {
    format!("{}/{}", service.namespace, service.name)
}

impl LoadBalancers {
    /// None. `sequence` says the number of the last request to the API server.
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

    /// Another cloud's: none.
    pub(crate) fn beside(&self) -> LoadBalancers {
        LoadBalancers {
            state: Arc::default(),
            ..self.clone()
        }
    }

    /// The same ones, called by the so many-th process.
    pub(crate) fn called_by(&self, process: usize) -> LoadBalancers {
        LoadBalancers {
            process,
            ..self.clone()
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Somebody made a Service: the next address is its own.
    pub(crate) fn introduce(&self, uid: &str, key: &str) {
        let mut state = self.state();
        state.addresses += 1;
        let address = state.addresses;
        state
            .known
            .insert(uid.to_owned(), (address, key.to_owned()));
    }

    /// What the script says about the answers.
    pub(crate) fn answers<T>(&self, say: impl FnOnce(&mut Answers) -> T) -> T {
        say(&mut self.state().answers)
    }

    /// Somebody else has a load balancer of this name.
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

    /// Somebody removes it without asking.
    pub(crate) fn vanishes(&self, name: &str) -> Result<(), String> {
        let (mut state, now) = (self.state(), Instant::now());
        let mut all = state.all.iter_mut();
        let found = all.find(|one| one.name == name && one.exists(now));
        found
            .ok_or_else(|| format!("{name} has no load balancer"))?
            .gone = Some(now);
        Ok(())
    }

    /// Everything that was recorded so far.
    pub(crate) fn recorded(&self) -> Recorded {
        let state = self.state();
        Recorded {
            all: state.all.clone(),
            calls: state.calls.clone(),
            changes: state.changes.clone(),
        }
    }

    /// How often each function was called since the last time this was asked.
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

    /// Those that exist, each with its line, sorted by it.
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
    /// The UID of the newest Service of this name.
    fn uid(&self, key: &str) -> Option<String> {
        let named = self.known.iter().filter(|(_, (_, name))| name == key);
        let newest = named.max_by_key(|(_, (address, _))| *address);
        newest.map(|(uid, _)| uid.clone())
    }

    /// What was just begun takes as long as the script says.
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
