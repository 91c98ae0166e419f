//! The configuration as written: the file, and the `spec` of an object `Provider`, which has the shape of one entry of the
//! file. Refuses unknown keys; interprets nothing.
//!
//! The bounds and the rules in `schemars(…)` are the API server's, for objects only (`config/definition.rs`). The file has
//! none of them but those that [`super::meaning`] has, too.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ccm_host::egress::rules::RawRule;
use schemars::JsonSchema;
use serde::Deserialize;

use super::proxy::{RawProxy, RawProxyServer};
use super::raw_credential::RawCredential;
use super::secret::SecretSource;

/// The texts of durations, for the definition of objects.
const DURATION: &str = r"^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$";
/// The texts of addresses and ranges, for the same.
pub(super) const RANGE: &str = r"^[0-9a-fA-F:.]+(/[0-9]{1,3})?$";

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RawConfig {
    /// `wasm-ccm.dev/v1alpha1`.
    pub(super) api_version: String,
    /// `ProviderConfiguration`.
    pub(super) kind: String,
    /// The providers, at least one; no name twice.
    pub(super) providers: Vec<RawProvider>,
}

/// One provider: where its module comes from, who vouches for it, what it may reach, and what it is responsible for. The
/// fields are those of an entry under `providers` in the file of --config.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "has(self.grants)", "message": "grants: an object says itself what its module may reach; `ccm provider init` writes what the module asks for"},
    {"rule": "!has(self.source) || self.source.startsWith('embedded:') || self.source.startsWith('file:') || self.source.contains('@sha256:') || (has(self.trust) && (has(self.trust.digest) || (has(self.trust.keys) && self.trust.keys.size() > 0) || (has(self.trust.keyless) && self.trust.keyless.size() > 0) || (has(self.trust.unsigned) && self.trust.unsigned)))", "message": "trust: modules from this source need a digest, keys or keyless; `unsigned: true` accepts any module"},
    {"rule": "!has(self.registry) || (has(self.source) && self.source.startsWith('oci://'))", "message": "registry: only a source `oci://…` has one"}
]))]
pub(super) struct RawProvider {
    /// A DNS label: recorded as the owner of nodes and Services, and the name of the object `Provider`.
    #[schemars(skip)]
    pub(super) name: String,
    /// Where the module comes from: `embedded:…`, `file://…`, `configmap://namespace/name/key` or `oci://…`. Default: `embedded:` and the name.
    #[schemars(length(min = 1, max = 2048), extend("x-kubernetes-validations" = [
        {"rule": "self.matches('^(embedded:[a-z0-9-]+|file:///.*|configmap://[^/]+/[^/]+/[^/]+|oci://[^/@]+/.+)$')", "message": "the forms are `embedded:<name>`, `file:///path/provider.wasm`, `file:///folder/`, `configmap://<namespace>/<name>/<key>` and `oci://<registry>[:port]/<repository>[:tag][@sha256:<digest>]`"}
    ]))]
    pub(super) source: Option<String>,
    /// How the registry of an `oci://` source is reached.
    #[serde(default)]
    pub(super) registry: RawRegistry,
    /// How the module is verified. Required for ConfigMaps and registries, unless the source names a digest.
    #[serde(default)]
    pub(super) trust: RawTrust,
    /// The module's own keys, as `ccm provider inspect` lists them.
    #[serde(default)]
    #[schemars(extend("maxProperties" = 64, "additionalProperties" = {"type": "string", "maxLength": 65536}))]
    pub(super) config: BTreeMap<String, String>,
    /// What the module may reach. The module's own request can only narrow it. Default: the built-in grants, for shipped modules only, which also read variables.
    pub(super) grants: Option<RawGrants>,
    /// The proxy of every target that names none; in the file of --config also one of the words `environment` (the proxy of `HTTPS_PROXY`) and `direct` (none). Default: none.
    #[schemars(with = "Option<RawProxyServer>")]
    pub(super) proxy: Option<RawProxy>,
    /// Limits of one call.
    #[serde(default)]
    pub(super) limits: RawLimits,
    /// Which nodes the provider is responsible for.
    #[serde(default)]
    pub(super) nodes: RawNodes,
    /// Values of `spec.loadBalancerClass` that belong to this provider.
    #[serde(default)]
    #[schemars(length(max = 16), inner(length(min = 1, max = 317)))]
    pub(super) load_balancer_classes: Vec<String>,
    /// Whether Services without a class belong to it. Default: yes for a single provider, otherwise no.
    pub(super) default_load_balancer: Option<bool>,
    /// Ranges in which every address of a Service has to be. Default: any that is not the cluster's own.
    #[serde(default, rename = "ingressCIDRs")]
    #[schemars(
        length(max = 32),
        inner(length(max = 64), regex(pattern = r"^[0-9a-fA-F:.]+/[0-9]{1,3}$"))
    )]
    pub(super) ingress_cidrs: Vec<String>,
    /// Whether load balancers are taken over that have no owner in this cluster. Default: no.
    pub(super) adopt_load_balancers: Option<bool>,
    /// Whether those of them are taken over that name no owner, as by the vendors' Go managers. Default: no.
    pub(super) adopt_unowned_load_balancers: Option<bool>,
    /// How a new version takes over.
    #[serde(default)]
    pub(super) rollout: RawRollout,
}

#[derive(Clone, Deserialize, Default, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "!has(self.caFile)", "message": "caFile is for the file of --config: an object holds the certificates as caPem"}
]))]
pub(super) struct RawRegistry {
    /// The text of a docker configuration. Credential helpers are not run.
    pub(super) credentials: Option<SecretSource>,
    /// PEM file with the only certificates to trust. Default: the platform's.
    #[schemars(length(max = 4096))]
    pub(super) ca_file: Option<PathBuf>,
    /// The only certificates to trust, in PEM form.
    #[schemars(length(max = 65536))]
    pub(super) ca_pem: Option<String>,
    /// `host[:port][/prefix]`, tried before the registry in this order.
    #[serde(default)]
    #[schemars(length(max = 8), inner(length(min = 1, max = 512)))]
    pub(super) mirrors: Vec<String>,
    /// How often a tag is looked at, at least 5s. Default: 5m.
    #[schemars(length(max = 32), regex(pattern = DURATION))]
    pub(super) poll_interval: Option<String>,
    /// Private or loopback ranges that the registry's names may resolve to. Default: none.
    #[serde(default)]
    #[schemars(length(max = 32), inner(length(max = 64), regex(pattern = RANGE)))]
    pub(super) addresses: Vec<String>,
    /// The proxy on the way to the registry, at `http://` or `https://`. Its certificate is checked as the registry's is: `caFile` and `caPem` of it are refused. In the file of --config also one of the words `environment` (the proxy of `HTTPS_PROXY`) and `direct` (none). Default: none.
    #[schemars(with = "Option<RawProxyServer>")]
    pub(super) proxy: Option<RawProxy>,
    /// Whether the registry is reached without TLS; on this machine only.
    #[serde(default)]
    pub(super) plain_http: bool,
}

#[derive(Clone, Deserialize, Default, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "!(has(self.unsigned) && self.unsigned) || !(has(self.digest) || (has(self.keys) && self.keys.size() > 0) || (has(self.keyless) && self.keyless.size() > 0))", "message": "unsigned accepts modules without a signature, and digest, keys or keyless require one: remove one of them"}
]))]
pub(super) struct RawTrust {
    /// Exactly these bytes (`sha256:…`), or the registry's manifest with this digest.
    #[schemars(length(max = 71), regex(pattern = "^sha256:[0-9a-f]{64}$"))]
    pub(super) digest: Option<String>,
    /// Public keys; one valid signature is enough.
    #[serde(default)]
    #[schemars(length(max = 8))]
    pub(super) keys: Vec<RawPem>,
    /// Identities that may sign.
    #[serde(default)]
    #[schemars(length(max = 8))]
    pub(super) keyless: Vec<RawKeyless>,
    /// Older versions are refused, even if they are signed.
    #[schemars(length(min = 1, max = 128))]
    pub(super) minimum_version: Option<String>,
    /// Whether no signature and no digest is required.
    #[serde(default)]
    pub(super) unsigned: bool,
}

/// A public text in PEM form.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "!has(self.file)", "message": "file is for the file of --config: an object holds the text as pem"}
]))]
pub(super) enum RawPem {
    /// The text itself.
    Pem(#[schemars(length(min = 1, max = 65536))] String),
    /// A file with it.
    File(#[schemars(length(max = 4096))] PathBuf),
}

#[derive(Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RawKeyless {
    /// The identity, as the certificate names it.
    #[schemars(length(min = 1, max = 2048))]
    pub(super) identity: String,
    /// The issuer that has verified the identity (URL).
    #[schemars(length(min = 1, max = 2048))]
    pub(super) issuer: String,
    /// The authorities that the certificate chains to, or a whole `trusted_root.json`.
    pub(super) roots: RawPem,
    /// Public keys of transparency logs that prove when the certificate was used.
    #[serde(default)]
    #[schemars(length(max = 8))]
    pub(super) logs: Vec<RawPem>,
    /// Certificates of time stamp authorities that prove the same.
    #[serde(default)]
    #[schemars(length(max = 8))]
    pub(super) time_stamps: Vec<RawPem>,
}

#[derive(Clone, Deserialize, Default, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RawLimits {
    /// Memory of one call in MiB, at most 256. Default: the module's request, or 64.
    #[serde(rename = "memoryMiB")]
    #[schemars(range(min = 1))]
    pub(super) memory_mib: Option<u32>,
    /// Seconds of one call, at most 300. Default: the module's request, or 60.
    #[schemars(range(min = 1))]
    pub(super) call_seconds: Option<u32>,
}

#[derive(Clone, Deserialize, Default, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RawNodes {
    /// A label selector: which new nodes the provider may own; for a provider without instances, the nodes that it makes routes for. Default: all of them.
    #[schemars(length(max = 1024))]
    pub(super) selector: Option<String>,
    /// Provider ID schemes that the provider is responsible for. Default: those of the module.
    #[serde(default)]
    #[schemars(length(max = 8), inner(length(min = 1, max = 63)))]
    pub(super) schemes: Vec<String>,
}

#[derive(Clone, Deserialize, Default, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RawRollout {
    /// Whether a version that asks for more than the active one, within the grants, needs no approval.
    #[serde(default)]
    pub(super) approve_within_grants: bool,
    /// How many answers of a new version are compared. Default: 10.
    pub(super) shadow_calls: Option<u32>,
    /// How long they are compared at most. Default: 30s.
    #[schemars(length(max = 32), regex(pattern = DURATION))]
    pub(super) shadow_time: Option<String>,
    /// How many of them may differ. Default: 0.
    pub(super) tolerated_differences: Option<u32>,
    /// How many calls a new version answers before it serves. Default: 20.
    pub(super) canary_calls: Option<u32>,
    /// How long it answers a part of the calls at most. Default: 60s.
    #[schemars(length(max = 32), regex(pattern = DURATION))]
    pub(super) canary_time: Option<String>,
    /// How long there is no traffic before `ccm` makes calls of its own. Default: 10s.
    #[schemars(length(max = 32), regex(pattern = DURATION))]
    pub(super) quiet: Option<String>,
}

#[derive(Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RawGrants {
    /// The APIs that the module may reach.
    #[serde(default)]
    #[schemars(length(max = 8))]
    pub(super) targets: Vec<RawTarget>,
    /// Which annotations of Services the module may set.
    #[serde(default)]
    #[schemars(length(max = 16), inner(length(min = 1, max = 317)))]
    pub(super) annotation_prefixes: Vec<String>,
}

#[derive(Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "!has(self.caFile)", "message": "caFile is for the file of --config: an object holds the certificates as caPem"}
]))]
pub(super) struct RawTarget {
    /// The name that the module calls the target by.
    #[schemars(length(min = 1, max = 63))]
    pub(super) name: String,
    /// Base URL; no request leaves it.
    #[schemars(length(min = 1, max = 2048), extend("x-kubernetes-validations" = [
        {"rule": "self.startsWith('https://') || self.matches('^http://(localhost|127\\\\.[0-9.]+|\\\\[::1\\\\])(:[0-9]+)?(/.*)?$')", "message": "expected https, or http to loopback"},
        {"rule": "!self.contains('@') && !self.contains('?') && !self.contains('#')", "message": "expected scheme, host, port and base path only"}
    ]))]
    pub(super) endpoint: String,
    /// Added to each request. The module never sees it.
    pub(super) credential: Option<RawCredential>,
    /// Private or loopback ranges that the endpoint's name may resolve to. Default: none.
    #[serde(default)]
    #[schemars(length(max = 32), inner(length(max = 64), regex(pattern = RANGE)))]
    pub(super) addresses: Vec<String>,
    /// PEM file with the only certificates to trust. Default: the platform's.
    #[schemars(length(max = 4096))]
    pub(super) ca_file: Option<PathBuf>,
    /// The only certificates to trust, in PEM form.
    #[schemars(length(max = 65536))]
    pub(super) ca_pem: Option<String>,
    /// SHA-256 fingerprints of the server's certificate, as Proxmox and openssl show them. With one, only such a certificate is trusted, whatever its name, dates and signer; with caPem or caFile it must also pass the usual checks against those. Default: none.
    #[serde(default)]
    #[schemars(
        length(max = 8),
        inner(
            length(max = 95),
            regex(pattern = r"^[0-9a-fA-F]{2}(:?[0-9a-fA-F]{2}){31}$")
        )
    )]
    pub(super) certificate_fingerprints: Vec<String>,
    /// How many requests the target gets. Default: 6000 a minute.
    pub(super) request_budget: Option<RawRequestBudget>,
    /// The proxy on the way to the target; in the file of --config also one of the words `environment` (the proxy of `HTTPS_PROXY`) and `direct` (none). Default: the provider's.
    #[schemars(with = "Option<RawProxyServer>")]
    pub(super) proxy: Option<RawProxy>,
    /// What may be requested.
    #[schemars(length(min = 1, max = 128))]
    pub(super) rules: Vec<RawRule>,
}

#[derive(Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RawRequestBudget {
    /// How many at once, and then as many in each period.
    #[schemars(range(min = 1))]
    pub(super) requests: u32,
    /// The period, from 1s to 24h.
    #[schemars(length(max = 32), regex(pattern = DURATION))]
    pub(super) per: String,
}
