//! The configuration, in a file or in objects: the written form (`raw`, unknown keys refused) and its meaning
//! ([`ProviderConfig`]). Reports all mistakes together. Reads no files itself: the text, the environment and secret
//! readers are arguments.

mod credential;
mod grants;
mod load_balancers;
mod object;
mod proxy;
mod raw;
mod raw_credential;
mod references;
mod secret;
mod source;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use ccm_core::cloud::provider_id::ProviderId;
use ccm_core::name_syntax::is_dns_label;
use ccm_core::node::ownership::{self, Claim, NodeClaim};
use ccm_core::rollout::RolloutRules;
use ccm_core::selector::Selector;
use ccm_delivery::source::Location;
use ccm_delivery::trust::TrustPolicy;
use ccm_host::LimitsGranted;
use ccm_host::grant::{Grants, Secret};

pub(crate) use credential::{INSTANCE_METADATA, SESSION_NAME, dns_suffix, is_isolated, sts};
pub(crate) use grants::{PRIVATE, certificates, fingerprints, ranges, url};
pub(crate) use load_balancers::LoadBalancerConfig;
pub(crate) use object::{MOST_SPEC_BYTES, WrittenObject, beside, invalid};
pub(crate) use proxy::ProxyChoice;
pub(crate) use secret::SecretKey;

use crate::flags::go_duration;
use crate::yaml_error;
use raw::{RawConfig, RawLimits, RawProvider, RawRollout};
use references::References;
use source::RegistryConfig;

/// API version of the file.
pub(crate) const API_VERSION: &str = "wasm-ccm.dev/v1alpha1";
/// Kind of the file.
pub(crate) const KIND: &str = "ProviderConfiguration";

/// Configuration of one provider.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ProviderConfig {
    /// The name selected by `--cloud-provider` and recorded as the owner.
    pub name: String,
    /// Source of the module.
    pub source: Location,
    /// Access to the registry, for a source that is one.
    pub registry: RegistryConfig,
    /// Trust policy for the module.
    pub trust: TrustPolicy,
    /// Values of the manifest's configuration keys.
    pub values: BTreeMap<String, String>,
    /// The operator's grants; `None`: the built-in grants, which only shipped modules have.
    pub grants: Option<Grants>,
    /// The proxy of the targets that have none of their own.
    pub proxy: ProxyChoice,
    /// Upper limits of its resources.
    pub limits: LimitsGranted,
    /// The nodes that it owns.
    pub nodes: NodeClaim,
    /// The Services that it makes load balancers for, and the limits for those.
    pub load_balancers: LoadBalancerConfig,
    /// How new versions are rolled out.
    pub rollout: RolloutRules,
    /// Secrets and authorities that a shipped module's built-in grants read from files; stored here so that a rotation
    /// counts as a change.
    pub ambient: Vec<Secret>,
    /// The region of this machine, for built-in grants that need it and have no variable for it; or why it is
    /// unknown.
    pub region: Option<Result<String, String>>,
    /// The ID of the instance that this machine is, for built-in grants whose module finds the cluster's ID in its
    /// tags; or why it is unknown.
    pub instance: Option<Result<String, String>>,
}

impl ProviderConfig {
    /// A provider without a configuration: the embedded module of this name with no settings.
    pub(crate) fn unwritten(name: &str) -> ProviderConfig {
        ProviderConfig {
            name: name.to_owned(),
            source: Location::Embedded(name.to_owned()),
            registry: RegistryConfig::default(),
            trust: TrustPolicy {
                allows_unsigned: true,
                ..TrustPolicy::default()
            },
            values: BTreeMap::new(),
            grants: None,
            proxy: ProxyChoice::Unset,
            limits: LimitsGranted::default(),
            nodes: NodeClaim::default(),
            load_balancers: LoadBalancerConfig::default(),
            rollout: RolloutRules::default(),
            ambient: Vec::new(),
            region: None,
            instance: None,
        }
    }
}

/// Injected access to variables, files and Secrets.
pub(crate) struct ConfigContext<'a> {
    /// An environment variable; `None` if unset.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// The text of a file, or why it cannot be read.
    pub file: &'a dyn Fn(&Path) -> Result<String, String>,
    /// The value of a key of a cluster Secret, or why it cannot be read.
    pub secret: &'a dyn Fn(&SecretKey) -> Result<String, String>,
    /// Set when a configuration is only checked, on another machine than it is for: files and variables that are
    /// missing here are noted, and are no mistakes.
    pub absent: Option<&'a Absent>,
}

/// Inputs that a configuration names, and that the machine that checks it does not have.
pub(crate) struct Absent {
    is_here: fn(&Path) -> bool,
    noted: RefCell<BTreeSet<String>>,
}

/// Replaces a missing credential: valid both as a token and as a docker configuration without logins.
pub(crate) const PLACEHOLDER: &str = r#"{"auths":{}}"#;

impl Absent {
    /// Starts without missing inputs. `is_here` says whether a file exists.
    pub(crate) fn new(is_here: fn(&Path) -> bool) -> Absent {
        Absent {
            is_here,
            noted: RefCell::default(),
        }
    }

    /// The missing inputs, sorted.
    pub(crate) fn noted(self) -> Vec<String> {
        self.noted.into_inner().into_iter().collect()
    }

    fn note(&self, what: String) {
        self.noted.borrow_mut().insert(what);
    }
}

impl ConfigContext<'_> {
    /// The text of a file; `None` if it is missing, and that is no mistake.
    ///
    /// # Errors
    /// Why it cannot be read.
    fn text_of(&self, path: &Path) -> Result<Option<String>, String> {
        match self.absent {
            Some(absent) if !(absent.is_here)(path) => {
                absent.note(format!("the file {}", path.display()));
                Ok(None)
            }
            _ => (self.file)(path).map(Some),
        }
    }

    /// The value of a variable; `None` if it is missing, and that is no mistake.
    ///
    /// # Errors
    /// It is not set.
    fn value_of(&self, variable: &str) -> Result<Option<String>, String> {
        match ((self.variable)(variable), self.absent) {
            (None, Some(absent)) => {
                absent.note(format!("the variable {variable}"));
                Ok(None)
            }
            (None, None) => Err(format!("variable {variable} is not set")),
            (value, _) => Ok(value),
        }
    }
}

/// All mistakes in a configuration, one per line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mistakes(pub Vec<String>);

impl std::fmt::Display for Mistakes {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0.join("\n"))
    }
}

impl std::error::Error for Mistakes {}

impl Mistakes {
    /// The value, if there is no mistake.
    pub(crate) fn or<T>(self, value: T) -> Result<T, Mistakes> {
        match self.0.is_empty() {
            true => Ok(value),
            false => Err(self),
        }
    }
}

/// A parsed configuration file, before anything it refers to is read.
#[derive(Clone)]
pub(crate) struct Written(RawConfig);

impl Written {
    /// Parses the text.
    ///
    /// # Errors
    /// A syntax error, with its line.
    pub(crate) fn read(text: &str) -> Result<Written, Mistakes> {
        if text.trim().is_empty() {
            let mistake = format!(
                "it is empty: expected apiVersion {API_VERSION}, kind {KIND} and providers"
            );
            return Err(Mistakes(vec![mistake]));
        }
        serde_saphyr::from_str(text)
            .map(Written)
            .map_err(|error| Mistakes(vec![yaml_error::describe(&error)]))
    }

    /// The cluster Secrets it refers to, which must be read before [`Written::meaning`] asks for them.
    pub(crate) fn secrets(&self) -> BTreeSet<SecretKey> {
        let references = self.0.providers.iter().map(References::of);
        references.flat_map(|found| found.secrets).collect()
    }

    /// Interprets the file.
    ///
    /// # Errors
    /// All mistakes together.
    pub(crate) fn meaning(
        self,
        context: &ConfigContext<'_>,
    ) -> Result<Vec<ProviderConfig>, Mistakes> {
        meaning(self.0, context)
    }

    /// Interprets each provider of the file by itself, with its current credentials. One with a mistake is as it was
    /// `before`.
    pub(crate) fn refreshed(
        self,
        before: &[ProviderConfig],
        context: &ConfigContext<'_>,
    ) -> Vec<ProviderConfig> {
        let raw = self.0.providers.into_iter();
        let refreshed = raw.filter_map(|raw| {
            let before = before.iter().find(|one| one.name == raw.name);
            let mut mistakes = Vec::new();
            let provider = provider(raw, context, &mut mistakes);
            provider
                .filter(|_| mistakes.is_empty())
                .or_else(|| before.cloned())
        });
        refreshed.collect()
    }
}

/// Parses and interprets a configuration file without reading its Secrets first.
///
/// # Errors
/// All mistakes together; a syntax error alone, with its line.
pub(crate) fn parse(
    text: &str,
    context: &ConfigContext<'_>,
) -> Result<Vec<ProviderConfig>, Mistakes> {
    Written::read(text)?.meaning(context)
}

fn meaning(raw: RawConfig, context: &ConfigContext<'_>) -> Result<Vec<ProviderConfig>, Mistakes> {
    let mut mistakes = Vec::new();
    if raw.api_version != API_VERSION {
        mistakes.push(format!(
            "apiVersion {:?}: expected {API_VERSION}",
            raw.api_version
        ));
    }
    if raw.kind != KIND {
        mistakes.push(format!("kind {:?}: expected {KIND}", raw.kind));
    }
    let mut providers: Vec<ProviderConfig> = Vec::new();
    for raw in raw.providers {
        if !is_dns_label(&raw.name) {
            mistakes.push(format!(
                "provider {:?}: a name is lower-case letters, digits and dashes, at most 63",
                raw.name
            ));
        }
        providers.extend(provider(raw, context, &mut mistakes));
    }
    mistakes.extend(claimed_twice(&providers));
    mistakes.extend(load_balancers::class_conflicts(&providers));
    Mistakes(mistakes).or(providers)
}

/// Checks whether these providers can serve one cluster together, as far as this can be known before their modules are
/// loaded.
///
/// # Errors
/// All conflicts between them.
pub(crate) fn together(providers: &[ProviderConfig]) -> Result<(), Mistakes> {
    let mut mistakes = claimed_twice(providers);
    if providers.is_empty() {
        mistakes.push("providers: there is none in the list".to_owned());
    }
    mistakes.extend(load_balancers::class_conflicts(providers));
    mistakes.extend(load_balancers::defaults(providers));
    Mistakes(mistakes).or(())
}

/// The mistake that the file does not list the provider that `--cloud-provider` names.
pub(crate) fn unlisted(name: &str, listed: &[ProviderConfig]) -> String {
    let listed: Vec<&str> = listed.iter().map(|one| one.name.as_str()).collect();
    format!(
        "--cloud-provider={name}: the file of --config has no provider of this name: it has {}",
        listed.join(", ")
    )
}

/// Nodes claimed by two providers.
fn claimed_twice(providers: &[ProviderConfig]) -> Vec<String> {
    let claims: Vec<Claim> = providers
        .iter()
        .map(|provider| Claim {
            name: provider.name.clone(),
            schemes: provider.nodes.schemes.clone(),
            selector: provider.nodes.selector.clone(),
        })
        .collect();
    ownership::mistakes(&claims)
}

fn provider(
    raw: RawProvider,
    context: &ConfigContext<'_>,
    mistakes: &mut Vec<String>,
) -> Option<ProviderConfig> {
    let place = format!("provider {:?}", raw.name);
    let load_balancers = load_balancers::load_balancers(&place, &raw, mistakes);
    let source = match raw.source.as_deref().map(Location::parse) {
        None => Some(Location::Embedded(raw.name.clone())),
        Some(Ok(source)) => Some(source),
        Some(Err(error)) => {
            mistakes.push(format!("{place}: source: {error}"));
            None
        }
    };
    let registry = source::registry(&place, raw.registry, context, mistakes);
    let trust = source::trust(&place, raw.trust, source.as_ref(), context, mistakes);
    let proxy = proxy::proxy(&place, raw.proxy, context, mistakes);
    let grants = raw
        .grants
        .map(|raw| grants::grants(&place, raw, &proxy, context, mistakes));
    let selector = raw.nodes.selector.as_deref().map(Selector::parse);
    let selector = selector
        .transpose()
        .map_err(|error| mistakes.push(format!("{place}: nodes: selector: {error}")));
    for scheme in &raw.nodes.schemes {
        if !is_scheme(scheme) {
            mistakes.push(format!(
                "{place}: nodes: scheme {scheme:?}: expected what stands before :// in provider IDs, such as hcloud"
            ));
        }
    }
    let limits = limits(&place, &raw.limits, mistakes);
    let rollout = rollout(&place, &raw.rollout, mistakes);
    Some(ProviderConfig {
        name: raw.name,
        source: source?,
        registry,
        trust,
        values: raw.config,
        grants,
        proxy,
        limits,
        nodes: NodeClaim {
            schemes: raw.nodes.schemes,
            // Treating an invalid selector as none would select all nodes.
            selector: selector.ok()?,
        },
        load_balancers,
        rollout,
        ambient: Vec::new(),
        region: None,
        instance: None,
    })
}

/// Whether the text is a valid provider ID scheme.
fn is_scheme(text: &str) -> bool {
    let id = format!("{text}://x");
    ProviderId::parse(&id).is_ok_and(|read| read.scheme == text)
}

/// Rejects zero limits, with which no call could complete.
fn limits(place: &str, raw: &RawLimits, mistakes: &mut Vec<String>) -> LimitsGranted {
    for (key, value) in [
        ("memoryMiB", raw.memory_mib),
        ("callSeconds", raw.call_seconds),
    ] {
        if value == Some(0) {
            mistakes.push(format!("{place}: limits: {key} has to be at least 1"));
        }
    }
    LimitsGranted {
        memory_mib: raw.memory_mib,
        call_seconds: raw.call_seconds,
    }
}

fn rollout(place: &str, raw: &RawRollout, mistakes: &mut Vec<String>) -> RolloutRules {
    let unset = RolloutRules::default();
    let mut time = |key: &str, text: &Option<String>, unset| match text.as_deref().map(go_duration)
    {
        None => unset,
        Some(Ok(time)) => time,
        Some(Err(error)) => {
            mistakes.push(format!("{place}: rollout: {key}: {error}"));
            unset
        }
    };
    RolloutRules {
        approve_within_grants: raw.approve_within_grants,
        shadow_comparisons: raw.shadow_calls.unwrap_or(unset.shadow_comparisons),
        shadow_time: time("shadowTime", &raw.shadow_time, unset.shadow_time),
        tolerated_differences: raw
            .tolerated_differences
            .unwrap_or(unset.tolerated_differences),
        canary_calls: raw.canary_calls.unwrap_or(unset.canary_calls),
        canary_time: time("canaryTime", &raw.canary_time, unset.canary_time),
        quiet: time("quiet", &raw.quiet, unset.quiet),
        ..unset
    }
}

#[cfg(test)]
mod definition;
#[cfg(test)]
mod tests;
