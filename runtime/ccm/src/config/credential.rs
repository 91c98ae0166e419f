//! The credential of a target, as written and its meaning. Every secret in it is a reference.

use ccm_host::grant::{AwsKeys, AwsSigV4, AwsSource, Credential, Secret};
use schemars::JsonSchema;
use serde::Deserialize;

use super::secret::SecretSource;
use super::{STAND_IN, Surroundings};

#[derive(Deserialize, JsonSchema)]
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
    AwsSigV4(RawAwsSigV4),
}

/// AWS Signature Version 4.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RawAwsSigV4 {
    /// The region that signatures are valid in, such as `eu-central-1`.
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    )]
    region: String,
    /// The service that they are valid for, such as `ec2` or `elasticloadbalancing`; not `s3`.
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"), extend("x-kubernetes-validations" = [
        {"rule": "self != 's3'", "message": "service \"s3\": it signs in another way, which is not supported"}
    ]))]
    service: String,
    /// Where the keys come from.
    source: RawAwsSource,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
enum RawAwsSource {
    /// Keys that do not change by themselves.
    Keys(RawAwsKeys),
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawAwsKeys {
    /// The access key ID.
    access_key_id: SecretSource,
    /// The secret access key.
    secret_access_key: SecretSource,
    /// The session token of temporary keys. Default: none.
    session_token: Option<SecretSource>,
}

impl RawCredential {
    /// Every place in which it refers to a secret.
    pub(super) fn secret_sources(&self) -> Vec<&SecretSource> {
        match self {
            RawCredential::Bearer(source) => vec![source],
            RawCredential::Basic { password, .. } => vec![password],
            RawCredential::Header { value, .. } => vec![value],
            RawCredential::AwsSigV4(aws) => {
                let RawAwsSource::Keys(keys) = &aws.source;
                let token = keys.session_token.iter();
                token
                    .chain([&keys.access_key_id, &keys.secret_access_key])
                    .collect()
            }
        }
    }
}

/// Reads the parts of one credential; adds errors to `mistakes`.
struct Reader<'a> {
    place: String,
    surroundings: &'a Surroundings<'a>,
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

    /// The secret; after a mistake something that opens nothing.
    fn secret(&mut self, key: &str, source: &SecretSource) -> Secret {
        let read = source.read(self.surroundings);
        let read = self.noted(key, read);
        read.unwrap_or_else(|| Secret::new(STAND_IN.to_owned()))
    }

    /// Text that need not be secret, but may stand beside what is; after a mistake, or where the machine does not have
    /// it, `missing`.
    fn text(&mut self, key: &str, source: &SecretSource) -> String {
        let read = source.text(self.surroundings);
        let read = self.noted(key, read);
        let text = read.map(|text| text.as_str().to_owned());
        text.filter(|text| text != STAND_IN)
            .unwrap_or_else(|| "missing".to_owned())
    }

    fn aws(&mut self, raw: &RawAwsSigV4) -> AwsSigV4 {
        let source = match &raw.source {
            RawAwsSource::Keys(keys) => AwsSource::Keys(AwsKeys {
                access_key_id: self.text("awsSigV4: keys: accessKeyId", &keys.access_key_id),
                secret_access_key: self
                    .secret("awsSigV4: keys: secretAccessKey", &keys.secret_access_key),
                session_token: keys
                    .session_token
                    .as_ref()
                    .map(|token| self.secret("awsSigV4: keys: sessionToken", token)),
            }),
        };
        let aws = AwsSigV4 {
            region: raw.region.clone(),
            service: raw.service.clone(),
            source,
        };
        self.noted("awsSigV4", aws.check());
        aws
    }
}

/// The credential; adds errors to `mistakes`.
pub(super) fn credential(
    place: &str,
    raw: Option<RawCredential>,
    surroundings: &Surroundings<'_>,
    mistakes: &mut Vec<String>,
) -> Credential {
    let mut reader = Reader {
        place: format!("{place}: credential"),
        surroundings,
        mistakes,
    };
    match raw {
        None => Credential::None,
        Some(RawCredential::Bearer(source)) => Credential::Bearer(reader.secret("", &source)),
        Some(RawCredential::Basic { user, password }) => Credential::Basic {
            user,
            password: reader.secret("", &password),
        },
        Some(RawCredential::Header { name, value }) => Credential::Header {
            name,
            value: reader.secret("", &value),
        },
        Some(RawCredential::AwsSigV4(aws)) => Credential::AwsSigV4(reader.aws(&aws)),
    }
}

#[cfg(test)]
mod tests;
