//! The set-up of these tests: a rollout controller, and what surrounds it.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ccm_core::cloud::{CloudNode, ProviderError, Readiness};
use ccm_core::cloud_provider::CloudProvider as _;
use ccm_core::rollout::{Orders, Record, Release, RolloutRules};
use ccm_core::safety::permit::{Mode, Permit};
use ccm_core::safety::tenure::Tenure;
use ccm_delivery::active::Active;
use ccm_delivery::artifact::{Artifact, SignatureEvidence};
use ccm_delivery::load_policy::LoadPolicyOf;
use ccm_delivery::metrics::Metrics;
use ccm_delivery::record::{MemoryRecordStore, RecordStore as _, Specification, StoredRecord};
use ccm_delivery::rollout_controller::{
    Lead, Policies, Reconfiguration, RolloutController, RolloutControllerParts, RolloutInputs,
    Served,
};
use ccm_delivery::source::{Brought, Source, SourceError};
use ccm_delivery::store::ModuleStore;
use ccm_delivery::trust::{PublicKey, TrustPolicy};
use ccm_fixtures::TOKEN;
use ccm_host::grant::{Credential, Secret};
use ccm_host::{GuestConfig, Inspection, Loading};
use prometheus_client::registry::Registry;
use rcgen::{KeyPair, SigningKey as _};
use serde_json::json;
use test_guests::Version;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::host::HOST;
use crate::permits::reads_for;

/// Timeout of a test's waits, longer than a busy machine needs, where all tests share one compiler. Only a failing test
/// waits that long.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(180);
/// A rollout of a minute and a half takes a second.
const PACE: u32 = 100;
/// The address of the scripted source.
pub(crate) const PLACE: &str = "configmap://kube-system/provider/provider.wasm";

/// Runs a test to its end on a runtime of its own.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(future)
}

/// A version of the misbehaving guest, as a source delivers it.
pub(crate) fn module(version: &str, behaviour: &str) -> Artifact {
    artifact(Version {
        version: Some(version),
        behaviour: Some(behaviour),
        is_wider: false,
    })
}

/// A version that requests more.
pub(crate) fn wider(version: &str) -> Artifact {
    artifact(Version {
        version: Some(version),
        behaviour: Some("honest"),
        is_wider: true,
    })
}

fn artifact(version: Version<'_>) -> Artifact {
    Artifact::new(PLACE, test_guests::misbehaving(version))
}

/// The artifact with a signature of this key, in the form that cosign leaves in a registry.
pub(crate) fn signed(key: &KeyPair, artifact: Artifact) -> Artifact {
    let manifest = artifact.digest.to_string();
    let payload = json!({"critical": {
        "type": "cosign container image signature",
        "image": {"docker-manifest-digest": manifest},
        "identity": {"docker-reference": "registry.example/provider"},
    }});
    let payload = payload.to_string().into_bytes();
    let signature = key.sign(&payload).unwrap();
    let evidence = SignatureEvidence::SimpleSigning {
        payload,
        signature,
        certificate: None,
        chain: None,
        log_entry: None,
        time_stamp: None,
    };
    Artifact {
        manifest_digest: Some(manifest),
        evidence: vec![evidence],
        ..artifact
    }
}

/// A trust policy that accepts this key alone.
pub(crate) fn trusting(key: &KeyPair) -> TrustPolicy {
    TrustPolicy {
        keys: vec![PublicKey::from_pem(&key.public_key_pem()).unwrap()],
        ..TrustPolicy::default()
    }
}

/// A source that delivers the artifacts of the test.
struct Scripted {
    place: &'static str,
    offers: mpsc::UnboundedReceiver<Result<Artifact, SourceError>>,
    has_lost: bool,
    found: Arc<Mutex<Result<Artifact, u32>>>,
}

impl Source for Scripted {
    fn next(&mut self) -> Brought<'_> {
        Box::pin(async {
            match self.offers.recv().await {
                Some(offer) => offer,
                None => std::future::pending().await,
            }
        })
    }

    fn again<'a>(&'a self, _: &'a Release) -> Brought<'a> {
        Box::pin(async {
            let mut found = self.found.lock().unwrap();
            let found = found.as_mut().map_err(|times| *times += 1);
            found.cloned().map_err(|()| match self.has_lost {
                true => SourceError::absent(self.place, "it is nowhere"),
                false => SourceError::unavailable(self.place, "it is down"),
            })
        })
    }

    fn place(&self) -> &str {
        self.place
    }
}

/// The load policy of these tests: every request granted, with a behaviour that most of these modules have built in.
#[derive(Default)]
struct Granting {
    /// The missing grants, if any: then there is no load policy.
    missing: Vec<String>,
    is_narrow: bool,
}

impl LoadPolicyOf for Granting {
    fn load_policy(&self, inspection: &Inspection) -> Result<Loading, Vec<String>> {
        if !self.missing.is_empty() {
            return Err(self.missing.clone());
        }
        let mut grants = inspection.manifest.as_grants();
        for target in &mut grants.targets {
            target.credential = Credential::Bearer(Secret::new(TOKEN.to_owned()));
        }
        if self.is_narrow {
            grants.targets.clear();
        }
        let values = [("behaviour".to_owned(), "honest".to_owned())];
        Ok(Loading {
            grants,
            config: GuestConfig {
                schemes: Vec::new(),
                cluster_name: "kubernetes".to_owned(),
                cluster_cidrs: Vec::new(),
                values: values.into_iter().collect(),
            },
            ..Loading::default()
        })
    }
}

/// A running rollout controller, and what surrounds it.
pub(crate) struct World {
    reconfigurations: mpsc::UnboundedSender<Reconfiguration>,
    /// Those that it was told last.
    policies: Mutex<Policies>,
    offers: mpsc::UnboundedSender<Result<Artifact, SourceError>>,
    /// What the source has beside its offers, or how many times it was asked in vain.
    pub(crate) found: Arc<Mutex<Result<Artifact, u32>>>,
    pub(crate) record_store: Arc<MemoryRecordStore>,
    lead: watch::Sender<Option<Lead>>,
    pub(crate) specification: watch::Sender<Specification>,
    pub(crate) served: watch::Receiver<Served>,
    pub(crate) metrics: Registry,
    controller: JoinHandle<()>,
    callers: Vec<JoinHandle<()>>,
    /// The errors of the calls that failed.
    pub(crate) failed: Arc<Mutex<Vec<ProviderError>>>,
}

/// The initial state of a world.
pub(crate) struct Start<'a> {
    /// The address of the source.
    pub(crate) place: &'static str,
    pub(crate) folder: Option<&'a Path>,
    pub(crate) leads: bool,
    pub(crate) mode: Mode,
    pub(crate) trust: TrustPolicy,
    /// The record of another process, if there was one.
    pub(crate) record_store: Option<Arc<MemoryRecordStore>>,
    /// The load policy, if the guest is another one.
    pub(crate) load_policy: Option<Arc<dyn LoadPolicyOf>>,
    /// Whether the source has lost all versions but the offered one.
    pub(crate) has_lost: bool,
    pub(crate) rules: RolloutRules,
}

impl Default for Start<'_> {
    fn default() -> Self {
        Start {
            place: PLACE,
            folder: None,
            leads: true,
            mode: Mode::Enforce,
            trust: TrustPolicy {
                allows_unsigned: true,
                ..TrustPolicy::default()
            },
            record_store: None,
            load_policy: None,
            has_lost: false,
            rules: RolloutRules::default(),
        }
    }
}

impl World {
    pub(crate) fn start(start: Start<'_>) -> World {
        let Start {
            place,
            folder,
            leads,
            mode,
            trust,
            record_store,
            load_policy,
            has_lost,
            rules,
        } = start;
        let own = || match folder {
            Some(folder) => MemoryRecordStore::kept_in(folder, "cloud"),
            None => MemoryRecordStore::new(),
        };
        let record_store = record_store.unwrap_or_else(|| Arc::new(own()));
        let store = folder.map(|folder| folder.join("modules"));
        let (offers, offered) = mpsc::unbounded_channel();
        let (reconfigurations, reconfigured) = mpsc::unbounded_channel();
        let found = Arc::new(Mutex::new(Err(0)));
        let scripted = Scripted {
            place,
            offers: offered,
            has_lost,
            found: Arc::clone(&found),
        };
        let load_policy = load_policy.unwrap_or_else(|| Arc::new(Granting::default()));
        let policies = Policies {
            trust: Arc::new(trust),
            load_policy,
        };
        let lead = watch::Sender::new(leads.then(lead));
        let specification = watch::Sender::default();
        let mut metrics = Registry::default();
        let controller = RolloutController::new(RolloutControllerParts {
            name: "cloud".to_owned(),
            host: HOST.clone(),
            source: Box::new(scripted),
            store: Arc::new(ModuleStore::open(store).unwrap()),
            inputs: RolloutInputs {
                policies: policies.clone(),
                reconfigurations: reconfigured,
                rules: watch::Sender::new(rules).subscribe(),
                notice: watch::Sender::new(String::new()).subscribe(),
                specification: specification.subscribe(),
                record_store: record_store.clone(),
                unwritten: Default::default(),
                lead: lead.subscribe(),
                mode,
            },
            metrics: Metrics::register(&mut metrics),
            pace: PACE,
        });
        World {
            reconfigurations,
            policies: Mutex::new(policies),
            offers,
            found,
            record_store,
            lead,
            specification,
            served: controller.served(),
            metrics,
            controller: tokio::spawn(controller.run()),
            callers: Vec::new(),
            failed: Arc::default(),
        }
    }

    pub(crate) fn offer(&self, artifact: &Artifact) {
        self.offers.send(Ok(artifact.clone())).unwrap();
    }

    pub(crate) fn offers_nothing(&self, error: SourceError) {
        self.offers.send(Err(error)).unwrap();
    }

    /// The source has this version again, without offering it.
    pub(crate) fn finds(&self, artifact: &Artifact) {
        *self.found.lock().unwrap() = Ok(artifact.clone());
    }

    pub(crate) fn order(&self, orders: Orders) {
        self.record_store.order(orders);
    }

    /// Sets a load policy that lacks these grants, or that grants no target.
    pub(crate) fn grant(&self, missing: &[&str], is_narrow: bool) {
        let missing = missing.iter().map(|line| (*line).to_owned()).collect();
        self.loads_under(Arc::new(Granting { missing, is_narrow }));
    }

    /// Sets a load policy, which every version is loaded under from now on.
    pub(crate) fn loads_under(&self, load_policy: Arc<dyn LoadPolicyOf>) {
        self.judges(|policies| policies.load_policy = load_policy);
    }

    pub(crate) fn trusts(&self, policy: TrustPolicy) {
        self.judges(|policies| policies.trust = Arc::new(policy));
    }

    fn judges(&self, change: impl FnOnce(&mut Policies)) {
        let mut policies = self.policies.lock().unwrap();
        change(&mut policies);
        self.reconfigure(None, Some(policies.clone()));
    }

    pub(crate) fn reconfigure(&self, source: Option<Box<dyn Source>>, policies: Option<Policies>) {
        let change = Reconfiguration { source, policies };
        assert!(self.reconfigurations.send(change).is_ok());
    }

    pub(crate) fn leads(&self) {
        self.lead.send_replace(Some(lead()));
    }

    /// Leads while this tenure lasts.
    pub(crate) fn leads_under(&self, tenure: &Arc<Tenure>) {
        let tenure = tenure.clone();
        self.lead.send_replace(Some(Lead { tenure }));
    }

    pub(crate) fn follows(&self) {
        self.lead.send_replace(None);
    }

    /// Calls the active version again and again.
    pub(crate) async fn calls(&mut self) {
        let active = self.active().await;
        for _ in 0..2 {
            let (active, failed) = (active.clone(), self.failed.clone());
            self.callers.push(tokio::spawn(async move {
                loop {
                    if let Err(error) = active.find(&[node()], permit()).await {
                        failed.lock().unwrap().push(error);
                    }
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            }));
        }
    }

    /// Waits for an active version, and returns it.
    pub(crate) async fn active(&self) -> Arc<Active> {
        let mut served = self.served.clone();
        let serving = served.wait_for(|served| matches!(served, Served::Serving(_)));
        let Ok(serving) = tokio::time::timeout(TIMEOUT, serving).await else {
            panic!("nothing serves: {:?}", self.why());
        };
        serving.unwrap().active().unwrap()
    }

    /// Waits until this version answers.
    pub(crate) async fn serves(&self, artifact: &Artifact) {
        let digest = artifact.digest;
        let serves = async {
            loop {
                if *self.active().await.serving().provider.digest() == digest {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        in_time("the version serves", serves).await;
    }

    /// The digest of the version that answers now.
    pub(crate) async fn serving(&self) -> String {
        self.active().await.serving().provider.digest().to_string()
    }

    /// Waits until the record satisfies a condition.
    pub(crate) async fn recorded(&self, what: &str, is: impl Fn(&Record) -> bool) -> Record {
        let mut seen = self.record_store.seen();
        let recorded = seen.wait_for(
            |seen| matches!(seen, StoredRecord::Known { record: Some(record), .. } if is(record)),
        );
        let Ok(recorded) = tokio::time::timeout(TIMEOUT, recorded).await else {
            panic!(
                "waited for: {what}; it is {:?}",
                *self.record_store.seen().borrow()
            );
        };
        match &*recorded.unwrap() {
            StoredRecord::Known {
                record: Some(record),
                ..
            } => (**record).clone(),
            _ => unreachable!("it was waited for"),
        }
    }

    /// The record as it is stored.
    pub(crate) fn record(&self) -> Option<Record> {
        match &*self.record_store.seen().borrow() {
            StoredRecord::Known { record, .. } => record.as_deref().cloned(),
            StoredRecord::Unknown(_) => None,
        }
    }

    /// The reason why no version is active, if there is one.
    fn why(&self) -> Option<String> {
        match &*self.served.borrow() {
            Served::Failed { why, .. } => Some(why.clone()),
            Served::Starting | Served::Serving(_) => None,
        }
    }

    /// Waits until no version is active, and returns the reason.
    pub(crate) async fn fails(&self) -> (String, bool) {
        let mut served = self.served.clone();
        let failed = served.wait_for(|served| matches!(served, Served::Failed { .. }));
        match &*in_time("nothing serves", failed).await.unwrap() {
            Served::Failed { why, is_final } => (why.clone(), *is_final),
            _ => unreachable!("it was waited for"),
        }
    }

    /// Ends the process, in the middle of its work.
    pub(crate) async fn ends(mut self) {
        self.controller.abort();
        // An aborted task ends with an error.
        let _ = (&mut self.controller).await;
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.controller.abort();
        for caller in &self.callers {
            caller.abort();
        }
    }
}

fn lead() -> Lead {
    Lead {
        tenure: Arc::new(Tenure::unlimited()),
    }
}

/// Whether a record says this of its trial or of what serves.
pub(crate) fn says(record: &Record, text: &str) -> bool {
    let lines = record.trial.iter().flat_map(|trial| &trial.lines);
    let mut lines = lines.chain([&record.trouble]);
    lines.any(|line| line.contains(text))
}

pub(crate) async fn in_time<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(TIMEOUT, future).await {
        Ok(done) => done,
        Err(_) => panic!("waited for: {what}"),
    }
}

pub(crate) fn permit() -> Arc<Permit> {
    reads_for(TIMEOUT)
}

pub(crate) fn node() -> CloudNode {
    CloudNode {
        uid: "8f1d2c3b-0000-4000-8000-000000000001".to_owned(),
        readiness: Readiness::Ready,
        ..ccm_fixtures::objects::cloud_node("node-1")
    }
}
