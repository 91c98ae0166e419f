//! Why a module does not become a provider. Each reason names the module as the operator knows it.

use ccm_core::cloud::ProviderError;
use thiserror::Error;

use crate::compile::CompileError;
use crate::compile::refusal::Refusal;
use crate::egress::EgressError;
use crate::manifest::{ManifestError, Missing};

/// See the module's documentation. Nothing of the module runs for any of these but [`LoadError::Init`] and
/// [`LoadError::NotExported`], and nothing is compiled for those that stand before [`LoadError::Compile`].
#[derive(Debug, Error)]
pub enum LoadError {
    /// The pre-scan refuses the file.
    #[error("{module} is not a module that can be used")]
    Refused {
        /// Where the module is from.
        module: String,
        /// The first thing that is wrong with it.
        #[source]
        reason: Refusal,
    },
    /// No manifest.
    #[error(
        "{module} has no manifest: no custom section `ccm:manifest` in the component or its core modules; the SDK's macro puts it there"
    )]
    NoManifest {
        /// Where the module is from.
        module: String,
    },
    /// Which one counts?
    #[error("{module} has {count} manifests (custom sections `ccm:manifest`), and may have one")]
    ManyManifests {
        /// Where the module is from.
        module: String,
        /// How many.
        count: usize,
    },
    /// The manifest cannot be read.
    #[error("the manifest of {module} is not valid")]
    Manifest {
        /// Where the module is from.
        module: String,
        /// Everything that is wrong with it.
        #[source]
        reason: ManifestError,
    },
    /// The manifest and the component do not fit together.
    #[error("the manifest of {module} does not fit its component: {what}")]
    Contradiction {
        /// Where the module is from.
        module: String,
        /// How.
        what: String,
    },
    /// Another version of the contract.
    #[error("{module} needs {found}, and this host speaks ccm:provider@{host}")]
    Contract {
        /// Where the module is from.
        module: String,
        /// What it names.
        found: String,
        /// What we have.
        host: &'static str,
    },
    /// Imports beyond the list.
    #[error("{module} imports what the host does not offer: {}", refused.join(", "))]
    Imports {
        /// Where the module is from.
        module: String,
        /// The refused imports, all of them.
        refused: Vec<String>,
    },
    /// A needed interface is not exported.
    #[error("{module} does not export {export}")]
    MissingExport {
        /// Where the module is from.
        module: String,
        /// The interface.
        export: &'static str,
    },
    /// The module requests more than is granted.
    #[error("{module} requests more than it is granted")]
    Missing {
        /// Where the module is from.
        module: String,
        /// The missing grants, line by line.
        #[source]
        missing: Missing,
    },
    /// The configuration does not fit the manifest.
    #[error("the configuration of {module} is not valid: {}", mistakes.join("; "))]
    Config {
        /// Where the module is from.
        module: String,
        /// All mistakes.
        mistakes: Vec<String>,
    },
    /// The way out cannot be made.
    #[error("the grants of {module} cannot be used")]
    Egress {
        /// Where the module is from.
        module: String,
        /// Why.
        #[source]
        reason: EgressError,
    },
    /// It cannot be compiled.
    #[error("{module} cannot be compiled")]
    Compile {
        /// Where the module is from.
        module: String,
        /// Why.
        #[source]
        reason: CompileError,
    },
    /// An import or an export has another type than the contract's.
    #[error("{module} does not keep to the contract: {what}")]
    Signature {
        /// Where the module is from.
        module: String,
        /// Which, and how.
        what: String,
    },
    /// `init` failed.
    #[error("{module} does not start")]
    Init {
        /// Where the module is from.
        module: String,
        /// What it said, or how it failed.
        #[source]
        reason: ProviderError,
    },
    /// `init` enabled what there is not.
    #[error("{module} enables {capability}, which it does not export")]
    NotExported {
        /// Where the module is from.
        module: String,
        /// The interface.
        capability: &'static str,
    },
    /// The host itself failed.
    #[error("{module} could not be loaded: {what}")]
    Host {
        /// Where the module is from.
        module: String,
        /// What failed.
        what: String,
    },
}
