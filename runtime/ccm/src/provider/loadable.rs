//! A module that a command loads: fetched, inspected, checked against the configuration's trust policy, and then loaded
//! as often as the command needs, with the load policy of `run`.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::{Context as _, bail};
use ccm_delivery::artifact::Artifact;
use ccm_delivery::source::Location;
use ccm_delivery::trust::{Pin, TrustPolicy};
use ccm_host::grant::{
    AwsKeys, AwsSigV4, AwsSource, Credential, Grants, Issuer, Keystone, KeystoneMethod, OAuth2,
    OAuth2Grant, Secret,
};
use ccm_host::manifest::{AuthKind, Manifest};
use ccm_host::{GuestConfig, Host, Inspection, Interceptor, Loading, Module, Provider};
use url::Url;

use super::arguments::{EntryOptions, ModuleOptions};
use super::configured_providers::{self, Inputs};
use super::terminal::Screen;
use super::{Refusal, cluster_name};
use crate::builtin_grants;
use crate::config::ProviderConfig;
use crate::flags::ProviderIsolation;
use crate::load_policy::{ConfiguredLoadPolicy, Remarks};
use crate::provider_loading;

/// Region of endpoints for which the grant has to name one.
const REGION: &str = "check";

/// A fetched and inspected module, with what loading it needs.
pub(super) struct Loadable {
    /// The module's location, as typed.
    pub(super) place: String,
    /// The result of inspecting it.
    pub(super) inspection: Inspection,
    /// The signers or the digest that vouch for it, or why that was not checked.
    pub(super) trust: String,
    artifact: Artifact,
    load_policy: LoadPolicyChoice,
    host: Host,
}

/// The grants and settings that a module is loaded with.
enum LoadPolicyChoice {
    /// Those of a configuration, or of the built-in grants of a shipped module.
    Configured {
        policy: Box<ConfiguredLoadPolicy>,
        /// Path of the configuration, for errors.
        file: Option<String>,
    },
    /// Exactly the module's requests, without credentials.
    Everything,
}

/// The cluster's properties, which the manager's flags name.
#[derive(Clone)]
pub(super) struct ClusterProperties {
    /// `--cluster-name`.
    pub(super) name: String,
    /// `--cluster-cidr`, split.
    pub(super) cidrs: Vec<String>,
}

impl Default for ClusterProperties {
    fn default() -> ClusterProperties {
        ClusterProperties {
            name: cluster_name(),
            cidrs: Vec::new(),
        }
    }
}

impl Loadable {
    /// Fetches and inspects the module and reads its configuration, whose inputs have to be [`Inputs::Used`] if the module
    /// calls the cloud. Loads nothing yet.
    ///
    /// # Errors
    /// Something cannot be read, or the module is refused or not trusted.
    pub(super) async fn find(
        module: &ModuleOptions,
        entry: &EntryOptions,
        cluster: ClusterProperties,
        inputs: Inputs,
        screen: Screen,
    ) -> anyhow::Result<Loadable> {
        let place = module.place.to_string();
        let artifact = module.place.bring(&module.access, screen).await?;
        let inspection = ccm_host::inspect(&place, &artifact.wasm)?;
        let policy = |config| {
            Box::new(ConfiguredLoadPolicy {
                config,
                cluster_name: cluster.name.clone(),
                cluster_cidrs: cluster.cidrs.clone(),
                remarks: Remarks::default(),
            })
        };
        let (load_policy, trust) = match &entry.config {
            Some(path) => {
                let config = configured(path, entry, &inspection.manifest.name, inputs)?;
                let trust = config.trust.clone();
                let load_policy = LoadPolicyChoice::Configured {
                    policy: policy(config),
                    file: Some(path.display().to_string()),
                };
                let pin = module.place.location().and_then(Location::pin);
                (
                    load_policy,
                    judged(trust, &artifact, pin, &inspection).await?,
                )
            }
            None => (
                unconfigured(&inspection, inputs, policy)?,
                "not judged: that takes --config".to_owned(),
            ),
        };
        Ok(Loadable {
            place,
            inspection,
            trust,
            artifact,
            load_policy,
            host: provider_loading::host(
                entry.compiled_cache_dir.clone(),
                ProviderIsolation::default(),
            )?,
        })
    }

    /// Loads the module; the first time it is compiled.
    ///
    /// # Errors
    /// The reason why it is not loaded.
    pub(super) async fn load(
        &self,
        interceptor: Option<Arc<dyn Interceptor>>,
    ) -> anyhow::Result<Provider> {
        let module = Module {
            source: self.place.clone(),
            wasm: self.artifact.wasm.clone(),
        };
        match &self.load_policy {
            LoadPolicyChoice::Everything => {
                let manifest = &self.inspection.manifest;
                let loading = Loading {
                    grants: everything(manifest),
                    config: GuestConfig {
                        cluster_name: cluster_name(),
                        values: placeholders(manifest),
                        ..GuestConfig::default()
                    },
                    interceptor,
                    ..Loading::default()
                };
                Ok(self.host.load_as(module, loading).await?)
            }
            LoadPolicyChoice::Configured { policy, file } => {
                let loaded = provider_loading::load(&self.host, policy, module, interceptor).await;
                loaded.map_err(|error| match file {
                    Some(file) => Refusal::new(format!("{file} does not load it"), error).into(),
                    None => error,
                })
            }
        }
    }

    /// The configuration, if there is one.
    pub(super) fn config(&self) -> Option<&ProviderConfig> {
        match &self.load_policy {
            LoadPolicyChoice::Configured { policy, .. } => Some(&policy.config),
            LoadPolicyChoice::Everything => None,
        }
    }

    /// The provider ID schemes of the nodes that are this provider's.
    pub(super) fn owned_schemes(&self) -> &[String] {
        match self.config().map(|config| &config.nodes.schemes) {
            Some(schemes) if !schemes.is_empty() => schemes,
            _ => &self.inspection.manifest.schemes,
        }
    }
}

/// The load policy without a configuration.
fn unconfigured(
    inspection: &Inspection,
    inputs: Inputs,
    policy: impl FnOnce(ProviderConfig) -> Box<ConfiguredLoadPolicy>,
) -> anyhow::Result<LoadPolicyChoice> {
    if inputs != Inputs::Used {
        return Ok(LoadPolicyChoice::Everything);
    }
    if let Some(name) = builtin_grants::recognise(&inspection.digest) {
        let mut config = ProviderConfig::unwritten(name);
        config.load_balancers.adoption = builtin_grants::adoption(name);
        return Ok(LoadPolicyChoice::Configured {
            policy: policy(config),
            file: None,
        });
    }
    if !inspection.manifest.targets.is_empty() {
        bail!(
            "it sends requests, so that --config has to grant them: `ccm provider inspect -o grants` prints a configuration"
        );
    }
    Ok(LoadPolicyChoice::Everything)
}

/// Selects the entry: by name, the only one, or the one named like the module.
fn configured(
    path: &Path,
    options: &EntryOptions,
    module: &str,
    inputs: Inputs,
) -> anyhow::Result<ProviderConfig> {
    let configured = configured_providers::read_valid(path, inputs)?;
    configured_providers::entry(configured, path, options.provider.as_deref(), Some(module))
}

/// Checks the module's trust as `run` does, and returns the evidence in words.
///
/// # Errors
/// No signer and no digest of the configuration vouches for it.
async fn judged(
    trust: TrustPolicy,
    artifact: &Artifact,
    location_pin: Option<Pin>,
    inspection: &Inspection,
) -> anyhow::Result<String> {
    let is_named = trust.digest.is_some() || !trust.keys.is_empty() || !trust.keyless.is_empty();
    if !is_named && !trust.allows_unsigned {
        return Ok("not judged: the signers' files are not on this machine".to_owned());
    }
    let (artifact, version) = (artifact.clone(), inspection.manifest.version.clone());
    // Verifying hostile evidence can take a second.
    let judged = tokio::task::spawn_blocking(move || {
        trust.verify(
            &artifact,
            location_pin.as_ref(),
            &version,
            SystemTime::now(),
        )
    });
    let judged = judged.await.context("the trust could not be judged")?;
    let provenance = judged
        .map_err(|error| Refusal::new("the configuration does not trust it".to_owned(), error))?;
    Ok(provenance.to_string())
}

/// Replaces an endpoint that only an operator knows: no host has a name of this domain (RFC 2606).
fn placeholder_endpoint() -> Option<Url> {
    Url::parse("https://check.invalid/").ok()
}

/// Grants all required targets, with placeholder credentials: nothing is sent while a module is loaded.
fn everything(manifest: &Manifest) -> Grants {
    let mut grants = manifest.as_grants();
    let required = manifest.targets.iter().filter(|target| target.required);
    for (grant, target) in grants.targets.iter_mut().zip(required) {
        grant.endpoint = match target.names_endpoint() {
            true => target.endpoint_in(REGION).unwrap_or(grant.endpoint.clone()),
            false => placeholder_endpoint().unwrap_or(grant.endpoint.clone()),
        };
        let secret = || Secret::new("check".to_owned());
        grant.credential = match target.auth {
            AuthKind::None => Credential::None,
            AuthKind::Bearer => Credential::Bearer(secret()),
            AuthKind::Basic => Credential::Basic {
                user: "check".to_owned(),
                password: secret(),
            },
            AuthKind::Header => Credential::Header {
                name: "x-check".to_owned(),
                value: secret(),
            },
            AuthKind::AwsSigV4 => Credential::AwsSigV4(AwsSigV4 {
                region: REGION.to_owned(),
                service: "check".to_owned(),
                source: AwsSource::Keys(AwsKeys {
                    access_key_id: "check".to_owned(),
                    secret_access_key: secret(),
                    session_token: None,
                }),
            }),
            // Both end as headers; no issuer is asked while a module is loaded.
            AuthKind::OAuth2 => Credential::OAuth2(OAuth2 {
                issuer: Issuer::at(grant.endpoint.clone()),
                client: None,
                grant: OAuth2Grant::ClientCredentials,
                parameters: Vec::new(),
            }),
            AuthKind::Keystone => Credential::Keystone(Keystone {
                issuer: Issuer::at(grant.endpoint.clone()),
                method: KeystoneMethod::ApplicationCredential {
                    id: "check".to_owned(),
                    secret: secret(),
                },
            }),
        };
    }
    grants
}

/// Sets required keys to an empty value: the module decides whether it is valid.
fn placeholders(manifest: &Manifest) -> BTreeMap<String, String> {
    let required = manifest.config.iter().filter(|key| key.required);
    required
        .map(|key| (key.key.clone(), String::new()))
        .collect()
}
