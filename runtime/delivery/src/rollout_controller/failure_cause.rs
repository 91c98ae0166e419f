//! Attributes a failed load or call to the module, to the operator or to circumstances. The consequences are decided in
//! `core::rollout`.

use ccm_core::cloud::ProviderError;
use ccm_core::rollout::{Cause, WorkResult};
use ccm_host::{LoadError, LoadErrorKind};

use crate::source::{SourceError, SourceErrorKind};

/// Outcome of a failed load.
pub(super) fn of_load(error: &LoadError) -> WorkResult {
    let why = chain(error);
    match &error.kind {
        _ if error.is_of_host() => Cause::Circumstances.because(why),
        LoadErrorKind::Missing(missing) => WorkResult::Failed(Cause::Policy, missing.lines.clone()),
        LoadErrorKind::Config(mistakes) => {
            let lines = mistakes.iter().map(|line| format!("config: {line}"));
            WorkResult::Failed(Cause::Policy, lines.collect())
        }
        // The operator's egress configuration cannot be used.
        LoadErrorKind::Egress(_) => Cause::Policy.because(why),
        // A host of another version may offer what the module needs: during an upgrade, that of the next leader.
        LoadErrorKind::Contract(_) | LoadErrorKind::Imports(_) => Cause::Policy.because(why),
        LoadErrorKind::Init(reason) => match reason {
            // `init` can only reject its configuration.
            ProviderError::Invalid(_) | ProviderError::Denied(_) => Cause::Policy.because(why),
            _ => Cause::Module.because(why),
        },
        LoadErrorKind::Host(_)
        | LoadErrorKind::Compile(_)
        | LoadErrorKind::Refused(_)
        | LoadErrorKind::NoManifest
        | LoadErrorKind::ManyManifests(_)
        | LoadErrorKind::Manifest(_)
        | LoadErrorKind::Contradiction(_)
        | LoadErrorKind::TwoContracts { .. }
        | LoadErrorKind::MissingExport(_)
        | LoadErrorKind::Signature(_)
        | LoadErrorKind::NotExported(_) => Cause::Module.because(why),
    }
}

/// Whether a load failed with a time-out of `init`.
pub(super) fn is_slow(error: &LoadError) -> bool {
    matches!(error.kind, LoadErrorKind::Init(ProviderError::TimedOut(_)))
}

/// Outcome of a failed call that was made to the candidate only.
pub(super) fn of_call(error: &ProviderError) -> WorkResult {
    match error {
        ProviderError::Unavailable(_)
        | ProviderError::Interrupted(_)
        | ProviderError::NotBegun(_)
        | ProviderError::Throttled { .. }
        | ProviderError::Held(_)
        | ProviderError::TimedOut(_) => Cause::Circumstances.because(error.to_string()),
        ProviderError::Invalid(_)
        | ProviderError::Denied(_)
        | ProviderError::Conflict { .. }
        | ProviderError::Unsupported(_)
        | ProviderError::Elsewhere
        | ProviderError::Internal(_)
        | ProviderError::Trapped(_) => Cause::Module.because(error.to_string()),
    }
}

/// Outcome of a failed repeated request to the source.
pub(super) fn of_source(error: &SourceError) -> WorkResult {
    match error.kind {
        SourceErrorKind::Unavailable | SourceErrorKind::Denied => {
            Cause::Circumstances.because(error.to_string())
        }
        SourceErrorKind::Absent | SourceErrorKind::Refused(_) => {
            Cause::Gone.because(error.to_string())
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
    use std::time::Duration;

    use ccm_host::CompileError;

    use super::*;

    fn error(kind: LoadErrorKind) -> LoadError {
        LoadError {
            module: "sample".to_owned(),
            kind,
        }
    }

    fn cause(outcome: WorkResult) -> Option<Cause> {
        match outcome {
            WorkResult::Failed(cause, _) => Some(cause),
            _ => None,
        }
    }

    #[test]
    fn a_version_waits_for_what_this_host_does_not_offer_and_is_rejected_for_what_no_host_accepts()
    {
        for (kind, expected) in [
            (
                LoadErrorKind::Contract("ccm:provider@0.3.0".to_owned()),
                Some(
                    "sample needs ccm:provider@0.3.0, and this host speaks ccm:provider@0.1.0 and 0.2.0",
                ),
            ),
            (
                LoadErrorKind::Imports(vec!["acme:os/shell@1.0.0".to_owned()]),
                Some("sample imports what the host does not offer: acme:os/shell@1.0.0"),
            ),
            (
                LoadErrorKind::TwoContracts {
                    one: "ccm:provider@0.1.0".to_owned(),
                    other: "ccm:provider@0.2.0".to_owned(),
                },
                None,
            ),
            (LoadErrorKind::NoManifest, None),
        ] {
            let waits = match of_load(&error(kind)) {
                WorkResult::Failed(Cause::Policy, lines) => Some(lines),
                WorkResult::Failed(Cause::Module, _) => None,
                _ => Some(vec!["something else".to_owned()]),
            };
            assert_eq!(waits, expected.map(|line| vec![line.to_owned()]));
        }
    }

    #[test]
    fn a_version_is_rejected_for_an_init_that_fails_and_not_for_one_that_could_not_run() {
        let text = || "init: no".to_owned();
        for (reason, expected) in [
            (ProviderError::Interrupted(text()), Cause::Circumstances),
            (ProviderError::NotBegun(text()), Cause::Circumstances),
            (ProviderError::Invalid(text()), Cause::Policy),
            (ProviderError::Denied(text()), Cause::Policy),
            (ProviderError::TimedOut(text()), Cause::Module),
            (ProviderError::Trapped(text()), Cause::Module),
        ] {
            let what = reason.reason();
            let error = error(LoadErrorKind::Init(reason));
            assert_eq!(cause(of_load(&error)), Some(expected), "{what}");
            assert_eq!(is_slow(&error), what == "timed-out", "{what}");
        }
    }

    #[test]
    fn a_version_is_rejected_for_its_code_and_not_for_a_machine_that_cannot_compile_it() {
        let text = || "no".to_owned();
        let run = CompileError::Run {
            program: "ccm".into(),
            reason: std::io::ErrorKind::NotFound.into(),
        };
        for (reason, expected) in [
            (run, Cause::Circumstances),
            (CompileError::TimedOut(1), Cause::Circumstances),
            (CompileError::Ended(text()), Cause::Circumstances),
            (CompileError::Unable(text()), Cause::Circumstances),
            (CompileError::Load(text()), Cause::Circumstances),
            (CompileError::Invalid(text()), Cause::Module),
            (CompileError::Memory(1), Cause::Module),
            (CompileError::Cpu(1), Cause::Module),
            (CompileError::TooLarge(1), Cause::Module),
            (CompileError::Crashed(text()), Cause::Module),
        ] {
            let what = reason.to_string();
            let error = error(LoadErrorKind::Compile(reason));
            assert_eq!(cause(of_load(&error)), Some(expected), "{what}");
        }
    }

    /// A version that is gone is stood in for by another one.
    #[test]
    fn a_version_is_gone_only_where_its_source_says_so() {
        let place = "oci://registry.example/cloud:v1";
        for (error, expected) in [
            (SourceError::unavailable(place, "no"), Cause::Circumstances),
            (SourceError::denied(place, "no"), Cause::Circumstances),
            (SourceError::absent(place, "no"), Cause::Gone),
            (SourceError::refused(place, "no"), Cause::Gone),
        ] {
            assert_eq!(cause(of_source(&error)), Some(expected), "{error}");
        }
    }

    #[test]
    fn a_version_is_rejected_for_a_call_that_it_fails_and_not_for_one_that_the_cloud_fails() {
        let text = || "no".to_owned();
        for (error, expected) in [
            (ProviderError::Unavailable(text()), Cause::Circumstances),
            (ProviderError::Interrupted(text()), Cause::Circumstances),
            (ProviderError::NotBegun(text()), Cause::Circumstances),
            (
                ProviderError::Throttled {
                    message: text(),
                    retry_after: None,
                },
                Cause::Circumstances,
            ),
            (ProviderError::Held(Duration::ZERO), Cause::Circumstances),
            (ProviderError::TimedOut(text()), Cause::Circumstances),
            (ProviderError::Invalid(text()), Cause::Module),
            (ProviderError::Denied(text()), Cause::Module),
            (
                ProviderError::Conflict {
                    message: text(),
                    owner: None,
                },
                Cause::Module,
            ),
            (ProviderError::Unsupported(text()), Cause::Module),
            (ProviderError::Elsewhere, Cause::Module),
            (ProviderError::Internal(text()), Cause::Module),
            (ProviderError::Trapped(text()), Cause::Module),
        ] {
            assert_eq!(cause(of_call(&error)), Some(expected), "{error}");
        }
    }
}
