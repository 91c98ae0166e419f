//! Performs what `core::rollout` decides for one provider: gets modules, has them vouched for and loaded, puts them in
//! their place, and has it written down. Decides nothing itself, and never waits for another provider.
//!
//! ```text
//! source ─(feed)─► facts ──decide──► effects ─┬─ work: one task at a time (examine, compile, self-test, plan, ask)
//! book, orders, lead, terms ──► facts         ├─ Active: shadow, canary, replace, end of a trial: at once
//!                                             └─ pen: record, orders that are done, Events; never waited for
//! ```

mod clock;
mod fault_attribution;
mod not_serving;
mod perform;
mod self_check;
mod source_watcher;
mod status_writer;
mod work;

use std::sync::Arc;
use std::time::Duration;

use ccm_core::permit::Mode;
use ccm_core::rollout::{Decision, Facts, Role, RolloutRules, decide};
use ccm_core::tenure::Tenure;
use ccm_host::{Host, Inspection};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::active::{Active, Generation};
use crate::artifact::Artifact;
use crate::load_policy::LoadPolicyOf;
use crate::metrics::Metrics;
use crate::record::{RecordStore, Seen};
use crate::source::{Source, SourceError};
use crate::store::ModuleStore;
use crate::trust::TrustPolicy;
use clock::Clock;
use self_check::Check;
use source_watcher::{Fed, SourceWatcher};
use status_writer::StatusWriter;
use work::{Ended, Resources};

/// The right to decide, as long as the tenure lasts.
#[derive(Debug, Clone)]
pub struct Lead {
    /// What every call on trial is made in.
    pub tenure: Arc<Tenure>,
}

/// What a stage has to show.
#[derive(Clone)]
pub enum Served {
    /// Nothing serves yet, and nothing is known that stands against it.
    Starting,
    /// Nothing serves.
    Failed {
        /// Why, for people.
        why: String,
        /// Whether a person has to change something first.
        is_final: bool,
    },
    /// This answers calls. Another value: controllers have to begin anew with it, because its shape is another one.
    Serving(Arc<Active>),
}

/// What a stage is made of.
pub struct StageParts {
    /// The entry's name, which is the recorded owner.
    pub name: String,
    /// Loads modules; one for all providers.
    pub host: Arc<Host>,
    /// The first is the source; each further one takes its place.
    pub sources: mpsc::Receiver<Box<dyn Source>>,
    /// The modules on this machine.
    pub store: Arc<ModuleStore>,
    /// Who may vouch for a module.
    pub trust: watch::Receiver<Arc<TrustPolicy>>,
    /// On which terms modules are loaded.
    pub terms: watch::Receiver<Arc<dyn LoadPolicyOf>>,
    /// How new versions are tried.
    pub rules: watch::Receiver<RolloutRules>,
    /// What else people should know, such as a bad edit of the configuration; empty: nothing.
    pub notice: watch::Receiver<String>,
    /// Where the record is kept.
    pub store_of_record: Arc<dyn RecordStore>,
    /// Whether this process leads.
    pub lead: watch::Receiver<Option<Lead>>,
    /// Outside of [`Mode::Enforce`] nothing is tried and nothing written, as if somebody else led.
    pub mode: Mode,
    /// What is measured.
    pub metrics: Metrics,
    /// How many seconds of a rollout's clock go by in one: 1, but in demonstrations.
    pub pace: u32,
}

/// One provider's versions. See the module's documentation.
pub struct RolloutController {
    name: String,
    resources: Arc<Resources>,
    clock: Clock,
    facts: Facts,
    inputs: Inputs,
    source_watcher: SourceWatcher,
    status_writer: StatusWriter,
    metrics: Metrics,
    served: watch::Sender<Served>,
    active: Option<Arc<Active>>,
    /// What was brought last.
    offered: Option<Arc<Artifact>>,
    /// What is loaded and does not serve yet.
    ready: Option<Generated>,
    /// What the version that serves says about itself.
    serving: Option<Arc<Inspection>>,
    /// The one work under way.
    works: JoinSet<Ended>,
    check: Check,
    info: Option<[(&'static str, String); 4]>,
}

/// A generation, and what its module says about itself.
#[derive(Clone)]
struct Generated {
    generation: Arc<Generation>,
    inspection: Arc<Inspection>,
}

/// What changes from outside.
struct Inputs {
    store_of_record: Arc<dyn RecordStore>,
    seen: watch::Receiver<Seen>,
    trust: watch::Receiver<Arc<TrustPolicy>>,
    terms: watch::Receiver<Arc<dyn LoadPolicyOf>>,
    rules: watch::Receiver<RolloutRules>,
    notice: watch::Receiver<String>,
    lead: watch::Receiver<Option<Lead>>,
    mode: Mode,
}

impl RolloutController {
    /// A stage on which nothing has happened yet.
    pub fn new(parts: StageParts) -> RolloutController {
        let StageParts {
            name,
            host,
            sources,
            store,
            trust,
            terms,
            rules,
            notice,
            store_of_record,
            lead,
            mode,
            metrics,
            pace,
        } = parts;
        let source_watcher = SourceWatcher::start(sources);
        let resources = Resources {
            name: name.clone(),
            host,
            store,
            again: source_watcher.again(),
            metrics: metrics.clone(),
            place: Default::default(),
        };
        let facts = Facts {
            rules: *rules.borrow(),
            notice: notice.borrow().clone(),
            ..Facts::default()
        };
        RolloutController {
            resources: Arc::new(resources),
            clock: Clock::start(pace),
            facts,
            status_writer: StatusWriter::start(name.clone(), store_of_record.clone()),
            inputs: Inputs {
                seen: store_of_record.seen(),
                store_of_record,
                trust,
                terms,
                rules,
                notice,
                lead,
                mode,
            },
            source_watcher,
            metrics,
            served: watch::Sender::new(Served::Starting),
            active: None,
            offered: None,
            ready: None,
            serving: None,
            works: JoinSet::new(),
            check: Check::due(),
            info: None,
            name,
        }
    }

    /// What there is to serve.
    pub fn served(&self) -> watch::Receiver<Served> {
        self.served.subscribe()
    }

    /// Plays until it is dropped.
    pub async fn run(mut self) {
        self.look();
        loop {
            let wake = self.settle();
            let check = self.check();
            self.show();
            self.wait(wake.into_iter().chain(check).min()).await;
        }
    }

    /// Decides and performs until there is nothing to do, and says when to look again.
    fn settle(&mut self) -> Option<Duration> {
        loop {
            let now = self.clock.now();
            if let Some(active) = &self.active {
                self.facts.tally = active.tally();
            }
            match decide(&self.facts, now) {
                Decision::Do(effects) => {
                    for effect in effects {
                        self.perform(&effect);
                        self.facts.performed(&effect, now);
                    }
                }
                Decision::Wait(moment) => {
                    return moment.map(|moment| self.clock.timer(now.moment.until(moment)));
                }
            }
        }
    }

    /// Until something happens.
    async fn wait(&mut self, wake: Option<Duration>) {
        let inputs = &mut self.inputs;
        let is_trying = self.facts.candidate.is_some();
        let tallied = async {
            match &self.active {
                Some(active) if is_trying => active.tally_changed().await,
                _ => std::future::pending().await,
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
            () = changed(&mut inputs.seen) => self.seen_changed(),
            () = changed(&mut inputs.trust) => self.facts.changed_terms(),
            () = changed(&mut inputs.terms) => self.facts.changed_terms(),
            () = changed(&mut inputs.rules) => self.facts.rules = *self.inputs.rules.borrow(),
            () = changed(&mut inputs.notice) => self.notice(),
            Some(fed) = self.source_watcher.next() => self.fed(fed),
            Some(ended) = self.works.join_next() => self.work_ended(ended),
            Some(Ok((digest, said))) = self.check.asked.join_next() => self.check_ended(&digest, said),
            () = tallied => {}
            () = alarm => {}
        }
    }

    /// Looks at everything once that may have been there before.
    fn look(&mut self) {
        self.inputs.lead.mark_changed();
        self.inputs.seen.mark_changed();
    }

    async fn lead_changed(&mut self) {
        let leads = self.inputs.mode == Mode::Enforce && self.inputs.lead.borrow().is_some();
        if !leads {
            self.facts.follows();
            self.status_writer.rests();
            return;
        }
        if self.facts.role == Role::Leader {
            return;
        }
        // What the last leader wrote a moment ago may not have come here yet.
        match self.inputs.store_of_record.read().await {
            Ok(Seen::Known { record, orders }) => {
                self.facts.ordered(orders);
                self.facts.leads(record.map(|record| *record));
            }
            Ok(Seen::Unknown(why)) => self.read_later(&why).await,
            Err(error) => self.read_later(&error.to_string()).await,
        }
    }

    async fn read_later(&mut self, why: &str) {
        tracing::warn!(target: "rollout", provider = %self.name, why, "the record cannot be read; nothing is decided before");
        tokio::time::sleep(READ_AGAIN).await;
        self.inputs.lead.mark_changed();
    }

    fn seen_changed(&mut self) {
        let seen = self.inputs.seen.borrow().clone();
        let Seen::Known { record, orders } = seen else {
            return;
        };
        if let Some(before) = self.inputs.store_of_record.inherited() {
            self.facts.inherits(&before);
        }
        let is_lost = record.is_none() && self.facts.role == Role::Leader;
        let is_ordered = self.facts.orders != orders;
        self.facts.read(record.map(|record| *record));
        self.facts.ordered(orders);
        // Somebody has deleted it, or nothing was ever written. The state that is shown depends on the orders, too.
        if is_lost || is_ordered {
            self.status_writer.writes_anew();
        }
    }

    fn notice(&mut self) {
        let notice = self.inputs.notice.borrow().clone();
        let said = [notice, self.check.said.clone()];
        let said: Vec<String> = said.into_iter().filter(|text| !text.is_empty()).collect();
        self.facts.notice = said.join("; ");
    }

    fn fed(&mut self, fed: Fed) {
        let now = self.clock.now();
        match fed {
            Fed::Place(place) => {
                tracing::info!(target: "rollout", provider = %self.name, source = %place, "watching the source");
                self.resources.at(&place);
                // What another source offered is not offered any more.
                self.facts.unoffered("", true);
            }
            Fed::Offered(artifact) => {
                let digest = artifact.digest;
                tracing::info!(target: "rollout", provider = %self.name, %digest, origin = %artifact.origin, "a module is offered");
                self.facts.offered(work::release(&artifact, ""), now);
                self.offered = Some(artifact);
            }
            Fed::Trouble(error) => {
                tracing::warn!(target: "rollout", provider = %self.name, %error, "the source offers nothing");
                let is_withdrawn = matches!(
                    error,
                    SourceError::Absent { .. } | SourceError::Refused { .. }
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

/// Ends when there is something new. A sender that is gone says nothing any more.
async fn changed<T>(receiver: &mut watch::Receiver<T>) {
    if receiver.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// How long a new leader waits before it asks again for what is written down.
const READ_AGAIN: Duration = Duration::from_secs(1);
