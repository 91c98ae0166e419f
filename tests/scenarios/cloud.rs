//! A cloud that answers as the script says, apart from the one call that is to go wrong. Knows nothing of Kubernetes.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ccm_core::cloud::{
    Capabilities, CloudEvent, CloudNode, CloudProvider, FindReply, Lookup, ProviderError, Reply,
};
use ccm_core::cloud_route::{CreateRouteRequest, DeleteRouteRequest, ListRoutesReply, RouteReply};
use ccm_core::load_balancer::{
    Adoptable, AnnotationChange, CloudService, DeleteRequest, EnsureReply, EnsureRequest, Ensured,
    Found, GetReply, Progress, ProgressReply, UpdateRequest,
};
use ccm_core::permit::Permit;
use futures::TryFutureExt as _;
use tokio::time::Instant;

use crate::broken_clients::Tamper;
use crate::cloud_lines::{error, instance};
use crate::crash::{Act, Life};
use crate::disturbance::CallFault;
use crate::false_answers::{Lie, disturbed};
use crate::load_balancer_answers::PREFIX;
use crate::load_balancers::{Ask, LoadBalancers, Operation, Told, key_of};
use crate::routes::{Machine, Routes};
use crate::script::Line;
use crate::world::seconds;

/// The provider that there is when a script says nothing else.
pub(crate) const SIM: &str = "sim";
/// How long a slow answer takes; shorter than a call may last.
pub(crate) const SLOW: Duration = Duration::from_secs(20);
/// What a throttled call asks for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A provider, `sim` with the scheme `sim` unless the script says otherwise. Clones are the same cloud.
#[derive(Clone)]
pub(crate) struct ScriptedCloud {
    name: String,
    schemes: Vec<String>,
    prefixes: Vec<String>,
    capabilities: Capabilities,
    /// How many calls were made, of all clouds of a scenario.
    made: Arc<AtomicUsize>,
    said: Arc<Mutex<Said>>,
    balancers: LoadBalancers,
    routes: Routes,
    /// Of the process that calls; `None`: nobody kills it.
    life: Option<Life>,
    /// Whether no call is a fresh one, in the tests of the runner.
    keeps_answers: bool,
}

/// What the cloud answered about one node.
#[derive(Debug, Clone)]
pub struct Answered {
    /// When, on tokio's clock.
    pub at: Instant,
    /// Counts the calls from 1.
    pub call: usize,
    /// The node's name.
    pub node: String,
    /// The answer.
    pub lookup: Lookup,
    /// Whether it may prove absence.
    pub complete: bool,
    /// Whether nothing was to be used that was kept.
    pub is_fresh: bool,
    /// The provider ID that came with the question.
    pub stored: Option<String>,
}

/// What is asked about one node.
#[derive(Debug, Clone)]
struct Asked {
    name: String,
    provider_id: Option<String>,
}

/// What became true about one node, and when.
#[derive(Debug, Clone)]
pub(crate) struct Truth {
    pub(crate) at: Instant,
    pub(crate) node: String,
    pub(crate) lookup: Lookup,
}

#[derive(Default)]
struct Said {
    /// In order. Who is not in here is not this cloud's.
    truth: Vec<Truth>,
    /// Instead of every answer.
    error: Option<ProviderError>,
    /// How long an answer about nodes takes.
    late: Duration,
    /// Instead of the truth.
    lie: Option<Lie>,
    /// The sizes of the calls since they were asked for last.
    calls: Vec<usize>,
    /// What is wrong with which call.
    fault: Option<(CallFault, usize)>,
    answered: Vec<Answered>,
}

impl ScriptedCloud {
    /// A cloud that knows nobody, broken like this. `sequence` says the number of the last request to the API server.
    pub(crate) fn new(
        tamper: Option<Tamper>,
        sequence: impl Fn() -> u64 + Clone + Send + Sync + 'static,
    ) -> ScriptedCloud {
        ScriptedCloud {
            name: SIM.to_owned(),
            schemes: vec![SIM.to_owned()],
            prefixes: vec![PREFIX.to_owned()],
            capabilities: Capabilities {
                instances: true,
                load_balancer: true,
                routes: true,
            },
            made: Arc::default(),
            said: Arc::default(),
            routes: Routes::new(tamper, sequence.clone()),
            balancers: LoadBalancers::new(tamper, sequence),
            life: None,
            keeps_answers: tamper == Some(Tamper::KeepsAnswers),
        }
    }

    /// Another cloud beside this one, of which nothing is known yet.
    pub(crate) fn beside(&self, name: &str) -> ScriptedCloud {
        ScriptedCloud {
            name: name.to_owned(),
            schemes: vec![name.to_owned()],
            prefixes: vec![format!("{name}.example/")],
            said: Arc::default(),
            balancers: self.balancers.beside(),
            routes: self.routes.beside(),
            ..self.clone()
        }
    }

    /// The same cloud, which owns this scheme.
    pub(crate) fn with_scheme(&mut self, scheme: &str) {
        self.schemes = vec![scheme.to_owned()];
    }

    /// The same cloud, which can do this.
    pub(crate) fn with_capabilities(&mut self, change: impl FnOnce(&mut Capabilities)) {
        change(&mut self.capabilities);
    }

    /// Its load balancers.
    pub(crate) fn balancers(&self) -> &LoadBalancers {
        &self.balancers
    }

    /// Its routes.
    pub(crate) fn routes(&self) -> &Routes {
        &self.routes
    }

    /// `cloud …`: see `README.md`.
    pub(crate) fn say(&self, line: &Line) -> Result<(), String> {
        let mut said = self.said.lock().unwrap();
        match line.word(1)? {
            "works" => said.error = None,
            "honest" => said.lie = None,
            "lies" => said.lie = Some(Lie::read(line)?),
            "fails" => said.error = Some(error(line, 2)?),
            "takes" => said.late = seconds(line.word(2)?)?,
            name => {
                let lookup = match line.word(2)? {
                    "gone" => Lookup::Gone,
                    "not-mine" => Lookup::NotMine,
                    "unknown" => Lookup::Unknown(line.rest(3)),
                    _ => Lookup::Found(Box::new(instance(line)?)),
                };
                said.truth.push(Truth {
                    at: Instant::now(),
                    node: name.to_owned(),
                    lookup,
                });
            }
        }
        Ok(())
    }

    /// From now on the so many-th call has this fault.
    pub(crate) fn disturb(&self, fault: CallFault, number: usize) {
        self.said.lock().unwrap().fault = Some((fault, number));
    }

    /// The same cloud, called by the so many-th process, which has this life.
    pub(crate) fn called_by(&self, life: Option<Life>, process: usize) -> ScriptedCloud {
        ScriptedCloud {
            life,
            balancers: self.balancers.called_by(process),
            routes: self.routes.called_by(process),
            ..self.clone()
        }
    }

    /// How many calls were made, of this cloud and those beside it.
    pub(crate) fn made(&self) -> usize {
        self.made.load(Ordering::Relaxed)
    }

    /// The number of the call that begins.
    fn next_call(&self) -> usize {
        self.made.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Every answer about every node.
    pub(crate) fn answered(&self) -> Vec<Answered> {
        self.said.lock().unwrap().answered.clone()
    }

    /// What was true when, in order.
    pub(crate) fn truth(&self) -> Vec<Truth> {
        self.said.lock().unwrap().truth.clone()
    }

    /// How many nodes each call was about, since the last time this was asked.
    pub(crate) fn calls(&self) -> Vec<usize> {
        std::mem::take(&mut self.said.lock().unwrap().calls)
    }
}

impl CloudProvider for ScriptedCloud {
    fn name(&self) -> &str {
        &self.name
    }

    fn schemes(&self) -> &[String] {
        &self.schemes
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn find_fresh<'a>(&'a self, nodes: &'a [CloudNode], _: Arc<Permit>) -> Reply<'a, FindReply> {
        self.look_up(nodes, !self.keeps_answers)
    }

    fn find<'a>(&'a self, nodes: &'a [CloudNode], _: Arc<Permit>) -> Reply<'a, FindReply> {
        self.look_up(nodes, false)
    }

    fn annotation_prefixes(&self) -> &[String] {
        &self.prefixes
    }

    fn ensure_load_balancer<'a>(
        &'a self,
        request: &'a EnsureRequest,
        permit: Arc<Permit>,
    ) -> Reply<'a, EnsureReply> {
        let ask = Ask {
            adopt: request.adopt.as_ref().map(|adopt| match adopt {
                Adoptable::Of(owner) => owner.to_string(),
                Adoptable::Unowned => String::new(),
            }),
            hint: request.hint.clone(),
            targets: names(&request.targets),
            ..Ask::of(Operation::Ensure, &request.service)
        };
        let (events, annotations) = self.besides(&request.service);
        Box::pin(self.call(ask, permit).map_ok(|told| EnsureReply {
            ensured: match told.pending {
                Some(pending) => Ensured::Pending(pending),
                None => Ensured::Ready(told.status.unwrap_or_default()),
            },
            events,
            annotations,
        }))
    }

    fn update_targets<'a>(
        &'a self,
        request: &'a UpdateRequest,
        permit: Arc<Permit>,
    ) -> Reply<'a, ProgressReply> {
        let ask = Ask {
            hint: request.hint.clone(),
            targets: names(&request.targets),
            ..Ask::of(Operation::Update, &request.service)
        };
        self.progress(ask, permit)
    }

    fn delete_load_balancer<'a>(
        &'a self,
        request: &'a DeleteRequest,
        permit: Arc<Permit>,
    ) -> Reply<'a, ProgressReply> {
        let ask = Ask {
            hint: request.hint.clone(),
            ..Ask::of(Operation::Delete, &request.service)
        };
        self.progress(ask, permit)
    }

    fn get_load_balancer<'a>(
        &'a self,
        service: &'a CloudService,
        permit: Arc<Permit>,
    ) -> Reply<'a, GetReply> {
        let ask = Ask::of(Operation::Get, &Arc::new(service.clone()));
        Box::pin(self.call(ask, permit).map_ok(|told| GetReply {
            found: told.status.map_or(Found::Absent, Found::Present),
            complete: told.complete,
        }))
    }

    fn list_routes<'a>(
        &'a self,
        nodes: &'a [CloudNode],
        _: Arc<Permit>,
    ) -> Reply<'a, ListRoutesReply> {
        let (nodes, machines, fault) = (nodes.to_vec(), self.machines(), self.next_fault());
        self.effect(self.routes.clone().list(nodes, machines, fault))
    }

    fn create_route<'a>(
        &'a self,
        request: &'a CreateRouteRequest,
        permit: Arc<Permit>,
    ) -> Reply<'a, RouteReply> {
        let (request, fault) = (request.clone(), self.next_fault());
        self.effect(self.routes.clone().create(request, permit, fault))
    }

    fn delete_route<'a>(
        &'a self,
        request: &'a DeleteRouteRequest,
        permit: Arc<Permit>,
    ) -> Reply<'a, RouteReply> {
        let (request, fault) = (request.clone(), self.next_fault());
        self.effect(self.routes.clone().delete(request, permit, fault))
    }
}

impl ScriptedCloud {
    /// One call, as it is carried out at the cloud.
    async fn answer(self, asked: Vec<Asked>, is_fresh: bool) -> Result<FindReply, ProviderError> {
        let number = self.next_call();
        let (fault, honest, late) = {
            let mut said = self.said.lock().unwrap();
            said.calls.push(asked.len());
            let honest = said.scripted(&asked, is_fresh, number);
            (said.fault(number), honest, said.late)
        };
        tokio::time::sleep(late).await;
        let reply = disturbed(honest, fault).await;
        if let Ok(reply) = &reply {
            self.said
                .lock()
                .unwrap()
                .note(&asked, reply, is_fresh, number);
        }
        reply
    }

    fn progress(&self, ask: Ask, permit: Arc<Permit>) -> Reply<'static, ProgressReply> {
        let (events, annotations) = self.besides(&ask.service);
        Box::pin(self.call(ask, permit).map_ok(|told| ProgressReply {
            progress: told.pending.map_or(Progress::Done, Progress::Pending),
            events,
            annotations,
        }))
    }

    fn besides(&self, service: &CloudService) -> (Vec<CloudEvent>, Vec<AnnotationChange>) {
        let name = key_of(service);
        self.balancers.answers(|answers| answers.besides(&name))
    }

    /// One call about a load balancer, as [`answer`] is one about nodes.
    fn call(&self, ask: Ask, permit: Arc<Permit>) -> Reply<'static, Told> {
        let fault = self.next_fault();
        self.effect(self.balancers.clone().call(ask, permit, fault))
    }

    fn look_up(&self, nodes: &[CloudNode], is_fresh: bool) -> Reply<'static, FindReply> {
        let asked = nodes.iter().map(|node| Asked {
            name: node.name.clone(),
            provider_id: node.provider_id.clone(),
        });
        let (cloud, asked) = (self.clone(), asked.collect());
        self.effect(async move { cloud.answer(asked, is_fresh).await })
    }

    /// What is wrong with the call that begins.
    fn next_fault(&self) -> Option<CallFault> {
        let number = self.next_call();
        self.said.lock().unwrap().fault(number)
    }

    /// A call of the process, which may die at it.
    fn effect<T: Send + 'static>(
        &self,
        call: impl Future<Output = Result<T, ProviderError>> + Send + 'static,
    ) -> Reply<'static, T> {
        match self.life.clone() {
            Some(life) => Box::pin(async move { life.effect(Act::Call, call).await }),
            None => Box::pin(call),
        }
    }

    /// The machines that there are, each with its addresses.
    fn machines(&self) -> Vec<Machine> {
        let said = self.said.lock().unwrap();
        let mut machines = BTreeMap::new();
        for one in &said.truth {
            match &one.lookup {
                Lookup::Found(instance) => {
                    let addresses = instance.addresses.iter();
                    let addresses = addresses.map(|one| one.address.clone()).collect();
                    machines.insert(one.node.clone(), addresses);
                }
                _ => drop(machines.remove(&one.node)),
            }
        }
        machines.into_iter().collect()
    }
}

fn names(nodes: &[CloudNode]) -> BTreeSet<String> {
    nodes.iter().map(|node| node.name.clone()).collect()
}

impl Said {
    /// What is wrong with this call.
    fn fault(&self, call: usize) -> Option<CallFault> {
        let (fault, _) = self.fault.filter(|(_, number)| *number == call)?;
        Some(fault)
    }

    /// What the script says: the truth, or the lie.
    fn scripted(
        &self,
        asked: &[Asked],
        is_fresh: bool,
        call: usize,
    ) -> Result<FindReply, ProviderError> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        let (now, lie) = (Instant::now(), self.lie.as_ref());
        let at = match lie {
            Some(lie) if !is_fresh => lie.remembers(now),
            _ => now,
        };
        let names: Vec<&str> = asked.iter().map(|one| one.name.as_str()).collect();
        let known = |name: &str| {
            let mut about = self.truth.iter().filter(|one| one.node == name);
            about.rfind(|one| one.at <= at)
        };
        let lookup = |name: &&str| known(name).map_or(Lookup::NotMine, |one| one.lookup.clone());
        let mut reply = FindReply {
            lookups: names.iter().map(lookup).collect(),
            events: Vec::new(),
            complete: true,
        };
        if let Some(lie) = lie {
            lie.tell(&names, &mut reply, call);
        }
        Ok(reply)
    }

    fn note(&mut self, asked: &[Asked], reply: &FindReply, is_fresh: bool, call: usize) {
        let answered = asked
            .iter()
            .zip(&reply.lookups)
            .map(|(node, lookup)| Answered {
                at: Instant::now(),
                call,
                node: node.name.clone(),
                lookup: lookup.clone(),
                complete: reply.complete,
                is_fresh,
                stored: node.provider_id.clone(),
            });
        self.answered.extend(answered);
    }
}
