//! The profiles as data: variables as named by the vendors' own managers; those of Proxmox and of machines without a cloud,
//! which have no such manager, are our own. No logic.

use ccm_core::settings::Adoption;

/// The variables with a shipped provider's endpoints and credentials.
pub(super) struct Profile {
    /// Name of the embedded module.
    pub(super) guest: &'static str,
    /// The targets in its manifest that have variables.
    pub(super) targets: &'static [TargetProfile],
    /// The metrics of the vendor's manager.
    pub(super) metrics: Option<MetricsProfile>,
    /// Variables of the vendor's manager that are not supported here, with their consequences.
    pub(super) unserved: &'static [Unserved],
    /// The load balancers that it may adopt if it runs without a file.
    pub(super) adoption: Adoption,
    /// Prefixes of the names of its variables.
    pub(super) prefixes: &'static [&'static str],
    /// Flags that the vendor's manager sets by itself, before it reads its arguments: its manifests lack them, and the
    /// rights for what they switch off.
    pub(super) flags_of_vendor: &'static [&'static str],
}

/// Variables of metrics that are served in plain HTTP.
pub(super) struct MetricsProfile {
    /// Variable that switches them off if it is false.
    pub(super) switch: &'static str,
    /// Variable of the address, as in Go's `net.Listen`.
    pub(super) address: &'static str,
    /// The address while the variable is not set.
    pub(super) default_address: &'static str,
}

/// The variables of one target.
pub(super) struct TargetProfile {
    /// Its name in the manifest.
    pub(super) name: &'static str,
    /// Variable that replaces the endpoint.
    pub(super) endpoint: &'static str,
    /// For a server that the operator runs: the variable of the endpoint has to be set, and these may be.
    pub(super) private: Option<PrivateServer>,
    /// Variables of its credential.
    pub(super) login: Login,
    /// When it is granted. `None`: always.
    pub(super) switch: Option<Switch>,
    /// The consequence, for people, when no credential is set: the target is not granted. `None`: that is a mistake.
    pub(super) without_login: Option<&'static str>,
}

/// Variables of a server that the operator runs.
pub(super) struct PrivateServer {
    /// Variable of the private ranges that its name may resolve to, separated by commas.
    pub(super) addresses: &'static str,
    /// Variable of the file with the authorities of its certificate.
    pub(super) ca_file: &'static str,
    /// Variable of its certificate's fingerprints, separated by commas.
    pub(super) fingerprints: &'static str,
}

impl PrivateServer {
    /// The names of the three variables.
    pub(super) fn variables(&self) -> [&'static str; 3] {
        [self.addresses, self.ca_file, self.fingerprints]
    }
}

/// The configuration key that switches on an optional target.
pub(super) enum Switch {
    /// A configuration key that is true.
    True(&'static str),
    /// One of these configuration keys has a value.
    AnySet(&'static [&'static str]),
}

/// Variables with a credential. Each may have the suffix `_FILE`: then it names a file that holds the value. If both
/// are set, the variable counts.
pub(super) enum Login {
    /// A bearer token, in the header `Authorization`.
    Token {
        /// Variable of the token.
        variable: &'static str,
        /// Length of the vendor's tokens, in characters.
        length: usize,
        /// Key of the token in the Secret of the vendor's manifests, or of ours where no vendor has any.
        key: &'static str,
    },
    /// A user with a password.
    Basic {
        /// Variable of the user.
        user: &'static str,
        /// Variable of the password.
        password: &'static str,
        /// Key of the password in the Secret of the vendor's manifests, or of ours where no vendor has any.
        key: &'static str,
    },
    /// A token in a form of the vendor's.
    Authorization {
        /// Text before the token in the header `Authorization`.
        before: &'static str,
        /// Variable of the token.
        variable: &'static str,
        /// Key of the token in the Secret of the vendor's manifests, or of ours where no vendor has any.
        key: &'static str,
    },
    /// Keys of AWS, from the variables of its SDKs; see `aws.rs`. The endpoint is that of the region, and may have
    /// private addresses.
    Aws {
        /// The service that requests are signed for.
        service: &'static str,
    },
}

/// Variables that have no effect.
pub(super) struct Unserved {
    /// The reason, for people.
    pub(super) why: &'static str,
    /// The variables. A boolean that is false counts as not set.
    pub(super) variables: &'static [&'static str],
}

pub(super) const PROFILES: &[Profile] = &[AWS, DIGITALOCEAN, HCLOUD, PROXMOX, STATIC];

const DIGITALOCEAN: Profile = Profile {
    guest: "digitalocean",
    targets: &[TargetProfile {
        name: "api",
        endpoint: "DO_OVERRIDE_URL",
        private: None,
        login: Login::Token {
            variable: "DO_ACCESS_TOKEN",
            // The prefix `dop_v1_` and 64 characters.
            length: 71,
            key: "access-token",
        },
        switch: None,
        without_login: None,
    }],
    metrics: None,
    unserved: &[
        Unserved {
            why: "every request obeys the vendor's rate-limit headers, and the budget of a target's grant",
            variables: &["DO_API_RATE_LIMIT_QPS"],
        },
        Unserved {
            why: "metrics and health are served as the flags of this program say",
            variables: &["METRICS_ADDR", "DEBUG_ADDR"],
        },
        Unserved {
            why: "this provider manages no firewall of nodes; one that the vendor's manager has made stays as it is, and lets in no traffic to new node ports and new load balancers of the type REGIONAL_NETWORK: open their ports in another one, or take it off the nodes",
            variables: &["PUBLIC_ACCESS_FIREWALL_NAME", "PUBLIC_ACCESS_FIREWALL_TAGS"],
        },
    ],
    // The vendor's manager takes over every load balancer that a Service names.
    adoption: Adoption::Unowned,
    prefixes: &["DO_", "PUBLIC_ACCESS_FIREWALL_"],
    flags_of_vendor: &[
        "--authentication-skip-lookup",
        "--cloud-provider=digitalocean",
    ],
};

const HCLOUD: Profile = Profile {
    guest: "hcloud",
    targets: &[
        TargetProfile {
            name: "api",
            endpoint: "HCLOUD_ENDPOINT",
            private: None,
            login: Login::Token {
                variable: "HCLOUD_TOKEN",
                length: 64,
                key: "token",
            },
            switch: None,
            without_login: None,
        },
        TargetProfile {
            name: "robot",
            endpoint: "ROBOT_ENDPOINT",
            private: None,
            login: Login::Basic {
                user: "ROBOT_USER",
                password: "ROBOT_PASSWORD",
                key: "robot-password",
            },
            switch: Some(Switch::True("ROBOT_ENABLED")),
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
    // As the vendor's manager, except for load balancers that name an owner.
    adoption: Adoption::Unowned,
    prefixes: &["HCLOUD_", "ROBOT_"],
    flags_of_vendor: &[],
};

const PROXMOX: Profile = Profile {
    guest: "proxmox",
    targets: &[
        TargetProfile {
            name: "api",
            endpoint: "PROXMOX_ENDPOINT",
            private: Some(PROXMOX_SERVER),
            login: PROXMOX_LOGIN,
            switch: None,
            without_login: None,
        },
        TargetProfile {
            name: "agent",
            endpoint: "PROXMOX_ENDPOINT",
            private: Some(PROXMOX_SERVER),
            login: PROXMOX_LOGIN,
            switch: Some(Switch::AnySet(&[
                "PROXMOX_INTERNAL_CIDRS",
                "PROXMOX_EXTERNAL_CIDRS",
            ])),
            without_login: None,
        },
    ],
    metrics: None,
    unserved: &[],
    adoption: Adoption::Never,
    prefixes: &["PROXMOX_"],
    flags_of_vendor: &[],
};

const PROXMOX_SERVER: PrivateServer = PrivateServer {
    addresses: "PROXMOX_ADDRESSES",
    ca_file: "PROXMOX_CA_FILE",
    fingerprints: "PROXMOX_FINGERPRINTS",
};

const PROXMOX_LOGIN: Login = Login::Authorization {
    before: "PVEAPIToken=",
    variable: "PROXMOX_TOKEN",
    key: "token",
};

const STATIC: Profile = Profile {
    guest: "static",
    targets: &[],
    metrics: None,
    unserved: &[],
    adoption: Adoption::Never,
    prefixes: &["STATIC_"],
    flags_of_vendor: &[],
};

const AWS: Profile = Profile {
    guest: "aws",
    targets: &[
        TargetProfile {
            name: "ec2",
            endpoint: "AWS_ENDPOINT_URL_EC2",
            private: None,
            login: Login::Aws { service: "ec2" },
            switch: None,
            without_login: None,
        },
        TargetProfile {
            name: "elb",
            endpoint: "AWS_ENDPOINT_URL_ELASTIC_LOAD_BALANCING_V2",
            private: None,
            login: Login::Aws {
                service: "elasticloadbalancing",
            },
            switch: None,
            without_login: None,
        },
    ],
    metrics: None,
    unserved: &[
        Unserved {
            why: "endpoints of these kinds are named by AWS_ENDPOINT_URL_EC2, AWS_ENDPOINT_URL_ELASTIC_LOAD_BALANCING_V2 and AWS_ENDPOINT_URL_STS",
            variables: &["AWS_USE_DUALSTACK_ENDPOINT", "AWS_USE_FIPS_ENDPOINT"],
        },
        Unserved {
            why: "AWS_ENDPOINT_URL_ELASTIC_LOAD_BALANCING_V2 names the endpoint of both APIs of load balancers",
            variables: &["AWS_ENDPOINT_URL_ELASTIC_LOAD_BALANCING"],
        },
        Unserved {
            why: "SSL_CERT_FILE names the authorities of certificates, and caFile in the grants of --config those of one endpoint",
            variables: &["AWS_CA_BUNDLE"],
        },
        Unserved {
            why: "profiles in files are not read",
            variables: &[
                "AWS_CONFIG_FILE",
                "AWS_PROFILE",
                "AWS_SHARED_CREDENTIALS_FILE",
            ],
        },
    ],
    adoption: Adoption::Never,
    // Many programs have variables that begin with AWS_.
    prefixes: &[],
    flags_of_vendor: &[],
};
