//! Trusted artifacts, and the reason for each distrusted one.
#![allow(clippy::unwrap_used, reason = "tests")]

mod fixtures;
mod forms;
mod keyless;
mod keys;
mod policy;
mod properties;

use super::{Distrust, Provenance, TrustPolicy};
use crate::artifact::Artifact;
use fixtures::now;

/// The variant of the distrust, or of the first refusal if there are signatures.
fn variant(distrust: &Distrust) -> String {
    let text = match distrust {
        Distrust::Refused { reasons } => format!("{:?}", reasons[0]),
        other => format!("{other:?}"),
    };
    let name = text.split(|letter: char| !letter.is_alphanumeric()).next();
    name.unwrap().to_owned()
}

/// `trusted`, or the variant of the distrust.
fn outcome(answer: &Result<Provenance, Distrust>) -> String {
    answer
        .as_ref()
        .map_or_else(variant, |_| "trusted".to_owned())
}

/// The provenance, or the variant of the distrust.
fn verdict(policy: &TrustPolicy, artifact: &Artifact) -> Result<Provenance, String> {
    policy
        .verify(artifact, None, "1.2.3", now())
        .map_err(|distrust| variant(&distrust))
}

/// Like [`verdict`], for tests of the reason only.
fn reason(policy: &TrustPolicy, artifact: &Artifact) -> String {
    let answer = policy.verify(artifact, None, "1.2.3", now());
    if let Err(distrust) = &answer {
        let reported = distrust.to_string();
        assert!(
            reported.len() <= 1024 && !reported.contains('\n'),
            "{reported}"
        );
    }
    outcome(&answer)
}

fn verdict_text(policy: &TrustPolicy, artifact: &Artifact) -> String {
    policy.verify(artifact, None, "1.2.3", now()).map_or_else(
        |distrust| distrust.to_string(),
        |provenance| provenance.to_string(),
    )
}

#[test]
fn a_distrust_without_reasons_still_has_a_text() {
    let none = Distrust::Refused {
        reasons: Vec::new(),
    };
    assert_eq!(none.to_string(), "all its 0 signatures are refused: ");
}
