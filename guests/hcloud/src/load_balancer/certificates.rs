//! Certificates: looks up uploaded ones, and orders a managed one and finds it by its label.

use ccm_guest::owner::only_one;
use ccm_guest::{Error, Event, log};

use super::api::{self, Certificate};
use super::names::SERVICE_UID;
use super::request_bodies;
use super::wanted::{self, Certificates, ManagedCertificate};

#[cfg(test)]
mod tests;

/// Label of a load balancer for which a managed certificate was ever ordered. Removing the annotation leaves the
/// certificate behind; this label makes deletion of the Service search for it.
pub const ORDERED: &str = "hcloud-ccm/managed-certificate";

/// Whether the wanted certificates are available.
#[derive(Debug, PartialEq)]
pub enum Found {
    /// All certificates exist. `None`: none are wanted.
    Ids(Option<Vec<u64>>),
    /// A certificate is being issued, by this action if known.
    Making(Option<u64>),
}

/// Finds the wanted certificates, and orders the managed one if it does not exist.
///
/// # Errors
/// [`Error::Invalid`] for a certificate that does not exist and cannot be ordered.
pub fn find(wanted: &Certificates, uid: &str, events: &mut Vec<Event>) -> Result<Found, Error> {
    match wanted {
        Certificates::None => Ok(Found::Ids(None)),
        Certificates::Uploaded(some) => {
            let ids: Result<Vec<u64>, Error> = some.iter().map(uploaded).collect();
            Ok(Found::Ids(Some(ids?)))
        }
        Certificates::Managed(certificate) => managed(certificate, uid, events),
    }
}

fn uploaded(wanted: &wanted::Certificate) -> Result<u64, Error> {
    match wanted {
        wanted::Certificate::Id(id) => Ok(*id),
        wanted::Certificate::Name(name) => match api::certificate(name)? {
            Some(found) => Ok(found.id),
            None => Err(Error::invalid(format!(
                "there is no certificate {name:?} in the project"
            ))),
        },
    }
}

fn managed(
    wanted: &ManagedCertificate,
    uid: &str,
    events: &mut Vec<Event>,
) -> Result<Found, Error> {
    if let Some(found) = of_service(uid)? {
        return Ok(state(&found, events));
    }
    log::info(
        "ordering a managed certificate",
        &[("name", &wanted.name), ("why", "the Service has none")],
    );
    match api::create_certificate(&request_bodies::certificate(wanted)) {
        Ok((made, action)) => match action {
            Some(action) => match action.failure() {
                Some(failure) => Err(failure),
                None if action.is_running() => Ok(Found::Making(Some(action.id))),
                None => Ok(Found::Ids(Some(vec![made.id]))),
            },
            None => Ok(state(&made, events)),
        },
        Err(refusal) if refusal.is_busy() => Ok(Found::Making(None)),
        // Created by an earlier request whose response was lost, or owned by another Service.
        Err(refusal) if refusal.is("uniqueness_error") => match of_service(uid)? {
            Some(found) => Ok(state(&found, events)),
            None => Err(Error::invalid(format!(
                "a certificate is called {:?} already, and its label does not say that it is this Service's",
                wanted.name
            ))),
        },
        Err(refusal) => Err(refusal.error),
    }
}

fn of_service(uid: &str) -> Result<Option<Certificate>, Error> {
    let mark = format!("{SERVICE_UID}={uid}");
    let id = |one: &Certificate| format!("certificate {}", one.id);
    only_one(api::certificates_of(uid)?, &mark, id)
}

/// A certificate with failed issuance is used all the same: the cloud may still have an earlier one.
fn state(found: &Certificate, events: &mut Vec<Event>) -> Found {
    let issuance = found.status.as_ref().map(|status| status.issuance.as_str());
    match issuance {
        Some("pending") => return Found::Making(None),
        Some("failed") => {
            let error = found
                .status
                .as_ref()
                .and_then(|status| status.error.as_ref());
            let why = error.map_or("no reason given", |error| error.message.as_str());
            let message = format!("managed certificate {} was not issued: {why}", found.name);
            events.push(Event::warning("CertificateNotIssued", &message));
        }
        _ => {}
    }
    Found::Ids(Some(vec![found.id]))
}
