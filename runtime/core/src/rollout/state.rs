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
    /// A version serves that was restored, or whose successor was rejected.
    RolledBack,
    /// A problem needs a person's attention; the active version goes on serving.
    Degraded,
    /// Only the pinned version may serve.
    Pinned,
    /// Paused: nothing new begins.
    Paused,
}

impl State {
    /// All states.
    pub const ALL: [State; 11] = [
        State::Pending,
        State::Active,
        State::Staging,
        State::Shadow,
        State::Canary,
        State::WaitsForGrants,
        State::WaitsForApproval,
        State::RolledBack,
        State::Degraded,
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
            State::RolledBack => "RolledBack",
            State::Degraded => "Degraded",
            State::Pinned => "Pinned",
            State::Paused => "Paused",
        }
    }
}

/// The state of a provider. States that need a person's action come first, then those that were ordered.
pub fn state(record: &Record, orders: &Orders) -> State {
    match record.trial.as_ref().map(|trial| trial.phase) {
        Some(Phase::WaitsForGrants) => return State::WaitsForGrants,
        Some(Phase::WaitsForApproval) => return State::WaitsForApproval,
        // The trial ends soon; the trouble is shown separately.
        Some(Phase::Shadow) => return State::Shadow,
        Some(Phase::Canary) => return State::Canary,
        _ if !record.trouble.is_empty() => return State::Degraded,
        Some(Phase::Fetched | Phase::Verified | Phase::Compiled | Phase::SelfTested) => {
            return State::Staging;
        }
        None => {}
    }
    let Some(active) = &record.active else {
        return if record.rejected.is_empty() {
            State::Pending
        } else {
            State::Degraded
        };
    };
    if orders.pause {
        return State::Paused;
    }
    if orders.pin.is_some() {
        return State::Pinned;
    }
    let latest = record.rejected.first();
    if latest.is_some_and(|latest| latest.at >= active.since) {
        return State::RolledBack;
    }
    State::Active
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
        assert_eq!(state(&serving, &orders), State::Degraded);
        for (phase, expected) in [
            (Phase::Shadow, State::Shadow),
            (Phase::Canary, State::Canary),
            // It answers no calls yet, and the trouble may be its own.
            (Phase::Verified, State::Degraded),
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
            assert_eq!(state(&record, &orders), expected, "{phase:?}");
        }
    }
}
