//! Summary state of a provider, for `kubectl get providers`, `ccm provider status` and metrics.

use super::record::{Orders, Phase, Record};

crate::named_enum! {
    /// Summary state of a provider. Its name is fixed in statuses and metrics.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum RolloutState {
        /// No version has served yet.
        Pending = "Pending",
        /// The newest version serves.
        Active = "Active",
        /// A new version is being verified, compiled or tested.
        Staging = "Staging",
        /// A new version's answers are being compared.
        Shadow = "Shadow",
        /// A new version answers a part of the calls.
        Canary = "Canary",
        /// A new version requests more than the grants.
        WaitsForGrants = "WaitsForGrants",
        /// A new version requests more than the active one and waits for approval.
        WaitsForApproval = "WaitsForApproval",
        /// The newest version was rejected before it answered any call; the active one was never replaced.
        Rejected = "Rejected",
        /// A version that answered calls was taken back, and the one before it serves.
        RolledBack = "RolledBack",
        /// The active version serves, and something else has failed: its source, a new version, an order.
        ActiveWithTrouble = "ActiveWithTrouble",
        /// No version serves, although one should.
        NotServing = "NotServing",
        /// Only the pinned version may serve.
        Pinned = "Pinned",
        /// Paused: nothing new begins.
        Paused = "Paused",
    }
}

/// The state of a provider, of which a version answers calls if `is_serving`. States that need a person's action come
/// first, then those that were ordered.
pub fn state(record: &Record, orders: &Orders, is_serving: bool) -> RolloutState {
    match record.trial.as_ref().map(|trial| trial.phase) {
        Some(Phase::WaitsForGrants) => return RolloutState::WaitsForGrants,
        Some(Phase::WaitsForApproval) => return RolloutState::WaitsForApproval,
        // The trial ends soon; the trouble is shown separately.
        Some(Phase::Shadow) => return RolloutState::Shadow,
        Some(Phase::Canary) => return RolloutState::Canary,
        _ if !record.trouble.is_empty() && is_serving => return RolloutState::ActiveWithTrouble,
        _ if !record.trouble.is_empty() => return RolloutState::NotServing,
        Some(Phase::Fetched | Phase::Verified | Phase::Compiled | Phase::SelfTested) => {
            return RolloutState::Staging;
        }
        None => {}
    }
    let Some(active) = &record.active else {
        return if record.rejected.is_empty() {
            RolloutState::Pending
        } else {
            RolloutState::NotServing
        };
    };
    if orders.pause {
        return RolloutState::Paused;
    }
    if orders.pin.is_some() {
        return RolloutState::Pinned;
    }
    let latest = record.rejected.first();
    match latest.filter(|latest| latest.at >= active.since) {
        Some(latest) if latest.has_answered => RolloutState::RolledBack,
        Some(_) => RolloutState::Rejected,
        None => RolloutState::Active,
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::{Noted, Placed, Release, Trial};
    use super::*;

    fn release(digest: &str) -> Release {
        Release {
            digest: digest.to_owned(),
            version: String::new(),
            origin: String::new(),
        }
    }

    #[test]
    fn while_a_version_answers_calls_on_trial_that_is_what_is_said() {
        let serving = Record {
            active: Some(Placed {
                release: release("one"),
                since: 0,
                noted: Noted::default(),
                untried: None,
            }),
            trouble: "the registry is down".to_owned(),
            ..Record::default()
        };
        let orders = Orders::default();
        assert_eq!(
            state(&serving, &orders, true),
            RolloutState::ActiveWithTrouble
        );
        assert_eq!(state(&serving, &orders, false), RolloutState::NotServing);
        for (phase, expected) in [
            (Phase::Shadow, RolloutState::Shadow),
            (Phase::Canary, RolloutState::Canary),
            // It answers no calls yet, and the trouble may be its own.
            (Phase::Verified, RolloutState::ActiveWithTrouble),
            (Phase::WaitsForGrants, RolloutState::WaitsForGrants),
        ] {
            let record = Record {
                trial: Some(Trial {
                    release: release("two"),
                    phase,
                    since: 0,
                    lines: Vec::new(),
                }),
                ..serving.clone()
            };
            assert_eq!(state(&record, &orders, true), expected, "{phase:?}");
        }
    }
}
