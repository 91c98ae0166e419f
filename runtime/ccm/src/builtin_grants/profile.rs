//! The profiles as data: variables as named by the vendors' own managers. No logic.

/// The variables with a shipped provider's endpoints and credentials.
pub(super) struct Profile {
    /// Name of the embedded module.
    pub(super) guest: &'static str,
    /// Its targets.
    pub(super) targets: &'static [TargetProfile],
    /// Variables of the vendor's manager for which the module has no key, with their consequences.
    pub(super) unserved: &'static [Unserved],
}

/// The variables of one target.
pub(super) struct TargetProfile {
    /// Its name in the manifest.
    pub(super) name: &'static str,
    /// Variable that replaces the endpoint.
    pub(super) endpoint: &'static str,
    /// Its credential.
    pub(super) login: Login,
    /// Configuration key that must be true for it to be granted. `None`: always granted.
    pub(super) switch: Option<&'static str>,
}

/// Variables with a credential. Each may have the suffix `_FILE`: then it names a file that holds the value.
pub(super) enum Login {
    /// A bearer token.
    Token {
        /// The variable.
        variable: &'static str,
        /// Length of the vendor's tokens, in characters.
        length: usize,
    },
    /// A user with a password.
    Basic {
        /// Variable of the user.
        user: &'static str,
        /// Variable of the password.
        password: &'static str,
    },
}

/// Variables that have no effect.
pub(super) struct Unserved {
    /// The reason, for people.
    pub(super) why: &'static str,
    /// The variables. A false truth value counts as not set.
    pub(super) variables: &'static [&'static str],
}

pub(super) const PROFILES: &[Profile] = &[Profile {
    guest: "hcloud",
    targets: &[
        TargetProfile {
            name: "api",
            endpoint: "HCLOUD_ENDPOINT",
            login: Login::Token {
                variable: "HCLOUD_TOKEN",
                length: 64,
            },
            switch: None,
        },
        TargetProfile {
            name: "robot",
            endpoint: "ROBOT_ENDPOINT",
            login: Login::Basic {
                user: "ROBOT_USER",
                password: "ROBOT_PASSWORD",
            },
            switch: Some("ROBOT_ENABLED"),
        },
    ],
    unserved: &[Unserved {
        why: "the vendor's own metrics are not served yet",
        variables: &["HCLOUD_METRICS_ADDRESS", "HCLOUD_METRICS_ENABLED"],
    }],
}];
