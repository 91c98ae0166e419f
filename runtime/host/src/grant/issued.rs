//! Temporary credentials that an issuer issues: its endpoint, and the secrets that the host presents there. A guest
//! cannot reach these endpoints; the operator names them, like the targets.

use std::path::PathBuf;

use ipnet::IpNet;
use url::Url;

use super::{Credential, ProxyGrant, RequestBudget, Secret, TargetGrant};

/// An endpoint that issues credentials. The same checks apply to it as to a target: addresses, proxy, certificates,
/// bounds.
#[derive(Clone, PartialEq, Eq)]
pub struct Issuer {
    /// Scheme, host, port and path. `http` only to loopback, and for keys of AWS to the addresses of its metadata
    /// services.
    pub endpoint: Url,
    /// Loopback and private ranges that the endpoint's name may resolve to.
    pub addresses: Vec<IpNet>,
    /// CA certificates in PEM form. If set, they replace the platform's roots.
    pub ca_pem: Option<String>,
    /// The proxy for requests to it. Metadata services are never requested through one.
    pub proxy: Option<ProxyGrant>,
}

impl Issuer {
    /// An issuer without settings.
    pub fn at(endpoint: Url) -> Issuer {
        Issuer {
            endpoint,
            addresses: Vec::new(),
            ca_pem: None,
            proxy: None,
        }
    }

    /// The issuer as a target, for the checks that both have.
    pub(crate) fn as_target(&self) -> TargetGrant {
        TargetGrant {
            name: "issuer".to_owned(),
            endpoint: self.endpoint.clone(),
            rules: Vec::new(),
            credential: Credential::None,
            addresses: self.addresses.clone(),
            ca_pem: self.ca_pem.clone(),
            fingerprints: Vec::new(),
            requests: RequestBudget::default(),
            proxy: self.proxy.clone(),
        }
    }
}

/// A token that the host presents to an issuer.
#[derive(Clone, PartialEq, Eq)]
pub enum Presented {
    /// The token itself.
    Text(Secret),
    /// The text of this file, read for each exchange: kubelets and agents replace such files long before the process
    /// ends.
    File(PathBuf),
}

/// The role that a workload's token is exchanged for (`sts:AssumeRoleWithWebIdentity`).
#[derive(Clone, PartialEq, Eq)]
pub struct WebIdentity {
    /// AWS's Security Token Service.
    pub issuer: Issuer,
    /// ARN of the role.
    pub role_arn: String,
    /// Name of the session, shown in AWS's audit log: 2 to 64 letters, digits and `_=,.@-`.
    pub session_name: String,
    /// The workload's token, such as a projected token of a ServiceAccount.
    pub token: Presented,
}

/// An OAuth 2.0 token of a token endpoint, sent as `Authorization: Bearer …`.
#[derive(Clone, PartialEq, Eq)]
pub struct OAuth2 {
    /// The token endpoint (RFC 6749, 3.2).
    pub issuer: Issuer,
    /// The client, as the authorization server knows it; `None` if the grant alone identifies it.
    pub client: Option<OAuth2Client>,
    /// The authorization grant that the host presents.
    pub grant: OAuth2Grant,
    /// Additional fields that the endpoint needs, such as `scope`, `audience` or `resource`.
    pub parameters: Vec<(String, String)>,
}

/// A client of an authorization server.
#[derive(Clone, PartialEq, Eq)]
pub struct OAuth2Client {
    /// Client identifier (`client_id`).
    pub id: String,
    /// Client secret; `None` for a client that is identified and not authenticated.
    pub secret: Option<Secret>,
    /// Whether the secret is a field of the form (`client_secret_post` in RFC 7591) and not a header
    /// (`client_secret_basic`).
    pub in_form: bool,
}

/// Authorization grant of a token request.
#[derive(Clone, PartialEq, Eq)]
pub enum OAuth2Grant {
    /// Client credentials: RFC 6749, 4.4.
    ClientCredentials,
    /// RFC 7523, 2.1: a signed assertion, such as a token of a ServiceAccount.
    JwtBearer {
        /// The signed assertion.
        assertion: Presented,
    },
    /// Token exchange: RFC 8693.
    TokenExchange {
        /// The token that is exchanged.
        subject_token: Presented,
        /// Its type, such as `urn:ietf:params:oauth:token-type:jwt`.
        subject_token_type: String,
    },
}

impl OAuth2Grant {
    /// The token that the host presents; `None` for a client that is known by its own credentials.
    pub(crate) fn presented(&self) -> Option<&Presented> {
        match self {
            OAuth2Grant::ClientCredentials => None,
            OAuth2Grant::JwtBearer { assertion: token }
            | OAuth2Grant::TokenExchange {
                subject_token: token,
                ..
            } => Some(token),
        }
    }
}

/// A Keystone v3 token: `X-Auth-Token`.
#[derive(Clone, PartialEq, Eq)]
pub struct Keystone {
    /// Keystone's base URL, such as `https://keystone.example.com/v3`.
    pub issuer: Issuer,
    /// How the host identifies itself.
    pub method: KeystoneMethod,
}

/// Authentication method of Keystone.
#[derive(Clone, PartialEq, Eq)]
pub enum KeystoneMethod {
    /// A user with a password, in a project.
    Password {
        /// Name of the user.
        user: String,
        /// Name of the user's domain.
        user_domain: String,
        /// Password of the user.
        password: Secret,
        /// Name of the project.
        project: String,
        /// Name of the project's domain.
        project_domain: String,
    },
    /// An application credential, which has its project in it.
    ApplicationCredential {
        /// ID of the credential.
        id: String,
        /// Secret of the credential.
        secret: Secret,
    },
}
