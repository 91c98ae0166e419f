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

/// The provenance, or the reason for distrust.
fn verdict(policy: &TrustPolicy, artifact: &Artifact) -> Result<Provenance, &'static str> {
    policy
        .verify(artifact, "1.2.3", now())
        .map_err(|distrust| distrust.reason())
}

/// Like [`verdict`], for tests of the reason only.
fn reason(policy: &TrustPolicy, artifact: &Artifact) -> &'static str {
    match policy.verify(artifact, "1.2.3", now()) {
        Ok(_) => "trusted",
        Err(distrust) => {
            let reported = distrust.to_string();
            assert!(
                reported.len() <= 1024 && !reported.contains('\n'),
                "{reported}"
            );
            distrust.reason()
        }
    }
}

fn verdict_text(policy: &TrustPolicy, artifact: &Artifact) -> String {
    policy.verify(artifact, "1.2.3", now()).map_or_else(
        |distrust| distrust.to_string(),
        |provenance| provenance.to_string(),
    )
}

#[test]
fn a_distrust_without_reasons_still_has_a_name_and_a_text() {
    let none = Distrust::Refused {
        reasons: Vec::new(),
    };
    assert_eq!(none.reason(), "unsigned");
    assert_eq!(none.to_string(), "all its 0 signatures are refused: ");
}
