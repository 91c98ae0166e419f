//! Whose fault it is that a module does not load or does not answer: the module's, the operator's, or that of
//! circumstances. What follows is `core::rollout`'s.

use ccm_core::cloud::ProviderError;
use ccm_core::rollout::End;
use ccm_host::{CompileError, LoadError};

use crate::source::SourceError;

/// Of a load.
pub(super) fn of_load(error: &LoadError) -> End {
    let why = chain(error);
    match error {
        LoadError::Missing { missing, .. } => End::Ungranted(missing.lines.clone()),
        LoadError::Config { mistakes, .. } => End::Ungranted(mistakes.clone()),
        // What the operator has written cannot be used.
        LoadError::Egress { .. } => End::Ungranted(vec![why]),
        LoadError::Compile { reason, .. } => match reason {
            CompileError::Run { .. } | CompileError::TimedOut(_) | CompileError::Load(_) => {
                End::Trouble(why)
            }
            CompileError::Invalid(_)
            | CompileError::Memory(_)
            | CompileError::Cpu(_)
            | CompileError::TooLarge(_)
            | CompileError::Crashed(_) => End::Fault(why),
        },
        LoadError::Init { reason, .. } => match reason {
            // `init` only has its configuration to find fault with.
            ProviderError::Invalid(_) | ProviderError::Denied(_) => End::Ungranted(vec![why]),
            _ => End::Fault(why),
        },
        LoadError::Host { .. } => End::Trouble(why),
        LoadError::Refused { .. }
        | LoadError::NoManifest { .. }
        | LoadError::ManyManifests { .. }
        | LoadError::Manifest { .. }
        | LoadError::Contradiction { .. }
        | LoadError::Contract { .. }
        | LoadError::Imports { .. }
        | LoadError::MissingExport { .. }
        | LoadError::Signature { .. }
        | LoadError::NotExported { .. } => End::Fault(why),
    }
}

/// Of a call that only a candidate was asked.
pub(super) fn of_call(error: &ProviderError) -> End {
    match error {
        ProviderError::Unavailable(_)
        | ProviderError::Throttled { .. }
        | ProviderError::TimedOut(_) => End::Trouble(error.to_string()),
        ProviderError::Invalid(_)
        | ProviderError::Denied(_)
        | ProviderError::Conflict { .. }
        | ProviderError::Unsupported(_)
        | ProviderError::Elsewhere
        | ProviderError::Internal(_)
        | ProviderError::Trapped(_) => End::Fault(error.to_string()),
    }
}

/// Of a source that was asked again.
pub(super) fn of_source(error: &SourceError) -> End {
    match error {
        SourceError::Unavailable { .. } | SourceError::Denied { .. } => {
            End::Trouble(error.to_string())
        }
        SourceError::Absent { .. } | SourceError::Refused { .. } => End::Gone(error.to_string()),
    }
}

/// An error with its causes, outermost first. A cause that its effect has quoted already is not repeated.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let said = cause.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        next = cause.source();
    }
    text
}
