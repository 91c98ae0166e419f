//! Arguments of `ccm provider …` and `ccm config …`: options, their help and an example of each. Reads no files.
//!
//! These commands are this program's own, so clap's derive form defines them; the flags of `run` belong to the Go
//! binary and are a table.

mod asking;

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum, value_parser};

use super::configmap::ConfigMapTarget;
use super::module_reference::ModuleReference;
pub(crate) use asking::{DocumentForm, ReportForm, Suite, Test, Try};
use asking::{TEST_HELP, TRY_HELP};

/// `ccm provider …`.
#[derive(Subcommand)]
pub(crate) enum ProviderCommand {
    /// Make a component loadable: give it its manifest, compress it, put it into a ConfigMap
    #[command(after_help = PACK_HELP)]
    Pack(Pack),
    /// Show what a module is and which rights it requests, without running it
    #[command(
        after_help = "Examples:\n  ccm provider inspect ./provider.wasm\n  ccm provider inspect -o grants oci://registry.example.com/clouds/hcloud:1.2.0\n\nExit codes: 0 it could be loaded, 1 it could not be read, 2 it is refused."
    )]
    Inspect(Inspect),
    /// Write the object `Provider` that runs a module: to be read and applied
    #[command(
        after_help = "Examples:\n  ccm provider init embedded:hcloud > provider.yaml\n  ccm provider init oci://registry.example.com/clouds/hcloud:1.2.0 --name hcloud-fsn\n\nThe manager reads such objects with --enable-provider-objects. Exit codes: 0 done, 1 the module could not be read, 2 it is refused."
    )]
    Init(Init),
    /// Load a module in the sandbox, under limits, and show the calls made, or the reason for a refusal
    #[command(
        after_help = "Examples:\n  ccm provider check ./provider.wasm\n  ccm provider check --config ccm.yaml --provider hcloud --online ./provider.wasm\n\nExit codes: 0 it loads, 1 it could not be read or compiled here, 2 it is refused or not trusted, or the cloud could not be asked."
    )]
    Check(Check),
    /// Let a module answer for nodes and Services without a cluster, and show what the manager would do with it
    #[command(after_help = TRY_HELP)]
    Try(Try),
    /// Test whether a module keeps the laws of the contract, the rules for all modules, with faults injected on its way
    /// to the cloud
    #[command(after_help = TEST_HELP)]
    Test(Test),
    /// Show which rights a new version of a module requests that the old one does not
    #[command(
        after_help = "Example:\n  ccm provider diff ./provider-1.wasm oci://registry.example.com/clouds/hcloud:2.0.0\n\nExit codes: 0 the new version requests nothing more, 1 a version could not be read, 2 it requests more, or a version is refused."
    )]
    Diff(Diff),
    /// Download a module from a registry
    #[command(
        after_help = "Example:\n  ccm provider pull oci://registry.example.com/clouds/hcloud:1.2.0 --to provider.wasm\n\n`wkg oci push` puts one there. It is not verified: see `ccm provider verify`. Exit codes: 0 done, 1 it could not be fetched or written, 2 the artifact is no module."
    )]
    Pull(Pull),
    /// Check whether a trusted signer or digest verifies a module
    #[command(
        after_help = "Examples:\n  ccm provider verify --key cosign.pub ./provider.wasm\n  ccm provider verify --config ccm.yaml --provider hcloud\n\ncosign signs modules: `cosign sign` in a registry, `cosign sign-blob --bundle provider.wasm.sigstore.json` for a file.\n\nExit codes: 0 the module is verified, 1 it could not be read, 2 it is not verified."
    )]
    Verify(Verify),
    /// Show the active, waiting and rejected versions of each provider in a cluster
    #[command(
        after_help = "Examples:\n  ccm provider status\n  ccm provider status hcloud -o json\n\nExit codes: 0 done, 1 the cluster could not be asked, or has no such provider."
    )]
    Status(Status),
}

const PACK_HELP: &str = "\
Examples:
  ccm provider pack guest.wasm --manifest manifest.json --to provider.wasm
  ccm provider pack provider.wasm --compress gzip --configmap kube-system/hcloud \\
    | kubectl apply --server-side -f -

A component of the Rust SDK has its manifest inside already, and needs none here.

Exit codes: 0 done, 1 something could not be read or written, 2 the result could not be loaded.";

/// How a result is printed.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// For people
    Text,
    /// For programs
    Json,
}

/// How `inspect` prints.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum InspectForm {
    /// For people
    Text,
    /// For programs
    Json,
    /// As a configuration that grants what the module requests: to be read and used
    Grants,
}

/// How `status` prints.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StatusForm {
    /// For people
    Text,
    /// For people, with whole digests and where they came from
    Wide,
    /// For programs
    Json,
}

/// How modules are compressed.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Compression {
    /// As gzip does at its best
    Gzip,
}

/// The option of all that print text or JSON.
#[derive(Args)]
pub(crate) struct Printed {
    /// How the result is printed
    #[arg(short, long = "output", value_name = "FORM", default_value = "text")]
    pub output: Form,
}

/// Options of `ccm provider pack`.
#[derive(Args)]
pub(crate) struct Pack {
    #[command(flatten)]
    pub module: ModuleOptions,
    /// The manifest (JSON) to put at the component's top level; for languages whose SDK cannot
    #[arg(long, value_name = "FILE")]
    pub manifest: Option<PathBuf>,
    /// Remove an existing manifest from the component's top level
    #[arg(long, requires = "manifest")]
    pub replace: bool,
    /// Compress the result; a compressed module needs no setting where it is loaded
    #[arg(long, value_name = "METHOD")]
    pub compress: Option<Compression>,
    /// Write the result to this file; - is standard output
    #[arg(long, value_name = "FILE", required_unless_present = "configmap")]
    pub to: Option<PathBuf>,
    /// Print a ConfigMap that holds the result, for `kubectl apply --server-side`
    #[arg(long, value_name = "NAMESPACE/NAME[/KEY]", value_parser = ConfigMapTarget::parse)]
    pub configmap: Option<ConfigMapTarget>,
    /// Mark the ConfigMap as one that cannot be changed any more
    #[arg(long, requires = "configmap")]
    pub immutable: bool,
    /// Put the module into several keys of the ConfigMap, each with at most BYTES bytes of it (before base64)
    #[arg(long, value_name = "BYTES", requires = "configmap", value_parser = value_parser!(u32).range(1..))]
    pub split: Option<u32>,
    #[command(flatten)]
    pub printed: Printed,
}

/// Options of `ccm provider inspect`.
#[derive(Args)]
pub(crate) struct Inspect {
    #[command(flatten)]
    pub module: ModuleOptions,
    /// How the result is printed
    #[arg(short, long = "output", value_name = "FORM", default_value = "text")]
    pub output: InspectForm,
}

/// Options of `ccm provider init`.
#[derive(Args)]
pub(crate) struct Init {
    #[command(flatten)]
    pub module: ModuleOptions,
    /// The object's name, which is recorded as the owner of nodes and Services; without it: the name in the manifest
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Namespace of the Secrets that the object names; the same as the manager's --provider-secret-namespace
    #[arg(long, value_name = "NAMESPACE", default_value = "kube-system")]
    pub secret_namespace: String,
}

/// Options of `ccm provider check`.
#[derive(Args)]
pub(crate) struct Check {
    #[command(flatten)]
    pub module: ModuleOptions,
    #[command(flatten)]
    pub entry: EntryOptions,
    /// Also call the cloud: by the module's self-check, otherwise by a look-up of an object that does not exist
    #[arg(long, requires = "config")]
    pub online: bool,
    #[command(flatten)]
    pub printed: Printed,
}

/// Options of `ccm provider diff`.
#[derive(Args)]
pub(crate) struct Diff {
    /// The version to compare with: a file, file://…, oci://…, configmap://…, embedded:…, or - for standard input
    #[arg(value_name = "OLD", value_parser = ModuleReference::parse)]
    pub old: ModuleReference,
    /// The version that would replace it
    #[arg(value_name = "NEW", value_parser = ModuleReference::parse)]
    pub new: ModuleReference,
    #[command(flatten)]
    pub access: RegistryArguments,
    #[command(flatten)]
    pub printed: Printed,
}

/// Options of `ccm provider pull`.
#[derive(Args)]
pub(crate) struct Pull {
    /// Where from: oci://REGISTRY/REPOSITORY[:TAG][@sha256:…]
    #[arg(value_name = "REFERENCE", value_parser = ModuleReference::parse)]
    #[allow(rustdoc::broken_intra_doc_links, reason = "brackets of a usage")]
    pub from: ModuleReference,
    /// Write the module to this file; - is standard output
    #[arg(long, value_name = "FILE")]
    pub to: PathBuf,
    #[command(flatten)]
    pub access: RegistryArguments,
    #[command(flatten)]
    pub printed: Printed,
}

/// Options of `ccm provider verify`.
#[derive(Args)]
pub(crate) struct Verify {
    /// The module, as for inspect; without it: the source of the configuration's entry
    #[arg(value_name = "MODULE", value_parser = ModuleReference::parse, required_unless_present = "config")]
    pub place: Option<ModuleReference>,
    /// Require what this configuration requires
    #[arg(long, value_name = "FILE", conflicts_with_all = ["digest", "key", "certificate_identity", "certificate_identity_regexp", "minimum_version"])]
    pub config: Option<PathBuf>,
    /// Of this entry of the configuration; without it: the only one
    #[arg(long, value_name = "NAME", requires = "config")]
    pub provider: Option<String>,
    /// The module, or the registry's manifest, has to have this digest
    #[arg(long, value_name = "sha256:HEX")]
    pub digest: Option<String>,
    /// A public key (PEM) to verify signatures with; may be given several times
    #[arg(long, value_name = "FILE")]
    pub key: Vec<PathBuf>,
    /// An identity whose keyless signature counts, as its certificate names it, such as an e-mail address
    #[arg(
        long,
        value_name = "NAME",
        group = "identity",
        requires = "certificate_oidc_issuer",
        requires = "trust_root"
    )]
    pub certificate_identity: Option<String>,
    /// The same as a regular expression, which has to match the whole name
    #[arg(
        long,
        value_name = "PATTERN",
        group = "identity",
        requires = "certificate_oidc_issuer",
        requires = "trust_root"
    )]
    pub certificate_identity_regexp: Option<String>,
    /// The OpenID Connect issuer that has to have verified the identity
    #[arg(long, value_name = "URL", requires = "identity")]
    pub certificate_oidc_issuer: Option<String>,
    /// The authorities to trust for identities, in Sigstore's form (trusted_root.json)
    #[arg(long, value_name = "FILE", requires = "identity")]
    pub trust_root: Option<PathBuf>,
    /// Refuse versions older than this one, such as 1.2.0
    #[arg(long, value_name = "VERSION")]
    pub minimum_version: Option<String>,
    #[command(flatten)]
    pub access: RegistryArguments,
    #[command(flatten)]
    pub printed: Printed,
}

/// Options of `ccm provider status`.
#[derive(Args)]
pub(crate) struct Status {
    /// Only this provider
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    #[command(flatten)]
    pub cluster: ClusterOptions,
    /// How the result is printed
    #[arg(short, long = "output", value_name = "FORM", default_value = "text")]
    pub output: StatusForm,
}

/// Which cluster is meant.
#[derive(Args)]
pub(crate) struct ClusterOptions {
    /// The kubeconfig; without it: $KUBECONFIG, ~/.kube/config, or the pod's own cluster
    #[arg(long, value_name = "FILE", help_heading = "Clusters")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig
    #[arg(long, value_name = "NAME", help_heading = "Clusters")]
    pub context: Option<String>,
}

/// The configuration that a module is loaded with.
#[derive(Args)]
pub(crate) struct EntryOptions {
    /// Configuration with the module's grants and trust; without it: exactly what the module requests, no credentials
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Which entry of the configuration; without it: the only one, or the one with the name in the manifest
    #[arg(long, value_name = "NAME", requires = "config")]
    pub provider: Option<String>,
    /// Keep compiled modules in this folder: the next time the same module starts at once
    #[arg(long, value_name = "FOLDER")]
    pub compiled_cache_dir: Option<PathBuf>,
}

/// A module, and how to reach it.
#[derive(Args)]
pub(crate) struct ModuleOptions {
    /// The module: a file, file://…, oci://…, configmap://…, embedded:…, or - for standard input; plain or gzip
    #[arg(value_name = "MODULE", value_parser = ModuleReference::parse)]
    pub place: ModuleReference,
    #[command(flatten)]
    pub access: RegistryArguments,
}

/// How registries and clusters are reached.
#[derive(Args)]
pub(crate) struct RegistryArguments {
    /// Logins of registries, in the form of docker's config.json; without it: $DOCKER_CONFIG/config.json,
    /// ~/.docker/config.json
    #[arg(long, value_name = "FILE", help_heading = "Registries")]
    pub registry_config: Option<PathBuf>,
    /// Certificate authorities of registries (PEM), the only ones that are trusted then; without it: the system's
    #[arg(long, value_name = "FILE", help_heading = "Registries")]
    pub ca_file: Option<PathBuf>,
    /// Speak HTTP without TLS; only to a registry on this machine's loopback
    #[arg(long, help_heading = "Registries")]
    pub plain_http: bool,
    /// Reach registries through the proxy in HTTPS_PROXY, except the hosts in NO_PROXY
    #[arg(long, help_heading = "Registries")]
    pub proxy_from_environment: bool,
    #[command(flatten)]
    pub cluster: ClusterOptions,
}

/// `ccm config …`.
#[derive(Subcommand)]
pub(crate) enum ConfigCommand {
    /// Read a configuration as `run` would, and report all mistakes, or what it allows
    #[command(
        after_help = "Example:\n  ccm config check ccm.yaml\n  ccm config check --cloud-provider=aws aws.conf\n\nFiles and variables that it names and this machine does not have are listed, and assumed to be where ccm runs, as Secrets of the cluster are; with --require-inputs they are mistakes. Nothing is fetched, and nothing is sent to a cluster or a cloud.\n\nExit codes: 0 it is valid, 1 it could not be read, 2 it has mistakes."
    )]
    Check(ConfigCheck),
}

/// Options of `ccm config check`.
#[derive(Args)]
pub(crate) struct ConfigCheck {
    /// The configuration (YAML), or - for standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// As for `run`: only the entry of this name counts; with aws, FILE may be the file of its Go provider, with the section
    /// Global
    #[arg(long, value_name = "NAME")]
    pub cloud_provider: Option<String>,
    /// For the machine where ccm will run: also a mistake is a variable or a file that the configuration, or a shipped
    /// module without grants, needs and this machine does not have
    #[arg(long)]
    pub require_inputs: bool,
    #[command(flatten)]
    pub printed: Printed,
}
