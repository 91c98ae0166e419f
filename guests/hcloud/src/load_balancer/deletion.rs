//! Deletes a Service's load balancer and certificates, and reports whether there is one.
//!
//! # Guarantees
//! - Only objects with the Service's label are touched; the label is checked in the response, not only in the query.
//! - Of several load balancers with the label none is deleted: `ensure` never makes a second one, so a person has put the
//!   label on the wrong one, and a deletion would lose its address.
//! - A load balancer protected from deletion stays unchanged, with its address. The Service's label is removed from
//!   it, so that it has no owner, and an event reports it. It can be deleted manually, or adopted by a Service that
//!   names it.
//! - Managed certificates ordered for the Service are deleted too (the Go manager leaves them behind), unless another
//!   load balancer uses them now. The cloud may name a deleted one as user for a while: where no hint tells which were
//!   deleted, only the second look counts.

use std::time::Duration;

use ccm_guest::hint::busy_delay;
use ccm_guest::load_balancer::{DeleteRequest, Found, ProgressReply, Service};
use ccm_guest::{Error, Event, Pending, log};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::api::{self, Certificate, LoadBalancer, Refusal};
use super::hint::Addresses;
use super::names::SERVICE_UID;
use super::owner;
use super::status::status;
use super::wanted::Shown;
use super::wanted_certificates::MANAGED;
use super::{annotations, certificates};
use crate::config::Settings;

#[cfg(test)]
mod tests;

/// Delay before the second look at the users of a certificate.
const SECOND_LOOK: Duration = Duration::from_secs(10);

/// Progress before the cloud was busy, or before the second look.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Hint {
    /// Load balancers that were deleted.
    gone: Vec<u64>,
    /// Whether there may be certificates.
    certificates: bool,
    /// Whether the users of the certificates were looked at before. Hints of earlier versions lack it.
    #[serde(default)]
    looked: bool,
}

/// See [`ccm_guest::LoadBalancer::delete`].
///
/// # Errors
/// See [`ccm_guest::LoadBalancer::delete`].
pub fn delete(request: &DeleteRequest) -> Result<ProgressReply, Error> {
    let service = &request.service;
    let mut hint: Hint = request.hint().unwrap_or_default();
    let mut events = Vec::new();
    let found = owner::of_service(&service.uid)?;
    // An earlier call may have deleted the load balancer and failed afterwards: then no hint is left.
    hint.certificates |= found.is_none();
    let is_hint_lost = found.is_none() && hint.gone.is_empty();
    if let Some(found) = found {
        hint.certificates |= shows_certificates(&found);
        match remove(&found, &mut hint, &mut events) {
            Ok(()) => {}
            Err(refusal) if refusal.is_busy() => return Ok(come_back(&hint, events)),
            Err(refusal) => return Err(refusal.error),
        }
    }
    if hint.certificates || orders_certificate(service) {
        let found = match api::certificates_of(&service.uid) {
            // Without its load balancer, only the hint still refers to the certificate.
            Err(Error::Unavailable(why)) => {
                log::warn!(reason = why; "the certificates are not known");
                return Ok(come_back(&hint, events));
            }
            answer => answer?,
        };
        if is_hint_lost && !hint.looked && found.iter().any(|one| is_kept(one, &hint)) {
            hint.looked = true;
            let pending = Pending::after(SECOND_LOOK).with_hint(&hint);
            return Ok(ProgressReply::pending(pending).with_events(events));
        }
        for found in found {
            match remove_certificate(&found, &hint, &mut events) {
                Ok(()) => {}
                Err(refusal) if refusal.is_busy() || refusal.is("resource_in_use") => {
                    return Ok(come_back(&hint, events));
                }
                Err(refusal) => return Err(refusal.error),
            }
        }
    }
    Ok(ProgressReply::done().with_events(events))
}

/// See [`ccm_guest::LoadBalancer::get`].
///
/// # Errors
/// See [`ccm_guest::LoadBalancer::get`].
pub fn get(settings: &Settings, service: &Service) -> Result<Found, Error> {
    let Some(found) = owner::of_service(&service.uid)? else {
        return Ok(Found::Absent);
    };
    // A mistake in an annotation does not make the load balancer absent.
    let status = match Shown::read(settings, service) {
        Ok(shown) => status(&shown, &Addresses::of(&found)),
        Err(_) => service.status.clone(),
    };
    Ok(Found::Present(status))
}

/// Whether a managed certificate may have been ordered for it. The Go manager sets no label for that.
fn shows_certificates(found: &LoadBalancer) -> bool {
    found.labels.contains_key(certificates::ORDERED) || found.shows_certificates()
}

/// Reads the raw annotation: mistakes in annotations must not block the deletion of a Service.
fn orders_certificate(service: &Service) -> bool {
    service.annotation(annotations::CERTIFICATE_TYPE) == Some(MANAGED)
}

fn remove(found: &LoadBalancer, hint: &mut Hint, events: &mut Vec<Event>) -> Result<(), Refusal> {
    if found.protection.delete {
        return release(found, events);
    }
    let LoadBalancer { id, name, .. } = found;
    log::info!(id, name, why = "the Service has none any more"; "deleting the load balancer");
    match api::delete(*id) {
        // Protection was enabled after the read.
        Err(refusal) if refusal.is("protected") => release(found, events),
        answer => answer.map(|()| hint.gone.push(*id)),
    }
}

fn release(found: &LoadBalancer, events: &mut Vec<Event>) -> Result<(), Refusal> {
    let LoadBalancer { id, name, .. } = found;
    let mut labels = found.labels.clone();
    labels.remove(SERVICE_UID);
    labels.remove(certificates::ORDERED);
    let why = "it is protected from deletion";
    log::info!(id, why; "taking the Service's label off the load balancer");
    api::update(*id, &json!({"labels": labels}))?;
    let message = format!(
        "load balancer {name} ({id}) is protected from deletion: it stays and is billed, and no Service uses it"
    );
    events.push(Event::warning("LoadBalancerKept", &message));
    Ok(())
}

/// The label on an uploaded certificate was set by a person, and the certificate cannot be issued again.
fn is_managed(found: &Certificate) -> bool {
    found.kind == "managed"
}

/// Whether a managed certificate stays, because it has a user that is not known to be deleted.
fn is_kept(found: &Certificate, hint: &Hint) -> bool {
    let mut users = found.used_by.iter();
    is_managed(found) && users.any(|user| !hint.gone.contains(&user.id))
}

fn remove_certificate(
    found: &Certificate,
    hint: &Hint,
    events: &mut Vec<Event>,
) -> Result<(), Refusal> {
    if !is_managed(found) {
        return Ok(());
    }
    let Certificate { id, name, .. } = found;
    if is_kept(found, hint) {
        let message = format!("managed certificate {name} ({id}) stays: something else uses it");
        events.push(Event::warning("CertificateKept", &message));
        return Ok(());
    }
    let why = "it was ordered for the Service";
    log::info!(id, why; "deleting the managed certificate");
    api::delete_certificate(*id)
}

fn come_back(hint: &Hint, events: Vec<Event>) -> ProgressReply {
    let pending = Pending::after(busy_delay(1)).with_hint(hint);
    ProgressReply::pending(pending).with_events(events)
}
