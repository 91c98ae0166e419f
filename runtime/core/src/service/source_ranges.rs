//! Allowed client networks: `spec.loadBalancerSourceRanges`, or the annotation (SVC-090, SVC-091).

use std::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;
use k8s_openapi::api::core::v1::Service;
use thiserror::Error;

use super::stored_state::{annotations, spec};
use crate::node::answer_check::quoted;
use crate::well_known::SOURCE_RANGES;

/// A configured value is not a list of networks. Treating it as "everyone" would open the load balancer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SourceRangesError {
    /// The ranges of the spec, separated by commas; one of them cannot be parsed.
    #[error(
        "service.spec.loadBalancerSourceRanges: {} is not valid. Expecting a list of IP ranges. For example, 10.0.0.0/24",
        quoted(.0)
    )]
    Spec(String),
    /// The text of the annotation, which cannot be parsed.
    #[error(
        "{SOURCE_RANGES}: {} is not valid. Expecting a comma-separated list of source IP ranges. For example, 10.0.0.0/24,192.168.2.0/24",
        quoted(.0)
    )]
    Annotation(String),
}

/// Networks that may connect, without duplicates and host bits, in their order. Nothing configured allows everyone.
///
/// # Errors
/// The value that cannot be parsed.
pub fn source_ranges(service: &Service) -> Result<Vec<IpNet>, SourceRangesError> {
    let in_spec = spec(service)
        .and_then(|spec| spec.load_balancer_source_ranges.as_deref())
        .unwrap_or_default();
    if !in_spec.is_empty() {
        let ranges = read(in_spec.iter().map(String::as_str));
        return ranges.ok_or_else(|| SourceRangesError::Spec(in_spec.join(",")));
    }
    let annotation = annotations(service)
        .get(SOURCE_RANGES)
        .map(|text| text.trim());
    match annotation {
        None | Some("") => Ok(vec![everybody()]),
        Some(text) => {
            let ranges = read(text.split(','));
            ranges.ok_or_else(|| SourceRangesError::Annotation(text.to_owned()))
        }
    }
}

fn everybody() -> IpNet {
    IpNet::new_assert(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0)
}

fn read<'a>(texts: impl Iterator<Item = &'a str>) -> Option<Vec<IpNet>> {
    let mut ranges = Vec::new();
    for text in texts {
        let range = text.trim().parse::<IpNet>().ok()?.trunc();
        if !ranges.contains(&range) {
            ranges.push(range);
        }
    }
    Some(ranges)
}
