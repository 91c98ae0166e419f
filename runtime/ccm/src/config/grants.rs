//! Converts a provider's written grants to the host's form.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use ccm_host::egress::rules::{RawRule, Rule};
use ccm_host::egress::tls::{Trust, client_config};
use ccm_host::egress::{check_endpoint, check_proxy};
use ccm_host::grant::{Fingerprint, Grants, RequestBudget, TargetGrant};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use url::{ParseError, Url};

use super::ConfigContext;
use super::credential::credential;
use super::proxy::{ProxyChoice, proxy};
use super::raw::{RawGrants, RawRequestBudget, RawTarget};
use crate::flags::go_duration;

/// Supported periods of request budgets: a second to a day.
const COUNTED_OVER: RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(24 * 3600);

/// The private ranges, which are dialled only where a grant names them.
pub(crate) const PRIVATE: [IpNet; 5] = [
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(10, 0, 0, 0), 8)),
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(172, 16, 0, 0), 12)),
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(192, 168, 0, 0), 16)),
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(100, 64, 0, 0), 10)),
    IpNet::V6(Ipv6Net::new_assert(
        Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0),
        7,
    )),
];

/// The operator's grants; adds errors to `mistakes`.
pub(super) fn grants(
    place: &str,
    raw: RawGrants,
    default: &ProxyChoice,
    context: &ConfigContext<'_>,
    mistakes: &mut Vec<String>,
) -> Grants {
    let mut names = BTreeSet::new();
    for RawTarget { name, .. } in &raw.targets {
        if !names.insert(name) {
            mistakes.push(format!("{place}: target {name:?} is there twice"));
        }
    }
    Grants {
        targets: raw
            .targets
            .into_iter()
            .filter_map(|target| target_grant(place, target, default, context, mistakes))
            .collect(),
        annotation_prefixes: raw.annotation_prefixes,
    }
}

fn target_grant(
    provider: &str,
    raw: RawTarget,
    default: &ProxyChoice,
    context: &ConfigContext<'_>,
    mistakes: &mut Vec<String>,
) -> Option<TargetGrant> {
    let place = format!("{provider}: target {:?}", raw.name);
    let before = mistakes.len();
    // The URL is not quoted: it may contain a password.
    let endpoint = url(&raw.endpoint);
    let endpoint = endpoint.and_then(|url| check_endpoint(&url).map(|()| url));
    let endpoint = endpoint.map_err(|why| mistakes.push(format!("{place}: endpoint: {why}")));
    let addresses = ranges(&place, &raw.addresses, mistakes);
    let rules = rules(&place, raw.rules, mistakes);
    let ca_pem = authorities(&place, raw.ca_file, raw.ca_pem, context, mistakes);
    let fingerprints = fingerprints(&place, &raw.certificate_fingerprints, mistakes);
    if endpoint.as_ref().is_ok_and(|url| url.scheme() != "https") && !fingerprints.is_empty() {
        mistakes.push(format!(
            "{place}: certificateFingerprints: only an endpoint at https:// has a certificate"
        ));
    }
    let requests = raw.request_budget.map(request_budget).transpose();
    let requests = requests.unwrap_or_else(|mistake| {
        mistakes.push(format!("{place}: requestBudget: {mistake}"));
        None
    });
    let proxy = proxy(&place, raw.proxy, context, mistakes).or(default);
    let credential = credential(&place, raw.credential, &proxy, context, mistakes);
    if mistakes.len() > before {
        return None;
    }
    let grant = TargetGrant {
        name: raw.name,
        endpoint: endpoint.ok()?,
        rules,
        credential,
        addresses,
        ca_pem,
        fingerprints,
        requests: requests.unwrap_or_default(),
        proxy: proxy.grant(),
    };
    match check_proxy(&grant) {
        Ok(()) => Some(grant),
        Err(mistake) => {
            mistakes.push(format!("{place}: proxy: {mistake}"));
            None
        }
    }
}

/// Parses a URL. The error does not quote it.
pub(crate) fn url(text: &str) -> Result<Url, String> {
    text.parse().map_err(|error| match error {
        ParseError::RelativeUrlWithoutBase => {
            "expected a URL such as https://api.example.com".to_owned()
        }
        error => error.to_string(),
    })
}

/// The certificates of `caFile` or `caPem`, which are parsed; adds errors to `mistakes`.
pub(super) fn authorities(
    place: &str,
    file: Option<PathBuf>,
    pem: Option<String>,
    context: &ConfigContext<'_>,
    mistakes: &mut Vec<String>,
) -> Option<String> {
    let (named, text) = match (file, pem) {
        (Some(_), Some(_)) => {
            mistakes.push(format!(
                "{place}: caFile and caPem mean the same: one of them has to go"
            ));
            return None;
        }
        (Some(path), None) => {
            let text = context.text_of(&path);
            (format!("caFile {}", path.display()), text)
        }
        (None, pem) => ("caPem".to_owned(), Ok(pem)),
    };
    match text.and_then(|text| text.map(certificates).transpose()) {
        Ok(text) => text,
        Err(error) => {
            mistakes.push(format!("{place}: {named}: {error}"));
            None
        }
    }
}

/// The text again, if it consists of certificates in PEM form.
pub(crate) fn certificates(pem: String) -> Result<String, String> {
    match client_config(Trust::Only(&pem)) {
        Ok(_) => Ok(pem),
        Err(error) => Err(format!("{:#}", anyhow::Error::from(error))),
    }
}

/// Parses fingerprints of certificates.
pub(crate) fn fingerprints(
    place: &str,
    texts: &[String],
    mistakes: &mut Vec<String>,
) -> Vec<Fingerprint> {
    let read = texts.iter().filter_map(|text| match text.parse() {
        Ok(fingerprint) => Some(fingerprint),
        Err(error) => {
            mistakes.push(format!("{place}: fingerprint {text:?}: {error}"));
            None
        }
    });
    read.collect()
}

fn request_budget(raw: RawRequestBudget) -> Result<RequestBudget, String> {
    let requests = NonZeroU32::new(raw.requests).ok_or("requests has to be at least 1")?;
    let per = go_duration(&raw.per).map_err(|error| format!("per: {error}"))?;
    if !COUNTED_OVER.contains(&per) {
        return Err("per has to be between 1s and 24h".to_owned());
    }
    Ok(RequestBudget { requests, per })
}

/// Parses addresses and ranges.
pub(crate) fn ranges(place: &str, texts: &[String], mistakes: &mut Vec<String>) -> Vec<IpNet> {
    let mut ranges = Vec::new();
    for text in texts {
        match text
            .parse::<IpNet>()
            .or_else(|_| text.parse::<IpAddr>().map(IpNet::from))
        {
            Ok(network) => ranges.push(network),
            Err(_) => mistakes.push(format!(
                "{place}: address {text:?}: expected an IP address or a CIDR range"
            )),
        }
    }
    ranges
}

fn rules(place: &str, raw: Vec<RawRule>, mistakes: &mut Vec<String>) -> Vec<Rule> {
    if raw.is_empty() {
        mistakes.push(format!(
            "{place}: rules: without one nothing can be asked for; leave the target out if that is meant"
        ));
    }
    let mut rules = Vec::new();
    for rule in raw {
        match rule.read() {
            Ok(rule) => rules.push(rule),
            Err(errors) => {
                mistakes.extend(errors.into_iter().map(|error| format!("{place}: {error}")))
            }
        }
    }
    rules
}
