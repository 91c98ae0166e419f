//! A cloud that answers as the script says, apart from one call with a fault. Knows nothing of Kubernetes.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ccm_core::cloud::load_balancer::{
    Adoptable, AnnotationChange, CloudService, DeleteRequest, EnsureReply, EnsureRequest, Ensured,
    Found, GetReply, Progress, ProgressReply, UpdateRequest,
};
use ccm_core::cloud::route::{CreateRouteRequest, DeleteRouteRequest, ListRoutesReply, RouteReply};
use ccm_core::cloud::{Capabilities, CloudEvent, CloudNode, FindReply, Lookup, ProviderError};
use ccm_core::cloud_provider::{CloudProvider, Reply};
use ccm_core::safety::permit::Permit;
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

/// The provider of scripts that name none.
pub(crate) const SIM: &str = "sim";
/// The delay of a slow answer; shorter than the timeout of a call.
pub(crate) const SLOW: Duration = Duration::from_secs(20);
/// The `retry_after` of a throttled call.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

/// A provider, `sim` with the scheme `sim` unless the script says otherwise. Clones are the same cloud.
#[derive(Clone)]
pub(crate) struct ScriptedCloud {
    name: String,
    schemes: Vec<String>,
    prefixes: Vec<String>,
    capabilities: Capabilities,
    /// Number of calls so far, of all clouds of a scenario.
    made: Arc<AtomicUsize>,
    answers: Arc<Mutex<Answers>>,
    balancers: LoadBalancers,
    routes: Routes,
    /// The life of the calling process; `None`: nothing kills it.
    life: Option<Life>,
    /// Whether every call counts as one that may use cached answers, in the tests of the runner.
    keeps_answers: bool,
}

/// A cloud's answer about one node.
#[derive(Debug, Clone)]
pub struct Answered {
    /// When the answer was given, on tokio's clock.
    pub at: Instant,
    /// Number of the call, from 1.
    pub call: usize,
    /// `metadata.name` of the node.
    pub node: String,
    /// The answer about this node.
    pub lookup: Lookup,
    /// Whether the answer may prove absence.
    pub complete: bool,
    /// Whether the call forbade cached answers.
    pub is_fresh: bool,
    /// The provider ID in the question.
    pub stored: Option<String>,
}

/// The question about one node.
#[derive(Debug, Clone)]
struct Asked {
    name: String,
    provider_id: Option<String>,
}

/// A node's true state from some time on.
#[derive(Debug, Clone)]
pub(crate) struct Truth {
    pub(crate) at: Instant,
    pub(crate) node: String,
    pub(crate) lookup: Lookup,
}

#[derive(Default)]
struct Answers {
    /// In order of time. A node that is not in here is not this cloud's.
    truth: Vec<Truth>,
    /// Error in place of every answer.
    error: Option<ProviderError>,
    /// Delay of an answer about nodes.
    late: Duration,
    /// Applied to the truth in every answer.
    lie: Option<Lie>,
    /// The number of nodes in each call, since the sizes were taken last.
    calls: Vec<usize>,
    /// The injected fault, and the number of its call.
    fault: Option<(CallFault, usize)>,
    answered: Vec<Answered>,
}

impl ScriptedCloud {
    /// A cloud without machines, with this defect. `sequence` returns the number of the last request to the API server.
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
            answers: Arc::default(),
            routes: Routes::new(tamper, sequence.clone()),
            balancers: LoadBalancers::new(tamper, sequence),
            life: None,
            keeps_answers: tamper == Some(Tamper::KeepsAnswers),
        }
    }

    /// Another cloud beside this one, without machines.
    pub(crate) fn beside(&self, name: &str) -> ScriptedCloud {
        ScriptedCloud {
            name: name.to_owned(),
            schemes: vec![name.to_owned()],
            prefixes: vec![format!("{name}.example/")],
            answers: Arc::default(),
            balancers: self.balancers.beside(),
            routes: self.routes.beside(),
            ..self.clone()
        }
    }

    /// Sets the only scheme of the cloud.
    pub(crate) fn with_scheme(&mut self, scheme: &str) {
        self.schemes = vec![scheme.to_owned()];
    }

    /// Changes the capabilities of the cloud.
    pub(crate) fn with_capabilities(&mut self, change: impl FnOnce(&mut Capabilities)) {
        change(&mut self.capabilities);
    }

    /// The load balancers of this cloud.
    pub(crate) fn balancers(&self) -> &LoadBalancers {
        &self.balancers
    }

    /// The routes of this cloud.
    pub(crate) fn routes(&self) -> &Routes {
        &self.routes
    }

    /// `cloud …`: see `README.md`.
    pub(crate) fn apply(&self, line: &Line) -> Result<(), String> {
        let mut answers = self.answers.lock().unwrap();
        match line.word(1)? {
            "works" => answers.error = None,
            "honest" => answers.lie = None,
            "lies" => answers.lie = Some(Lie::read(line)?),
            "fails" => answers.error = Some(error(line, 2)?),
            "takes" => answers.late = seconds(line.word(2)?)?,
            name => {
                let lookup = match line.word(2)? {
                    "gone" => Lookup::Gone,
                    "not-mine" => Lookup::NotMine,
                    "unknown" => Lookup::Unknown(line.rest(3)),
                    _ => Lookup::Found(Box::new(instance(line)?)),
                };
                answers.truth.push(Truth {
                    at: Instant::now(),
                    node: name.to_owned(),
                    lookup,
                });
            }
        }
        Ok(())
    }

    /// From now on the call with this number has this fault.
    pub(crate) fn disturb(&self, fault: CallFault, number: usize) {
        self.answers.lock().unwrap().fault = Some((fault, number));
    }

    /// The same cloud, called by the process with this number and life.
    pub(crate) fn called_by(&self, life: Option<Life>, process: usize) -> ScriptedCloud {
        ScriptedCloud {
            life,
            balancers: self.balancers.called_by(process),
            routes: self.routes.called_by(process),
            ..self.clone()
        }
    }

    /// Number of calls so far, of this cloud and those beside it.
    pub(crate) fn made(&self) -> usize {
        self.made.load(Ordering::Relaxed)
    }

    /// The number of the next call.
    fn next_call(&self) -> usize {
        self.made.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Every answer about every node.
    pub(crate) fn answered(&self) -> Vec<Answered> {
        self.answers.lock().unwrap().answered.clone()
    }

    /// All true states with their times, in order.
    pub(crate) fn truth(&self) -> Vec<Truth> {
        self.answers.lock().unwrap().truth.clone()
    }

    /// How many nodes each call was about, since this function was called last.
    pub(crate) fn calls(&self) -> Vec<usize> {
        std::mem::take(&mut self.answers.lock().unwrap().calls)
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
        Box::pin(self.call(ask, permit).map_ok(|reported| EnsureReply {
            ensured: match reported.pending {
                Some(pending) => Ensured::Pending(pending),
                None => Ensured::Ready(reported.status.unwrap_or_default()),
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
        Box::pin(self.call(ask, permit).map_ok(|reported| GetReply {
            found: reported.status.map_or(Found::Absent, Found::Present),
            complete: reported.complete,
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
    /// One look-up, as the cloud carries it out.
    async fn answer(self, asked: Vec<Asked>, is_fresh: bool) -> Result<FindReply, ProviderError> {
        let number = self.next_call();
        let (fault, honest, late) = {
            let mut answers = self.answers.lock().unwrap();
            answers.calls.push(asked.len());
            let honest = answers.scripted(&asked, is_fresh, number);
            (answers.fault(number), honest, answers.late)
        };
        tokio::time::sleep(late).await;
        let reply = disturbed(honest, fault).await;
        if let Ok(reply) = &reply {
            self.answers
                .lock()
                .unwrap()
                .note(&asked, reply, is_fresh, number);
        }
        reply
    }

    fn progress(&self, ask: Ask, permit: Arc<Permit>) -> Reply<'static, ProgressReply> {
        let (events, annotations) = self.besides(&ask.service);
        Box::pin(self.call(ask, permit).map_ok(|reported| ProgressReply {
            progress: reported.pending.map_or(Progress::Done, Progress::Pending),
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

    /// The fault of the call that begins now.
    fn next_fault(&self) -> Option<CallFault> {
        let number = self.next_call();
        self.answers.lock().unwrap().fault(number)
    }

    /// A call of the process, which the call may kill.
    fn effect<T: Send + 'static>(
        &self,
        call: impl Future<Output = Result<T, ProviderError>> + Send + 'static,
    ) -> Reply<'static, T> {
        match self.life.clone() {
            Some(life) => Box::pin(async move { life.effect(Act::Call, call).await }),
            None => Box::pin(call),
        }
    }

    /// The machines that exist, each with its addresses.
    fn machines(&self) -> Vec<Machine> {
        let answers = self.answers.lock().unwrap();
        let mut machines = BTreeMap::new();
        for one in &answers.truth {
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

fn names(nodes: &[Arc<CloudNode>]) -> BTreeSet<String> {
    nodes.iter().map(|node| node.name.clone()).collect()
}

impl Answers {
    /// The fault of the call with this number.
    fn fault(&self, call: usize) -> Option<CallFault> {
        let (fault, _) = self.fault.filter(|(_, number)| *number == call)?;
        Some(fault)
    }

    /// The answer by the script: the truth, or the lie.
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
