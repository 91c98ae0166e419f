//! The profiles as data: variables as named by the vendors' own managers. No logic.

use ccm_core::settings::Adoption;

/// The variables with a shipped provider's endpoints and credentials.
pub(super) struct Profile {
    /// Name of the embedded module.
    pub(super) guest: &'static str,
    /// Its targets.
    pub(super) targets: &'static [TargetProfile],
    /// The metrics of the vendor's manager.
    pub(super) metrics: Option<MetricsProfile>,
    /// Variables of the vendor's manager that nothing here reads, with their consequences.
    pub(super) unserved: &'static [Unserved],
    /// Which load balancers it may adopt if it runs without a file.
    pub(super) adoption: Adoption,
    /// With what the names of its variables begin.
    pub(super) prefixes: &'static [&'static str],
}

/// Variables of metrics that are served in plain HTTP.
pub(super) struct MetricsProfile {
    /// Variable that switches them off if it is false.
    pub(super) switch: &'static str,
    /// Variable of the address, as in Go's `net.Listen`.
    pub(super) address: &'static str,
    /// The address unless it is set.
    pub(super) default_address: &'static str,
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
    /// What follows, for people, when no credential is set: the target is not granted. `None`: that is a mistake.
    pub(super) without_login: Option<&'static str>,
}

/// Variables with a credential. Each may have the suffix `_FILE`: then it names a file that holds the value. Of both, the
/// variable counts.
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
            without_login: None,
        },
        TargetProfile {
            name: "robot",
            endpoint: "ROBOT_ENDPOINT",
            login: Login::Basic {
                user: "ROBOT_USER",
                password: "ROBOT_PASSWORD",
            },
            switch: Some("ROBOT_ENABLED"),
            without_login: Some(
                "ROBOT_ENABLED without ROBOT_USER and ROBOT_PASSWORD: dedicated servers are targets of load balancers by their nodes' InternalIP, and the controllers of nodes leave them alone",
            ),
        },
    ],
    metrics: Some(MetricsProfile {
        switch: "HCLOUD_METRICS_ENABLED",
        address: "HCLOUD_METRICS_ADDRESS",
        default_address: ":8233",
    }),
    unserved: &[Unserved {
        why: "the vendor's manager has called it HCLOUD_SERVER_CACHE_MAX_AGE since 1.33",
        variables: &["HCLOUD_SERVER_CACHE_TTL"],
    }],
    // As the vendor's manager, but for load balancers that name an owner.
    adoption: Adoption::Unowned,
    prefixes: &["HCLOUD_", "ROBOT_"],
}];
