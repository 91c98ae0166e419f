//! Status conditions of a Service that describe its load balancer. Written only when status, reason or message changes;
//! words with digits do not count. Upstream has none (SVC-082, EDGE-069).

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::stored_state::condition;
use crate::cloud::load_balancer::LoadBalancerStatus;
use crate::moment::Now;
use crate::reconciliation::event;
use crate::well_known::{LOAD_BALANCER_CONDITION, PORTS_CONDITION};

/// Condition of a load balancer that is as wanted.
pub(super) fn ensured(service: &Service, now: Now) -> Option<Condition> {
    balancer(service, true, "Ensured", "Ensured load balancer", now)
}

/// Reason of the condition of a load balancer that another controller makes.
const ELSEWHERE: &str = "ImplementedElsewhere";

/// Condition of a load balancer that another controller makes.
pub(super) fn elsewhere(service: &Service, now: Now) -> Option<Condition> {
    let message = "Another controller makes the load balancer";
    balancer(service, true, ELSEWHERE, message, now)
}

/// Whether another controller makes the load balancer, as the provider has said.
pub fn is_elsewhere(service: &Service) -> bool {
    condition(service, LOAD_BALANCER_CONDITION).is_some_and(|stored| stored.reason == ELSEWHERE)
}

/// Condition of a load balancer that is not as wanted.
pub(super) fn failed(
    service: &Service,
    reason: &str,
    message: &str,
    now: Now,
) -> Option<Condition> {
    balancer(service, false, reason, message, now)
}

/// Condition of a deleted load balancer; only if the condition exists.
pub(super) fn removed(service: &Service, now: Now) -> Option<Condition> {
    condition(service, LOAD_BALANCER_CONDITION)?;
    failed(service, "Deleted", "Deleted load balancer", now)
}

/// The ports condition: whether the provider serves all ports. Not written before there has been a port error.
pub(super) fn ports(service: &Service, status: &LoadBalancerStatus, now: Now) -> Option<Condition> {
    let mut errors: Vec<String> = status
        .ingress
        .iter()
        .flat_map(|ingress| &ingress.ports)
        .filter_map(|port| {
            let error = port.error.as_ref()?;
            Some(format!("{}/{}: {error}", port.port, port.protocol.as_str()))
        })
        .collect();
    errors.dedup();
    if errors.is_empty() {
        condition(service, PORTS_CONDITION)?;
        let message = "All ports are served";
        return change(service, PORTS_CONDITION, false, "PortsServed", message, now);
    }
    let message = errors.join(", ");
    change(
        service,
        PORTS_CONDITION,
        true,
        "PortsNotServed",
        &message,
        now,
    )
}

/// The condition about the load balancer itself.
fn balancer(
    service: &Service,
    is_true: bool,
    reason: &str,
    message: &str,
    now: Now,
) -> Option<Condition> {
    let kind = LOAD_BALANCER_CONDITION;
    change(service, kind, is_true, reason, message, now)
}

fn change(
    service: &Service,
    kind: &str,
    is_true: bool,
    reason: &str,
    message: &str,
    now: Now,
) -> Option<Condition> {
    let status = if is_true { "True" } else { "False" };
    let stored = condition(service, kind);
    let message = event::message(message);
    let is_stored = |stored: &Condition| {
        stored.status == status
            && stored.reason == reason
            && plain_words(&stored.message).eq(plain_words(&message))
    };
    if stored.is_some_and(is_stored) {
        return None;
    }
    let since = stored
        .filter(|stored| stored.status == status)
        .map_or(Time(now.wall), |stored| stored.last_transition_time.clone());
    Some(Condition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        last_transition_time: since,
        observed_generation: service.metadata.generation,
    })
}

/// The words without digits: clouds number their requests, often in hexadecimal digits.
fn plain_words(message: &str) -> impl Iterator<Item = &str> {
    let has_digit = |word: &&str| word.contains(|one: char| one.is_ascii_digit());
    message
        .split_whitespace()
        .filter(move |word| !has_digit(word))
}
