//! Summary state of a provider, for `kubectl get providers`, `ccm provider status` and metrics.

use super::record::{Orders, Phase, Record};

/// Summary state of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// No version has served yet.
    Pending,
    /// The newest version serves.
    Active,
    /// A new version is being verified, compiled or tested.
    Staging,
    /// A new version's answers are being compared.
    Shadow,
    /// A new version answers a part of the calls.
    Canary,
    /// A new version requests more than the grants.
    WaitsForGrants,
    /// A new version requests more than the active one and waits for approval.
    WaitsForApproval,
    /// The newest version was rejected before it answered any call; the active one was never replaced.
    Rejected,
    /// A version that answered calls was taken back, and the one before it serves.
    RolledBack,
    /// The active version serves, and something else has failed: its source, a new version, an order.
    ActiveWithTrouble,
    /// No version serves, although one should.
    NotServing,
    /// Only the pinned version may serve.
    Pinned,
    /// Paused: nothing new begins.
    Paused,
}

impl State {
    /// All states.
    pub const ALL: [State; 13] = [
        State::Pending,
        State::Active,
        State::Staging,
        State::Shadow,
        State::Canary,
        State::WaitsForGrants,
        State::WaitsForApproval,
        State::Rejected,
        State::RolledBack,
        State::ActiveWithTrouble,
        State::NotServing,
        State::Pinned,
        State::Paused,
    ];

    /// The state's name.
    pub fn as_str(self) -> &'static str {
        match self {
            State::Pending => "Pending",
            State::Active => "Active",
            State::Staging => "Staging",
            State::Shadow => "Shadow",
            State::Canary => "Canary",
            State::WaitsForGrants => "WaitsForGrants",
            State::WaitsForApproval => "WaitsForApproval",
            State::Rejected => "Rejected",
            State::RolledBack => "RolledBack",
            State::ActiveWithTrouble => "ActiveWithTrouble",
            State::NotServing => "NotServing",
            State::Pinned => "Pinned",
            State::Paused => "Paused",
        }
    }
}

/// The state of a provider, of which a version answers calls if `is_serving`. States that need a person's action come
/// first, then those that were ordered.
pub fn state(record: &Record, orders: &Orders, is_serving: bool) -> State {
    match record.trial.as_ref().map(|trial| trial.phase) {
        Some(Phase::WaitsForGrants) => return State::WaitsForGrants,
        Some(Phase::WaitsForApproval) => return State::WaitsForApproval,
        // The trial ends soon; the trouble is shown separately.
        Some(Phase::Shadow) => return State::Shadow,
        Some(Phase::Canary) => return State::Canary,
        _ if !record.trouble.is_empty() && is_serving => return State::ActiveWithTrouble,
        _ if !record.trouble.is_empty() => return State::NotServing,
        Some(Phase::Fetched | Phase::Verified | Phase::Compiled | Phase::SelfTested) => {
            return State::Staging;
        }
        None => {}
    }
    let Some(active) = &record.active else {
        return if record.rejected.is_empty() {
            State::Pending
        } else {
            State::NotServing
        };
    };
    if orders.pause {
        return State::Paused;
    }
    if orders.pin.is_some() {
        return State::Pinned;
    }
    let latest = record.rejected.first();
    match latest.filter(|latest| latest.at >= active.since) {
        Some(latest) if latest.has_answered => State::RolledBack,
        Some(_) => State::Rejected,
        None => State::Active,
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
        assert_eq!(state(&serving, &orders, true), State::ActiveWithTrouble);
        assert_eq!(state(&serving, &orders, false), State::NotServing);
        for (phase, expected) in [
            (Phase::Shadow, State::Shadow),
            (Phase::Canary, State::Canary),
            // It answers no calls yet, and the trouble may be its own.
            (Phase::Verified, State::ActiveWithTrouble),
            (Phase::WaitsForGrants, State::WaitsForGrants),
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
