//! Checks the meaning of a provider's answer before anything is written. The host has already checked its shape (sizes,
//! lengths). A provider is untrusted input: an invalid part is left out and reported; an answer that is wrong about the
//! machine's identity is rejected as a whole. Never repairs a value.

pub(crate) mod address;

use thiserror::Error;

use crate::cloud::instance::{Address, AddressType, CloudEvent, Instance};
use crate::cloud::provider_id::{ProviderId, ProviderIdError};
use crate::name_syntax;
use crate::node::index::AddressClash;
use crate::reconciliation::event::{message, reasons};
use crate::settings::AddressRules;
use crate::well_known::{CONTROL_PLANE, RESERVED_DOMAINS};

/// Addresses of one node beyond this number are left out: the contract's limit, far above what machines have.
pub const MAX_ADDRESSES: usize = 64;
/// Additional labels beyond this number are left out: the contract's limit.
pub const MAX_LABELS: usize = 64;
/// Longest recorded Event reason, in bytes.
const MAX_REASON: usize = 64;
/// How much of a refused value is quoted in messages, in characters.
const QUOTED: usize = 64;

/// An instance of which every part may be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// The instance without its invalid parts. The provider ID is valid, and equals the stored one if there is one.
    pub instance: Instance,
    /// The parts that were left out, human-readable.
    pub faults: Vec<String>,
}

/// Why an answer is rejected as a whole: an initialised node stays unchanged, an uninitialised one keeps its taint.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Unusable {
    /// Neither the answer nor the node has a provider ID (NODE-022).
    #[error("the provider did not set a provider ID")]
    NoProviderId,
    /// The provider ID is malformed.
    #[error("the provider ID {} is not valid: {cause}", quoted(.provider_id))]
    ProviderId {
        /// The answered provider ID.
        provider_id: String,
        /// Why it is not valid.
        cause: ProviderIdError,
    },
    /// The provider ID has a scheme that this provider does not own.
    #[error("the provider ID {} has a scheme that this provider does not own", quoted(.0))]
    Scheme(String),
    /// The answer names another machine than the stored provider ID (NODE-024 describes upstream).
    #[error("the node's provider ID is {stored:?} and the provider answered {}", quoted(.answered))]
    Differs {
        /// The stored provider ID, which stays.
        stored: String,
        /// The answered provider ID.
        answered: String,
    },
    /// All answered addresses are unusable.
    #[error("none of the {count} addresses is valid: {first}")]
    Addresses {
        /// Their number.
        count: usize,
        /// Why the first one is not.
        first: String,
    },
    /// Every answered InternalIP belongs to another node or to a network that is not allowed. Without an InternalIP,
    /// other components would reach the node at an unintended address.
    #[error("no InternalIP may be used: {0}")]
    InternalIps(String),
}

/// Known facts that an answer about a node is checked against.
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    /// The node's stored provider ID.
    pub provider_id: Option<&'a str>,
    /// The schemes that the provider owns.
    pub schemes: &'a [String],
    /// Which addresses nodes may get.
    pub rules: &'a AddressRules,
    /// Answered addresses that another node has.
    pub clashes: &'a [AddressClash],
    /// Whether the node is a control-plane node, which may have the API server's address.
    pub is_control_plane: bool,
}

/// Checks `instance` as the answer about a node with the facts `known`.
///
/// # Errors
/// The answer cannot be used at all, for this reason.
pub fn check(instance: &Instance, known: Known<'_>) -> Result<Checked, Unusable> {
    let mut faults = Vec::new();
    let provider_id = check_provider_id(&instance.provider_id, known.provider_id, known.schemes)?;
    Ok(Checked {
        instance: Instance {
            provider_id,
            instance_type: label_value("instance type", &instance.instance_type, &mut faults),
            zone: label_value("zone", &instance.zone, &mut faults),
            region: label_value("region", &instance.region, &mut faults),
            addresses: check_addresses(&instance.addresses, known, &mut faults)?,
            labels: check_labels(&instance.labels, &mut faults),
            shutdown: instance.shutdown,
        },
        faults,
    })
}

/// The provider ID that an answer with `answered` gives a node: without one, the stored one.
///
/// # Errors
/// The answer is rejected, for this reason.
pub(super) fn check_provider_id(
    answered: &str,
    stored: Option<&str>,
    schemes: &[String],
) -> Result<String, Unusable> {
    let answered = match (answered, stored) {
        ("", None) => return Err(Unusable::NoProviderId),
        ("", Some(stored)) => stored,
        (answered, _) => answered,
    };
    let id = ProviderId::parse(answered).map_err(|cause| Unusable::ProviderId {
        provider_id: answered.to_owned(),
        cause,
    })?;
    if !schemes.iter().any(|ours| ours == id.scheme) {
        return Err(Unusable::Scheme(answered.to_owned()));
    }
    match stored {
        Some(stored) if stored != answered => Err(Unusable::Differs {
            stored: stored.to_owned(),
            answered: answered.to_owned(),
        }),
        _ => Ok(answered.to_owned()),
    }
}

/// Valid addresses in their order, without duplicates. Entries after the last kept one are not examined, so that a long
/// list costs no more than a short one.
fn check_addresses(
    answered: &[Address],
    known: Known<'_>,
    faults: &mut Vec<String>,
) -> Result<Vec<Address>, Unusable> {
    let mut kept: Vec<Address> = Vec::new();
    let mut misplaced_internal = None;
    let earlier = faults.len();
    for (index, one) in answered.iter().enumerate() {
        if kept.len() == MAX_ADDRESSES {
            faults.push(format!(
                "{} addresses left out after the first {MAX_ADDRESSES}",
                answered.len() - index
            ));
            break;
        }
        let fault = |problem: &str| {
            let (kind, address) = (one.address_type.as_str(), quoted(&one.address));
            format!("{kind} {address} left out: {problem}")
        };
        if let Some(problem) = address::address_problem(one) {
            faults.push(fault(problem));
            continue;
        }
        match misplaced(one, known) {
            Some(problem) => {
                let fault = fault(&problem);
                if one.address_type == AddressType::InternalIp {
                    misplaced_internal = Some(fault.clone());
                }
                faults.push(fault);
            }
            None if kept.iter().any(|other| other.is_same(one)) => {}
            None => kept.push(one.clone()),
        }
    }
    if kept.is_empty()
        && let Some(first) = faults.get(earlier)
    {
        let (count, first) = (answered.len(), first.clone());
        return Err(Unusable::Addresses { count, first });
    }
    let has_internal = kept
        .iter()
        .any(|one| one.address_type == AddressType::InternalIp);
    match misplaced_internal {
        Some(fault) if !has_internal => Err(Unusable::InternalIps(fault)),
        _ => Ok(kept),
    }
}

/// Why a valid address cannot belong to this node, if so.
fn misplaced(one: &Address, known: Known<'_>) -> Option<String> {
    let ip = one.canonical_ip()?;
    if let Some(clash) = known.clashes.iter().find(|clash| clash.address == ip) {
        return Some(format!("the node {:?} has it", clash.name));
    }
    let rules = known.rules;
    if let Some(network) = rules.refused.iter().find(|network| network.contains(&ip)) {
        return Some(format!("{network} is not for machines"));
    }
    if !known.is_control_plane && rules.api_server.contains(&ip) {
        return Some(format!(
            "it is the API server's, and the node has no label {CONTROL_PLANE}"
        ));
    }
    let is_outside = one.address_type == AddressType::InternalIp
        && !rules.internal.is_empty()
        && !rules.internal.iter().any(|network| network.contains(&ip));
    is_outside.then(|| "it is outside of --node-internal-ip-cidrs".to_owned())
}

fn check_labels(answered: &[(String, String)], faults: &mut Vec<String>) -> Vec<(String, String)> {
    let mut kept: Vec<(String, String)> = Vec::new();
    for (key, value) in answered {
        let problem = if is_reserved(key) {
            Some("the key belongs to Kubernetes or to this manager")
        } else if !name_syntax::is_label_key(key) {
            Some("the key is not a label key")
        } else if !name_syntax::is_label_value(value) {
            Some("the value is not a label value")
        } else if kept.iter().any(|(other, _)| other == key) {
            Some("the key was there before")
        } else if kept.len() == MAX_LABELS {
            Some("there are too many labels")
        } else {
            None
        };
        match problem {
            Some(problem) => {
                faults.push(format!("label {} left out: {problem}", quoted(key)));
            }
            None => kept.push((key.clone(), value.clone())),
        }
    }
    kept
}

/// Whether providers may not set this label or annotation key.
pub(crate) fn is_reserved(key: &str) -> bool {
    let Some((domain, _)) = key.split_once('/') else {
        return false;
    };
    RESERVED_DOMAINS
        .into_iter()
        .any(|reserved| name_syntax::is_within(domain, reserved))
}

fn label_value(what: &str, value: &Option<String>, faults: &mut Vec<String>) -> Option<String> {
    let value = value.as_ref().filter(|value| !value.is_empty())?;
    if name_syntax::is_label_value(value) {
        return Some(value.clone());
    }
    faults.push(format!(
        "{what} {} left out: it is not a label value",
        quoted(value)
    ));
    None
}

/// Sanitises a provider's event: removes control characters, truncates the message, and notes whose event it is. `None` when
/// the reason is not CamelCase of at most 64 bytes.
pub fn check_event(event: &CloudEvent) -> Option<CloudEvent> {
    let reason = &event.reason;
    let is_reason = reason.len() <= MAX_REASON
        && reason.starts_with(|first: char| first.is_ascii_uppercase())
        && reason.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_reason.then(|| CloudEvent {
        is_from_provider: true,
        ..CloudEvent::new(event.event_type, reason, message(&event.message))
    })
}

/// One Event that lists the parts left out of an answer; `None` if there are none.
pub fn faults_event(faults: &[String]) -> Option<CloudEvent> {
    (!faults.is_empty()).then(|| reasons::INVALID_PROVIDER_ANSWER.event(&faults.join("; ")))
}

/// A refused value for messages: quoted, escaped and truncated.
pub(crate) fn quoted(value: &str) -> String {
    if value.chars().count() <= QUOTED {
        return format!("{value:?}");
    }
    let head: String = value.chars().take(QUOTED).collect();
    format!("{head:?}… ({} bytes)", value.len())
}

#[cfg(test)]
mod tests;
