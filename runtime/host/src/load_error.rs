//! Reasons why a module does not become a provider. Each names the module as the operator knows it.

use ccm_core::cloud::ProviderError;
use thiserror::Error;

use crate::compile::CompileError;
use crate::compile::refusal::ModuleRefusal;
use crate::egress::EgressError;
use crate::manifest::Contract;
use crate::manifest::{ManifestError, Missing};

/// Load error. The module has run only for [`LoadError::Init`] and [`LoadError::NotExported`]; nothing was compiled for
/// the variants before [`LoadError::Compile`].
#[derive(Debug, Error)]
pub enum LoadError {
    /// The pre-scan refuses the file.
    #[error("{module} is not a module that can be used")]
    Refused {
        /// Origin of the module.
        module: String,
        /// First mistake in the file.
        #[source]
        reason: ModuleRefusal,
    },
    /// The module has no manifest.
    #[error(
        "{module} has no manifest: no custom section `ccm:manifest` in the component or its core modules; the SDK's macro puts it there, and `ccm provider pack --manifest FILE` for other languages"
    )]
    NoManifest {
        /// Origin of the module.
        module: String,
    },
    /// The module has more than one manifest.
    #[error("{module} has {count} manifests (custom sections `ccm:manifest`), and may have one")]
    ManyManifests {
        /// Origin of the module.
        module: String,
        /// Number of manifest sections.
        count: usize,
    },
    /// The manifest is invalid.
    #[error("the manifest of {module} is not valid")]
    Manifest {
        /// Origin of the module.
        module: String,
        /// All mistakes in it.
        #[source]
        reason: ManifestError,
    },
    /// The manifest contradicts the component.
    #[error("the manifest of {module} does not fit its component: {what}")]
    Contradiction {
        /// Origin of the module.
        module: String,
        /// How manifest and component contradict each other.
        what: String,
    },
    /// The module needs another contract version.
    #[error("{module} needs {found}, and this host speaks ccm:provider@{}",
        Contract::ALL.map(Contract::version).join(" and "))]
    Contract {
        /// Origin of the module.
        module: String,
        /// The version, as an interface or the manifest names it, and what it is needed for if that is known.
        found: String,
    },
    /// The module mixes versions of the contract.
    #[error("{module} names two versions of the contract: {one} and {other}")]
    TwoContracts {
        /// Origin of the module.
        module: String,
        /// The first version that an interface or the manifest names.
        one: String,
        /// Another version, named in the same way.
        other: String,
    },
    /// Imports that the host does not offer.
    #[error("{module} imports what the host does not offer: {}", refused.join(", "))]
    Imports {
        /// Origin of the module.
        module: String,
        /// Names of all refused imports.
        refused: Vec<String>,
    },
    /// A required interface is not exported.
    #[error("{module} does not export {export}")]
    MissingExport {
        /// Origin of the module.
        module: String,
        /// Name of the interface.
        export: &'static str,
    },
    /// The module requests more than is granted.
    #[error("{module} requests more than it is granted")]
    Missing {
        /// Origin of the module.
        module: String,
        /// The missing grants, line by line.
        #[source]
        missing: Missing,
    },
    /// The configuration does not fit the manifest.
    #[error("the configuration of {module} is not valid: {}", mistakes.join("; "))]
    Config {
        /// Origin of the module.
        module: String,
        /// All mistakes in the configuration.
        mistakes: Vec<String>,
    },
    /// The egress cannot be built.
    #[error("the grants of {module} cannot be used")]
    Egress {
        /// Origin of the module.
        module: String,
        /// Why the egress cannot be built.
        #[source]
        reason: EgressError,
    },
    /// The module cannot be compiled.
    #[error("{module} cannot be compiled")]
    Compile {
        /// Origin of the module.
        module: String,
        /// Why the module cannot be compiled.
        #[source]
        reason: CompileError,
    },
    /// An import or export has another type than in the contract.
    #[error("{module} does not keep to the contract: {what}")]
    Signature {
        /// Origin of the module.
        module: String,
        /// The function and the difference.
        what: String,
    },
    /// The guest's `init` failed.
    #[error("{module} does not start")]
    Init {
        /// Origin of the module.
        module: String,
        /// Error of the guest, or how it failed.
        #[source]
        reason: ProviderError,
    },
    /// `init` enabled an interface that is not exported.
    #[error("{module} enables {capability}, which it does not export")]
    NotExported {
        /// Origin of the module.
        module: String,
        /// Name of the interface.
        capability: &'static str,
    },
    /// The host itself failed.
    #[error("{module} could not be loaded: {what}")]
    Host {
        /// Origin of the module.
        module: String,
        /// The operation that failed, with its error.
        what: String,
    },
}

impl LoadError {
    /// Whether this machine is at fault, and not the module or its configuration.
    pub fn is_of_host(&self) -> bool {
        match self {
            LoadError::Host { .. }
            | LoadError::Init {
                reason: ProviderError::Interrupted(_) | ProviderError::NotBegun(_),
                ..
            } => true,
            LoadError::Compile { reason, .. } => match reason {
                CompileError::Run { .. }
                | CompileError::TimedOut(_)
                | CompileError::Ended(_)
                | CompileError::Unable(_)
                | CompileError::Load(_) => true,
                CompileError::Invalid(_)
                | CompileError::Memory(_)
                | CompileError::Cpu(_)
                | CompileError::TooLarge(_)
                | CompileError::Crashed(_) => false,
            },
            _ => false,
        }
    }
}
