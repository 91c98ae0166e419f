//! One configured provider of this process: its source, its rollout controller, and changes to both at run time.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use anyhow::Context as _;
use ccm_core::rollout::RolloutRules;
use ccm_delivery::record::{
    ClusterRecordStore, MemoryRecordStore, RecordStore, Specification, StoredRecord,
};
use ccm_delivery::rollout_controller::{
    Policies, Reconfiguration, RolloutController, RolloutControllerParts, RolloutInputs, Served,
};
use ccm_delivery::source::configmap::ConfigMapSource;
use ccm_delivery::source::embedded::EmbeddedSource;
use ccm_delivery::source::file::FileSource;
use ccm_delivery::source::oci::{OciSettings, OciSource, RegistryCredentials};
use ccm_delivery::source::{Location, Source};
use ccm_delivery::store::ModuleStore;
use ccm_host::Digest;
use futures::FutureExt as _;
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;

use super::defects::AFTER_PANIC;
use super::{LeadershipSignal, ProviderOverview, Shared};
use crate::builtin_grants;
use crate::config::ProviderConfig;

/// A configured provider, and the handles of its rollout controller. Dropping it ends that; providers that the
/// controllers hold stay usable.
pub(super) struct ProviderInstance {
    config: ProviderConfig,
    /// Of the source that was sent last.
    credentials: watch::Sender<Option<RegistryCredentials>>,
    reconfigurations: mpsc::UnboundedSender<Reconfiguration>,
    rules: watch::Sender<RolloutRules>,
    specification: watch::Sender<Specification>,
    served: watch::Receiver<Served>,
    recorded: watch::Receiver<StoredRecord>,
    record_store: Option<Arc<ClusterRecordStore>>,
    task: AbortHandle,
}

impl Drop for ProviderInstance {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl ProviderInstance {
    /// Starts fetching a provider's module and keeping it current.
    ///
    /// # Errors
    /// The source cannot be opened, or modules cannot be stored.
    pub(super) fn begin(
        config: ProviderConfig,
        shared: &Shared,
        signal: &LeadershipSignal,
        notice: watch::Receiver<String>,
    ) -> anyhow::Result<ProviderInstance> {
        let (credentials, known) = watch::channel(config.registry.credentials.clone());
        let source = source(&config, shared, known)?;
        let folder = shared
            .store
            .as_ref()
            .map(|folder| folder.join(&config.name));
        let store = ModuleStore::open(folder.clone()).with_context(|| {
            format!(
                "cannot keep modules of the cloud provider {:?}",
                config.name
            )
        })?;
        let memory = match &folder {
            Some(folder) => MemoryRecordStore::kept_in(folder, &config.name),
            None => MemoryRecordStore::new(),
        };
        let shipped = match &config.source {
            Location::Embedded(name) => builtin_grants::module(name),
            Location::File(_) | Location::ConfigMap(_) | Location::Oci(_) => None,
        };
        let memory = match shipped {
            // It changes with the program: no version from before keeps its place beside it.
            Some(wasm) => memory.with_only(&Digest::of(wasm)),
            None => memory,
        };
        let mut in_cluster = None;
        let record_store: Arc<dyn RecordStore> = match &shared.client {
            Some(client) => {
                let writer = signal.writer.subscribe();
                let record_store =
                    ClusterRecordStore::new(&config.name, client.clone(), writer, memory);
                // An embedded module never changes while the program runs: its object only informs people.
                let record_store = Arc::new(match is_written_down(&config) {
                    true => record_store,
                    false => record_store.waiting(),
                });
                in_cluster = Some(record_store.clone());
                record_store
            }
            None => Arc::new(memory),
        };
        let recorded = record_store.seen();
        let (reconfigurations, reconfigured) = mpsc::unbounded_channel();
        let (rules, ruled) = watch::channel(rollout_rules(&config));
        let (specification, specified) = watch::channel(Specification::default());
        let rollout = RolloutController::new(RolloutControllerParts {
            name: config.name.clone(),
            host: shared.host.clone(),
            source,
            store: Arc::new(store),
            inputs: RolloutInputs {
                policies: policies(&config, shared),
                reconfigurations: reconfigured,
                rules: ruled,
                notice,
                specification: specified,
                record_store,
                unwritten: signal.unwritten.clone(),
                lead: signal.lead.subscribe(),
                mode: shared.mode,
            },
            metrics: shared.metrics.clone(),
            pace: shared.pace,
        });
        let served = rollout.served();
        let kept = in_cluster.clone();
        // In one task: neither is of use without the other.
        let task = tokio::spawn(async move {
            let keeps = async {
                if let Some(record_store) = &kept {
                    record_store.run().await;
                }
            };
            let runs = async { tokio::join!(keeps, rollout.run()) };
            // Meanwhile the version that served is used on.
            if AssertUnwindSafe(runs).catch_unwind().await.is_err() {
                tokio::time::sleep(AFTER_PANIC).await;
            }
        });
        Ok(ProviderInstance {
            config,
            credentials,
            reconfigurations,
            rules,
            specification,
            served,
            recorded,
            record_store: in_cluster,
            task: task.abort_handle(),
        })
    }

    /// Applies a configuration change. Unchanged parts are not touched.
    ///
    /// # Errors
    /// The new source cannot be opened; then nothing has changed.
    pub(super) fn follow(&mut self, config: ProviderConfig, shared: &Shared) -> anyhow::Result<()> {
        let before = &self.config;
        let mut other = None;
        if !is_same_source(before, &config) {
            // The former source keeps its own: they may be for another registry.
            let (credentials, known) = watch::channel(config.registry.credentials.clone());
            other = Some(source(&config, shared, known)?);
            self.credentials = credentials;
            if let Some(record_store) = self
                .record_store
                .as_ref()
                .filter(|_| is_written_down(&config))
            {
                record_store.need();
            }
        } else if before.registry.credentials != config.registry.credentials {
            self.credentials
                .send_replace(config.registry.credentials.clone());
        }
        let rules = rollout_rules(&config);
        if rollout_rules(before) != rules {
            self.rules.send_replace(rules);
        }
        let is_judged_anew = before.trust != config.trust || !has_same_terms(before, &config);
        // The receiver ends only with this instance.
        let _ = self.reconfigurations.send(Reconfiguration {
            source: other,
            policies: is_judged_anew.then(|| policies(&config, shared)),
        });
        self.config = config;
        Ok(())
    }

    /// Passes on the state of its object's spec, which the record shows.
    pub(super) fn specify(&self, new: Specification) {
        self.specification.send_if_modified(|specification| {
            let is_new = *specification != new;
            *specification = new;
            is_new
        });
    }

    /// Whether its task has ended, which it does some seconds after a panic.
    pub(super) fn has_ended(&self) -> bool {
        self.task.is_finished()
    }

    /// The configuration that is applied now.
    pub(super) fn config(&self) -> &ProviderConfig {
        &self.config
    }

    /// The instance as the status shows it.
    pub(super) fn overview(&self) -> ProviderOverview {
        ProviderOverview {
            name: self.config.name.clone(),
            source: self.config.source.to_string(),
            served: self.served.clone(),
            recorded: self.recorded.clone(),
        }
    }

    /// The version that serves, or why none does.
    pub(super) fn served(&self) -> watch::Receiver<Served> {
        self.served.clone()
    }
}

/// Whether its versions are recorded for other replicas, and not only for people.
fn is_written_down(config: &ProviderConfig) -> bool {
    !matches!(config.source, Location::Embedded(_))
}

/// The rules of its rollout. Nobody could approve an embedded module, whose object gives no orders, and whoever chose it has
/// chosen these bytes.
fn rollout_rules(config: &ProviderConfig) -> RolloutRules {
    RolloutRules {
        approve_within_grants: config.rollout.approve_within_grants || !is_written_down(config),
        ..config.rollout
    }
}

/// Whether both have the same source and access settings, apart from credentials, which an open source receives as
/// updates.
fn is_same_source(one: &ProviderConfig, other: &ProviderConfig) -> bool {
    one.source == other.source && one.registry.access == other.registry.access
}

fn has_same_terms(one: &ProviderConfig, other: &ProviderConfig) -> bool {
    one.grants == other.grants
        // Told where grants are missing. With grants the version that serves is not loaded again for another source.
        && (one.grants.is_some() || one.source == other.source)
        // The module is told of them when it begins.
        && one.nodes.schemes == other.nodes.schemes
        && one.proxy == other.proxy
        && one.ambient == other.ambient
        && one.region == other.region
        && one.instance == other.instance
        && one.values == other.values
        && one.limits == other.limits
}

fn policies(config: &ProviderConfig, shared: &Shared) -> Policies {
    Policies {
        trust: Arc::new(config.trust.clone()),
        load_policy: Arc::new(shared.load_policy(config)),
    }
}

fn source(
    config: &ProviderConfig,
    shared: &Shared,
    credentials: watch::Receiver<Option<RegistryCredentials>>,
) -> anyhow::Result<Box<dyn Source>> {
    let place = config.source.to_string();
    Ok(match &config.source {
        Location::Embedded(name) => {
            let wasm =
                builtin_grants::module(name).with_context(|| builtin_grants::not_embedded(name))?;
            Box::new(EmbeddedSource::new(place, wasm))
        }
        Location::File(file) => Box::new(FileSource::new(place, file.clone(), config.name.clone())),
        Location::ConfigMap(key) => {
            let client = shared
                .client
                .clone()
                .with_context(|| format!("{place}: there is no cluster to read it from"))?;
            Box::new(ConfigMapSource::new(place, client, key.clone()))
        }
        Location::Oci(at) => {
            let settings = OciSettings {
                place: at.clone(),
                credentials,
                access: config.registry.access.clone(),
            };
            Box::new(OciSource::new(place, settings)?)
        }
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::time::Duration;

    use ccm_delivery::source::oci::Mirror;
    use ccm_host::grant::{Grants, ProxyGrant, Secret};
    use ccm_proxy::{NoProxy, Proxy};

    use super::super::tests::manager;
    use super::*;
    use crate::config::ProxyChoice;

    /// Whoever no longer trusts a key has a reason, and the version that serves may be signed with it.
    #[tokio::test]
    async fn a_change_of_trust_login_or_rollout_reaches_a_provider_that_runs() {
        let folder = tempfile::tempdir().unwrap();
        let mut manager = manager(folder.path());
        let mut config = ProviderConfig::unwritten("static");
        config.source = Location::parse("file:///nowhere/static.wasm").unwrap();
        config.registry.credentials = Some(RegistryCredentials::default());
        manager.begin_one(config.clone()).unwrap();
        config.trust.allows_unsigned = false;
        config.rollout.canary_calls = 7;
        config.registry.credentials = None;
        let instance = manager.instances.get_mut("static").unwrap();
        let (reconfigurations, mut sent) = mpsc::unbounded_channel();
        instance.reconfigurations = reconfigurations;
        assert!(instance.credentials.borrow().is_some());
        instance.follow(config.clone(), &manager.shared).unwrap();
        assert!(instance.credentials.borrow().is_none());
        let policies = sent.try_recv().unwrap().policies.unwrap();
        assert!(*policies.trust == config.trust);
        assert_eq!(*instance.rules.borrow(), config.rollout);
    }

    /// Policies have what serves loaded again; those that come after their source would judge another one's offer.
    #[tokio::test]
    async fn another_source_comes_in_one_message_with_the_policies_that_change() {
        type Change = fn(&mut ProviderConfig);
        let moves: Change = |config| config.source = Location::Embedded("static".to_owned());
        let distrusts: Change = |config| config.trust.allows_unsigned = false;
        let limits: Change = |config| config.limits.call_seconds = Some(7);
        let folder = tempfile::tempdir().unwrap();
        let mut manager = manager(folder.path());
        let mut before = ProviderConfig::unwritten("static");
        before.source = Location::parse("file:///nowhere/static.wasm").unwrap();
        before.grants = Some(Grants::default());
        manager.begin_one(before.clone()).unwrap();
        let instance = manager.instances.get_mut("static").unwrap();
        let (reconfigurations, mut sent) = mpsc::unbounded_channel();
        instance.reconfigurations = reconfigurations;
        for (changes, expected) in [
            (vec![moves], (true, false)),
            (vec![distrusts], (false, true)),
            (vec![limits], (false, true)),
            (vec![moves, distrusts, limits], (true, true)),
        ] {
            let mut after = before.clone();
            changes.iter().for_each(|change| change(&mut after));
            for config in [after, before.clone()] {
                instance.follow(config, &manager.shared).unwrap();
                let Reconfiguration { source, policies } = sent.try_recv().unwrap();
                assert_eq!((source.is_some(), policies.is_some()), expected);
                assert!(sent.is_empty());
            }
        }
    }

    /// The module is told of them only when it begins.
    #[test]
    fn a_change_of_what_a_module_begins_with_is_other_terms() {
        type Change = fn(&mut ProviderConfig);
        let changes: [(&str, Change); 8] = [
            ("grants", |config| config.grants = Some(Grants::default())),
            ("schemes", |config| {
                config.nodes.schemes = vec!["metal".to_owned()];
            }),
            ("proxy", |config| config.proxy = ProxyChoice::Direct),
            ("ambient", |config| {
                config.ambient = vec![Secret::new("rotated".to_owned())];
            }),
            ("region", |config| {
                config.region = Some(Ok("fsn1".to_owned()));
            }),
            ("instance", |config| {
                config.instance = Some(Ok("i-1".to_owned()));
            }),
            ("values", |config| {
                config.values = [("a".to_owned(), "2".to_owned())].into();
            }),
            ("limits", |config| config.limits.call_seconds = Some(7)),
        ];
        let mut one = ProviderConfig::unwritten("static");
        one.values = [("a".to_owned(), "1".to_owned())].into();
        one.ambient = vec![Secret::new("first".to_owned())];
        assert!(has_same_terms(&one, &one.clone()));
        for (what, change) in changes {
            let mut other = one.clone();
            change(&mut other);
            assert!(!has_same_terms(&one, &other), "{what}");
        }
    }

    /// An open source does not learn of them, and receives credentials as updates.
    #[test]
    fn a_change_of_the_way_to_a_registry_is_another_source_and_another_login_is_none() {
        type Change = fn(&mut ProviderConfig);
        let changes: [(&str, Change, bool); 9] = [
            ("nothing", |_| {}, true),
            (
                "credentials",
                |config| config.registry.credentials = Some(RegistryCredentials::default()),
                true,
            ),
            (
                "source",
                |config| config.source = Location::Embedded("hcloud".to_owned()),
                false,
            ),
            (
                "ca",
                |config| config.registry.access.ca_pem = Some("PEM".to_owned()),
                false,
            ),
            (
                "mirrors",
                |config| {
                    config.registry.access.mirrors = vec![Mirror::parse("mirror.test").unwrap()]
                },
                false,
            ),
            (
                "poll",
                |config| config.registry.access.poll = Duration::from_secs(7),
                false,
            ),
            (
                "addresses",
                |config| config.registry.access.addresses = vec!["10.0.0.0/8".parse().unwrap()],
                false,
            ),
            (
                "proxy",
                |config| {
                    config.registry.access.proxy = Some(ProxyGrant {
                        proxy: Proxy::parse("http://proxy.test:3128").ok().unwrap(),
                        except: NoProxy::default(),
                        addresses: Vec::new(),
                        ca_pem: None,
                    });
                },
                false,
            ),
            (
                "plain HTTP",
                |config| config.registry.access.plain_http = true,
                false,
            ),
        ];
        let one = ProviderConfig::unwritten("static");
        for (what, change, is_same) in changes {
            let mut other = one.clone();
            change(&mut other);
            assert_eq!(is_same_source(&one, &other), is_same, "{what}");
        }
    }

    /// Nobody could give the approval.
    #[test]
    fn an_embedded_module_waits_for_no_approval() {
        let file = Location::parse("file:///static.wasm").unwrap();
        let embedded = Location::Embedded("static".to_owned());
        for (source, approves, expected) in [
            (&embedded, false, true),
            (&file, false, false),
            (&file, true, true),
        ] {
            let mut config = ProviderConfig::unwritten("static");
            config.source = source.clone();
            config.rollout.approve_within_grants = approves;
            let expected = RolloutRules {
                approve_within_grants: expected,
                ..RolloutRules::default()
            };
            assert_eq!(rollout_rules(&config), expected, "{source}");
        }
    }

    /// Missing grants would be blamed on the former source.
    #[test]
    fn another_source_is_other_terms_where_grants_are_missing() {
        for (grants, expected) in [(None, false), (Some(Grants::default()), true)] {
            let mut one = ProviderConfig::unwritten("static");
            one.grants = grants;
            let mut other = one.clone();
            other.source = Location::Embedded("hcloud".to_owned());
            assert_eq!(has_same_terms(&one, &other), expected);
        }
    }
}
