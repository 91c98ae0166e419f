//! The credential of a target as written. Every secret in it is a reference; interprets nothing.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use super::proxy::{RawProxy, RawProxyServer};
use super::raw::RANGE;
use super::secret::SecretSource;

#[derive(Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) enum RawCredential {
    /// A bearer token.
    Bearer(SecretSource),
    /// A user and a password.
    Basic {
        /// The user.
        #[schemars(length(max = 1024))]
        user: String,
        /// The password.
        password: SecretSource,
    },
    /// A header field.
    Header {
        /// The field's name.
        #[schemars(length(min = 1, max = 256))]
        name: String,
        /// Its value.
        value: SecretSource,
    },
    /// A signature of each request, as AWS wants it (Signature Version 4).
    AwsSigV4(Box<RawAwsSigV4>),
    /// A bearer token that an OAuth 2.0 token endpoint issues.
    #[serde(rename = "oauth2")]
    OAuth2(Box<RawOAuth2>),
    /// A token that OpenStack's Keystone issues, in the header X-Auth-Token.
    Keystone(Box<RawKeystone>),
}

/// AWS Signature Version 4.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RawAwsSigV4 {
    /// The region that signatures are valid in, such as `eu-central-1`.
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    )]
    pub(super) region: String,
    /// The service that they are valid for, such as `ec2` or `elasticloadbalancing`; not `s3`.
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"), extend("x-kubernetes-validations" = [
        {"rule": "self != 's3'", "message": "service \"s3\": it signs in another way, which is not supported"}
    ]))]
    pub(super) service: String,
    /// Where the keys come from.
    pub(super) source: RawAwsSource,
}

#[derive(Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "!has(self.container) && !has(self.instanceMetadata)", "message": "an object uses no identity of the manager's own: container and instanceMetadata are for the file of --config"}
]))]
pub(super) enum RawAwsSource {
    /// Keys that do not change by themselves.
    Keys(RawAwsKeys),
    /// A role for a workload's token, as in EKS's IAM roles for service accounts.
    WebIdentity(RawWebIdentity),
    /// The credentials of the container: ECS, EKS Pod Identity; in the file of --config only.
    Container(RawContainer),
    /// The role of the instance, from its metadata service in version 2; in the file of --config only.
    InstanceMetadata(RawInstanceMetadata),
}

#[derive(Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RawAwsKeys {
    /// The access key ID.
    pub(super) access_key_id: SecretSource,
    /// The secret access key.
    pub(super) secret_access_key: SecretSource,
    /// The session token of temporary keys. Default: none.
    pub(super) session_token: Option<SecretSource>,
}

#[derive(Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RawWebIdentity {
    /// The Security Token Service. Default: AWS's own for the region.
    pub(super) issuer: Option<RawIssuer>,
    /// ARN of the role.
    #[schemars(length(min = 20, max = 2048))]
    pub(super) role_arn: String,
    /// Name of the session in AWS's audit log. Default: ccm.
    #[schemars(length(min = 2, max = 64), regex(pattern = "^[A-Za-z0-9_=,.@-]+$"))]
    pub(super) session_name: Option<String>,
    /// The workload's token. A file is read again for each exchange.
    pub(super) token: SecretSource,
}

#[derive(Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RawContainer {
    /// The URL of the credentials: at AWS's addresses for it, on this machine, or with https.
    pub(super) issuer: RawIssuer,
    /// Value of the header authorization. A file is read again for each exchange. Default: no such header.
    pub(super) authorization: Option<SecretSource>,
}

#[derive(Clone, Deserialize, Default, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RawInstanceMetadata {
    /// The metadata service. Default: `http://169.254.169.254`.
    pub(super) issuer: Option<RawIssuer>,
}

/// An endpoint that issues credentials. `ccm` alone asks it; modules cannot.
#[derive(Clone, Deserialize, Default, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "!has(self.caFile)", "message": "caFile is for the file of --config: an object holds the certificates as caPem"}
]))]
pub(super) struct RawIssuer {
    /// Its URL.
    #[schemars(length(min = 1, max = 2048), extend("x-kubernetes-validations" = [
        {"rule": "self.startsWith('https://') || self.startsWith('http://')", "message": "expected https, or http to loopback or a metadata service of AWS"},
        {"rule": "!self.contains('@') && !self.contains('?') && !self.contains('#')", "message": "expected scheme, host, port and path only"}
    ]))]
    pub(super) endpoint: String,
    /// Private or loopback ranges that its name may resolve to. Default: none.
    #[serde(default)]
    #[schemars(length(max = 32), inner(length(max = 64), regex(pattern = RANGE)))]
    pub(super) addresses: Vec<String>,
    /// PEM file with the only certificates to trust. Default: the platform's.
    #[schemars(length(max = 4096))]
    pub(super) ca_file: Option<PathBuf>,
    /// The only certificates to trust, in PEM form.
    #[schemars(length(max = 65536))]
    pub(super) ca_pem: Option<String>,
    /// The proxy on the way to it; in the file of --config also one of the words `environment` (the proxy of `HTTPS_PROXY`) and `direct` (none). Default: the target's. A metadata service is never asked through one.
    #[schemars(with = "Option<RawProxyServer>")]
    pub(super) proxy: Option<RawProxy>,
}

impl RawIssuer {
    /// An issuer of which only the URL is written.
    pub(super) fn at(endpoint: &str) -> RawIssuer {
        RawIssuer {
            endpoint: endpoint.to_owned(),
            ..RawIssuer::default()
        }
    }
}

/// A token of an OAuth 2.0 token endpoint.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RawOAuth2 {
    /// The token endpoint.
    pub(super) issuer: RawIssuer,
    /// The client. Default: only the identity in the grant.
    pub(super) client: Option<RawOAuth2Client>,
    /// The grant that is presented. Default: the client's own credentials.
    pub(super) grant: Option<RawOAuth2Grant>,
    /// Fields that the endpoint wants besides, such as `scope`, `audience` or `resource`.
    #[serde(default)]
    #[schemars(extend("maxProperties" = 16, "additionalProperties" = {"type": "string", "maxLength": 1024}))]
    pub(super) parameters: BTreeMap<String, String>,
}

#[derive(Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RawOAuth2Client {
    /// The client identifier.
    #[schemars(length(min = 1, max = 1024))]
    pub(super) id: String,
    /// The client secret. Default: none.
    pub(super) secret: Option<SecretSource>,
    /// Whether the secret is a field of the form, and not a header.
    #[serde(default)]
    pub(super) in_form: bool,
}

#[derive(Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) enum RawOAuth2Grant {
    /// A signed assertion (RFC 7523).
    JwtBearer {
        /// The assertion. A file is read again for each exchange.
        assertion: SecretSource,
    },
    /// A token in exchange for another (RFC 8693).
    #[serde(rename_all = "camelCase")]
    TokenExchange {
        /// The token that is exchanged. A file is read again for each exchange.
        subject_token: SecretSource,
        /// Its type, such as `urn:ietf:params:oauth:token-type:jwt`.
        #[schemars(length(min = 1, max = 256))]
        subject_token_type: String,
    },
}

/// A token of Keystone.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RawKeystone {
    /// Keystone, with its version: `https://keystone.example.com/v3`.
    pub(super) issuer: RawIssuer,
    /// How `ccm` identifies itself.
    pub(super) method: RawKeystoneMethod,
}

#[derive(Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) enum RawKeystoneMethod {
    /// A user with a password, in a project.
    #[serde(rename_all = "camelCase")]
    Password {
        /// Name of the user.
        #[schemars(length(min = 1, max = 255))]
        user: String,
        /// Name of the user's domain.
        #[schemars(length(min = 1, max = 255))]
        user_domain: String,
        /// The password.
        password: SecretSource,
        /// Name of the project.
        #[schemars(length(min = 1, max = 255))]
        project: String,
        /// Name of the project's domain.
        #[schemars(length(min = 1, max = 255))]
        project_domain: String,
    },
    /// An application credential.
    ApplicationCredential {
        /// Its ID.
        #[schemars(length(min = 1, max = 255))]
        id: String,
        /// Its secret.
        secret: SecretSource,
    },
}
