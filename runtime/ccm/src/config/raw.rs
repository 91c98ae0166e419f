//! The configuration file as written. Refuses unknown keys; interprets nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use ccm_host::egress::rules::RawRule;
use serde::Deserialize;

use super::proxy::RawProxy;
use super::secret::{SecretKey, SecretSource};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RawConfig {
    /// `wasm-ccm.dev/v1alpha1`.
    pub(super) api_version: String,
    /// `ProviderConfiguration`.
    pub(super) kind: String,
    /// The providers, at least one; no name twice.
    pub(super) providers: Vec<RawProvider>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RawProvider {
    /// A DNS label: recorded as the owner of nodes and Services, and the name of the object `Provider`.
    pub(super) name: String,
    /// Where the module comes from: `embedded:…`, `file://…`, `configmap://namespace/name/key` or `oci://…`. Default: `embedded:` and the name.
    pub(super) source: Option<String>,
    /// How the registry of an `oci://` source is reached.
    #[serde(default)]
    pub(super) registry: RawRegistry,
    /// Who has to vouch for the module. Required for ConfigMaps and registries.
    #[serde(default)]
    pub(super) trust: RawTrust,
    /// The module's own keys, as `ccm provider inspect` lists them.
    #[serde(default)]
    pub(super) config: BTreeMap<String, String>,
    /// What the module may reach. The module's own request can only narrow it. Default: the built-in profile, for shipped modules only, which also reads variables.
    pub(super) grants: Option<RawGrants>,
    /// The proxy of every target that names none. Default: none.
    pub(super) proxy: Option<RawProxy>,
    /// Limits of one call.
    #[serde(default)]
    pub(super) limits: RawLimits,
    /// Which nodes the provider is responsible for.
    #[serde(default)]
    pub(super) nodes: RawNodes,
    /// Values of `spec.loadBalancerClass` that belong to this provider.
    #[serde(default)]
    pub(super) load_balancer_classes: Vec<String>,
    /// Whether Services without a class belong to it. Default: yes for a single provider, otherwise no.
    pub(super) default_load_balancer: Option<bool>,
    /// Ranges in which every address of a Service has to be. Default: any that is not the cluster's own.
    #[serde(default, rename = "ingressCIDRs")]
    pub(super) ingress_cidrs: Vec<String>,
    /// Whether load balancers are taken over that have no owner in this cluster. Default: no.
    pub(super) adopt_load_balancers: Option<bool>,
    /// How a new version takes over.
    #[serde(default)]
    pub(super) rollout: RawRollout,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RawRegistry {
    /// The text of a docker configuration. Credential helpers are not run.
    pub(super) credentials: Option<SecretSource>,
    /// PEM file with the only certificates to trust. Default: the platform's.
    pub(super) ca_file: Option<PathBuf>,
    /// `host[:port][/prefix]`, tried before the registry in this order.
    #[serde(default)]
    pub(super) mirrors: Vec<String>,
    /// How often a tag is looked at, at least 5s. Default: 5m.
    pub(super) poll_interval: Option<String>,
    /// Private or loopback ranges that the registry's names may resolve to. Default: none.
    #[serde(default)]
    pub(super) addresses: Vec<String>,
    /// The proxy on the way to the registry. Default: none.
    pub(super) proxy: Option<RawProxy>,
    /// Whether the registry is reached without TLS; on this machine only.
    #[serde(default)]
    pub(super) plain_http: bool,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RawTrust {
    /// Exactly these bytes (`sha256:…`), or the registry's manifest with this digest.
    pub(super) digest: Option<String>,
    /// Public keys; one valid signature is enough.
    #[serde(default)]
    pub(super) keys: Vec<RawPem>,
    /// Identities that may sign.
    #[serde(default)]
    pub(super) keyless: Vec<RawKeyless>,
    /// Older versions are refused, even if they are signed.
    pub(super) minimum_version: Option<String>,
    /// Whether no signature and no digest is required.
    #[serde(default)]
    pub(super) unsigned: bool,
}

/// A public text in PEM form.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) enum RawPem {
    /// The text itself.
    Pem(String),
    /// A file with it.
    File(PathBuf),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RawKeyless {
    /// The identity, as the certificate names it.
    pub(super) identity: String,
    /// Who has checked the identity (URL).
    pub(super) issuer: String,
    /// The authorities that the certificate chains to, or a whole `trusted_root.json`.
    pub(super) roots: RawPem,
    /// Public keys of transparency logs that prove when the certificate was used.
    #[serde(default)]
    pub(super) logs: Vec<RawPem>,
    /// Certificates of time stamp authorities that prove the same.
    #[serde(default)]
    pub(super) time_stamps: Vec<RawPem>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RawLimits {
    /// Memory of one call in MiB, at most 256. Default: what the module asks for, or 64.
    #[serde(rename = "memoryMiB")]
    pub(super) memory_mib: Option<u32>,
    /// Seconds of one call, at most 300. Default: what the module asks for, or 60.
    pub(super) call_seconds: Option<u32>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RawNodes {
    /// A label selector: which new nodes the provider may own; for a provider without instances, the nodes that it makes routes for. Default: all of them.
    pub(super) selector: Option<String>,
    /// Provider ID schemes that the provider is responsible for. Default: those of the module.
    #[serde(default)]
    pub(super) schemes: Vec<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RawRollout {
    /// Whether a version that asks for more than the active one, within the grants, needs no approval.
    #[serde(default)]
    pub(super) approve_within_grants: bool,
    /// How many answers of a new version are compared. Default: 10.
    pub(super) shadow_calls: Option<u32>,
    /// How long they are compared at most. Default: 30s.
    pub(super) shadow_time: Option<String>,
    /// How many of them may differ. Default: 0.
    pub(super) tolerated_differences: Option<u32>,
    /// How many calls a new version answers before it serves. Default: 20.
    pub(super) canary_calls: Option<u32>,
    /// How long it answers a part of the calls at most. Default: 60s.
    pub(super) canary_time: Option<String>,
    /// How long there is no traffic before `ccm` makes calls of its own. Default: 10s.
    pub(super) quiet: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RawGrants {
    /// The APIs that the module may reach.
    #[serde(default)]
    pub(super) targets: Vec<RawTarget>,
    /// Which annotations of Services the module may set.
    #[serde(default)]
    pub(super) annotation_prefixes: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RawTarget {
    /// The name that the module calls the target by.
    pub(super) name: String,
    /// Base URL; no request leaves it.
    pub(super) endpoint: String,
    /// Added to each request. The module never sees it.
    pub(super) credential: Option<RawCredential>,
    /// Private or loopback ranges that the endpoint's name may resolve to. Default: none.
    #[serde(default)]
    pub(super) addresses: Vec<String>,
    /// PEM file with the only certificates to trust. Default: the platform's.
    pub(super) ca_file: Option<PathBuf>,
    /// How many requests the target gets. Default: 6000 a minute.
    pub(super) request_budget: Option<RawRequestBudget>,
    /// The proxy on the way to the target. Default: the provider's.
    pub(super) proxy: Option<RawProxy>,
    /// What may be requested.
    pub(super) rules: Vec<RawRule>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RawRequestBudget {
    /// How many at once, and then as many in each period.
    pub(super) requests: u32,
    /// The period, from 1s to 24h.
    pub(super) per: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) enum RawCredential {
    /// A bearer token.
    Bearer(SecretSource),
    /// A user and a password.
    Basic {
        /// The user.
        user: String,
        /// The password.
        password: SecretSource,
    },
    /// A header field.
    Header {
        /// The field's name.
        name: String,
        /// Its value.
        value: SecretSource,
    },
}

impl RawConfig {
    /// The cluster Secrets it refers to.
    pub(super) fn secrets(&self) -> BTreeSet<SecretKey> {
        let mut found = BTreeSet::new();
        for provider in &self.providers {
            let targets = provider.grants.iter().flat_map(|grants| &grants.targets);
            let credentials = targets
                .clone()
                .filter_map(|target| target.credential.as_ref());
            let sources = credentials.map(|credential| match credential {
                RawCredential::Bearer(source) => source,
                RawCredential::Basic { password, .. } => password,
                RawCredential::Header { value, .. } => value,
            });
            let proxies = targets.filter_map(|target| target.proxy.as_ref());
            let proxies = proxies
                .chain(&provider.proxy)
                .chain(&provider.registry.proxy);
            let sources = sources.chain(&provider.registry.credentials);
            let sources = sources.chain(proxies.filter_map(RawProxy::password));
            found.extend(sources.filter_map(SecretSource::secret_key).cloned());
        }
        found
    }
}
