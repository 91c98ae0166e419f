//! The profiles themselves: variables as the vendors' own managers name them. Data and nothing else.

/// How a shipped provider is told its endpoints and its credentials.
pub(super) struct Profile {
    /// Name of the embedded module.
    pub(super) guest: &'static str,
    /// Its targets.
    pub(super) targets: &'static [TargetProfile],
    /// Variables that the vendor's manager knows and the module has no key for, each with what comes of it.
    pub(super) unserved: &'static [Unserved],
}

/// How one target is told.
pub(super) struct TargetProfile {
    /// Its name in the manifest.
    pub(super) name: &'static str,
    /// Variable that replaces the endpoint.
    pub(super) endpoint: &'static str,
    /// What to log in with.
    pub(super) login: Login,
    /// The configuration key that must be true for it to be granted. `None`: it always is.
    pub(super) switch: Option<&'static str>,
}

/// Variables with a credential. Each may have `_FILE` appended: then it names a file that holds the value.
pub(super) enum Login {
    /// A bearer token.
    Token {
        /// The variable.
        variable: &'static str,
        /// How many characters the vendor's tokens have.
        length: usize,
    },
    /// A user with a password.
    Basic {
        /// The user's variable.
        user: &'static str,
        /// The password's variable.
        password: &'static str,
    },
}

/// Variables that have no effect.
pub(super) struct Unserved {
    /// Why, for people.
    pub(super) why: &'static str,
    /// The variables. One that is a truth value, and false, asks for nothing.
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
