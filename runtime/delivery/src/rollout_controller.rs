//! Rollout controller of one provider: performs the effects that `core::rollout` decides. Fetches, verifies and loads
//! modules, activates them and has the record written. Decides nothing itself, and keeps no state of the versions
//! beside the facts: only the code of the generations that they name. Never waits for another provider.
//!
//! ```text
//! source ─(watcher)─► facts ──decide──► effects ─┬─ work: one task at a time (examine, compile, self-test, plan, ask)
//! record, orders, lead, policies ──► facts       ├─ facts ──roles──► Active: who answers calls, immediately
//!                                                └─ status writer: record, completed orders, Events; never awaited
//! ```

mod clock;
mod failure_cause;
mod perform;
mod record_writer;
pub(crate) mod roles;
mod self_check;
mod source_watcher;
mod version_work;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ccm_core::rollout::{
    Loaded, Record, Role, RolloutDecision, RolloutEffect, RolloutFacts, RolloutRules, decide,
};
use ccm_core::safety::permit::Mode;
use ccm_core::safety::tenure::Tenure;
use ccm_host::{Host, Inspection, Provider};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinError, JoinSet};

use crate::active::{Active, Generation};
use crate::artifact::Artifact;
use crate::load_policy::LoadPolicyOf;
use crate::metrics::Metrics;
use crate::record::{Inherited, RecordStore, Specification, StoredRecord, acts_otherwise};
use crate::source::{Source, SourceErrorKind};
use crate::store::ModuleStore;
use crate::trust::TrustPolicy;
use clock::Clock;
use record_writer::RecordWriter;
pub use record_writer::{UnwrittenRecord, UnwrittenRecords};
use self_check::Check;
use source_watcher::{SourceReport, SourceWatcher};
use version_work::{Ended, Resources};

/// The right to decide, valid for one tenure.
#[derive(Debug, Clone)]
pub struct Lead {
    /// The tenure under which every trial call is made.
    pub tenure: Arc<Tenure>,
}

/// The state that the rollout controller offers to the provider controllers.
pub enum Served<P = Provider> {
    /// Nothing serves yet, and no failure is known.
    Starting,
    /// Nothing serves because of a failure.
    Failed {
        /// The reason, for people.
        why: String,
        /// Whether a person has to change something before this can end.
        is_final: bool,
    },
    /// This provider answers calls. A different `Active` means a different shape: the provider controllers must restart
    /// with it.
    Serving(Arc<Active<P>>),
}

impl<P> Served<P> {
    /// The provider that answers calls, if one does.
    pub fn active(&self) -> Option<Arc<Active<P>>> {
        match self {
            Served::Serving(active) => Some(active.clone()),
            Served::Starting | Served::Failed { .. } => None,
        }
    }
}

/// What a [`RolloutController`] consists of.
pub struct RolloutControllerParts {
    /// Name of the configuration entry, which is also the recorded owner.
    pub name: String,
    /// Loads modules; shared by all providers.
    pub host: Arc<Host>,
    /// The source at first.
    pub source: Box<dyn Source>,
    /// Modules stored on this machine.
    pub store: Arc<ModuleStore>,
    /// What it is told.
    pub inputs: RolloutInputs,
    /// Metrics of all providers.
    pub metrics: Metrics,
    /// Speed of the rollout clock: seconds that pass on it per real second. 1 except in demonstrations.
    pub pace: u32,
}

/// The policies by which modules are judged.
#[derive(Clone)]
pub struct Policies {
    /// Trust policy: whose signatures are accepted for a module.
    pub trust: Arc<TrustPolicy>,
    /// Load policy under which modules are loaded.
    pub load_policy: Arc<dyn LoadPolicyOf>,
}

/// Another source, other policies, or both at once: the policies for one source never judge what another one offered.
pub struct Reconfiguration {
    /// Replaces the source. `None`: it stays.
    pub source: Option<Box<dyn Source>>,
    /// Replaces the policies, and has the version that serves loaded again. `None`: they stay.
    pub policies: Option<Policies>,
}

/// What a [`RolloutController`] is told from outside, most of which changes over time.
pub struct RolloutInputs {
    /// The policies that apply now.
    pub policies: Policies,
    /// Changes of the source and the policies.
    pub reconfigurations: mpsc::UnboundedReceiver<Reconfiguration>,
    /// Rules for trying new versions.
    pub rules: watch::Receiver<RolloutRules>,
    /// Additional notice for people, such as a bad edit of the configuration; empty if there is none.
    pub notice: watch::Receiver<String>,
    /// Whether the spec of the provider's object is used, for people.
    pub specification: watch::Receiver<Specification>,
    /// Where the record is stored.
    pub record_store: Arc<dyn RecordStore>,
    /// Counts the record among those of all providers until it is written.
    pub unwritten: UnwrittenRecords,
    /// `Some` while this process leads.
    pub lead: watch::Receiver<Option<Lead>>,
    /// In any mode but [`Mode::Enforce`] the controller acts as a follower: it tries nothing and writes nothing.
    pub mode: Mode,
}

/// Manages the versions of one provider.
pub struct RolloutController {
    name: String,
    resources: Arc<Resources>,
    clock: Clock,
    facts: RolloutFacts,
    inputs: RolloutInputs,
    /// What the record store holds.
    seen: watch::Receiver<StoredRecord>,
    /// The record that was seen last in the store, since this process's own has changed.
    seen_record: Option<Box<Record>>,
    source_watcher: SourceWatcher,
    record_writer: RecordWriter,
    metrics: Metrics,
    served: watch::Sender<Served>,
    /// The location of the source.
    place: String,
    /// The artifact that the source offered last.
    offered: Option<Arc<Artifact>>,
    /// The generations of the loaded versions in the facts, by their number.
    generations: BTreeMap<u64, Generated>,
    /// The task of the one work in progress.
    works: JoinSet<Ended>,
    check: Check,
    info: Option<[(&'static str, String); 4]>,
}

/// A generation and the inspection (manifest, imports, exports) of its module.
#[derive(Clone)]
struct Generated {
    generation: Arc<Generation>,
    inspection: Arc<Inspection>,
}

impl RolloutController {
    /// Creates a controller to which nothing has been offered yet.
    pub fn new(parts: RolloutControllerParts) -> RolloutController {
        let RolloutControllerParts {
            name,
            host,
            source,
            store,
            inputs,
            metrics,
            pace,
        } = parts;
        let resources = Resources {
            name: name.clone(),
            host,
            store,
            metrics: metrics.clone(),
        };
        let facts = RolloutFacts {
            rules: *inputs.rules.borrow(),
            notice: inputs.notice.borrow().clone(),
            ..RolloutFacts::default()
        };
        RolloutController {
            resources: Arc::new(resources),
            clock: Clock::start(pace),
            facts,
            record_writer: RecordWriter::start(
                name.clone(),
                inputs.record_store.clone(),
                inputs.unwritten.clone(),
            ),
            seen: inputs.record_store.seen(),
            inputs,
            seen_record: None,
            place: source.place().to_owned(),
            source_watcher: SourceWatcher::start(&name, source),
            metrics,
            served: watch::Sender::new(Served::Starting),
            offered: None,
            generations: BTreeMap::new(),
            works: JoinSet::new(),
            check: Check::due(),
            info: None,
            name,
        }
    }

    /// Subscribes to what currently serves.
    pub fn served(&self) -> watch::Receiver<Served> {
        self.served.subscribe()
    }

    /// Runs until the future is dropped. A panic of its tasks is one of its own.
    pub async fn run(mut self) {
        self.look();
        loop {
            let wake = self.settle();
            let check = self.check();
            self.show();
            self.wait(wake.into_iter().chain(check).min()).await;
        }
    }

    /// Decides and performs until nothing is left to do; returns the delay until the next decision, if any.
    fn settle(&mut self) -> Option<Duration> {
        loop {
            let now = self.clock.now();
            if let Some(active) = self.active() {
                self.facts.tally = active.tally();
            }
            match decide(&self.facts, now) {
                RolloutDecision::Do(effects) => {
                    for effect in effects {
                        self.perform(&effect);
                        self.facts.performed(&effect, now);
                        self.assign_roles();
                    }
                }
                RolloutDecision::Wait(moment) => {
                    let facts = &self.facts;
                    self.generations
                        .retain(|number, _| facts.generations().any(|used| used == *number));
                    return moment.map(|moment| self.clock.timer(now.moment.until(moment)));
                }
            }
        }
    }

    /// Has calls answered as the facts say.
    fn assign_roles(&self) {
        let generation = |loaded: &Loaded| Some(self.generated(loaded)?.generation.clone());
        if let Err(error) = roles::assign(&self.name, &self.facts, generation, &self.served) {
            tracing::error!(target: "rollout", provider = %self.name, %error, "calls are answered as before");
        }
    }

    /// The provider that answers calls, if one does.
    fn active(&self) -> Option<Arc<Active>> {
        self.served.borrow().active()
    }

    /// The generation of a loaded version.
    fn generated(&self, loaded: &Loaded) -> Option<&Generated> {
        self.generations.get(&loaded.generation)
    }

    /// Waits for the next input, result or wake-up, and handles it.
    async fn wait(&mut self, wake: Option<Duration>) {
        let tried = self.active().filter(|_| self.facts.candidate.is_some());
        let inputs = &mut self.inputs;
        let tallied = async {
            match &tried {
                Some(active) => active.tally_changed().await,
                None => std::future::pending().await,
            }
        };
        let alarm = async {
            match wake {
                Some(wake) => tokio::time::sleep(wake).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = changed(&mut inputs.lead) => self.lead_changed().await,
            () = changed(&mut self.seen) => self.seen_changed(),
            Some(change) = inputs.reconfigurations.recv() => self.reconfigure(change),
            () = changed(&mut inputs.rules) => self.facts.rules = *self.inputs.rules.borrow(),
            () = changed(&mut inputs.notice) => self.notice(),
            // The next report contains it, too.
            () = changed(&mut inputs.specification) => self.notice(),
            Some(report) = self.source_watcher.next() => self.absorb_source_report(report),
            Some(ended) = self.record_writer.tasks.join_next() => pass_on(ended),
            Some(ended) = self.works.join_next() => self.work_ended(ended),
            Some(Ok((generation, end))) = self.check.asked.join_next() => self.check_ended(generation, end),
            () = tallied => {}
            () = alarm => {}
        }
    }

    /// Marks inputs as changed whose initial values have not been handled yet.
    fn look(&mut self) {
        self.inputs.lead.mark_changed();
        self.seen.mark_changed();
    }

    async fn lead_changed(&mut self) {
        self.check.is_led_by(self.inputs.lead.borrow().as_ref());
        let leads = self.inputs.mode == Mode::Enforce && self.inputs.lead.borrow().is_some();
        if !leads {
            self.facts.follows();
            self.record_writer.stop_writing();
            return;
        }
        if self.facts.role == Role::Leader {
            return;
        }
        // The watched record may still miss what the previous leader wrote last, so it is read directly.
        match self.inputs.record_store.read().await {
            Ok(StoredRecord::Known { record, orders }) => {
                self.facts.ordered(orders);
                self.facts.leads(record.map(|record| *record));
                // What was read contains it.
                drop(self.inputs.record_store.inherited());
            }
            Ok(StoredRecord::Unknown(why)) => self.read_later(&why).await,
            Err(error) => self.read_later(&error.to_string()).await,
        }
    }

    async fn read_later(&mut self, why: &str) {
        tracing::warn!(target: "rollout", provider = %self.name, why, "the record cannot be read; nothing is decided before");
        tokio::time::sleep(READ_AGAIN).await;
        self.inputs.lead.mark_changed();
    }

    fn seen_changed(&mut self) {
        let seen = self.seen.borrow().clone();
        let StoredRecord::Known { record, orders } = seen else {
            return;
        };
        if let Some(Inherited { record, prevails }) = self.inputs.record_store.inherited() {
            match prevails {
                true => self.facts.gives_way_to(*record),
                false => self.facts.inherits(&record),
            }
        }
        let leads = self.facts.role == Role::Leader;
        let is_lost = leads && record.is_none();
        // Another one than before and than this process's own: set back, as by a restored backup, or one whose successor
        // is under way, for which another write changes nothing. If the same is seen again, the store keeps no more.
        let is_new = self.seen_record != record;
        let own = self.facts.record.as_ref().filter(|_| leads && is_new);
        let is_set_back = own
            .zip(record.as_deref())
            .is_some_and(|(own, stored)| acts_otherwise(own, stored));
        self.seen_record.clone_from(&record);
        let is_ordered = self.facts.orders != orders;
        self.facts.read(record.map(|record| *record));
        self.facts.ordered(orders);
        // The record was deleted or set back, or none was ever written. The state in the status also depends on the orders.
        if is_lost || is_set_back || is_ordered {
            self.record_writer.force_rewrite();
        }
    }

    fn notice(&mut self) {
        let notice = self.inputs.notice.borrow().clone();
        let of_spec = self.inputs.specification.borrow().trouble().to_owned();
        let problems = [notice, self.check.problem.clone(), of_spec];
        let problems: Vec<String> = problems
            .into_iter()
            .filter(|text| !text.is_empty())
            .collect();
        self.facts.notice = problems.join("; ");
    }

    fn reconfigure(&mut self, change: Reconfiguration) {
        if let Some(policies) = change.policies {
            self.inputs.policies = policies;
            self.facts.policy_changed();
        }
        if let Some(source) = change.source {
            self.place = source.place().to_owned();
            // Reports of the former source that are still to come are dropped with its watcher.
            self.source_watcher = SourceWatcher::start(&self.name, source);
            // What the operator requires of this source says nothing about bytes of the former one. What is being judged may
            // be pinned by the former location, and would ask the former source.
            self.offered = None;
            self.perform(&RolloutEffect::Abandon);
            let now = self.clock.now();
            self.facts.performed(&RolloutEffect::Abandon, now);
            self.facts.unoffered("", true);
        }
    }

    fn absorb_source_report(&mut self, report: SourceReport) {
        match report {
            SourceReport::Offered(artifact) => {
                let digest = artifact.digest;
                tracing::info!(target: "rollout", provider = %self.name, %digest, origin = %artifact.origin, "a module is offered");
                let release = version_work::release(&artifact, "");
                self.facts.offered(release, self.clock.now());
                self.offered = Some(artifact);
            }
            SourceReport::Failed(error) => {
                tracing::warn!(target: "rollout", provider = %self.name, %error, "the source offers nothing");
                let is_withdrawn = matches!(
                    error.kind,
                    SourceErrorKind::Absent | SourceErrorKind::Refused(_)
                );
                self.facts.unoffered(&error.to_string(), is_withdrawn);
            }
        }
    }
}

impl Drop for RolloutController {
    fn drop(&mut self) {
        if let Some(info) = &self.info {
            self.metrics.gone(info);
        }
    }
}

/// Completes when the value changes. Never completes once the sender is dropped.
async fn changed<T>(receiver: &mut watch::Receiver<T>) {
    if receiver.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Goes on with the panic of a task that has ended by one.
fn pass_on(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && let Ok(panic) = error.try_into_panic()
    {
        std::panic::resume_unwind(panic);
    }
}

/// Delay before a new leader retries reading the record.
const READ_AGAIN: Duration = Duration::from_secs(1);
