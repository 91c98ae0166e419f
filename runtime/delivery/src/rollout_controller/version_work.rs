//! Long-running work on one version: fetch, verify, compare requests, compile and call it. Each work runs in its own
//! task and can be cancelled at any moment. All provider calls made here are reads.

use std::sync::{Arc, OnceLock};
use std::time::{Instant, SystemTime};

use ccm_core::cloud::ProviderError;
use ccm_core::cloud_provider::CloudProvider as _;
use ccm_core::rollout::{Cause, Endorsement, Loaded, Noted, Release, Work, WorkResult};
use ccm_core::safety::permit::Permit;
use ccm_host::{Digest, Host, Inspection, Loading, Module};

use super::failure_cause::{chain, is_slow, of_call, of_load, of_source};
use super::source_watcher::Asks;
use super::{Generated, Policies};
use crate::active::{Active, Generation, reading, revoked};
use crate::artifact::Artifact;
use crate::difference::{Difference, Requests};
use crate::metrics::Metrics;
use crate::source::blocking;
use crate::store::ModuleStore;
use crate::trust::{Distrust, Highest, Pin};

/// Shared dependencies of all work of one provider.
pub(super) struct Resources {
    pub(super) name: String,
    pub(super) host: Arc<Host>,
    pub(super) store: Arc<ModuleStore>,
    pub(super) metrics: Metrics,
}

/// One unit of work with a snapshot of the inputs at its start.
pub(super) struct Job {
    pub(super) work: Work,
    pub(super) policy_generation: u64,
    /// What the location of the source pins.
    pub(super) location_pin: Option<Pin>,
    pub(super) offered: Option<Arc<Artifact>>,
    /// The version with its current evidence, once the source was asked for it.
    pub(super) anew: OnceLock<Arc<Artifact>>,
    /// Asks the source of that location.
    pub(super) again: Asks,
    pub(super) policies: Policies,
    pub(super) endorsement: Endorsement,
    pub(super) serving: Option<Arc<Inspection>>,
    /// Recorded notes of the version that should serve.
    pub(super) recorded: Noted,
    pub(super) active: Option<Arc<Active>>,
    pub(super) ready: Option<Generated>,
    pub(super) permit: Option<Arc<Permit>>,
}

/// Result of a work.
pub(super) struct Ended {
    pub(super) work: Work,
    pub(super) policy_generation: u64,
    pub(super) end: WorkResult,
    /// The generation that was loaded, if any.
    pub(super) generated: Option<Generated>,
    /// The version with its current evidence, if that was fetched.
    pub(super) anew: Option<Arc<Artifact>>,
}

impl Resources {
    /// Stores the module for the next start, which then needs no source. A failure to store it does not keep it from
    /// serving.
    async fn put(&self, artifact: &Artifact) {
        if let Err(error) = self.store.put(artifact).await {
            tracing::warn!(target: "rollout", provider = %self.name, error = %chain(&error), "the module cannot be kept");
        }
    }
}

/// Identifies the release of these bytes. `version` comes from the manifest, if it has been read.
pub(super) fn release(artifact: &Artifact, version: &str) -> Release {
    Release {
        digest: artifact.digest.to_string(),
        version: version.to_owned(),
        origin: artifact.origin.clone(),
    }
}

/// Performs a job to its end, or until it fails.
pub(super) async fn run(resources: Arc<Resources>, job: Job) -> Ended {
    let mut generated = None;
    let end = match &job.work {
        Work::Load(release) | Work::Compile(release) => match job.load(&resources, release).await {
            Ok((loaded, end)) => {
                generated = Some(loaded);
                end
            }
            Err(end) => end,
        },
        Work::Examine(release) => match job.examine(&resources, release).await {
            Ok((examined, wider)) => WorkResult::Examined {
                release: examined.release(),
                wider,
            },
            Err(end) => end,
        },
        Work::SelfTest(_) => job.self_test().await,
        Work::Plan(_) => job.plan().await,
        Work::Ask(_) => job.ask(&resources).await,
    };
    Ended {
        work: job.work,
        policy_generation: job.policy_generation,
        end,
        generated,
        anew: job.anew.into_inner(),
    }
}

/// A module that is not verified yet.
struct Unverified {
    artifact: Arc<Artifact>,
    /// Whether it comes from the store on this machine.
    is_stored: bool,
}

impl Unverified {
    fn elsewhere(artifact: Arc<Artifact>) -> Self {
        Self {
            artifact,
            is_stored: false,
        }
    }
}

/// Why a module is not used.
enum Unfit {
    /// None of the signatures at hand counts, for this cause. There may be others.
    Signatures(Cause, String),
    Otherwise(WorkResult),
}

impl Unfit {
    fn end(self) -> WorkResult {
        match self {
            Unfit::Signatures(cause, why) => cause.because(why),
            Unfit::Otherwise(end) => end,
        }
    }
}

/// A module that is trusted and whose requests the grants cover.
struct Examined {
    artifact: Arc<Artifact>,
    inspection: Arc<Inspection>,
    loading: Loading,
    /// Highest versions to record once it serves.
    highest: Highest,
}

impl Examined {
    fn release(&self) -> Release {
        release(&self.artifact, &self.inspection.manifest.version)
    }
}

impl Job {
    /// Finds exactly these bytes: in the current offer, in the store on this machine, or at the source. The store comes first
    /// where it may have signatures that the source could not read for the offer, whose manifest they are of.
    async fn bytes(
        &self,
        resources: &Resources,
        release: &Release,
    ) -> Result<Unverified, WorkResult> {
        let is_it = |it: &&Arc<Artifact>| it.digest.to_string() == release.digest;
        let offered = self.offered.as_ref().filter(is_it);
        if let Some(offered) = offered.filter(|offered| offered.unanswered.is_empty()) {
            return Ok(Unverified::elsewhere(offered.clone()));
        }
        let Some(digest) = Digest::parse(&release.digest) else {
            return Err(Cause::Gone.because(format!("{:?} is no digest", release.digest)));
        };
        let kept = resources.store.get(&digest).await;
        let is_of_offer = |kept: &Artifact| {
            offered.is_none_or(|offered| offered.manifest_digest == kept.manifest_digest)
        };
        if let Some(kept) = kept.filter(is_of_offer) {
            return Ok(Unverified {
                artifact: Arc::new(kept),
                is_stored: true,
            });
        }
        if let Some(offered) = offered {
            return Ok(Unverified::elsewhere(offered.clone()));
        }
        let current = self.current(release).await;
        current.map(Unverified::elsewhere)
    }

    /// Asks the source for exactly these bytes, with the evidence that it has now.
    async fn current(&self, release: &Release) -> Result<Arc<Artifact>, WorkResult> {
        match self.again.bytes(release).await {
            Some(Ok(artifact)) if artifact.digest.to_string() == release.digest => {
                Ok(self.anew.get_or_init(|| Arc::new(artifact)).clone())
            }
            Some(Ok(artifact)) => Err(Cause::Gone.because(format!(
                "{} was asked for, and {} came",
                release.digest, artifact.digest
            ))),
            Some(Err(error)) => Err(of_source(&error)),
            None => Err(Cause::Circumstances.because("there is no source")),
        }
    }

    async fn examine(
        &self,
        resources: &Resources,
        release: &Release,
    ) -> Result<(Examined, Vec<String>), WorkResult> {
        let examined = self.admit(resources, release).await?;
        let grants = examined.loading.grants.clone();
        if let Err(missing) = examined.inspection.manifest.narrow(grants) {
            return Err(WorkResult::Failed(Cause::Policy, missing.lines));
        }
        let before = match &self.serving {
            Some(serving) => Requests::of(serving),
            None => Requests::read(self.recorded.requests.as_deref()),
        };
        let difference = Difference::between(&before, &Requests::of(&examined.inspection));
        let wider = match difference.is_wider() {
            true => difference.lines(),
            false => Vec::new(),
        };
        Ok((examined, wider))
    }

    /// Performs all steps up to the load policy.
    async fn admit(
        &self,
        resources: &Resources,
        release: &Release,
    ) -> Result<Examined, WorkResult> {
        let Unverified {
            mut artifact,
            mut is_stored,
        } = self.bytes(resources, release).await?;
        let mut vouched = self.vouched(resources, artifact.clone()).await;
        if let Err(Unfit::Signatures(_, why)) = &vouched
            && self.anew.get().is_none()
        {
            // Those at hand are of the day on which the module came; the source may have others by now. One that is away
            // may take minutes to say so, and is not asked twice.
            match self.current(release).await {
                Ok(current) => {
                    (artifact, is_stored) = (current, false);
                    vouched = self.vouched(resources, artifact.clone()).await;
                }
                Err(WorkResult::Failed(Cause::Circumstances, lines)) if is_stored => {
                    let lines = [why.clone()].into_iter().chain(lines);
                    return Err(WorkResult::Failed(Cause::Circumstances, lines.collect()));
                }
                Err(_) => {}
            }
        }
        let (inspection, highest) = vouched.map_err(Unfit::end)?;
        // Not before: an unverified module is not stored, and its evidence replaces none that is valid.
        if !is_stored {
            resources.put(&artifact).await;
        }
        let granted = self
            .policies
            .load_policy
            .load_policy(&inspection)
            .map_err(|lines| WorkResult::Failed(Cause::Policy, lines))?;
        let loading = Loading {
            name: Some(resources.name.clone()),
            is_on_trial: matches!(self.work, Work::Compile(_)),
            ..granted
        };
        Ok(Examined {
            artifact,
            inspection: Arc::new(inspection),
            loading,
            highest,
        })
    }

    /// Hashing, scanning and verifying take up to a second, so they run on a blocking thread. The evidence is verified
    /// first: whatever nobody vouches for is not trusted, rather than at fault. So who can write to the source, and sign
    /// nothing, cannot fill the list of rejected versions until those that people took back leave it.
    async fn vouched(
        &self,
        resources: &Resources,
        artifact: Arc<Artifact>,
    ) -> Result<(Inspection, Highest), Unfit> {
        let (policy, endorsement) = (self.policies.trust.clone(), self.endorsement);
        let location_pin = self.location_pin.clone();
        let highest = Highest::read(self.recorded.highest.as_deref());
        let provider = resources.name.clone();
        blocking(move || -> Result<_, Unfit> {
            let distrusted = |distrust: Distrust| {
                let why = distrust.to_string();
                match distrust {
                    Distrust::SignatureMissing | Distrust::Refused { .. } => {
                        Unfit::Signatures(Cause::Trust, why)
                    }
                    Distrust::Unanswered { .. } => Unfit::Signatures(Cause::Circumstances, why),
                    _ => Unfit::Otherwise(Cause::Trust.because(why)),
                }
            };
            let provenance = policy
                .provenance(&artifact, location_pin.as_ref(), SystemTime::now())
                .map_err(distrusted)?;
            let inspection = ccm_host::inspect(&artifact.origin, &artifact.wasm)
                .map_err(|error| Unfit::Otherwise(of_load(&error)))?;
            let version = &inspection.manifest.version;
            let provenance = policy
                .check_minimum(version, provenance)
                .map_err(distrusted)?;
            let is_named = policy.pins(&artifact, location_pin.as_ref());
            let highest = policy
                .follow(&highest, is_named, version, &provenance, endorsement)
                .map_err(distrusted)?;
            tracing::info!(target: "rollout", %provider, digest = %artifact.digest, %provenance, "trusted");
            Ok((inspection, highest))
        })
        .await
    }

    async fn load(
        &self,
        resources: &Resources,
        release: &Release,
    ) -> Result<(Generated, WorkResult), WorkResult> {
        let examined = self.admit(resources, release).await?;
        let known = examined.release();
        let began = Instant::now();
        let module = Module {
            source: examined.artifact.origin.clone(),
            wasm: examined.artifact.wasm.clone(),
        };
        let Examined {
            inspection,
            loading,
            highest,
            ..
        } = examined;
        let loaded = resources.host.load_as(module, loading).await;
        let provider = loaded.map_err(|error| match of_load(&error) {
            // A machine that has just started is busy: a slow start does not reject a version that served before.
            WorkResult::Failed(Cause::Module, lines)
                if is_slow(&error) && matches!(self.work, Work::Load(_)) =>
            {
                WorkResult::Failed(Cause::Circumstances, lines)
            }
            end => end,
        })?;
        resources.metrics.loaded(&resources.name, began.elapsed());
        let generation = Arc::new(Generation::new(Arc::new(provider)));
        let fits = self
            .active
            .as_ref()
            .is_some_and(|active| active.fits(&generation));
        let loaded = Loaded {
            generation: generation.number,
            release: known,
            policy_generation: self.policy_generation,
            noted: Noted {
                requests: Requests::of(&inspection).write(),
                highest: highest.write(),
            },
        };
        let end = WorkResult::Loaded {
            loaded: Box::new(loaded),
            fits,
        };
        let generated = Generated {
            generation,
            inspection,
        };
        Ok((generated, end))
    }

    /// Checks the candidate's credential. If the serving version fails the check, too, the failure is not attributed to
    /// the candidate.
    async fn self_test(&self) -> WorkResult {
        let (Some(ready), Some(permit)) = (&self.ready, &self.permit) else {
            return Cause::Circumstances.because("it is not loaded any more");
        };
        let Err(error) = ready.generation.provider.self_check(reading(permit)).await else {
            return WorkResult::Passed;
        };
        if let Some(revoked) = revoked(permit.tenure()) {
            return of_call(&revoked);
        }
        let end = of_call(&error);
        if let (
            WorkResult::Failed(Cause::Module, lines),
            ProviderError::Denied(_) | ProviderError::Invalid(_),
        ) = (&end, &error)
            && let Some(active) = &self.active
            && active
                .serving()
                .provider
                .self_check(reading(permit))
                .await
                .is_err()
        {
            return Cause::Circumstances.because(format!(
                "{}; the version that serves cannot prove its credential either",
                lines.join("; ")
            ));
        }
        end
    }

    /// Counts changes planned by the candidate where the serving version plans none.
    async fn plan(&self) -> WorkResult {
        let (Some(ready), Some(active), Some(permit)) = (&self.ready, &self.active, &self.permit)
        else {
            return Cause::Circumstances.because("it is not loaded any more");
        };
        match active.plans(&ready.generation, permit.tenure()).await {
            Ok(plans) => WorkResult::Planned(plans),
            Err(error) => of_call(&error),
        }
    }

    /// Makes one read for each capability: through the trial if there is one, otherwise of the candidate alone, without
    /// comparison.
    async fn ask(&self, resources: &Resources) -> WorkResult {
        let (Some(ready), Some(permit)) = (&self.ready, &self.permit) else {
            return Cause::Circumstances.because("it is not loaded any more");
        };
        if let Some(active) = &self.active
            && active.trial().is_some()
        {
            active.read_each_capability(permit).await;
            return WorkResult::Passed;
        }
        let alone = Active::alone(resources.name.clone(), ready.generation.clone());
        alone.read_each_capability(permit).await;
        WorkResult::of_reads(&alone.tally(), alone.capabilities())
    }
}
