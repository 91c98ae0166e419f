//! Grants: targets with endpoint, rules and credential, and annotation prefixes, as the operator allows them.
//!
//! Nothing here reads a file or an environment variable. Secrets cannot be printed: neither [`Secret`] nor a type
//! that contains one implements `Debug`, `Display` or `Serialize`.

mod issued;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use ccm_core::name_syntax::is_dns_label;
use ccm_proxy::{NoProxy, Proxy};
use ipnet::IpNet;
use url::Url;
use zeroize::Zeroizing;

pub use crate::egress::tls::Fingerprint;

use crate::egress::rules::Rule;
use crate::manifest::AuthKind;

pub use issued::{
    Issuer, Keystone, KeystoneMethod, OAuth2, OAuth2Client, OAuth2Grant, Presented, WebIdentity,
};

/// All grants of one provider.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Grants {
    /// Targets, by the names in the provider's manifest.
    pub targets: Vec<TargetGrant>,
    /// Prefixes of annotation keys that the provider may set on Services.
    pub annotation_prefixes: Vec<String>,
}

/// Grant of one target: endpoint, allowed requests, credential and route.
#[derive(Clone, PartialEq, Eq)]
pub struct TargetGrant {
    /// Name of the target in the manifest.
    pub name: String,
    /// Scheme, host, port and base path; overrides the manifest's endpoint. `http` only to loopback.
    pub endpoint: Url,
    /// Requests that are allowed. The access given here applies, not the manifest's.
    pub rules: Vec<Rule>,
    /// Credential that the host adds to every request to exactly this target.
    pub credential: Credential,
    /// Loopback and private ranges that the endpoint's name may resolve to. An endpoint that is an IP address needs
    /// no entry for itself. Metadata and link-local addresses cannot be granted.
    pub addresses: Vec<IpNet>,
    /// CA certificates in PEM form. If set, they replace the platform's roots.
    pub ca_pem: Option<String>,
    /// Fingerprints of the server's certificate. If there are any, only a certificate with one of them is accepted; its
    /// name, dates and issuer do not count then, unless [`TargetGrant::ca_pem`] is set as well.
    pub fingerprints: Vec<Fingerprint>,
    /// Request budget of the target.
    pub requests: RequestBudget,
    /// The proxy for requests to it, unless the proxy's own exceptions name the endpoint; see [`TargetGrant::route`].
    pub proxy: Option<ProxyGrant>,
}

impl TargetGrant {
    /// The proxy that its requests go through. `None`: they go directly to the endpoint.
    pub fn route(&self) -> Option<&ProxyGrant> {
        let host = self.endpoint.host_str().unwrap_or_default();
        let port = self.endpoint.port_or_known_default().unwrap_or_default();
        let proxy = self.proxy.as_ref()?;
        (!proxy.except.excepts(host, port)).then_some(proxy)
    }
}

/// A proxy for requests to targets. Only the operator sets it: a manifest cannot request one, and a guest sees it in
/// error texts only.
#[derive(Clone, PartialEq, Eq)]
pub struct ProxyGrant {
    /// Scheme, host, port and login.
    pub proxy: Proxy,
    /// Endpoints that are reached without it.
    pub except: NoProxy,
    /// Loopback and private ranges that the proxy's own name may resolve to. A proxy that is an IP address needs no
    /// entry for itself.
    pub addresses: Vec<IpNet>,
    /// CA certificates in PEM form for a proxy at `https://`. If set, they replace the platform's roots.
    pub ca_pem: Option<String>,
}

/// Request budget of a provider for a target: a burst of `requests`, refilled evenly over `per`. Clouds state their
/// own limits in this form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestBudget {
    /// Requests that may be sent without a pause.
    pub requests: NonZeroU32,
    /// Time until the whole budget is available again.
    pub per: Duration,
}

impl Default for RequestBudget {
    /// 6000 requests per minute: three calls with the maximum number of requests each, and a hundred requests per
    /// second. That is more than a cloud with 5000 nodes and one node per answer receives, and more than any public
    /// cloud that was looked at tolerates for long.
    fn default() -> RequestBudget {
        RequestBudget {
            requests: NonZeroU32::MIN.saturating_add(5999),
            per: Duration::from_secs(60),
        }
    }
}

impl RequestBudget {
    /// Budget of a version on trial beside the serving one: a tenth, rounded up.
    pub(crate) fn tenth(self) -> RequestBudget {
        let tenth = self.requests.get().div_ceil(10);
        RequestBudget {
            requests: NonZeroU32::new(tenth).unwrap_or(NonZeroU32::MIN),
            ..self
        }
    }
}

/// Authentication of requests to a target.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Credential {
    /// Requests are sent without a credential.
    #[default]
    None,
    /// `Authorization: Bearer …` (RFC 6750).
    Bearer(Secret),
    /// `Authorization: Basic …` (RFC 7617).
    Basic {
        /// User name, without colon.
        user: String,
        /// Password of the user.
        password: Secret,
    },
    /// A vendor-specific header.
    Header {
        /// Name of the header.
        name: String,
        /// Whole value of the header.
        value: Secret,
    },
    /// AWS Signature Version 4: each request is signed for this region and service, over its body too.
    AwsSigV4(AwsSigV4),
    /// `Authorization: Bearer …` with a token of an OAuth 2.0 token endpoint.
    OAuth2(OAuth2),
    /// `X-Auth-Token` with a token of OpenStack's Keystone.
    Keystone(Keystone),
}

impl Credential {
    /// The kind by which manifests request it.
    pub fn kind(&self) -> AuthKind {
        match self {
            Credential::None => AuthKind::None,
            Credential::Bearer(_) => AuthKind::Bearer,
            Credential::Basic { .. } => AuthKind::Basic,
            Credential::Header { .. } => AuthKind::Header,
            Credential::AwsSigV4(_) => AuthKind::AwsSigV4,
            Credential::OAuth2(_) => AuthKind::OAuth2,
            Credential::Keystone(_) => AuthKind::Keystone,
        }
    }

    /// The endpoint that issues the credential; `None` for a credential that is not issued.
    pub fn issuer_mut(&mut self) -> Option<&mut Issuer> {
        match self {
            Credential::None
            | Credential::Bearer(_)
            | Credential::Basic { .. }
            | Credential::Header { .. } => None,
            Credential::AwsSigV4(aws) => match &mut aws.source {
                AwsSource::Keys(_) => None,
                AwsSource::WebIdentity(identity) => Some(&mut identity.issuer),
                AwsSource::Container { issuer, .. } | AwsSource::InstanceMetadata { issuer } => {
                    Some(issuer)
                }
            },
            Credential::OAuth2(oauth2) => Some(&mut oauth2.issuer),
            Credential::Keystone(keystone) => Some(&mut keystone.issuer),
        }
    }

    /// Where the credential comes from, for people who have to replace it; `None` if its origin is unknown.
    pub fn origin(&self) -> Option<String> {
        let issuer = match self {
            Credential::None => return None,
            Credential::Bearer(secret)
            | Credential::Basic {
                password: secret, ..
            }
            | Credential::Header { value: secret, .. } => {
                return secret.origin().map(str::to_owned);
            }
            Credential::AwsSigV4(aws) => match &aws.source {
                AwsSource::Keys(keys) => return keys.secret_access_key.origin().map(str::to_owned),
                AwsSource::WebIdentity(identity) => &identity.issuer,
                AwsSource::Container { issuer, .. } | AwsSource::InstanceMetadata { issuer } => {
                    issuer
                }
            },
            Credential::OAuth2(oauth2) => &oauth2.issuer,
            Credential::Keystone(keystone) => &keystone.issuer,
        };
        Some(format!("the issuer {}", issuer.endpoint))
    }
}

/// Region, service and keys with which requests to a service of AWS are signed.
#[derive(Clone, PartialEq, Eq)]
pub struct AwsSigV4 {
    /// Region that the signature is valid in, such as `eu-central-1`.
    pub region: String,
    /// Service that the signature is valid for, by its name in signatures: `ec2`, `elasticloadbalancing`. Not `s3`,
    /// which signs in another way.
    pub service: String,
    /// Source of the keys.
    pub source: AwsSource,
}

impl AwsSigV4 {
    /// Checks region and service, which become parts of each signature.
    ///
    /// # Errors
    /// A human-readable description of the mistake.
    pub fn check(&self) -> Result<(), String> {
        for (what, text) in [("region", &self.region), ("service", &self.service)] {
            if !is_dns_label(text) {
                return Err(format!(
                    "{what} {text:?}: expected lower-case letters, digits and dashes"
                ));
            }
        }
        match self.service.as_str() {
            "s3" => {
                Err("service \"s3\": it signs in another way, which is not supported".to_owned())
            }
            _ => Ok(()),
        }
    }
}

/// Source of AWS keys.
#[derive(Clone, PartialEq, Eq)]
pub enum AwsSource {
    /// Keys that the operator has named.
    Keys(AwsKeys),
    /// A role for a workload's token, as in EKS's IAM roles for service accounts.
    WebIdentity(WebIdentity),
    /// The metadata service of the container: ECS, EKS Pod Identity.
    Container {
        /// The whole URL of the container's credentials.
        issuer: Issuer,
        /// Value of the `authorization` header, if the service requires one.
        authorization: Option<Presented>,
    },
    /// The metadata service of the instance, in version 2: the role of its instance profile.
    InstanceMetadata {
        /// Base URL of the metadata service.
        issuer: Issuer,
    },
}

/// AWS access keys, permanent or temporary.
#[derive(Clone, PartialEq, Eq)]
pub struct AwsKeys {
    /// Access key ID, which every signature shows.
    pub access_key_id: String,
    /// Secret access key, which is never sent.
    pub secret_access_key: Secret,
    /// Session token of temporary keys.
    pub session_token: Option<Secret>,
}

/// Secret text. Wiped from memory when the last clone is dropped; clones share one allocation. Secrets with equal
/// texts are equal, wherever they were read, so that a reloaded configuration shows whether one was rotated.
#[derive(Clone)]
pub struct Secret {
    text: Arc<Zeroizing<String>>,
    origin: Option<Arc<str>>,
}

impl PartialEq for Secret {
    fn eq(&self, other: &Secret) -> bool {
        self.text == other.text
    }
}

impl Eq for Secret {}

impl Secret {
    /// Takes ownership of the text.
    pub fn new(text: String) -> Secret {
        Secret {
            text: Arc::new(Zeroizing::new(text)),
            origin: None,
        }
    }

    /// The same secret, with its origin: a file, a variable or an object; see [`Credential::origin`]. The origin never
    /// contains a part of the secret.
    pub fn read_from(self, origin: &str) -> Secret {
        Secret {
            origin: Some(Arc::from(origin)),
            ..self
        }
    }

    fn origin(&self) -> Option<&str> {
        self.origin.as_deref()
    }

    /// The text, for the code that writes it into requests.
    pub(crate) fn expose(&self) -> &str {
        &self.text
    }
}
