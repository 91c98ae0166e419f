//! Manages all providers of this process: runs a rollout controller for each, passes the serving providers to the
//! controllers, and applies configuration changes at run time. Decides nothing about nodes, Services or versions.

mod configuration;
mod defects;
mod departed_modules;
mod instance;
mod leadership_signal;
mod not_run;
mod objects;
mod publication;
mod refusals;
mod secrets;
mod start;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use ccm_controllers::Provided;
use ccm_core::safety::permit::Mode;
use ccm_core::settings::ServiceRules;
#[cfg(feature = "demo")]
use ccm_delivery::active::Active;
use ccm_delivery::metrics::Metrics;
use ccm_delivery::record::{RefusalReason, SpecRefusal, Specification, StoredRecord};
use ccm_delivery::rollout_controller::Served;
use ccm_host::Host;
use tokio::sync::{Notify, watch};

use crate::config::{LoadBalancerConfig, ProviderConfig};
use crate::load_policy::{ConfiguredLoadPolicy, Remarks};

#[cfg(feature = "demo")]
pub(crate) use configuration::location;
pub(crate) use configuration::{Configuration, ObjectConfiguration, Wanted};
use defects::again_after_panics;
use departed_modules::DepartedModules;
use instance::ProviderInstance;
pub(crate) use leadership_signal::LeadershipSignal;
pub(crate) use objects::ProviderObjects;
use publication::{Consistent, consistent};
use refusals::{Refused, no_longer_configured};
pub(crate) use secrets::Secrets;
use start::{introduce, serves, wait_for_outcomes};

/// Polling interval of the configuration files, short enough for edits to take effect at once. One poll reads a few
/// small files.
const LOOK: Duration = Duration::from_secs(2);

/// Number of names that have left the configuration beyond which they are forgotten: it is written by then into the
/// objects that there are.
const MOST_DEPARTED: usize = 256;

/// Service rules of a provider; the flag says whether it is the only one.
pub(crate) type ServiceRulesOf =
    Box<dyn Fn(&LoadBalancerConfig, bool) -> ServiceRules + Send + Sync>;

/// Dependencies shared by all providers.
pub(crate) struct Shared {
    /// Compiles and loads modules.
    pub host: Arc<Host>,
    /// Folder for stored modules, with a subfolder for each provider. `None`: in memory.
    pub store: Option<PathBuf>,
    /// Client for reading ConfigMaps and `Provider` objects. `None`: there is no cluster.
    pub client: Option<kube::Client>,
    /// `--cluster-name`.
    pub cluster_name: String,
    /// `--cluster-cidr`, split.
    pub cluster_cidrs: Vec<String>,
    /// Enforce, plan or observe: whether changes are made.
    pub mode: Mode,
    /// Service rules for each provider.
    pub service_rules: ServiceRulesOf,
    /// Speed of the rollout clock.
    pub pace: u32,
    /// Metrics of provider versions.
    pub metrics: Metrics,
    /// The remarks about the providers' settings that were logged.
    pub remarks: Remarks,
}

impl Shared {
    /// The load policy of a provider's module.
    pub(crate) fn load_policy(&self, config: &ProviderConfig) -> ConfiguredLoadPolicy {
        ConfiguredLoadPolicy {
            config: config.clone(),
            cluster_name: self.cluster_name.clone(),
            cluster_cidrs: self.cluster_cidrs.clone(),
            remarks: self.remarks.clone(),
        }
    }
}

/// The running providers, and what is left out of them.
pub(crate) struct ProviderManager {
    shared: Shared,
    departed_modules: DepartedModules,
    instances: BTreeMap<String, ProviderInstance>,
    /// The configuration as last read.
    wanted: Vec<ProviderConfig>,
    /// Names of the providers in `wanted` that come from objects.
    of_objects: BTreeSet<String>,
    /// Number of objects that configure a provider, refused ones included.
    configuring_objects: usize,
    /// Providers that were configured since this process began, and are no longer.
    departed: BTreeSet<String>,
    /// Parts of the configuration that could not be applied, by provider, for people.
    left_out: BTreeMap<String, String>,
    /// Providers that are not published because their modules contradict other providers, with the contradiction.
    contradicting: BTreeMap<String, String>,
    /// Contradictions between the providers that are published, for people.
    contradictions: Vec<String>,
    /// Providers that are configured and do not run, which metrics show.
    not_run: BTreeSet<String>,
    refused: watch::Sender<Vec<Refused>>,
    provided: watch::Sender<Arc<[Provided]>>,
    overview: watch::Sender<Arc<[ProviderOverview]>>,
    leadership_signal: LeadershipSignal,
    notice: watch::Sender<String>,
    /// Notified when a provider instance serves another version.
    changed: Arc<Notify>,
}

/// A configured provider, for the status. Its channels stay up to date.
pub(crate) struct ProviderOverview {
    /// The name of its configuration entry.
    pub name: String,
    /// Where its module comes from.
    pub source: String,
    /// The version that serves, or why none does.
    pub served: watch::Receiver<Served>,
    /// The record of its versions.
    pub recorded: watch::Receiver<StoredRecord>,
}

impl ProviderManager {
    /// Starts these providers.
    ///
    /// # Errors
    /// A dependency of a provider that does not come from an object is unavailable.
    pub(crate) fn begin(shared: Shared, wanted: Wanted) -> anyhow::Result<ProviderManager> {
        let mut provider_manager = ProviderManager {
            departed_modules: DepartedModules::of(
                shared
                    .store
                    .clone()
                    .filter(|_| shared.mode == Mode::Enforce),
            ),
            shared,
            instances: BTreeMap::new(),
            wanted: wanted.all(),
            of_objects: names(&wanted.objects),
            configuring_objects: wanted.configuring_objects(),
            departed: BTreeSet::new(),
            left_out: BTreeMap::new(),
            contradicting: BTreeMap::new(),
            contradictions: Vec::new(),
            not_run: BTreeSet::new(),
            refused: watch::Sender::default(),
            provided: watch::Sender::new(Arc::default()),
            overview: watch::Sender::new(Arc::default()),
            leadership_signal: LeadershipSignal::default(),
            notice: watch::Sender::new(String::new()),
            changed: Arc::default(),
        };
        for provider in &wanted.file {
            provider_manager.begin_one(provider.clone())?;
        }
        for provider in &wanted.objects {
            if let Err(error) = provider_manager.begin_one(provider.clone()) {
                let why = format!("{error:#}");
                provider_manager.left_out.insert(provider.name.clone(), why);
            }
        }
        provider_manager.specify(&wanted.specifications);
        provider_manager.publish();
        Ok(provider_manager)
    }

    /// The providers for the controllers; kept current by [`ProviderManager::follow`].
    pub(crate) fn provided(&self) -> watch::Receiver<Arc<[Provided]>> {
        self.provided.subscribe()
    }

    /// All configured providers, for the status.
    pub(crate) fn overview(&self) -> watch::Receiver<Arc<[ProviderOverview]>> {
        self.overview.subscribe()
    }

    /// The active provider of this name, if it serves.
    #[cfg(feature = "demo")]
    pub(crate) fn active(&self, name: &str) -> Option<Arc<Active>> {
        self.instances.get(name)?.served().borrow().active()
    }

    /// Returns the handle for signalling leadership.
    pub(crate) fn leadership_signal(&self) -> LeadershipSignal {
        self.leadership_signal.clone()
    }

    /// Waits until each provider that does not come from an object serves or has failed for now, and once one serves for
    /// the others at most [`start::OTHERS`]: they come later, as those of objects do. Objects neither delay the start nor end
    /// it.
    ///
    /// # Errors
    /// None of them serves, and at least one failure needs a person.
    pub(crate) async fn ready(&mut self) -> anyhow::Result<()> {
        let mut hopeless = Vec::new();
        let mut serving = 0;
        let instances = self.instances.values();
        let of_file = instances.filter(|one| !self.of_objects.contains(&one.config().name));
        let of_file: Vec<_> = of_file.collect();
        let outcomes = of_file.iter().map(|one| serves(one.served()));
        wait_for_outcomes(outcomes).await;
        for instance in of_file {
            let name = &instance.config().name;
            match &*instance.served().borrow() {
                Served::Serving(active) => {
                    serving += 1;
                    introduce(active, &instance.config().source);
                }
                Served::Failed { why, is_final } => {
                    tracing::error!(provider = name, why, "the cloud provider is not served");
                    if *is_final {
                        hopeless.push(why.clone());
                    }
                }
                Served::Starting => {
                    tracing::warn!(
                        provider = name,
                        "the cloud provider is not served yet; the others do not wait for it"
                    );
                }
            }
        }
        self.publish();
        if serving == 0 && !hopeless.is_empty() {
            bail!("{}", hopeless.join("\n"));
        }
        Ok(())
    }

    /// Publishes changes of the instances until the process ends.
    #[cfg(feature = "demo")]
    pub(crate) async fn keep(mut self) {
        loop {
            self.changed.notified().await;
            self.publish();
        }
    }

    /// Applies configuration changes and publishes changes of the instances until the process ends.
    pub(crate) async fn follow(mut self, configuration: Configuration) {
        if let Some(client) = self.shared.client.clone() {
            let writing = self.leadership_signal.writer.subscribe();
            let refused = self.refused.subscribe();
            let write = move || refusals::write(client.clone(), writing.clone(), refused.clone());
            tokio::spawn(again_after_panics(write));
        }
        let mut looks = tokio::time::interval(LOOK);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = self.changed.notified() => self.publish(),
                () = configuration.secrets.changed() => self.look(&configuration).await,
                () = configuration.objects_changed() => self.look(&configuration).await,
                _ = looks.tick() => self.look(&configuration).await,
            }
        }
    }

    async fn look(&mut self, configuration: &Configuration) {
        match configuration.read().await {
            Ok(wanted) => {
                self.leave_out_ended();
                let providers = wanted.all();
                let of_objects = names(&wanted.objects);
                let configuring = wanted.configuring_objects();
                if providers != self.wanted
                    || of_objects != self.of_objects
                    || configuring != self.configuring_objects
                {
                    tracing::info!("the configuration has changed");
                    self.of_objects = of_objects;
                    self.configuring_objects = configuring;
                    self.apply(providers);
                } else {
                    self.apply_left_out();
                }
                self.specify(&wanted.specifications);
                self.departed_modules.remove(&wanted).await;
                let left_out = self.left_out.iter().chain(&self.contradicting);
                let of_file = left_out.filter(|(name, _)| !self.of_objects.contains(*name));
                let of_file = of_file.map(|(name, why)| format!("cloud provider {name:?}: {why}"));
                let all = wanted.file_trouble.into_iter().chain(of_file);
                let all = all.chain(self.contradictions.iter().cloned());
                self.note(&all.collect::<Vec<_>>().join("\n"));
            }
            Err(error) => self.note(&format!("{error:#}")),
        }
    }

    /// Reports the state of the objects' specs to the providers, and to the objects without a provider, as are those of
    /// providers that have left the configuration.
    fn specify(&mut self, specifications: &BTreeMap<String, Specification>) {
        let of = |name: &String| {
            let mut specification = specifications.get(name).cloned().unwrap_or_default();
            for (reasons, reason) in [
                (&self.left_out, RefusalReason::NotApplied),
                (&self.contradicting, RefusalReason::Conflict),
            ] {
                let why = reasons.get(name).filter(|_| specification.is_source);
                let refusal = why.cloned().map(|message| SpecRefusal { reason, message });
                specification.refusal = specification.refusal.or(refusal);
            }
            specification
        };
        let names = specifications.keys();
        let unserved = names.filter(|name| !self.instances.contains_key(*name));
        let unserved = unserved.map(|name| (name.clone(), of(name)));
        let departed = self.departed.iter();
        let departed = departed.filter(|name| !specifications.contains_key(*name));
        let departed = departed.map(|name| (name.clone(), no_longer_configured()));
        let refused: Vec<Refused> = unserved.chain(departed).collect();
        for (name, instance) in &self.instances {
            instance.specify(of(name));
        }
        self.refused.send_if_modified(|known| {
            let is_new = *known != refused;
            *known = refused;
            is_new
        });
        self.show_not_run(specifications);
    }

    /// Publishes why an edit is not used: logged once, and part of each provider's record while it applies.
    fn note(&self, why: &str) {
        if *self.notice.borrow() == why {
            return;
        }
        if why.is_empty() {
            tracing::info!("the configuration is used again as it is written");
        } else {
            tracing::error!(
                why,
                "the edited configuration is not used; the last valid configuration stays in use"
            );
        }
        self.notice.send_replace(why.to_owned());
    }

    /// Applies an edit, and keeps the reasons for the parts that could not be applied.
    fn apply(&mut self, providers: Vec<ProviderConfig>) {
        self.left_out.clear();
        let wanted = names(&providers);
        let before = std::mem::replace(&mut self.wanted, providers.clone());
        if self.departed.len() > MOST_DEPARTED {
            self.departed.clear();
        }
        self.departed.extend(names(&before));
        self.departed.retain(|name| !wanted.contains(name));
        self.instances.retain(|name, _| wanted.contains(name));
        for provider in providers {
            self.apply_one(provider);
        }
        self.publish();
    }

    /// Tries again what could not be applied: a full disk, or a folder without the right to write, is mended without an
    /// edit of the configuration.
    fn apply_left_out(&mut self) {
        let is_left_out = |provider: &&ProviderConfig| self.left_out.contains_key(&provider.name);
        let providers: Vec<_> = self.wanted.iter().filter(is_left_out).cloned().collect();
        let mut is_changed = false;
        for provider in providers {
            is_changed |= self.apply_one(provider);
        }
        if is_changed {
            self.publish();
        }
    }

    /// Applies the configuration of one provider; returns whether that was possible.
    fn apply_one(&mut self, provider: ProviderConfig) -> bool {
        let name = provider.name.clone();
        let followed = match self.instances.get_mut(&name) {
            Some(instance) if *instance.config() == provider => Ok(()),
            Some(instance) => instance.follow(provider, &self.shared),
            None => self.begin_one(provider),
        };
        let Err(error) = followed else {
            self.left_out.remove(&name);
            return true;
        };
        let why = format!("{error:#}");
        // The same reason is logged once.
        if self.left_out.get(&name) != Some(&why) {
            tracing::error!(provider = name, error = %why, "the provider's configuration is not used");
            self.left_out.insert(name, why);
        }
        false
    }

    fn begin_one(&mut self, provider: ProviderConfig) -> anyhow::Result<()> {
        let name = provider.name.clone();
        self.shows_itself(&name);
        let (signal, notice) = (&self.leadership_signal, self.notice.subscribe());
        let instance = ProviderInstance::begin(provider, &self.shared, signal, notice)?;
        let (mut served, changed) = (instance.served(), self.changed.clone());
        // Ends with the rollout controller.
        tokio::spawn(async move {
            while served.changed().await.is_ok() {
                changed.notify_one();
            }
        });
        self.instances.insert(name, instance);
        Ok(())
    }

    fn is_of_file(&self, name: &str) -> bool {
        !self.of_objects.contains(name)
    }

    /// Whether this is the only provider that is configured. Those count that do not run, as after a restart with a spec
    /// that is refused: no other takes their Services without a class. One of an object takes none from one of the file.
    fn is_alone(&self, name: &str) -> bool {
        let names = self.wanted.iter().map(|one| &one.name);
        let of_file = names.filter(|name| self.is_of_file(name)).count();
        match self.is_of_file(name) {
            true => of_file == 1,
            false => of_file + self.configuring_objects == 1,
        }
    }

    /// Publishes the serving providers if they have changed: those of the file first, then those of objects, the oldest
    /// first.
    fn publish(&mut self) {
        let (mut file, mut objects) = (Vec::new(), Vec::new());
        for name in self.wanted.iter().map(|one| &one.name) {
            let Some(instance) = self.instances.get(name) else {
                continue;
            };
            let Some(active) = instance.served().borrow().active() else {
                continue;
            };
            let config = instance.config();
            let source = match self.is_of_file(name) {
                true => &mut file,
                false => &mut objects,
            };
            source.push(Provided {
                cloud: active,
                nodes: config.nodes.clone(),
                service: (self.shared.service_rules)(&config.load_balancers, self.is_alone(name)),
            });
        }
        let Consistent {
            provided,
            contradicting,
            accepted,
        } = consistent(file, objects, &self.provided.borrow());
        for (name, why) in &contradicting {
            if self.contradicting.get(name) != Some(why) {
                tracing::error!(provider = name, why, "the provider is not used");
            }
        }
        self.contradicting = contradicting;
        self.contradictions = accepted;
        self.provided.send_replace(provided.into());
        let overview = self.instances.values().map(ProviderInstance::overview);
        self.overview.send_replace(overview.collect());
    }
}

fn names(providers: &[ProviderConfig]) -> BTreeSet<String> {
    providers.iter().map(|one| one.name.clone()).collect()
}
