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
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) providers: Vec<RawProvider>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RawProvider {
    pub(super) name: String,
    pub(super) source: Option<String>,
    #[serde(default)]
    pub(super) registry: RawRegistry,
    #[serde(default)]
    pub(super) trust: RawTrust,
    #[serde(default)]
    pub(super) config: BTreeMap<String, String>,
    pub(super) grants: Option<RawGrants>,
    pub(super) proxy: Option<RawProxy>,
    #[serde(default)]
    pub(super) limits: RawLimits,
    #[serde(default)]
    pub(super) nodes: RawNodes,
    #[serde(default)]
    pub(super) load_balancer_classes: Vec<String>,
    pub(super) default_load_balancer: Option<bool>,
    #[serde(default, rename = "ingressCIDRs")]
    pub(super) ingress_cidrs: Vec<String>,
    pub(super) adopt_load_balancers: Option<bool>,
    #[serde(default)]
    pub(super) rollout: RawRollout,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RawRegistry {
    pub(super) credentials: Option<SecretSource>,
    pub(super) ca_file: Option<PathBuf>,
    #[serde(default)]
    pub(super) mirrors: Vec<String>,
    pub(super) poll_interval: Option<String>,
    #[serde(default)]
    pub(super) addresses: Vec<String>,
    pub(super) proxy: Option<RawProxy>,
    #[serde(default)]
    pub(super) plain_http: bool,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RawTrust {
    pub(super) digest: Option<String>,
    #[serde(default)]
    pub(super) keys: Vec<RawPem>,
    #[serde(default)]
    pub(super) keyless: Vec<RawKeyless>,
    pub(super) minimum_version: Option<String>,
    #[serde(default)]
    pub(super) unsigned: bool,
}

/// A public text in PEM form.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) enum RawPem {
    Pem(String),
    File(PathBuf),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RawKeyless {
    pub(super) identity: String,
    pub(super) issuer: String,
    pub(super) roots: RawPem,
    #[serde(default)]
    pub(super) logs: Vec<RawPem>,
    #[serde(default)]
    pub(super) time_stamps: Vec<RawPem>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RawLimits {
    #[serde(rename = "memoryMiB")]
    pub(super) memory_mib: Option<u32>,
    pub(super) call_seconds: Option<u32>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RawNodes {
    pub(super) selector: Option<String>,
    #[serde(default)]
    pub(super) schemes: Vec<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RawRollout {
    #[serde(default)]
    pub(super) approve_within_grants: bool,
    pub(super) shadow_calls: Option<u32>,
    pub(super) shadow_time: Option<String>,
    pub(super) tolerated_differences: Option<u32>,
    pub(super) canary_calls: Option<u32>,
    pub(super) canary_time: Option<String>,
    pub(super) quiet: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RawGrants {
    #[serde(default)]
    pub(super) targets: Vec<RawTarget>,
    #[serde(default)]
    pub(super) annotation_prefixes: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RawTarget {
    pub(super) name: String,
    pub(super) endpoint: String,
    pub(super) credential: Option<RawCredential>,
    #[serde(default)]
    pub(super) addresses: Vec<String>,
    pub(super) ca_file: Option<PathBuf>,
    pub(super) request_budget: Option<RawRequestBudget>,
    pub(super) proxy: Option<RawProxy>,
    pub(super) rules: Vec<RawRule>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RawRequestBudget {
    pub(super) requests: u32,
    pub(super) per: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) enum RawCredential {
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
