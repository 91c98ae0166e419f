//! All providers of this process: each with a stage of its own that brings its module and swaps it, and what of them the
//! controllers are given. Follows the configuration while it runs. Decides nothing about nodes, Services or versions.

mod configuration;
mod instance;
mod secrets;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Once};
use std::time::Duration;

use anyhow::bail;
use ccm_controllers::Provided;
use ccm_core::cloud::CloudProvider as _;
use ccm_core::permit::Mode;
use ccm_core::settings::ServiceRules;
use ccm_delivery::active::Active;
use ccm_delivery::metrics::Metrics;
use ccm_delivery::rollout_controller::{Lead, Served};
use ccm_delivery::source::Location;
use ccm_host::Host;
use tokio::sync::{Notify, watch};

use crate::config::{LoadBalancerConfig, ProviderConfig};
use crate::load_policy::ConfiguredTerms;

pub(crate) use configuration::Configuration;
#[cfg(feature = "demo")]
pub(crate) use configuration::location;
use instance::{Heard, ProviderInstance};
pub(crate) use secrets::Secrets;

/// How often the files of the configuration are looked at: an edit takes effect before its author has looked away. A
/// look reads a few small files.
const LOOK: Duration = Duration::from_secs(2);

/// The rules for the Services of a provider that is, or is not, the only one.
pub(crate) type ServiceRulesOf =
    Box<dyn Fn(&LoadBalancerConfig, bool) -> ServiceRules + Send + Sync>;

/// What all providers share.
pub(crate) struct Shared {
    /// Loads modules.
    pub host: Arc<Host>,
    /// Where modules are kept, in a folder for each provider. `None`: in memory.
    pub store: Option<PathBuf>,
    /// The cluster, to read ConfigMaps and the objects `Provider`. `None`: there is none.
    pub client: Option<kube::Client>,
    /// `--cluster-name`.
    pub cluster_name: String,
    /// `--cluster-cidr`, split.
    pub cluster_cidrs: Vec<String>,
    /// Whether anything is changed.
    pub mode: Mode,
    /// The rules for Services.
    pub service_rules: ServiceRulesOf,
    /// How fast the clock of rollouts goes.
    pub pace: u32,
    /// What is measured.
    pub metrics: Metrics,
}

impl Shared {
    /// On which terms a provider's module is loaded.
    pub(crate) fn terms(&self, config: &ProviderConfig) -> ConfiguredTerms {
        ConfiguredTerms {
            config: config.clone(),
            cluster_name: self.cluster_name.clone(),
            cluster_cidrs: self.cluster_cidrs.clone(),
            warned: Once::new(),
        }
    }
}

/// See the module's documentation.
pub(crate) struct ProviderManager {
    shared: Shared,
    instances: BTreeMap<String, ProviderInstance>,
    /// As it was read last.
    wanted: Vec<ProviderConfig>,
    /// What of that could not be followed, for people.
    left_out: Vec<String>,
    provided: watch::Sender<Arc<[Provided]>>,
    lead: watch::Sender<Option<Lead>>,
    writer: watch::Sender<Option<kube::Client>>,
    notice: watch::Sender<String>,
    /// Told when one of the members serves something else.
    news: Arc<Notify>,
}

/// What leadership is told to the provider manager by.
#[derive(Clone)]
pub(crate) struct LeadershipSignal {
    lead: watch::Sender<Option<Lead>>,
    writer: watch::Sender<Option<kube::Client>>,
}

impl LeadershipSignal {
    /// This process leads: it may decide about versions, and write that down with this client.
    pub(crate) fn take(&self, lead: Lead, writer: Option<kube::Client>) {
        self.writer.send_replace(writer);
        self.lead.send_replace(Some(lead));
    }

    /// It does not any more.
    pub(crate) fn give_back(&self) {
        self.lead.send_replace(None);
        self.writer.send_replace(None);
    }
}

impl ProviderManager {
    /// Begins with these providers.
    ///
    /// # Errors
    /// What one of them needs cannot be had.
    pub(crate) fn begin(
        shared: Shared,
        providers: Vec<ProviderConfig>,
    ) -> anyhow::Result<ProviderManager> {
        let mut provider_manager = ProviderManager {
            shared,
            instances: BTreeMap::new(),
            wanted: providers.clone(),
            left_out: Vec::new(),
            provided: watch::Sender::new(Arc::default()),
            lead: watch::Sender::new(None),
            writer: watch::Sender::new(None),
            notice: watch::Sender::new(String::new()),
            news: Arc::default(),
        };
        for provider in providers {
            provider_manager.begin_one(provider)?;
        }
        Ok(provider_manager)
    }

    /// What the controllers are given; kept current by [`ProviderManager::follow`].
    pub(crate) fn provided(&self) -> watch::Receiver<Arc<[Provided]>> {
        self.provided.subscribe()
    }

    /// What answers the calls of the provider of this name, if something does.
    #[cfg(feature = "demo")]
    pub(crate) fn active(&self, name: &str) -> Option<Arc<Active>> {
        match &*self.instances.get(name)?.served().borrow() {
            Served::Serving(active) => Some(active.clone()),
            Served::Starting | Served::Failed { .. } => None,
        }
    }

    /// To tell it that this process leads.
    pub(crate) fn leadership_signal(&self) -> LeadershipSignal {
        LeadershipSignal {
            lead: self.lead.clone(),
            writer: self.writer.clone(),
        }
    }

    /// Waits until each provider serves, or has failed to for now.
    ///
    /// # Errors
    /// None of them serves, and for at least one of them waiting would not help.
    pub(crate) async fn ready(&mut self) -> anyhow::Result<()> {
        let mut hopeless = Vec::new();
        let mut serving = 0;
        for instance in self.instances.values() {
            let mut served = instance.served();
            let is_told = |served: &Served| !matches!(served, Served::Starting);
            // Its stage does not end before the member does.
            let Ok(first) = served.wait_for(is_told).await else {
                continue;
            };
            match &*first {
                Served::Serving(active) => {
                    serving += 1;
                    introduce(active, &instance.config().source);
                }
                Served::Failed { why, is_final } => {
                    let name = &instance.config().name;
                    tracing::error!(provider = name, why, "the cloud provider is not served");
                    if *is_final {
                        hopeless.push(why.clone());
                    }
                }
                Served::Starting => {}
            }
        }
        self.publish();
        if serving == 0 && !hopeless.is_empty() {
            bail!("{}", hopeless.join("\n"));
        }
        Ok(())
    }

    /// Follows what the members serve, to the end of the process.
    #[cfg(feature = "demo")]
    pub(crate) async fn keep(self) {
        loop {
            self.news.notified().await;
            self.publish();
        }
    }

    /// Follows the configuration and what the members serve, to the end of the process.
    pub(crate) async fn follow(mut self, configuration: Configuration) {
        let mut looks = tokio::time::interval(LOOK);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = self.news.notified() => self.publish(),
                () = configuration.secrets.changed() => self.look(&configuration).await,
                _ = looks.tick() => self.look(&configuration).await,
            }
        }
    }

    async fn look(&mut self, configuration: &Configuration) {
        match configuration.read().await {
            Ok(providers) => {
                if providers != self.wanted {
                    tracing::info!("the configuration has changed");
                    self.left_out = self.apply(providers.clone()).await;
                    self.wanted = providers;
                }
                self.note(&self.left_out.join("\n"));
            }
            Err(error) => self.note(&format!("{error:#}")),
        }
    }

    /// What of an edit is not used. Said once, and stands in the record of each provider while it is so.
    fn note(&self, why: &str) {
        if *self.notice.borrow() == why {
            return;
        }
        if why.is_empty() {
            tracing::info!("the configuration is used again as it is written");
        } else {
            tracing::error!(
                why,
                "the edited configuration is not used; what was valid before stays"
            );
        }
        self.notice.send_replace(why.to_owned());
    }

    /// Follows an edit, and says what could not be followed.
    async fn apply(&mut self, providers: Vec<ProviderConfig>) -> Vec<String> {
        let mut left_out = Vec::new();
        let names: Vec<String> = providers.iter().map(|it| it.name.clone()).collect();
        self.instances.retain(|name, _| names.contains(name));
        for provider in providers {
            let name = provider.name.clone();
            let followed = match self.instances.get_mut(&name) {
                Some(instance) if *instance.config() == provider => Ok(()),
                Some(instance) => instance.follow(provider, &self.shared).await,
                None => self.begin_one(provider),
            };
            if let Err(error) = followed {
                left_out.push(format!("cloud provider {name:?}: {error:#}"));
            }
        }
        self.publish();
        left_out
    }

    fn begin_one(&mut self, provider: ProviderConfig) -> anyhow::Result<()> {
        let heard = Heard {
            lead: self.lead.subscribe(),
            writer: self.writer.subscribe(),
            notice: self.notice.subscribe(),
        };
        let name = provider.name.clone();
        let instance = ProviderInstance::begin(provider, &self.shared, heard)?;
        let (mut served, news) = (instance.served(), self.news.clone());
        // Ends with the stage.
        tokio::spawn(async move {
            while served.changed().await.is_ok() {
                news.notify_one();
            }
        });
        self.instances.insert(name, instance);
        Ok(())
    }

    /// Tells the controllers what there is to be served, if that has changed.
    fn publish(&self) {
        let alone = self.instances.len() == 1;
        let mut provided = Vec::new();
        for instance in self.instances.values() {
            if let Served::Serving(active) = &*instance.served().borrow() {
                let config = instance.config();
                provided.push(Provided {
                    cloud: active.clone(),
                    nodes: config.nodes.clone(),
                    service: (self.shared.service_rules)(&config.load_balancers, alone),
                });
            }
        }
        self.provided.send_replace(provided.into());
    }
}

fn introduce(active: &Active, source: &Location) {
    let serving = active.serving();
    let provider = &serving.provider;
    let manifest = provider.manifest();
    tracing::info!(provider = active.name(), version = manifest.version, digest = %provider.digest(), module = %source, "provider loaded");
    for warning in provider.warnings() {
        tracing::warn!(provider = active.name(), "{warning}");
    }
}
