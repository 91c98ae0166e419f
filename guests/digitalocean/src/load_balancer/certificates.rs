//! The id of the certificate that the rules of a load balancer need.

use ccm_guest::{Error, Event};

use super::annotations::{CERTIFICATE_ID, CERTIFICATE_NAME};
use super::api::{self, LoadBalancer};
use super::rules::Certificate;
use super::wanted::Wanted;

/// The vendor's type of certificates that it renews, each time under another id.
const LETS_ENCRYPT: &str = "lets_encrypt";

/// Finds the certificate's id; empty if none is needed. A renewed certificate of Let's Encrypt has another id than the
/// annotation, and the load balancer has it already: it stays. The Go manager writes the new id into the annotation,
/// which no provider here may do.
///
/// # Errors
/// [`Error::Invalid`] when no certificate has the name.
pub fn id(
    wanted: &Wanted,
    found: Option<&LoadBalancer>,
    events: &mut Vec<Event>,
) -> Result<String, Error> {
    if !wanted.ends_tls() {
        return Ok(String::new());
    }
    match &wanted.certificate {
        Certificate::None => Ok(String::new()),
        Certificate::Name(name) => match api::certificate_by_name(name)? {
            Some(found) => Ok(found.id),
            None => Err(Error::invalid(format!(
                "{CERTIFICATE_NAME}: there is no certificate with the name {name:?}"
            ))),
        },
        Certificate::Id(id) => match found.and_then(LoadBalancer::certificate) {
            Some(actual) if actual != id && is_renewal(id, actual)? => {
                let message = format!(
                    "Let's Encrypt's certificate was renewed and has the id {actual}: the annotation {CERTIFICATE_ID} still has the old one; use {CERTIFICATE_NAME}, which stays the same"
                );
                events.push(Event::warning("CertificateRenewed", message));
                Ok(actual.to_owned())
            }
            _ => Ok(id.clone()),
        },
    }
}

/// Whether the load balancer's certificate is a renewal of the annotated one: it is one of Let's Encrypt, and the
/// annotated one has the same name or is gone.
fn is_renewal(annotated: &str, actual: &str) -> Result<bool, Error> {
    let Some(actual) = by_id(actual)?.filter(|one| one.kind == LETS_ENCRYPT) else {
        return Ok(false);
    };
    let annotated = by_id(annotated)?;
    Ok(annotated.is_none_or(|annotated| annotated.name == actual.name))
}

fn by_id(id: &str) -> Result<Option<api::Certificate>, Error> {
    match api::is_id(id) {
        true => api::certificate(id),
        false => Ok(None),
    }
}
