//! Keys and region of AWS from the variables that its SDKs read, in their order: named keys, a web identity, the
//! container, the instance. Sends no request. Profiles in files (`AWS_PROFILE`) are not read: they belong to people,
//! not to managers.

use std::collections::BTreeMap;

use ccm_host::egress::{IssuerReach, check_issuer};
use ccm_host::grant::{
    AwsKeys, AwsSigV4, AwsSource, Credential, Issuer, Presented, Secret, WebIdentity,
};
use ipnet::IpNet;
use url::Url;

use super::{BuiltinGrants, OPENS_NOTHING, Read, is_true};
use crate::config::{
    ConfigContext, INSTANCE_METADATA, PRIVATE, SESSION_NAME, dns_suffix, is_isolated, sts, url,
};

/// Variables of secrets; each may have the suffix `_FILE`.
pub(super) const SECRETS: [&str; 3] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
];
/// Configuration keys and variables of the region; the first one that is set counts, as in the module.
const REGIONS: [&str; 3] = ["Region", "AWS_REGION", "AWS_DEFAULT_REGION"];
/// Configuration key and variable of the instance whose tags name the cluster.
const INSTANCE: &str = "InstanceID";
/// Configuration keys and variables of which one is enough for the module to know the cluster.
const CLUSTERS: [&str; 3] = ["KubernetesClusterID", "KubernetesClusterTag", INSTANCE];
/// Replaces every endpoint that has no variable of its own.
pub(super) const ANY_ENDPOINT: &str = "AWS_ENDPOINT_URL";
const STS_ENDPOINT: &str = "AWS_ENDPOINT_URL_STS";
/// In a VPC with interface endpoints, the names of AWS's endpoints have addresses of the VPC. The hosts are fixed, and
/// their certificates are verified; metadata services are refused in any range.
pub(super) const ADDRESSES: [IpNet; 5] = PRIVATE;
/// The host of the credentials in containers of ECS, whose variable has only a path.
const CONTAINER_METADATA: &str = "http://169.254.170.2";
const INSTANCE_METADATA_V6: &str = "http://[fd00:ec2::254]";

/// The region that the configuration or a variable names.
pub(super) fn region(
    values: &BTreeMap<String, String>,
    context: &ConfigContext<'_>,
) -> Option<String> {
    let set = |key| setting(key, values, context);
    // As in the Go provider, a zone counts before everything else.
    let of_zone = set("Zone").and_then(|zone| Some(region_of(zone.trim())?.to_owned()));
    let region = of_zone.or_else(|| REGIONS.into_iter().find_map(set))?;
    Some(region.trim().to_owned())
}

/// The region of a zone: its name up to the first number, as in the module, which reports a name without one.
fn region_of(zone: &str) -> Option<&str> {
    let begin = zone.find(|letter: char| letter.is_ascii_digit())?;
    let number = zone.get(begin..)?;
    let length = number.find(|letter: char| !letter.is_ascii_digit());
    zone.get(..begin + length.unwrap_or(number.len()))
}

/// Whether the configuration or a variable names the cluster, or the instance whose tags do. An empty value counts as
/// not set, as in the module.
pub(super) fn names_cluster(
    values: &BTreeMap<String, String>,
    context: &ConfigContext<'_>,
) -> bool {
    let set = |key| setting(key, values, context);
    let mut set = CLUSTERS.into_iter().filter_map(set);
    set.any(|value| !value.trim().is_empty())
}

fn setting(
    key: &str,
    values: &BTreeMap<String, String>,
    context: &ConfigContext<'_>,
) -> Option<String> {
    let written = values.get(key).cloned();
    written.or_else(|| (context.variable)(key))
}

/// Adds the ID of the instance that this machine is to the module's configuration, or returns a warning why it is not
/// known. `asked` is the answer of [`instance_issuer`](super::instance_issuer).
pub(crate) fn add_instance(
    values: &mut BTreeMap<String, String>,
    asked: Option<&Result<String, String>>,
) -> Option<String> {
    match asked? {
        Ok(id) => {
            values.insert(INSTANCE.to_owned(), id.clone());
            None
        }
        Err(why) => Some(format!(
            "KubernetesClusterID is not set, and the instance, whose tags would name it, does not tell its own ID: {why}"
        )),
    }
}

/// The metadata service of the instance, unless a variable disables it.
///
/// # Errors
/// The variable for its URL holds no URL.
pub(super) fn instance_metadata(context: &ConfigContext<'_>) -> Result<Option<Issuer>, String> {
    let variable = |name| (context.variable)(name);
    if variable("AWS_EC2_METADATA_DISABLED").is_some_and(|value| is_true(&value)) {
        return Ok(None);
    }
    let is_v6 = variable("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE")
        .is_some_and(|mode| mode.trim().eq_ignore_ascii_case("ipv6"));
    let default = match is_v6 {
        true => INSTANCE_METADATA_V6,
        false => INSTANCE_METADATA,
    };
    let name = "AWS_EC2_METADATA_SERVICE_ENDPOINT";
    let written = variable(name).unwrap_or_else(|| default.to_owned());
    issuer(name, &written, IssuerReach::AwsMetadata).map(Some)
}

fn issuer(name: &str, written: &str, reach: IssuerReach) -> Result<Issuer, String> {
    let url = url(written.trim()).map_err(|error| format!("{name}: {error}"))?;
    let issuer = Issuer::at(url);
    check_issuer(&issuer, reach).map_err(|why| format!("{name}: {why}"))?;
    Ok(issuer)
}

/// The mistake where no variable names an endpoint of a region whose endpoints are not known.
pub(super) fn unnamed_endpoint(region: &str) -> Option<String> {
    is_isolated(region).then(|| {
        format!("the region {region} is in an isolated partition: name its endpoints in AWS_ENDPOINT_URL_EC2, AWS_ENDPOINT_URL_ELASTIC_LOAD_BALANCING_V2 and {STS_ENDPOINT}")
    })
}

/// The manifest's endpoint in a region.
pub(super) fn endpoint(target: &ccm_host::manifest::Target, region: &str) -> Option<Url> {
    let mut url = target.endpoint_in(region)?;
    let host = url.host_str()?.to_owned();
    if let Some(service) = host.strip_suffix(".amazonaws.com") {
        let host = format!("{service}.{}", dns_suffix(region));
        url.set_host(Some(&host)).ok()?;
    }
    Some(url)
}

impl BuiltinGrants {
    /// The credential for a service in a region; after a mistake a placeholder.
    pub(super) fn aws(
        &mut self,
        service: &str,
        region: &str,
        context: &ConfigContext<'_>,
    ) -> Credential {
        let source = self.aws_source(region, context);
        let source = source.unwrap_or_else(|mistake| {
            self.mistake(mistake);
            AwsSource::Keys(AwsKeys {
                access_key_id: OPENS_NOTHING.to_owned(),
                secret_access_key: Secret::new(OPENS_NOTHING.to_owned()),
                session_token: None,
            })
        });
        Credential::AwsSigV4(AwsSigV4 {
            region: region.to_owned(),
            service: service.to_owned(),
            source,
        })
    }

    fn aws_source(
        &mut self,
        region: &str,
        context: &ConfigContext<'_>,
    ) -> Result<AwsSource, String> {
        let variable = |name: &str| (context.variable)(name);
        let is_set = |name: &str| variable(name).or_else(|| variable(&format!("{name}_FILE")));
        let [id, secret, token] = SECRETS;
        if is_set(id).is_some() || is_set(secret).is_some() {
            let token = is_set(token).map(|_| self.secret(token, context));
            return Ok(AwsSource::Keys(AwsKeys {
                access_key_id: self.secret(id, context).text,
                secret_access_key: self.secret(secret, context).into_secret(),
                session_token: token.map(Read::into_secret),
            }));
        }
        if let Some(file) = variable("AWS_WEB_IDENTITY_TOKEN_FILE") {
            let role = variable("AWS_ROLE_ARN");
            let named = [STS_ENDPOINT, ANY_ENDPOINT].into_iter();
            let mut named = named.filter_map(|name| Some((name, variable(name)?)));
            let named = named.next();
            if let (None, Some(mistake)) = (&named, unnamed_endpoint(region)) {
                return Err(mistake);
            }
            let (name, url) = named.unwrap_or((STS_ENDPOINT, sts(region)));
            let session = variable("AWS_ROLE_SESSION_NAME");
            return Ok(AwsSource::WebIdentity(WebIdentity {
                issuer: Issuer {
                    addresses: ADDRESSES.to_vec(),
                    ..issuer(name, &url, IssuerReach::Target)?
                },
                role_arn: role
                    .ok_or("AWS_WEB_IDENTITY_TOKEN_FILE is set, and AWS_ROLE_ARN is not")?,
                session_name: session.unwrap_or_else(|| SESSION_NAME.to_owned()),
                token: Presented::File(file.into()),
            }));
        }
        let whole = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
        let path = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI";
        let container = match (variable(whole), variable(path)) {
            (Some(url), _) => Some((whole, url)),
            (None, Some(rest)) => Some((path, format!("{CONTAINER_METADATA}{rest}"))),
            (None, None) => None,
        };
        if let Some((name, url)) = container {
            let file = variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
            let file = file.map(|path| Presented::File(path.into()));
            let text = || {
                let text = variable("AWS_CONTAINER_AUTHORIZATION_TOKEN");
                text.map(|text| Presented::Text(Secret::new(text)))
            };
            return Ok(AwsSource::Container {
                issuer: issuer(name, &url, IssuerReach::AwsMetadata)?,
                authorization: file.or_else(text),
            });
        }
        match instance_metadata(context)? {
            Some(issuer) => Ok(AwsSource::InstanceMetadata { issuer }),
            None => Err("no keys of AWS: AWS_ACCESS_KEY_ID, AWS_WEB_IDENTITY_TOKEN_FILE and AWS_CONTAINER_CREDENTIALS_FULL_URI are not set, and AWS_EC2_METADATA_DISABLED forbids to ask the instance".to_owned()),
        }
    }
}
