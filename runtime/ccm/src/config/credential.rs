//! The meaning of a target's credential. Reads the variables, files and Secrets that it names; sends nothing to an
//! issuer.

use ccm_host::egress::{IssuerReach, check_issuer};
use ccm_host::grant::{
    AwsKeys, AwsSigV4, AwsSource, Credential, Issuer, Keystone, KeystoneMethod, OAuth2,
    OAuth2Client, OAuth2Grant, Presented, Secret, WebIdentity,
};

use super::grants::{authorities, ranges, url};
use super::proxy::{ProxyChoice, proxy};
use super::raw_credential::{
    RawAwsSigV4, RawAwsSource, RawCredential, RawIssuer, RawKeystone, RawKeystoneMethod, RawOAuth2,
    RawOAuth2Grant,
};
use super::secret::SecretSource;
use super::{ConfigContext, PLACEHOLDER};

/// The metadata service of an instance of EC2.
pub(crate) const INSTANCE_METADATA: &str = "http://169.254.169.254";
/// Default name of sessions.
pub(crate) const SESSION_NAME: &str = "ccm";

/// AWS's Security Token Service of a region.
pub(crate) fn sts(region: &str) -> String {
    format!("https://sts.{region}.{}", dns_suffix(region))
}

/// The domain of AWS's endpoints in a region: China and the European Sovereign Cloud have their own.
pub(crate) fn dns_suffix(region: &str) -> &'static str {
    if region.starts_with("cn-") {
        "amazonaws.com.cn"
    } else if region.starts_with("eusc-") {
        "amazonaws.eu"
    } else {
        "amazonaws.com"
    }
}

/// Whether a region is in an isolated partition of AWS, such as `us-iso-east-1` and `eu-isoe-west-1`. Each has a domain of
/// its own, and a person has to name its endpoints.
pub(crate) fn is_isolated(region: &str) -> bool {
    region.starts_with("us-iso") || region.starts_with("eu-iso")
}

/// Reads the parts of one credential; adds errors to `mistakes`.
struct Reader<'a> {
    place: String,
    context: &'a ConfigContext<'a>,
    /// The target's proxy, for an issuer that names none.
    default: &'a ProxyChoice,
    mistakes: &'a mut Vec<String>,
}

impl Reader<'_> {
    fn noted<T>(&mut self, key: &str, read: Result<T, String>) -> Option<T> {
        let place = &self.place;
        let place = match key {
            "" => place.clone(),
            key => format!("{place}: {key}"),
        };
        read.map_err(|mistake| self.mistakes.push(format!("{place}: {mistake}")))
            .ok()
    }

    /// The secret; after a mistake, a placeholder.
    fn secret(&mut self, key: &str, source: &SecretSource) -> Secret {
        let read = source.read(self.context);
        let read = self.noted(key, read);
        read.unwrap_or_else(|| Secret::new(PLACEHOLDER.to_owned()))
    }

    /// Text that need not be secret, but may come from the same source as a secret; after a mistake, or where the
    /// machine does not have it, `missing`.
    fn text(&mut self, key: &str, source: &SecretSource) -> String {
        let read = source.text(self.context);
        let read = self.noted(key, read);
        let text = read.map(|text| text.as_str().to_owned());
        text.filter(|text| text != PLACEHOLDER)
            .unwrap_or_else(|| "missing".to_owned())
    }

    /// A token that is presented to the issuer. A file has to exist, and is read later.
    fn presented(&mut self, key: &str, source: &SecretSource) -> Presented {
        let secret = self.secret(key, source);
        match source {
            SecretSource::File(path) => Presented::File(path.clone()),
            SecretSource::Env(_) | SecretSource::Secret(_) => Presented::Text(secret),
        }
    }

    /// The issuer; `None` after a mistake.
    fn issuer(&mut self, key: &str, raw: RawIssuer, reach: IssuerReach) -> Option<Issuer> {
        let key = format!("{key}: issuer");
        let place = format!("{}: {key}", self.place);
        // The URL is not quoted: it may contain a password.
        let endpoint = self.noted(&key, url(&raw.endpoint));
        let (context, mistakes) = (self.context, &mut *self.mistakes);
        let addresses = ranges(&place, &raw.addresses, mistakes);
        let ca_pem = authorities(&place, raw.ca_file, raw.ca_pem, context, mistakes);
        let proxy = proxy(&place, raw.proxy, context, mistakes);
        let issuer = Issuer {
            endpoint: endpoint?,
            addresses,
            ca_pem,
            proxy: proxy.or(self.default).grant(),
        };
        let checked = check_issuer(&issuer, reach);
        self.noted(&key, checked).map(|()| issuer)
    }

    fn aws(&mut self, raw: RawAwsSigV4) -> Option<Credential> {
        let source = match raw.source {
            RawAwsSource::Keys(keys) => {
                let token = keys.session_token.as_ref();
                AwsSource::Keys(AwsKeys {
                    access_key_id: self.text("awsSigV4: keys: accessKeyId", &keys.access_key_id),
                    secret_access_key: self
                        .secret("awsSigV4: keys: secretAccessKey", &keys.secret_access_key),
                    session_token: token
                        .map(|token| self.secret("awsSigV4: keys: sessionToken", token)),
                })
            }
            RawAwsSource::WebIdentity(identity) => {
                let key = "awsSigV4: webIdentity";
                let token = self.presented(&format!("{key}: token"), &identity.token);
                if identity.issuer.is_none() && is_isolated(&raw.region) {
                    let mistake = "expected for a region of an isolated partition";
                    self.noted::<()>(&format!("{key}: issuer"), Err(mistake.to_owned()));
                }
                let issuer = identity.issuer;
                let issuer = issuer.unwrap_or_else(|| RawIssuer::at(&sts(&raw.region)));
                let name = identity.session_name;
                AwsSource::WebIdentity(WebIdentity {
                    issuer: self.issuer(key, issuer, IssuerReach::Target)?,
                    role_arn: identity.role_arn,
                    session_name: name.unwrap_or_else(|| SESSION_NAME.to_owned()),
                    token,
                })
            }
            RawAwsSource::Container(container) => {
                let key = "awsSigV4: container";
                let authorization = container.authorization.as_ref();
                let authorization = authorization
                    .map(|token| self.presented(&format!("{key}: authorization"), token));
                AwsSource::Container {
                    issuer: self.issuer(key, container.issuer, IssuerReach::AwsMetadata)?,
                    authorization,
                }
            }
            RawAwsSource::InstanceMetadata(metadata) => {
                let key = "awsSigV4: instanceMetadata";
                let issuer = metadata.issuer;
                let issuer = issuer.unwrap_or_else(|| RawIssuer::at(INSTANCE_METADATA));
                AwsSource::InstanceMetadata {
                    issuer: self.issuer(key, issuer, IssuerReach::AwsMetadata)?,
                }
            }
        };
        let aws = AwsSigV4 {
            region: raw.region,
            service: raw.service,
            source,
        };
        self.noted("awsSigV4", aws.check())?;
        Some(Credential::AwsSigV4(aws))
    }

    fn oauth2(&mut self, raw: RawOAuth2) -> Option<Credential> {
        let client = raw.client.map(|client| OAuth2Client {
            secret: client
                .secret
                .as_ref()
                .map(|secret| self.secret("oauth2: client: secret", secret)),
            id: client.id,
            in_form: client.in_form,
        });
        let grant = match raw.grant {
            None => OAuth2Grant::ClientCredentials,
            Some(RawOAuth2Grant::JwtBearer { assertion }) => OAuth2Grant::JwtBearer {
                assertion: self.presented("oauth2: grant: jwtBearer: assertion", &assertion),
            },
            Some(RawOAuth2Grant::TokenExchange {
                subject_token,
                subject_token_type,
            }) => OAuth2Grant::TokenExchange {
                subject_token: self
                    .presented("oauth2: grant: tokenExchange: subjectToken", &subject_token),
                subject_token_type,
            },
        };
        if client.is_none() && matches!(grant, OAuth2Grant::ClientCredentials) {
            self.noted::<()>(
                "oauth2",
                Err("without a grant it takes a client, with its secret".to_owned()),
            );
        }
        for name in raw.parameters.keys() {
            if OF_THE_HOST.contains(&name.as_str()) {
                let mistake = format!("{name:?} follows from client and grant");
                self.noted::<()>("oauth2: parameters", Err(mistake));
            }
        }
        Some(Credential::OAuth2(OAuth2 {
            issuer: self.issuer("oauth2", raw.issuer, IssuerReach::Target)?,
            client,
            grant,
            parameters: raw.parameters.into_iter().collect(),
        }))
    }

    fn keystone(&mut self, raw: RawKeystone) -> Option<Credential> {
        let method = match raw.method {
            RawKeystoneMethod::Password {
                user,
                user_domain,
                password,
                project,
                project_domain,
            } => KeystoneMethod::Password {
                user,
                user_domain,
                password: self.secret("keystone: password", &password),
                project,
                project_domain,
            },
            RawKeystoneMethod::ApplicationCredential { id, secret } => {
                KeystoneMethod::ApplicationCredential {
                    id,
                    secret: self.secret("keystone: applicationCredential: secret", &secret),
                }
            }
        };
        let issuer = self.issuer("keystone", raw.issuer, IssuerReach::Target)?;
        Some(Credential::Keystone(Keystone { issuer, method }))
    }
}

/// Fields of a token request that no parameter may set.
const OF_THE_HOST: [&str; 6] = [
    "assertion",
    "client_id",
    "client_secret",
    "grant_type",
    "subject_token",
    "subject_token_type",
];

/// The credential; adds errors to `mistakes`. `default` is the target's proxy. `None` after a mistake.
pub(super) fn credential(
    place: &str,
    raw: Option<RawCredential>,
    default: &ProxyChoice,
    context: &ConfigContext<'_>,
    mistakes: &mut Vec<String>,
) -> Credential {
    let mut reader = Reader {
        place: format!("{place}: credential"),
        context,
        default,
        mistakes,
    };
    let read = match raw {
        None => None,
        Some(RawCredential::Bearer(source)) => Some(Credential::Bearer(reader.secret("", &source))),
        Some(RawCredential::Basic { user, password }) => Some(Credential::Basic {
            user,
            password: reader.secret("", &password),
        }),
        Some(RawCredential::Header { name, value }) => Some(Credential::Header {
            name,
            value: reader.secret("", &value),
        }),
        Some(RawCredential::AwsSigV4(aws)) => reader.aws(*aws),
        Some(RawCredential::OAuth2(oauth2)) => reader.oauth2(*oauth2),
        Some(RawCredential::Keystone(keystone)) => reader.keystone(*keystone),
    };
    read.unwrap_or_default()
}

#[cfg(test)]
mod tests;
