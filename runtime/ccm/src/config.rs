//! The configuration file: what was written ([`RawConfig`], unknown keys refused) and what it means
//! ([`ProviderConfig`]). All mistakes are reported together. It reads no file itself: the text, the
//! environment and the reading of secret files are arguments.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use ccm_host::egress::rules::{RawRule, Rule};
use ccm_host::grant::{Credential, Grants, Secret, TargetGrant};
use ipnet::IpNet;
use serde::Deserialize;

/// Version of the file's form.
pub(crate) const API_VERSION: &str = "config.wasm-ccm.dev/v1alpha1";
/// Kind of the file.
pub(crate) const KIND: &str = "ProviderConfiguration";

/// One provider as configured.
pub(crate) struct ProviderConfig {
    /// The name that `--cloud-provider` selects.
    pub name: String,
    /// Where the module comes from.
    pub module: ModuleRef,
    /// `sha256:<hex>` that the module must have, if pinned.
    pub digest: Option<String>,
    /// Values for the configuration keys that the manifest declares.
    pub values: BTreeMap<String, String>,
    /// What the operator allows; `None`: the built-in profile, which only shipped modules have.
    pub grants: Option<Grants>,
    /// Which Services it makes load balancers for, and within which bounds.
    pub load_balancers: LoadBalancerConfig,
}

/// What a provider's entry says about load balancers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LoadBalancerConfig {
    /// `loadBalancerClasses`: the classes that it serves.
    pub classes: BTreeSet<String>,
    /// `defaultLoadBalancer`: whether it serves Services without a class.
    pub is_default: bool,
    /// `ingressCIDRs`: ranges that every address of a load balancer is in. Empty: anywhere outside the cluster.
    pub ingress_cidrs: Vec<IpNet>,
    /// `adoptLoadBalancers`: whether it may take over what has no owner, or one that is not alive.
    pub adoption: bool,
}

impl Default for LoadBalancerConfig {
    /// As the vendors' own managers: all Services without a class.
    fn default() -> LoadBalancerConfig {
        LoadBalancerConfig {
            classes: BTreeSet::new(),
            is_default: true,
            ingress_cidrs: Vec::new(),
            adoption: false,
        }
    }
}

impl ProviderConfig {
    /// A provider that no file describes: the embedded module of this name, and nothing set.
    pub(crate) fn unwritten(name: &str) -> ProviderConfig {
        ProviderConfig {
            name: name.to_owned(),
            module: ModuleRef::Embedded(name.to_owned()),
            digest: None,
            values: BTreeMap::new(),
            grants: None,
            load_balancers: LoadBalancerConfig::default(),
        }
    }
}

/// Where a module comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ModuleRef {
    /// `embedded:<name>`: shipped inside this binary.
    Embedded(String),
    /// `file:///<path>`.
    File(PathBuf),
}

impl ModuleRef {
    /// Reads `embedded:<name>` or `file:///<absolute path>`; a plain path is taken as a file.
    ///
    /// # Errors
    /// What is wrong, with the accepted forms.
    pub(crate) fn parse(text: &str) -> Result<ModuleRef, String> {
        if let Some(name) = text.strip_prefix("embedded:") {
            return Ok(ModuleRef::Embedded(name.to_owned()));
        }
        let path = text.strip_prefix("file://").unwrap_or(text);
        if path.is_empty() || path.contains("://") {
            return Err(format!(
                "module {text:?}: expected file:///path/to/provider.wasm or embedded:<name>"
            ));
        }
        if text.starts_with("file://") && !path.starts_with('/') {
            return Err(format!(
                "module {text:?}: a file URL has three slashes: file:///path/to/provider.wasm"
            ));
        }
        Ok(ModuleRef::File(PathBuf::from(path)))
    }
}

impl std::fmt::Display for ModuleRef {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ModuleRef::Embedded(name) => write!(formatter, "embedded:{name}"),
            ModuleRef::File(path) => write!(formatter, "file://{}", path.display()),
        }
    }
}

/// How this module looks at the world: variables and files, both injected.
pub(crate) struct Surroundings<'a> {
    /// An environment variable; `None` when unset.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// The text of a file, or why it cannot be read.
    pub file: &'a dyn Fn(&Path) -> Result<String, String>,
}

/// Every mistake in a configuration, one per line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mistakes(pub Vec<String>);

impl std::fmt::Display for Mistakes {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0.join("\n"))
    }
}

impl std::error::Error for Mistakes {}

/// Reads a configuration file's text.
///
/// # Errors
/// All mistakes together; a syntax error alone, with its line.
pub(crate) fn parse(
    text: &str,
    surroundings: &Surroundings<'_>,
) -> Result<Vec<ProviderConfig>, Mistakes> {
    let raw: RawConfig =
        serde_saphyr::from_str(text).map_err(|error| Mistakes(vec![error.to_string()]))?;
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
        if raw.name.is_empty() {
            mistakes.push("a provider has no name".to_owned());
        }
        if providers.iter().any(|other| other.name == raw.name) {
            mistakes.push(format!("provider {:?} is there twice", raw.name));
        }
        providers.extend(provider(raw, surroundings, &mut mistakes));
    }
    mistakes.extend(rivals(&providers));
    if mistakes.is_empty() {
        Ok(providers)
    } else {
        Err(Mistakes(mistakes))
    }
}

/// Two providers that would both serve the same class. Of those without a class nothing is said: the flag picks one
/// provider, and the default of the file is that each of them would.
fn rivals(providers: &[ProviderConfig]) -> Vec<String> {
    let mut claimed: BTreeMap<&str, &str> = BTreeMap::new();
    let mut mistakes = Vec::new();
    for provider in providers {
        for class in &provider.load_balancers.classes {
            if let Some(other) = claimed.insert(class, &provider.name) {
                mistakes.push(format!(
                    "loadBalancerClasses: {class:?} is served by the providers {other:?} and {:?}: one of them has to go",
                    provider.name
                ));
            }
        }
    }
    mistakes
}

fn load_balancers(
    place: &str,
    raw: &RawProvider,
    mistakes: &mut Vec<String>,
) -> LoadBalancerConfig {
    let mut classes = BTreeSet::new();
    for class in &raw.load_balancer_classes {
        if !is_class(class) {
            mistakes.push(format!(
                "{place}: load balancer class {class:?}: expected a label such as example.com/internal"
            ));
        } else if !classes.insert(class.clone()) {
            mistakes.push(format!(
                "{place}: load balancer class {class:?} is there twice"
            ));
        }
    }
    let mut ingress_cidrs = Vec::new();
    for text in &raw.ingress_cidrs {
        match text.parse() {
            Ok(network) => ingress_cidrs.push(network),
            Err(_) => mistakes.push(format!(
                "{place}: ingressCIDRs {text:?}: expected a range such as 203.0.113.0/24"
            )),
        }
    }
    let unset = LoadBalancerConfig::default();
    LoadBalancerConfig {
        classes,
        is_default: raw.default_load_balancer.unwrap_or(unset.is_default),
        ingress_cidrs,
        adoption: raw.adopt_load_balancers.unwrap_or(unset.adoption),
    }
}

/// A qualified name, as the API server wants `spec.loadBalancerClass` to be.
fn is_class(text: &str) -> bool {
    let (domain, name) = text.rsplit_once('/').unwrap_or(("example.com", text));
    let is_end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let is_name = |name: &str, most: usize, extra: &[u8]| {
        name.len() <= most
            && is_end(name.as_bytes().first())
            && is_end(name.as_bytes().last())
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || extra.contains(&byte))
    };
    is_name(name, 63, b"-_.")
        && is_name(domain, 253, b"-.")
        && !domain.bytes().any(|byte| byte.is_ascii_uppercase())
}

fn provider(
    raw: RawProvider,
    surroundings: &Surroundings<'_>,
    mistakes: &mut Vec<String>,
) -> Option<ProviderConfig> {
    let place = format!("provider {:?}", raw.name);
    let module = match raw.module.as_deref().map(ModuleRef::parse) {
        None => Some(ModuleRef::Embedded(raw.name.clone())),
        Some(Ok(module)) => Some(module),
        Some(Err(mistake)) => {
            mistakes.push(format!("{place}: {mistake}"));
            None
        }
    };
    if let Some(digest) = &raw.digest
        && !is_digest(digest)
    {
        mistakes.push(format!(
            "{place}: digest {digest:?}: expected sha256: and 64 hexadecimal digits"
        ));
    }
    let load_balancers = load_balancers(&place, &raw, mistakes);
    let grants = raw.grants.map(|grants| Grants {
        targets: grants
            .targets
            .into_iter()
            .filter_map(|target| target_grant(&place, target, surroundings, mistakes))
            .collect(),
        annotation_prefixes: grants.annotation_prefixes,
    });
    Some(ProviderConfig {
        name: raw.name,
        module: module?,
        digest: raw.digest,
        values: raw.config,
        grants,
        load_balancers,
    })
}

fn target_grant(
    provider: &str,
    raw: RawTarget,
    surroundings: &Surroundings<'_>,
    mistakes: &mut Vec<String>,
) -> Option<TargetGrant> {
    let place = format!("{provider}: target {:?}", raw.name);
    let before = mistakes.len();
    let endpoint = raw.endpoint.parse();
    if let Err(error) = &endpoint {
        mistakes.push(format!("{place}: endpoint {:?}: {error}", raw.endpoint));
    }
    let mut addresses = Vec::new();
    for text in &raw.addresses {
        match text
            .parse::<IpNet>()
            .or_else(|_| text.parse::<IpAddr>().map(IpNet::from))
        {
            Ok(network) => addresses.push(network),
            Err(_) => mistakes.push(format!(
                "{place}: address {text:?}: expected an IP address or a CIDR range"
            )),
        }
    }
    let rules = rules(&place, raw.rules, mistakes);
    let credential = credential(raw.credential, surroundings).unwrap_or_else(|mistake| {
        mistakes.push(format!("{place}: credential: {mistake}"));
        Credential::None
    });
    let ca_pem = raw.ca_file.and_then(|path| {
        (surroundings.file)(&path)
            .map_err(|error| mistakes.push(format!("{place}: caFile {}: {error}", path.display())))
            .ok()
    });
    if mistakes.len() > before {
        return None;
    }
    Some(TargetGrant {
        name: raw.name,
        endpoint: endpoint.ok()?,
        rules,
        credential,
        addresses,
        ca_pem,
    })
}

fn rules(place: &str, raw: Vec<RawRule>, mistakes: &mut Vec<String>) -> Vec<Rule> {
    let mut rules = Vec::new();
    for rule in raw {
        match rule.read() {
            Ok(rule) => rules.push(rule),
            Err(errors) => {
                mistakes.extend(errors.into_iter().map(|error| format!("{place}: {error}")))
            }
        }
    }
    rules
}

fn credential(
    raw: Option<RawCredential>,
    surroundings: &Surroundings<'_>,
) -> Result<Credential, String> {
    Ok(match raw {
        None => Credential::None,
        Some(RawCredential::Bearer(source)) => Credential::Bearer(source.read(surroundings)?),
        Some(RawCredential::Basic { user, password }) => Credential::Basic {
            user,
            password: password.read(surroundings)?,
        },
        Some(RawCredential::Header { name, value }) => Credential::Header {
            name,
            value: value.read(surroundings)?,
        },
    })
}

/// Whether the text is `sha256:` and 64 lower-case hexadecimal digits.
fn is_digest(text: &str) -> bool {
    text.strip_prefix("sha256:").is_some_and(|hex| {
        hex.len() == 64
            && hex
                .bytes()
                .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawConfig {
    api_version: String,
    kind: String,
    providers: Vec<RawProvider>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawProvider {
    name: String,
    module: Option<String>,
    digest: Option<String>,
    #[serde(default)]
    config: BTreeMap<String, String>,
    grants: Option<RawGrants>,
    #[serde(default)]
    load_balancer_classes: Vec<String>,
    default_load_balancer: Option<bool>,
    #[serde(default, rename = "ingressCIDRs")]
    ingress_cidrs: Vec<String>,
    adopt_load_balancers: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawGrants {
    #[serde(default)]
    targets: Vec<RawTarget>,
    #[serde(default)]
    annotation_prefixes: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawTarget {
    name: String,
    endpoint: String,
    credential: Option<RawCredential>,
    #[serde(default)]
    addresses: Vec<String>,
    ca_file: Option<PathBuf>,
    rules: Vec<RawRule>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
enum RawCredential {
    Bearer(SecretSource),
    Basic {
        user: String,
        password: SecretSource,
    },
    Header {
        name: String,
        value: SecretSource,
    },
}

/// Where a secret is read from; never written into the file itself.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
enum SecretSource {
    Env(String),
    File(PathBuf),
}

impl SecretSource {
    fn read(&self, surroundings: &Surroundings<'_>) -> Result<Secret, String> {
        let text = match self {
            SecretSource::Env(name) => (surroundings.variable)(name)
                .ok_or_else(|| format!("variable {name} is not set"))?,
            SecretSource::File(path) => {
                (surroundings.file)(path).map_err(|error| format!("{}: {error}", path.display()))?
            }
        };
        // Mounted Secrets and `echo` end in a newline that no token contains.
        let text = text.trim();
        if text.is_empty() {
            return Err("the secret is empty".to_owned());
        }
        Ok(Secret::new(text.to_owned()))
    }
}

#[cfg(test)]
mod tests;
