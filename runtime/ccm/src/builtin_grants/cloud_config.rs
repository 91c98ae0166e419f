//! The file that AWS's Go provider takes with `--cloud-config`. Its section `[Global]` has the module's configuration
//! keys; all other settings are refused. So is the file of the Go manager of Proxmox, as a whole. Reads no files.

use std::collections::BTreeMap;

use crate::config::{Mistakes, ProviderConfig};

/// The provider whose Go manager has such a file.
const GUEST: &str = "aws";

/// Keys of `[Global]` that are configuration keys of the module.
pub(super) const KEYS: [&str; 14] = [
    "ClusterServiceLoadBalancerHealthProbeMode",
    "ClusterServiceSharedLoadBalancerHealthProbePath",
    "ClusterServiceSharedLoadBalancerHealthProbePort",
    "DisableSecurityGroupIngress",
    "ElbSecurityGroup",
    "KubernetesClusterID",
    "KubernetesClusterTag",
    "NLBSecurityGroupMode",
    "NodeIPFamilies",
    "Region",
    "RouteTableID",
    "SubnetID",
    "VPC",
    "Zone",
];

/// The only key of them that may be repeated.
const LIST: &str = "NodeIPFamilies";
/// The only boolean of them.
const BOOLEAN: &str = "DisableSecurityGroupIngress";

/// Keys of `[Global]` that the module does not have, each with its replacement.
const REFUSED: [(&str, &str); 3] = [
    (
        "RoleARN",
        "the credential is not the module's: name the role in AWS_ROLE_ARN, with AWS_WEB_IDENTITY_TOKEN_FILE, or give it to the instance",
    ),
    (
        "SourceARN",
        "the credential is not the module's: no role is taken on with the manager's own keys",
    ),
    (
        "SupportedTopologyInstanceTypePattern",
        "only instances of the types p, trn and hpc, which are its default, get labels of their topology",
    ),
];

/// The mistake that the file is that of the Go manager of Proxmox. Its fields are in parentheses.
const OF_PROXMOX: &str = "it is the file of the Go manager of Proxmox, which is not read: run without it, with --cloud-provider=proxmox and its values in the variables PROXMOX_ENDPOINT (url), PROXMOX_TOKEN (token_id=token_secret) and PROXMOX_REGION (region); several clusters are several entries of the file of --config, each with grants";

/// The meaning of such a file.
pub(crate) struct CloudConfig {
    /// The provider that it configures.
    pub(crate) provider: ProviderConfig,
    /// Lines without effect, each with its reason.
    pub(crate) ignored: Vec<String>,
}

/// Reads such a file; `None` if the text is YAML instead. `name` is `--cloud-provider`. A text without content is such a
/// file where one `may_be_empty`, as for the Go provider; YAML never is.
///
/// # Errors
/// All mistakes together.
pub(crate) fn cloud_config(
    name: Option<&str>,
    text: &str,
    may_be_empty: bool,
) -> Result<Option<CloudConfig>, Mistakes> {
    // Some editors write a byte order mark, and the Go provider skips it.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if is_of_proxmox(text) {
        return Err(Mistakes(vec![OF_PROXMOX.to_owned()]));
    }
    let mut lines = text.lines().map(str::trim);
    let first = lines.find(|line| !is_nothing(line));
    let is_such = match first {
        Some(line) => line.starts_with('['),
        None => may_be_empty && name == Some(GUEST),
    };
    if !is_such {
        return Ok(None);
    }
    if name != Some(GUEST) {
        let mistake = "it is the file of a Go provider: that of AWS is read with --cloud-provider=aws, and no other one";
        return Err(Mistakes(vec![mistake.to_owned()]));
    }
    let mut provider = ProviderConfig::unwritten(GUEST);
    let ignored = read(text, &mut provider.values)?;
    Ok(Some(CloudConfig { provider, ignored }))
}

/// Whether the text has the key without which the Go manager of Proxmox does not start. Kubeconfigs have it, too, but
/// like our own file also an `apiVersion`.
fn is_of_proxmox(text: &str) -> bool {
    let has = |key: &str| text.lines().any(|line| line.starts_with(key));
    has("clusters:") && !has("apiVersion:")
}

/// Adds the values, by the module's keys, and returns the lines without effect. Names of sections and keys have no
/// case, as in the Go provider.
fn read(text: &str, values: &mut BTreeMap<String, String>) -> Result<Vec<String>, Mistakes> {
    let (mut ignored, mut mistakes) = (Vec::new(), Vec::new());
    let mut lines = BTreeMap::new();
    let mut is_global = false;
    for (number, line) in (1..).zip(text.lines().map(str::trim)) {
        if is_nothing(line) {
            continue;
        }
        if let Some(section) = line.strip_prefix('[') {
            let section = section.split(']').next().unwrap_or_default().trim();
            is_global = section.eq_ignore_ascii_case("Global");
            if !is_global {
                mistakes.push(unknown_section(number, section));
            }
            continue;
        }
        let (key, value) = line.split_once('=').unwrap_or((line, "true"));
        let (key, value) = (key.trim(), unquoted(value));
        if !is_global {
            continue;
        }
        if value.is_empty() {
            ignored.push(format!("line {number}: {key}: what is empty is not set"));
            continue;
        }
        let is = |known: &str| known.eq_ignore_ascii_case(key);
        let refused = REFUSED.iter().find(|(known, _)| is(known));
        match (KEYS.into_iter().find(|known| is(known)), refused) {
            (Some(key), _) => {
                set(values, key, value);
                if let Some(earlier) = lines.insert(key, number)
                    && key != LIST
                {
                    ignored.push(format!("line {earlier}: {key}: line {number} counts"));
                }
            }
            (None, Some((key, why))) => mistakes.push(format!("line {number}: {key}: {why}")),
            (None, None) => mistakes.push(format!(
                "line {number}: {key}: is unknown; known are {}",
                KEYS.join(", ")
            )),
        }
    }
    Mistakes(mistakes).or(ignored)
}

/// Of a repeated key the last value counts, except for the list, which grows.
fn set(values: &mut BTreeMap<String, String>, key: &str, value: &str) {
    match values.get_mut(key) {
        Some(families) if key == LIST => {
            families.push(',');
            families.push_str(value);
        }
        _ if key == BOOLEAN => drop(values.insert(key.to_owned(), boolean(value))),
        _ => drop(values.insert(key.to_owned(), value.to_owned())),
    }
}

/// A boolean as the module reads it, of those that the Go provider's parser takes in any case. Others stay as they are, for
/// the module to report.
fn boolean(value: &str) -> String {
    let text = value.to_ascii_lowercase();
    match text.as_str() {
        "true" | "yes" | "on" | "1" => "true".to_owned(),
        "false" | "no" | "off" | "0" => "false".to_owned(),
        _ => value.to_owned(),
    }
}

fn unknown_section(number: usize, section: &str) -> String {
    let name = section.split_whitespace().next().unwrap_or_default();
    match name.eq_ignore_ascii_case("ServiceOverride") {
        true => format!(
            "line {number}: [{section}]: name endpoints in AWS_ENDPOINT_URL_EC2 and AWS_ENDPOINT_URL_ELASTIC_LOAD_BALANCING_V2, or in the grants of --config"
        ),
        false => format!("line {number}: [{section}]: is unknown; known is [Global]"),
    }
}

/// An empty line or a comment.
fn is_nothing(line: &str) -> bool {
    line.is_empty() || line.starts_with([';', '#'])
}

/// A value without its quotes, or without the comment after it.
fn unquoted(value: &str) -> &str {
    let value = value.trim();
    match value.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next().unwrap_or_default(),
        None => value.split([';', '#']).next().unwrap_or_default().trim(),
    }
}
