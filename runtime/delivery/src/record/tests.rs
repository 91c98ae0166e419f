//! Record stores: every client reads what was written, and writes of other clients do no harm.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod cluster;
mod departed;
mod late;
mod memory;
mod status_json;

use ccm_core::rollout::{Noted, Phase, Placed, Record, Rejected, Release, Trial};

fn digest(number: u8) -> String {
    format!("sha256:{}", format!("{number:02x}").repeat(32))
}

fn release(number: u8) -> Release {
    Release {
        digest: digest(number),
        version: format!("1.0.{number}"),
        origin: "oci://registry.example/provider@sha256:00".to_owned(),
    }
}

/// A record with a value in every field.
fn full() -> Record {
    Record {
        active: Some(Placed {
            release: release(1),
            since: 1_700_000_000,
            noted: Noted {
                requests: Some(r#"{"manifest":{}}"#.to_owned()),
                highest: Some("1.0.7".to_owned()),
            },
            untried: Some("1.0.2 is gone".to_owned()),
        }),
        previous: Some(release(2)),
        trial: Some(Trial {
            release: release(3),
            phase: Phase::WaitsForApproval,
            since: 1_700_000_100,
            lines: vec!["+ GET https://api.example/v1/*".to_owned()],
        }),
        rejected: vec![Rejected {
            digest: digest(4),
            version: String::new(),
            reason: "it traps".to_owned(),
            has_answered: true,
            at: 1_700_000_050,
        }],
        approved: vec![digest(5), digest(6)],
        trouble: "the registry is down".to_owned(),
        has_gone_back: true,
    }
}
