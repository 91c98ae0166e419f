//! The clouds of a scenario, and which of them are providers of the manager, under which entry. A script without such
//! lines has one cloud, `sim`, which is the only provider.

use std::collections::BTreeMap;
use std::sync::Arc;

use ccm_controllers::Provided;
use ccm_core::cloud_provider::CloudProvider;
use ccm_core::node::ownership::NodeClaim;
use ccm_core::selector::Selector;
use ccm_core::settings::ServiceRules;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::cloud::{Answered, SIM, ScriptedCloud, Truth};
use crate::crash::Life;
use crate::disturbance::CallFault;
use crate::script::Line;

/// The clouds, the entries and the processes of a scenario.
pub(crate) struct Providers {
    /// The clouds by name; `sim` is always there.
    clouds: BTreeMap<String, ScriptedCloud>,
    /// The entries by name; empty: `sim` alone, with the default configuration.
    entries: BTreeMap<String, Entry>,
    is_said: bool,
    processes: Vec<Process>,
    /// The rules by which each provider serves Services, and since when.
    rules: BTreeMap<String, Vec<(Instant, ServiceRules)>>,
}

#[derive(Clone, Default)]
struct Entry {
    claim: NodeClaim,
    classes: Vec<String>,
    is_default: bool,
    /// How often the module was replaced.
    generation: usize,
}

/// One process, and its providers.
struct Process {
    number: usize,
    life: Option<Life>,
    base: ServiceRules,
    /// The provider objects of the process, by name and generation.
    made: BTreeMap<(String, usize), Arc<dyn CloudProvider>>,
    sender: watch::Sender<Arc<[Provided]>>,
}

impl Providers {
    /// The provider `sim` alone.
    pub(crate) fn new(sim: ScriptedCloud) -> Providers {
        Providers {
            clouds: [(SIM.to_owned(), sim)].into(),
            entries: BTreeMap::new(),
            is_said: false,
            processes: Vec::new(),
            rules: BTreeMap::new(),
        }
    }

    /// The cloud of this name.
    pub(crate) fn cloud(&self, name: &str) -> Result<&ScriptedCloud, String> {
        let cloud = self.clouds.get(name);
        cloud.ok_or_else(|| format!("no cloud is called {name:?}"))
    }

    /// The cloud `sim`, which is always there.
    pub(crate) fn sim(&self) -> &ScriptedCloud {
        &self.clouds[SIM]
    }

    /// All clouds, with their names.
    pub(crate) fn clouds(&self) -> impl Iterator<Item = (&String, &ScriptedCloud)> {
        self.clouds.iter()
    }

    /// `provider …`: see `README.md`.
    pub(crate) fn apply(
        &mut self,
        line: &Line,
        fault: Option<(CallFault, usize)>,
    ) -> Result<(), String> {
        self.is_said = true;
        let name = line.word(1)?.to_owned();
        if line.word(2) == Ok("goes") {
            self.entries.remove(&name);
            self.publish();
            return Ok(());
        }
        let sim = self.sim().clone();
        let cloud = self
            .clouds
            .entry(name.clone())
            .or_insert_with(|| sim.beside(&name));
        if let Some((fault, number)) = fault {
            cloud.disturb(fault, number);
        }
        if line.word(2) == Ok("again") {
            let entry = self.entries.get_mut(&name);
            entry.ok_or("it is no provider")?.generation += 1;
            self.publish();
            return Ok(());
        }
        let before = self.entries.get(&name).map_or(0, |entry| entry.generation);
        let mut entry = Entry {
            generation: before,
            ..Entry::default()
        };
        for (key, value) in line.pairs(2)? {
            match key {
                "scheme" => cloud.with_scheme(value),
                "instances" => cloud.with_capabilities(|can| can.instances = value == "true"),
                "balancers" => cloud.with_capabilities(|can| can.load_balancer = value == "true"),
                "routes" => cloud.with_capabilities(|can| can.routes = value == "true"),
                "selector" => {
                    let selector = Selector::parse(value).map_err(|error| error.to_string())?;
                    entry.claim.selector = Some(selector);
                }
                "class" => entry.classes.push(value.to_owned()),
                "default" => entry.is_default = value == "true",
                other => return Err(format!("a provider has no {other:?}")),
            }
        }
        self.entries.insert(name, entry);
        self.publish();
        Ok(())
    }

    /// The providers of the process with this number, now and later; `base` holds for all load balancers.
    pub(crate) fn of_process(
        &mut self,
        number: usize,
        life: Option<Life>,
        base: ServiceRules,
    ) -> watch::Receiver<Arc<[Provided]>> {
        let (sender, receiver) = watch::channel(Arc::from([]));
        self.processes.push(Process {
            number,
            life,
            base,
            made: BTreeMap::new(),
            sender,
        });
        self.publish();
        receiver
    }

    /// Forgets all processes: they are dead.
    pub(crate) fn die(&mut self) {
        self.processes.clear();
    }

    fn publish(&mut self) {
        let entries = match self.is_said {
            true => self.entries.clone(),
            false => [(SIM.to_owned(), Entry::default())].into(),
        };
        for process in &mut self.processes {
            let mut list = Vec::new();
            for (name, entry) in &entries {
                let service = match self.is_said {
                    true => ServiceRules {
                        classes: entry.classes.iter().cloned().collect(),
                        is_default: entry.is_default,
                        ..process.base.clone()
                    },
                    false => process.base.clone(),
                };
                let since = self.rules.entry(name.clone()).or_default();
                since.push((Instant::now(), service.clone()));
                let cloud = &self.clouds[name];
                let key = (name.clone(), entry.generation);
                let made = process.made.entry(key).or_insert_with(|| {
                    Arc::new(cloud.called_by(process.life.clone(), process.number))
                });
                list.push(Provided {
                    cloud: made.clone(),
                    nodes: entry.claim.clone(),
                    service,
                });
            }
            process.sender.send_replace(list.into());
        }
    }

    /// The rules by which this provider serves Services, and since when.
    pub(crate) fn rules(&self, name: &str) -> Vec<(Instant, ServiceRules)> {
        self.rules.get(name).cloned().unwrap_or_default()
    }

    /// The answers of all clouds, in order.
    pub(crate) fn answered(&self) -> Vec<Answered> {
        let all = self.clouds.values().flat_map(ScriptedCloud::answered);
        let mut all: Vec<Answered> = all.collect();
        all.sort_by_key(|one| one.at);
        all
    }

    /// The true states of all clouds' machines, in order of time.
    pub(crate) fn truth(&self) -> Vec<Truth> {
        let all = self.clouds.values().flat_map(ScriptedCloud::truth);
        let mut all: Vec<Truth> = all.collect();
        all.sort_by_key(|one| one.at);
        all
    }
}
