//! Reasons why a module does not become a provider. Each names the module as the operator knows it.

use std::fmt;

use ccm_core::cloud::ProviderError;
use thiserror::Error;

use crate::compile::CompileError;
use crate::compile::refusal::ModuleRefusal;
use crate::egress::EgressError;
use crate::manifest::Contract;
use crate::manifest::{ManifestError, Missing};

/// Load error.
#[derive(Debug)]
pub struct LoadError {
    /// Origin of the module.
    pub module: String,
    /// Why it cannot be loaded.
    pub kind: LoadErrorKind,
}

/// Why a module cannot be loaded; its text continues a sentence that begins with the module. The module has run only for
/// [`LoadErrorKind::Init`] and [`LoadErrorKind::NotExported`]; nothing was compiled for the variants before
/// [`LoadErrorKind::Compile`].
#[derive(Debug, Error)]
pub enum LoadErrorKind {
    /// The pre-scan refuses the file: its first mistake.
    #[error("is not a module that can be used")]
    Refused(#[source] ModuleRefusal),
    /// The module has no manifest.
    #[error(
        "has no manifest: no custom section `ccm:manifest` in the component or its core modules; the SDK's macro puts it there, and `ccm provider pack --manifest FILE` for other languages"
    )]
    NoManifest,
    /// The module has more than one manifest: their number.
    #[error("has {0} manifests (custom sections `ccm:manifest`), and may have one")]
    ManyManifests(usize),
    /// The manifest is invalid: all mistakes in it.
    #[error("is not valid")]
    Manifest(#[source] ManifestError),
    /// How manifest and component contradict each other.
    #[error("does not fit its component: {0}")]
    Contradiction(String),
    /// The module needs another contract version, as an interface or the manifest names it, and what it is needed for if
    /// that is known.
    #[error("needs {0}, and this host speaks ccm:provider@{spoken}",
        spoken = Contract::ALL.map(Contract::version).join(" and "))]
    Contract(String),
    /// The module mixes versions of the contract.
    #[error("names two versions of the contract: {one} and {other}")]
    TwoContracts {
        /// The first version that an interface or the manifest names.
        one: String,
        /// Another version, named in the same way.
        other: String,
    },
    /// Names of all imports that the host does not offer.
    #[error("imports what the host does not offer: {}", .0.join(", "))]
    Imports(Vec<String>),
    /// Name of a required interface that is not exported.
    #[error("does not export {0}")]
    MissingExport(&'static str),
    /// The module requests more than is granted: the missing grants, line by line.
    #[error("requests more than it is granted")]
    Missing(#[source] Missing),
    /// The configuration does not fit the manifest: all mistakes in it.
    #[error("is not valid: {}", .0.join("; "))]
    Config(Vec<String>),
    /// The egress cannot be built.
    #[error("cannot be used")]
    Egress(#[source] EgressError),
    /// The module cannot be compiled.
    #[error("cannot be compiled")]
    Compile(#[source] CompileError),
    /// An import or export has another type than in the contract: the function and the difference.
    #[error("does not keep to the contract: {0}")]
    Signature(String),
    /// The guest's `init` failed: error of the guest, or how it failed.
    #[error("does not start")]
    Init(#[source] ProviderError),
    /// Name of an interface that `init` enabled and that is not exported.
    #[error("enables {0}, which it does not export")]
    NotExported(&'static str),
    /// The host itself failed: the operation, with its error.
    #[error("could not be loaded: {0}")]
    Host(String),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LoadError { module, kind } = self;
        let part = match kind {
            LoadErrorKind::Manifest(_) | LoadErrorKind::Contradiction(_) => "the manifest of ",
            LoadErrorKind::Config(_) => "the configuration of ",
            LoadErrorKind::Egress(_) => "the grants of ",
            _ => "",
        };
        write!(f, "{part}{module} {kind}")
    }
}

impl std::error::Error for LoadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&self.kind)
    }
}

impl LoadErrorKind {
    /// The error of this module.
    pub(crate) fn of(self, module: &str) -> LoadError {
        LoadError {
            module: module.to_owned(),
            kind: self,
        }
    }
}

impl LoadError {
    /// Whether this machine is at fault, and not the module or its configuration.
    pub fn is_of_host(&self) -> bool {
        match &self.kind {
            LoadErrorKind::Host(_)
            | LoadErrorKind::Init(ProviderError::Interrupted(_) | ProviderError::NotBegun(_)) => {
                true
            }
            LoadErrorKind::Compile(reason) => match reason {
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
