//! One word for how a provider is doing, for `kubectl get providers`, `ccm provider status` and metrics.

use super::record::{Orders, Phase, Record};

/// See the module's documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Nothing has served yet.
    Pending,
    /// The newest version serves.
    Active,
    /// A new version is being looked at.
    Staging,
    /// A new version is compared.
    Shadow,
    /// A new version answers a part of the calls.
    Canary,
    /// A new version requests what is not granted.
    WaitsForGrants,
    /// A new version requests more than the one that serves.
    WaitsForApproval,
    /// A version serves, and was put back, or its successor was rejected.
    RolledBack,
    /// Something is wrong that a person should look at; what served goes on serving.
    Degraded,
    /// Only one version may serve.
    Pinned,
    /// Nothing new begins.
    Paused,
}

impl State {
    /// All of them.
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

    /// The word.
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

/// How a provider is doing. What people have to do something about comes first, then what they ordered.
pub fn state(record: &Record, orders: &Orders) -> State {
    match record.trial.as_ref().map(|trial| trial.phase) {
        Some(Phase::WaitsForGrants) => return State::WaitsForGrants,
        Some(Phase::WaitsForApproval) => return State::WaitsForApproval,
        // Calls are under way, and end soon; what is wrong stands beside it meanwhile.
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
            // Nothing of it is seen yet, and the trouble may be its own.
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
