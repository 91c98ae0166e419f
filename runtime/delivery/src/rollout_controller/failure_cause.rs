//! Attributes a failed load or call to the module, to the operator or to circumstances. The consequences are decided in
//! `core::rollout`.

use ccm_core::cloud::ProviderError;
use ccm_core::rollout::WorkResult;
use ccm_host::LoadError;

use crate::source::SourceError;

/// Outcome of a failed load.
pub(super) fn of_load(error: &LoadError) -> WorkResult {
    let why = chain(error);
    match error {
        _ if error.is_of_host() => WorkResult::Trouble(why),
        LoadError::Missing { missing, .. } => WorkResult::Ungranted(missing.lines.clone()),
        LoadError::Config { mistakes, .. } => {
            let lines = mistakes.iter();
            WorkResult::Ungranted(lines.map(|line| format!("config: {line}")).collect())
        }
        // The operator's egress configuration cannot be used.
        LoadError::Egress { .. } => WorkResult::Ungranted(vec![why]),
        // A host of another version may offer what the module needs: during an upgrade, that of the next leader.
        LoadError::Contract { .. } | LoadError::Imports { .. } => WorkResult::Ungranted(vec![why]),
        LoadError::Init { reason, .. } => match reason {
            // `init` can only reject its configuration.
            ProviderError::Invalid(_) | ProviderError::Denied(_) => {
                WorkResult::Ungranted(vec![why])
            }
            _ => WorkResult::Fault(why),
        },
        LoadError::Host { .. }
        | LoadError::Compile { .. }
        | LoadError::Refused { .. }
        | LoadError::NoManifest { .. }
        | LoadError::ManyManifests { .. }
        | LoadError::Manifest { .. }
        | LoadError::Contradiction { .. }
        | LoadError::TwoContracts { .. }
        | LoadError::MissingExport { .. }
        | LoadError::Signature { .. }
        | LoadError::NotExported { .. } => WorkResult::Fault(why),
    }
}

/// Outcome of a failed call that was made to the candidate only.
pub(super) fn of_call(error: &ProviderError) -> WorkResult {
    match error {
        ProviderError::Unavailable(_)
        | ProviderError::Interrupted(_)
        | ProviderError::Throttled { .. }
        | ProviderError::TimedOut(_) => WorkResult::Trouble(error.to_string()),
        ProviderError::Invalid(_)
        | ProviderError::Denied(_)
        | ProviderError::Conflict { .. }
        | ProviderError::Unsupported(_)
        | ProviderError::Elsewhere
        | ProviderError::Internal(_)
        | ProviderError::Trapped(_) => WorkResult::Fault(error.to_string()),
    }
}

/// Outcome of a failed repeated request to the source.
pub(super) fn of_source(error: &SourceError) -> WorkResult {
    match error {
        SourceError::Unavailable { .. } | SourceError::Denied { .. } => {
            WorkResult::Trouble(error.to_string())
        }
        SourceError::Absent { .. } | SourceError::Refused { .. } => {
            WorkResult::Gone(error.to_string())
        }
    }
}

/// Formats an error with its causes, outermost first. Omits a cause whose text the previous error already contains.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_waits_for_what_this_host_does_not_offer_and_is_rejected_for_what_no_host_accepts()
    {
        let module = || "sample".to_owned();
        for (error, expected) in [
            (
                LoadError::Contract {
                    module: module(),
                    found: "ccm:provider@0.3.0".to_owned(),
                },
                Some(
                    "sample needs ccm:provider@0.3.0, and this host speaks ccm:provider@0.1.0 and 0.2.0",
                ),
            ),
            (
                LoadError::Imports {
                    module: module(),
                    refused: vec!["acme:os/shell@1.0.0".to_owned()],
                },
                Some("sample imports what the host does not offer: acme:os/shell@1.0.0"),
            ),
            (
                LoadError::TwoContracts {
                    module: module(),
                    one: "ccm:provider@0.1.0".to_owned(),
                    other: "ccm:provider@0.2.0".to_owned(),
                },
                None,
            ),
            (LoadError::NoManifest { module: module() }, None),
        ] {
            let waits = match of_load(&error) {
                WorkResult::Ungranted(lines) => Some(lines),
                WorkResult::Fault(_) => None,
                _ => Some(vec!["something else".to_owned()]),
            };
            assert_eq!(waits, expected.map(|line| vec![line.to_owned()]));
        }
    }

    #[test]
    fn a_version_is_rejected_for_an_init_that_fails_and_not_for_one_that_could_not_run() {
        let text = || "init: no".to_owned();
        for (reason, expected) in [
            (ProviderError::Interrupted(text()), "trouble"),
            (ProviderError::Invalid(text()), "ungranted"),
            (ProviderError::Denied(text()), "ungranted"),
            (ProviderError::TimedOut(text()), "fault"),
            (ProviderError::Trapped(text()), "fault"),
        ] {
            let kind = reason.reason();
            let module = "sample".to_owned();
            let outcome = match of_load(&LoadError::Init { module, reason }) {
                WorkResult::Trouble(_) => "trouble",
                WorkResult::Ungranted(_) => "ungranted",
                WorkResult::Fault(_) => "fault",
                _ => "something else",
            };
            assert_eq!(outcome, expected, "{kind}");
        }
    }
}
